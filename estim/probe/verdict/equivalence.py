"""Formal equivalence: the hypothesis that the shift is at least a margin, and what rejects it.

notation: k degrees of freedom, z the projected shift and Delta the margin, both in standard deviations of the noise,
known or estimated from nu degrees of freedom. A margin may be an ensemble, of random changes: probabilities are then
averages over it.

One degree of freedom: two one-sided tests (Schuirmann 1987, doi:10.1007/BF01068419), with t for estimated noise. Many:
z'z at most the lower quantile of the noncentral chi-square with noncentrality Delta^2 (Wellek, Testing Statistical
Hypotheses of Equivalence and Noninferiority, 2010). With estimated noise the margin, in standard deviations, is not
known: the p-value is the largest over a confidence interval of the noise, plus what that interval misses (Berger and
Boos 1994, doi:10.1080/01621459.1994.10476836); so its size is at most the level, whatever the noise. For an ensemble in
one direction t's probabilities are averaged: of normal, even and lognormal shifts the size was at most 1.01 levels, of
clusters far apart 1.08 (6000 of them tried, with 1 to 8 degrees of noise).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from estim.probe.verdict.change import change_p_value, first_reaching
from estim.probe.verdict.noise_interval import (
    largest_probability,
    largest_statistics,
    probability_below,
    quantile,
    variance_interval,
)

Array = npt.NDArray[np.float64]

#: Share of the level that the interval of the noise may miss it with: little is lost, and its ends are still near.
MISSED = 0.02
# Of the quadrature over the estimated variance, on either side of the kink.
_NODES = 24
# Standard deviations by which a margin is never taken for a shift, even with one degree of the noise.
_SURE = 1e6
# By which a bracket is widened, against rounding at its ends.
_APART = 1e-6
# Standard deviations whose density is below a rounding of that at none.
_UNFELT = 9.0
# Of a limit's root, in parts of the critical value's.
_CLOSE = 1e-6
# Its square is a float64.
_LONGEST = 1e150


@dataclass(frozen=True)
class EquivalenceTest:
    """The test of a margin at a level."""

    shifts: Array
    """(members,) of the margin, in standard deviations of the noise; one but for an ensemble."""
    degrees: int
    level: float
    noise_degrees: float = math.inf

    def p_value(self, statistic: float) -> float:
        """Return the largest probability of so small a z'z when the shift is at least the margin; 1 for no margin."""
        from scipy import stats

        if not (self.shifts > 0.0).any():
            return 1.0
        margins = self.shifts[np.isfinite(self.shifts)]
        # Beyond that the probability is 0 to the last bit, and squares would overflow.
        margins = np.minimum(margins, min(2.0 * math.sqrt(statistic) + _SURE, _LONGEST))
        share = len(margins) / len(self.shifts)  # an infinite shift is never overlooked
        if not len(margins):
            return 0.0
        if self.degrees == 0:
            return share
        if not math.isinf(self.noise_degrees):
            return float(self._averages(np.array([math.sqrt(statistic)]), margins[None, :])[0])
        if self.degrees == 1:
            below = stats.norm.cdf(math.sqrt(statistic) - margins)
            return share * float(np.where(margins > 0.0, below, 1.0).mean())
        nearest = _nearest(margins, math.sqrt(statistic))
        return share * float(probability_below(statistic, self.degrees, nearest**2).sum() / len(margins))

    @cached_property
    def limit(self) -> float:
        """The largest z'z that is equivalent; 0 where none is."""
        # Infinite shifts are overlooked never, the others at most always; a share is known to rounding.
        if np.isfinite(self.shifts).mean() <= self.level * (1.0 + _APART):
            return math.inf
        if len(self.shifts) == 1:
            return float(self._limits(self.shifts)[0]) if self.p_value(0.0) < self.level else 0.0

        # Near that of the member which as many as the level fall short of.
        finite = np.sort(self.shifts[np.isfinite(self.shifts)])
        near = float(self._limits(finite[[int(self.level * len(finite))]])[0])
        return first_reaching(self.p_value, self.level, near=near if near > 0.0 else None, rtol=1e-12)

    def probability(self, critical: float, largest: float = math.inf, rest: tuple[int, float] = (0, math.inf)) -> float:
        """Return how often z'z is equivalent and below the critical value of the change test, nothing having changed.

        And the squared length of the rest, of so many degrees, below its own critical value; and, for estimated noise,
        the estimated variance at most the `largest`, in units of the true one. The shifts are then in standard
        deviations of the true noise. Exact for known noise; for estimated noise right to 1e-5, with one or two degrees
        of it to 1e-4.
        """
        from scipy import stats

        others, beyond = rest
        if self.degrees == 0:
            return float(self.p_value(0.0) <= self.level) * _silent(beyond, others, self.noise_degrees)
        if math.isinf(self.noise_degrees):
            alone = float(stats.chi2.cdf(min(critical, self.limit), self.degrees))
            return alone * _silent(beyond, others, self.noise_degrees)
        low, high = _likely_variances(self.noise_degrees)
        high = min(high, largest)
        if high <= low:
            return 0.0
        turn = self._turn(critical, low, high)

        # One estimate serves both tests: where it is small, both alarm more often.
        def silent(limits: Array | float, ratios: Array) -> Array:
            quiet = stats.chi2.cdf(beyond * ratios, others) if others else 1.0
            return np.asarray(stats.chi2.cdf(limits * ratios, self.degrees) * quiet)

        beside = _integral(lambda r: silent(critical, r), low, turn, self.noise_degrees)
        last = self._last(turn, high)
        below = _integral(lambda r: silent(self._limits_by(r, critical), r), turn, last, self.noise_degrees)
        return min(beside + below, 1.0)

    def _last(self, low: float, high: float) -> float:
        """Return up to which estimated variance anything is equivalent: with one degree the limit has an end."""
        from scipy import stats

        if self.degrees > 1 or self.level >= 0.5:
            return high
        if len(self.shifts) > 1:
            return self._turn(0.0, low, high)
        return min(high, min(float(self.shifts[0] / stats.t.isf(self.level, self.noise_degrees)), _LONGEST) ** 2)

    def _turn(self, critical: float, low: float, high: float) -> float:
        """Return the estimated variance, in units of the true one, from which on the limit is below the critical value.

        The larger the estimate, the smaller the margin in units of it.
        """
        from scipy import optimize

        if len(self.shifts) == 1:
            margin = _margin_of(critical, self.degrees, self.level, self.noise_degrees)
            ratio = float(self.shifts[0] / margin) if margin > 0.0 else math.inf
            return min(max(low, ratio * ratio), high)

        def excess(log_ratio: float) -> float:  # that of the limit over the critical value has the same sign
            return self.level - replace(self, shifts=self.shifts / math.exp(0.5 * log_ratio)).p_value(critical)

        if excess(math.log(low)) <= 0.0:
            return low
        if excess(math.log(high)) >= 0.0:
            return high
        return math.exp(optimize.brentq(excess, math.log(low), math.log(high), xtol=1e-9))

    def _limits_by(self, ratios: Array, critical: float) -> Array:
        """Return the limit, at most critical, for each estimated variance, in units of the true one."""
        from scipy.optimize import elementwise

        if len(self.shifts) == 1:
            return self._limits(self.shifts / np.sqrt(ratios))
        margins = self.shifts[np.isfinite(self.shifts)] / np.sqrt(ratios)[:, None]

        def excess(lengths: Array, at: Array) -> Array:
            return self.level - self._averages(lengths, margins[at.astype(np.intp)])

        at = np.arange(len(ratios), dtype=np.float64)
        ends = np.zeros_like(at), np.full_like(at, math.sqrt(critical))
        found = elementwise.find_root(excess, ends, args=(at,), tolerances={"xrtol": 0.0, "xatol": _CLOSE * ends[1][0]})
        beside = np.where(excess(ends[1], at) >= 0.0, critical, 0.0)  # no root between
        return np.where(found.success, np.square(found.x), beside)

    def _averages(self, lengths: Array, margins: Array) -> Array:
        """Return p-values by estimated noise of lengths of z, for finite margins of each, (lengths, members)."""
        from scipy import stats

        share = margins.shape[1] / len(self.shifts)
        if self.degrees == 1:
            below = stats.t.cdf(lengths[:, None] - margins, self.noise_degrees)
            return np.asarray(share * np.where(margins > 0.0, below, 1.0).mean(axis=1))
        # The largest of an ensemble's average is at most the average of the largest.
        each = largest_probability(np.square(lengths)[:, None], self.degrees, margins, self._interval())
        return np.asarray(share * np.minimum(1.0, MISSED * self.level + each.mean(axis=1)))

    def _limits(self, margins: Array) -> Array:
        """Return the largest z'z that is equivalent for each of several finite margins, an ensemble of none."""
        from scipy import stats

        known = math.isinf(self.noise_degrees)
        if self.degrees == 1:
            shortest = stats.norm.isf(self.level) if known else stats.t.isf(self.level, self.noise_degrees)
            return np.asarray(np.square(np.clip(margins - shortest, 0.0, _LONGEST)))
        if known:
            return quantile(self.level, self.degrees, np.minimum(margins, _LONGEST) ** 2)
        left = self.level * (1.0 - MISSED)
        return largest_statistics(left, self.degrees, np.minimum(margins, _LONGEST), self._interval())

    def _interval(self) -> tuple[float, float]:
        """Return between what the true variance lies, in units of the estimate."""
        return variance_interval(self.noise_degrees, MISSED * self.level)


def _nearest(margins: Array, length: float) -> Array:
    """Leave out margins so far beyond the nearest that their probabilities change no bit of the sum.

    In a ball of radius R the normal density around a point at distance D + h is at most exp(-h (D - R) - h^2 / 2) times
    that around one at D. `length` is R.
    """
    return margins[margins <= max(length, float(margins.min())) + _UNFELT]


@lru_cache(maxsize=64)  # planning asks for the same one dozens of times
def _margin_of(limit: float, degrees: int, level: float, noise_degrees: float) -> float:
    """Return the margin, in estimated standard deviations, whose limit is this; 0 where every one's is larger."""
    from scipy import optimize

    test = EquivalenceTest(np.ones(1), degrees, level, noise_degrees)

    def excess(margin: float) -> float:
        return float(test._limits(np.array([margin]))[0]) - limit

    if excess(0.0) >= 0.0:
        return 0.0
    far = 1.0 + math.sqrt(limit)
    while excess(far) < 0.0:
        far *= 2.0
    return float(optimize.brentq(excess, 0.0, far, rtol=1e-12))


def _silent(critical: float, degrees: int, noise_degrees: float) -> float:
    """Return how often a squared length stays below its critical value, nothing having changed."""
    return 1.0 - change_p_value(critical, degrees, noise_degrees) if degrees else 1.0


@lru_cache(maxsize=64)
def _likely_variances(noise_degrees: float) -> tuple[float, float]:
    """Return between what an estimated variance lies, in units of the true one, but for tails of 1e-10."""
    from scipy import stats

    low, high = stats.chi2.ppf(1e-10, noise_degrees), stats.chi2.isf(1e-10, noise_degrees)
    return float(low / noise_degrees), float(high / noise_degrees)


@lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(_NODES)


def _integral(function: Callable[[Array], Array], low: float, high: float, noise_degrees: float) -> float:
    """Integrate a function of the estimated variance over its distribution, chi-square over its degrees of freedom.

    Gauss-Legendre in the logarithm, where the density is smooth.
    """
    from scipy import stats

    if high <= low:
        return 0.0
    nodes, weights = _nodes()
    half = 0.5 * math.log(high / low)
    logs = half * nodes + 0.5 * math.log(high * low)
    values = np.exp(logs) * noise_degrees
    density = np.exp(stats.chi2.logpdf(values, noise_degrees)) * values
    return float(half * (weights * density) @ function(np.exp(logs)))
