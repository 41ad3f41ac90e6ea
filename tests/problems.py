"""Reference problems of one unknown: responses with exact inverse and slope, and moments with exact values.

A response is a row of RESPONSES: how to make it, and in mpmath its excess, slope and inverse of the excess. Moments
are rows of MOMENTS, literal numbers with their source; the declared fixture's thirteen levels are FIXTURE_LEVELS.
`reference_moments` is the slow and plain way to the moments of any response in the table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

from estim import MeanResponse

mpf = mpmath.mpf

TAGS = {
    "decreasing": "the mean falls with theta",
    "flat end": "the slope vanishes at an end of the domain",
    "steep end": "the slope is infinite at an end of the domain",
    "infinite": "the domain has no upper end",
    "limit": "the mean has a limit on its infinite domain",
    "saturating": "the mean comes close to a limit inside the domain",
    "kink": "the slope jumps",
    "near-plateau": "the slope nearly vanishes inside the domain",
    "shifted": "the domain does not start at zero",
    "rescaled": "parameter or readings are in units far from one",
    "baseline": "the mean at the lower end is not zero",
    "derivative": "the derivative is given",
}


@dataclass(frozen=True)
class Response:
    """One response. The mpmath functions take and return mpf; `inverse` is None where it has no closed form."""

    name: str
    make: Callable[[], MeanResponse]
    excess: Callable
    slope: Callable
    inverse: Callable | None
    theta: float
    tags: tuple[str, ...] = ()
    kinks: tuple[float, ...] = ()

    @property
    def made(self) -> MeanResponse:
        if self.name not in _MADE:
            _MADE[self.name] = self.make()
        return _MADE[self.name]


_MADE: dict[str, MeanResponse] = {}

NEARLY = 0.99  # as a float: its exact binary value is what the reference must use


def _broken_line(t):
    return np.where(t < 1.0, t, 3.0 * t - 2.0)


RESPONSES = (
    Response("identity", lambda: MeanResponse(lambda t: t, upper=3.0), lambda t: t, lambda t: mpf(1), lambda e: e, 1.0),
    Response(
        "identity without end",
        lambda: MeanResponse(lambda t: t),
        lambda t: t,
        lambda t: mpf(1),
        lambda e: e,
        1.0,
        ("infinite",),
    ),
    Response(
        "square",
        lambda: MeanResponse(lambda t: t**2, upper=1.0),
        lambda t: t**2,
        lambda t: 2 * t,
        mpmath.sqrt,
        0.5,
        ("flat end",),
    ),
    Response(
        "cube",
        lambda: MeanResponse(lambda t: t**3, upper=1.0, derivative=lambda t: 3 * t**2),
        lambda t: t**3,
        lambda t: 3 * t**2,
        mpmath.cbrt,
        0.5,
        ("flat end", "derivative"),
    ),
    Response(
        "ninth power",
        lambda: MeanResponse(lambda t: t**9, upper=1.0),
        lambda t: t**9,
        lambda t: 9 * t**8,
        lambda e: mpmath.root(e, 9),
        0.5,
        ("flat end",),
    ),
    Response(
        "root",
        lambda: MeanResponse(np.sqrt, upper=2.0),
        mpmath.sqrt,
        lambda t: 1 / (2 * mpmath.sqrt(t)),
        lambda e: e**2,
        0.5,
        ("steep end",),
    ),
    Response(
        "falling square",
        lambda: MeanResponse.from_excess(lambda t: -(t**2), baseline=4.0, upper=2.0),
        lambda t: -(t**2),
        lambda t: -2 * t,
        lambda e: mpmath.sqrt(-e),
        1.0,
        ("flat end", "decreasing", "baseline"),
    ),
    Response(
        "hyperbolic tangent",
        lambda: MeanResponse(np.tanh, upper=3.0),
        mpmath.tanh,
        lambda t: mpmath.sech(t) ** 2,
        mpmath.atanh,
        1.0,
        ("saturating",),
    ),
    Response(
        "saturating",
        lambda: MeanResponse(lambda t: t / (1 + t), upper=1e4),
        lambda t: t / (1 + t),
        lambda t: 1 / (1 + t) ** 2,
        lambda e: e / (1 - e),
        1.0,
        ("saturating",),
    ),
    Response(
        "decay",
        lambda: MeanResponse.from_excess(lambda t: np.expm1(-t), baseline=1.0, upper=5.0),
        lambda t: mpmath.expm1(-t),
        lambda t: -mpmath.exp(-t),
        lambda e: -mpmath.log1p(e),
        1.0,
        ("decreasing", "baseline", "saturating"),
    ),
    Response(
        "growth from below zero",
        lambda: MeanResponse.from_excess(
            lambda t: math.exp(-2) * np.expm1(t + 2), baseline=math.exp(-2), lower=-2.0, upper=3.0
        ),
        lambda t: mpf(math.exp(-2)) * mpmath.expm1(t + 2),
        lambda t: mpf(math.exp(-2)) * mpmath.exp(t + 2),
        lambda e: mpmath.log1p(e / mpf(math.exp(-2))) - 2,
        -0.5,
        ("shifted", "baseline"),
    ),
    Response(
        "logarithm far out",
        lambda: MeanResponse(lambda t: np.log1p((t - 1e6) / 1e6), lower=1e6, upper=1e7),
        lambda t: mpmath.log(t / 10**6),
        lambda t: 1 / t,
        lambda e: 10**6 * mpmath.exp(e),
        2e6,
        ("shifted", "rescaled"),
    ),
    Response(
        "collapsed",
        lambda: MeanResponse.from_excess(lambda t: 1e-70 * t**2, baseline=1.0, upper=1.0),
        lambda t: mpf(1e-70) * t**2,
        lambda t: 2 * mpf(1e-70) * t,
        lambda e: mpmath.sqrt(e / mpf(1e-70)),
        0.5,
        ("flat end", "rescaled", "baseline"),
    ),
    Response(
        "tiny parameter",
        lambda: MeanResponse(lambda t: np.sinh(t / 1e-9), upper=2e-9),
        lambda t: mpmath.sinh(t / mpf(1e-9)),
        lambda t: mpmath.cosh(t / mpf(1e-9)) / mpf(1e-9),
        lambda e: mpf(1e-9) * mpmath.asinh(e),
        1e-9,
        ("rescaled",),
    ),
    Response(
        "broken line",
        lambda: MeanResponse(_broken_line, upper=3.0),
        lambda t: t if t < 1 else 3 * t - 2,
        lambda t: mpf(1) if t < 1 else mpf(3),
        lambda e: e if e < 1 else (e + 2) / 3,
        0.8,
        ("kink",),
        kinks=(1.0,),
    ),
    Response(
        "falling table of two points",
        lambda: MeanResponse.from_table([0.0, 1.0], [1.0, 0.0]),
        lambda t: -t,
        lambda t: mpf(-1),
        lambda e: -e,
        0.75,
        ("decreasing", "baseline", "derivative"),
    ),
    Response(
        "near-plateau",
        lambda: MeanResponse(lambda t: t - NEARLY * np.sin(t), upper=12.0),
        lambda t: t - mpf(NEARLY) * mpmath.sin(t),
        lambda t: 1 - mpf(NEARLY) * mpmath.cos(t),
        None,
        6.0,
        ("near-plateau",),
    ),
    Response(
        "hyperbolic tangent without end",
        lambda: MeanResponse(np.tanh),
        mpmath.tanh,
        lambda t: mpmath.sech(t) ** 2,
        mpmath.atanh,
        1.0,
        ("infinite", "limit", "saturating"),
    ),
    Response(
        "Hill without end",
        lambda: MeanResponse(lambda t: t**2 / (1 + t**2)),
        lambda t: t**2 / (1 + t**2),
        lambda t: 2 * t / (1 + t**2) ** 2,
        lambda e: mpmath.sqrt(e / (1 - e)),
        1.0,
        ("infinite", "limit", "saturating", "flat end"),
    ),
    Response(
        "Michaelis-Menten without end",
        lambda: MeanResponse(lambda t: 100 * t / (2.5 + t)),
        lambda t: 100 * t / (mpf(2.5) + t),
        lambda t: 250 / (mpf(2.5) + t) ** 2,
        lambda e: mpf(2.5) * e / (100 - e),
        2.5,
        ("infinite", "limit", "saturating"),
    ),
    Response(
        "logarithm without end",
        lambda: MeanResponse(np.log1p),
        mpmath.log1p,
        lambda t: 1 / (1 + t),
        mpmath.expm1,
        1.0,
        ("infinite",),
    ),
    Response(
        "growth without end",
        lambda: MeanResponse(np.expm1),
        mpmath.expm1,
        mpmath.exp,
        mpmath.log1p,
        1.0,
        ("infinite",),
    ),
)

BY_NAME = {response.name: response for response in RESPONSES}


def named(*names):
    return [BY_NAME[name] for name in names]


def tagged(*tags, without=()):
    return [r for r in RESPONSES if set(tags) <= set(r.tags) and not set(without) & set(r.tags)]


def _tail(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def reference_moments(problem: Response, theta: float, sigma: float):
    """Return bias, RMSE and the fractions clipped low and high by 30-digit quadrature over the noise.

    The plain definition, estimate = inverse(clipped reading), in pieces between the clips and the kinks. Nothing of
    it is shared with `estim.recovery.moments`, which integrates over theta, by parts.
    """
    response = problem.made
    with mpmath.workdps(30):
        truth, s, lower = mpf(theta), mpf(sigma), mpf(response.lower)
        sign = 1 if response.increasing else -1
        here = sign * problem.excess(truth)
        top = mpmath.inf if math.isinf(response.upper) else sign * problem.excess(mpf(response.upper))
        z_low, z_high = -here / s, (top - here) / s
        inner = [(sign * problem.excess(mpf(k)) - here) / s for k in problem.kinks]
        cuts = sorted({mpmath.mpf(c) for c in (*range(-14, 15, 2), -1, 1, *inner) if z_low < c < z_high})
        ends = [max(z_low, mpf(-15)), *(c for c in cuts if max(z_low, -15) < c < min(z_high, 15)), min(z_high, mpf(15))]

        def error(z):
            rise = min(max(here + s * z, mpf(0)), top)
            return problem.inverse(sign * rise) - truth

        first = second = mpf(0)
        if ends[0] < ends[-1]:
            # mpmath.quad stops at an absolute error: the integrand must be of size one.
            size = max(abs(error(mpf(1))), abs(error(mpf(-1))))
            first = size * mpmath.quad(lambda z: error(z) / size * mpmath.npdf(z), ends)
            second = size**2 * mpmath.quad(lambda z: (error(z) / size) ** 2 * mpmath.npdf(z), ends)
        low, high = _tail(-z_low), _tail(z_high) if mpmath.isfinite(z_high) else mpf(0)
        at_low, at_high = lower - truth, (mpf(response.upper) - truth) if mpmath.isfinite(z_high) else mpf(0)
        bias = first + low * at_low + high * at_high
        rmse = mpmath.sqrt(second + low * at_low**2 + high * at_high**2)
        return bias, rmse, low, high


# The declared fixture: depth two, scalar softmax, tokens (0, 2), values 1, first layer query = key = 0.05, last layer
# query = key = theta, observation = mean of the two output tokens. In closed form: the first layer moves the tokens to
# 1 and 1 + d with d = tanh(2 x 0.05^2), and a softmax over two tokens is a hyperbolic tangent of half the difference
# of the scores.
FIXTURE_THETA = 0.05
FIXTURE_UPPER = 0.15
FIXTURE_SPREAD = math.tanh(2 * 0.05**2)


def fixture_excess(theta):
    d = FIXTURE_SPREAD
    return d / 4 * (np.tanh(theta**2 * d / 2) + np.tanh(theta**2 * (1 + d) * d / 2))


def fixture():
    return MeanResponse.from_excess(fixture_excess, baseline=1.0, upper=FIXTURE_UPPER, name="declared fixture")


#: Excess at theta_true and at the upper end, 25 digits of shared/reference/recovery.json (60-digit arithmetic).
FIXTURE_EXCESS = ("1.566380111027294755726041e-8", "0.00000014097420984487294682652")

#: sigma, bias and RMSE relative to theta_true, fractions clipped low and high: 60-digit quadrature with the network
#: itself, not the closed form above. Literal, because the quadrature takes minutes.
FIXTURE_LEVELS = tuple(
    tuple(line.split())
    for line in """\
1.57e-10 -1.2559024567741e-5 0.0050117910111483 1.35293686611e-2164 3.81327075385e-138338
2.7918986737611088e-10 -3.9723218999178e-5 0.0089132731367792 2.16151505198e-686 7.24222165114e-43749
4.9647759264643556e-10 -0.00012569700295739 0.015855409359402 9.00364169538e-219 6.12439692765e-13837
8.8287588054884806e-10 -0.00039830656837298 0.028224335897779 9.97337136014e-71 8.70775409087e-4378
1.57e-9 -0.0012679384954957 0.050357491909206 9.61497391996e-24 2.27813356823e-1386
2.7918986737611088e-9 -0.0041010791709139 0.090565769725152 1.00902007552e-8 3.14570340249e-440
4.9647759264643556e-9 -0.014321112652042 0.16944482313449 0.000802527612127 7.31182817475e-141
8.8287588054884806e-9 -0.051262024729333 0.3333291671298 0.0380167485932 5.03041643645e-46
1.57e-8 -0.09952055238492 0.53189887431901 0.159213799746 7.2250760045e-16
2.7918986737611088e-8 -0.095650215458044 0.71514753367811 0.28738351339 3.5887112981e-6
4.9647759264643556e-8 -0.011512402239782 0.91870927748408 0.37619153729 0.00580157448213
8.8287588054884806e-8 0.13444402202113 1.1475986164572 0.429590062341 0.0778994570077
1.57e-7 0.27304129392148 1.3280332604284 0.460263687608 0.212390137582
""".splitlines()
)

#: Half a unit in the last of twelve digits, to which the clipped fractions above are printed.
FIXTURE_CLIPPED_RTOL = 5e-12


def fixture_column(index):
    return np.array([float(level[index]) for level in FIXTURE_LEVELS])


@dataclass(frozen=True)
class Moment:
    """Bias and RMSE of one recovery, as decimal strings of at least ten digits."""

    name: str
    make: Callable[[], MeanResponse]
    theta: float
    sigma: float
    bias: str
    rmse: str
    source: str


_CLIPPED_MEAN = "C9: bias/sigma = phi(t) - t Phi(-t), MSE/sigma^2 = Phi(t) - t phi(t) + t^2 Phi(-t)"
_FOLDED_POWER = (
    "C10: E max(Z, 0)^k = 2^(k/2) Gamma((k + 1)/2) / (2 sqrt(pi)), k = 1/p for the bias, k = 2/p for the MSE"
)


def _power(exponent):
    return lambda: MeanResponse(lambda t: t**exponent)


MOMENTS = (
    Moment("C9 at t = 0", _power(1), 0.0, 1.0, "0.39894228040143", "0.70710678118655", _CLIPPED_MEAN),
    Moment("C9 at t = 1", _power(1), 1.0, 1.0, "0.083315470587686", "0.87064876700128", _CLIPPED_MEAN),
    Moment("C9 at t = 2", _power(1), 2.0, 1.0, "0.0084907026168296", "0.97993288689489", _CLIPPED_MEAN),
    Moment("C10 cube", _power(3), 0.0, 1.0, "0.42876884923252", "0.63339583787523", _FOLDED_POWER),
    Moment("C10 square", _power(2), 0.0, 1.0, "0.41108947933123", "0.63161877774606", _FOLDED_POWER),
)
