"""The compiled inverse against root finding, form by form, on the same draws."""

import numpy as np
import pytest

from estim import MeanResponse
from estim.recovery import kernels, monte_carlo
from estim.recovery.fast_inverse import build_levels
from estim.recovery.local import local_difference
from estim.recovery.monte_carlo import prepare
from estim.recovery.normals import LARGEST_NORMAL
from tests.problems import BY_NAME, FIXTURE_THETA, RESPONSES, fixture
from tests.tolerances import COMPILED_RTOL, EPS, SUMMATION_RTOL, TWIN_RTOL

TRIALS = 5000

BROAD, NARROW = 0.3, 1e-4  # noise in units of the attainable range


def built(response, theta, sigma):
    return build_levels(response, theta, local_difference(response, theta), np.atleast_1d(sigma))


def scale_of(response, theta):
    low, high = response.attainable_excess
    return high - low if np.isfinite(high - low) else abs(float(response.excess(theta)))


def twin(response, theta, sigma, seed=1):
    """Return the five sums of the same draws, each reading inverted by `invert_excess`; in units of theta."""
    sign = 1.0 if response.increasing else -1.0
    readings = float(response.excess(theta)) + sign * sigma * np.random.default_rng(seed).standard_normal(TRIALS)
    rise = sign * readings
    d = response.invert_excess(readings) - theta
    top = max(map(abs, response.attainable_excess))
    return np.array([d.sum(), (d**2).sum(), (d**4).sum(), (rise <= 0).sum(), (rise >= top).sum()])


def even_series(t):
    return 2 * np.sinh(t / 2) ** 2


FORMS = [
    pytest.param(lambda: BY_NAME["identity"].made, 1.0, BROAD, kernels.POLYNOMIAL, id="polynomial"),
    pytest.param(
        lambda: MeanResponse(lambda t: t + 0.05 * t**2, upper=1.0),
        0.3,
        BROAD,
        kernels.POLYNOMIAL,
        id="bent polynomial",
    ),
    pytest.param(lambda: BY_NAME["hyperbolic tangent"].made, 1.0, NARROW, kernels.POLYNOMIAL, id="local polynomial"),
    pytest.param(
        lambda: BY_NAME["falling square"].made, 1.0, NARROW, kernels.POLYNOMIAL, id="falling local polynomial"
    ),
    pytest.param(lambda: MeanResponse(lambda t: t**2 + t**3 / 8, upper=1.0), 0.3, BROAD, kernels.ROOT, id="root"),
    pytest.param(lambda: BY_NAME["square"].made, 0.5, BROAD, kernels.ROOT_OF_EVEN, id="root of even"),
    pytest.param(
        lambda: MeanResponse(even_series, upper=2.0), 0.3, BROAD, kernels.ROOT_OF_EVEN, id="long root of even"
    ),
    pytest.param(fixture, FIXTURE_THETA, BROAD, kernels.ROOT_OF_EVEN, id="declared fixture"),
    pytest.param(lambda: BY_NAME["cube"].made, 0.5, BROAD, kernels.TABLE, id="table"),
    pytest.param(lambda: BY_NAME["saturating"].made, 1.0, 0.05, kernels.TABLE, id="saturating table"),
    pytest.param(lambda: BY_NAME["decay"].made, 1.0, BROAD, kernels.TABLE, id="falling table"),
    pytest.param(lambda: BY_NAME["growth without end"].made, 1.0, BROAD, kernels.TABLE, id="table without end"),
    pytest.param(lambda: BY_NAME["growth from below zero"].made, -0.5, BROAD, kernels.TABLE, id="shifted table"),
    # Which form reaches the accuracy first hangs on the last bits of log here, which differ between versions of NumPy.
    pytest.param(lambda: BY_NAME["logarithm far out"].made, 2e6, BROAD, None, id="far out"),
    pytest.param(lambda: BY_NAME["broken line"].made, 0.8, BROAD, kernels.TABLE, id="split table"),
    pytest.param(lambda: BY_NAME["near-plateau"].made, 6.0, BROAD, kernels.TABLE, id="split table of a near-plateau"),
]


@pytest.mark.parametrize(("make", "theta", "fraction", "kind"), FORMS)
def test_each_form_gives_the_sums_of_root_finding_on_the_same_draws(make, theta, fraction, kind):
    response = make()
    sigma = fraction * scale_of(response, theta)
    levels = built(response, theta, sigma)
    assert levels is not None
    assert kind is None or levels.kind[0] == kind
    sums = kernels.accumulate(np.random.default_rng(1), TRIALS, *levels.arguments())[0]
    expected = twin(response, theta, sigma)
    unit = levels.unit[0] ** np.array([1, 2, 4])
    # The first sum is of both signs: its error is relative to root(n sum of squares).
    size = np.array([np.sqrt(TRIALS * expected[1]), expected[1], expected[2]])
    assert (np.abs(sums[:3] * unit - expected[:3]) <= TWIN_RTOL * size).all()
    assert np.array_equal(sums[3:], expected[3:])


@pytest.mark.parametrize(("make", "theta", "fraction", "kind"), FORMS)
def test_each_form_is_as_accurate_as_asked_at_any_reading(make, theta, fraction, kind):
    """At random readings, in the units of the loop, against root finding.

    A narrow level is relative to the reach of its draws; the others to theta - lower, but a polynomial in the reading
    itself, which crosses zero, to a thousandth of the window. What float64 holds of a reading bounds all of them.
    """
    response = make()
    sigma = fraction * scale_of(response, theta)
    levels = built(response, theta, sigma)
    kind = int(levels.kind[0])
    y = np.concatenate([np.random.default_rng(5).random(2000), np.geomspace(1e-12, 0.5, 200)])
    p, x, cell = np.empty_like(y), np.empty_like(y), np.empty(y.size, np.int64)
    c = levels.coefficients[0, : levels.terms[0]]
    kernels.factor(kind, y, c, levels.table, levels.first, x, cell, p)
    if kind in (kernels.ROOT, kernels.ROOT_OF_EVEN):
        p *= np.sqrt(y)
    sign = 1.0 if response.increasing else -1.0
    here = abs(float(response.excess(theta)))
    rise = here + (y - levels.shift[0]) * sigma / levels.scale[0]
    narrow = kind == kernels.POLYNOMIAL and levels.truth[0] == 0.0 and levels.shift[0] == 0.5
    blur = 8 * EPS * (np.abs(rise) + here) + response.rounding
    origin = theta if narrow else response.lower
    around = [(response.invert_excess(sign * (rise + b)) - origin) / levels.unit[0] for b in (-blur, 0.0, blur)]
    known = 4 * np.abs(around[2] - around[0]) + 8 * EPS * abs(theta) / levels.unit[0]
    floor = 1.0 if narrow else 1e-3 if kind == kernels.POLYNOMIAL else 0.0
    assert (np.abs(p - around[1]) <= COMPILED_RTOL * np.maximum(np.abs(around[1]), floor) + known).all()


@pytest.mark.parametrize(("make", "theta", "fraction", "kind"), FORMS)
def test_root_finding_in_blocks_gives_the_same_sums(make, theta, fraction, kind, monkeypatch):
    """The way of responses that no table fits: the same draws, clips and sums."""
    response = make()
    sigma = np.atleast_1d(fraction * scale_of(response, theta))
    monkeypatch.setattr(monte_carlo, "build_levels", lambda *_: None)
    run, unit = prepare(response, theta, None, sigma)
    assert run.func is monte_carlo._block
    sums = run((np.random.default_rng(1), TRIALS))[0]
    expected = twin(response, theta, sigma[0])
    assert np.allclose(sums[1:3] * unit[0] ** np.array([2, 4]), expected[1:3], rtol=SUMMATION_RTOL, atol=0.0)
    assert abs(sums[0] * unit[0] - expected[0]) <= SUMMATION_RTOL * np.sqrt(TRIALS * expected[1])
    assert np.array_equal(sums[3:], expected[3:])


def test_every_response_of_the_table_is_compiled_at_every_noise():
    """Root finding costs five hundred times as much: a response that falls back to it is a fault, if a slow one."""
    for problem in RESPONSES:
        if "limit" not in problem.tags:
            for fraction in (1e-9, 1e-3, 0.3, 10.0):
                sigma = fraction * scale_of(problem.made, problem.theta)
                assert built(problem.made, problem.theta, sigma) is not None, (problem.name, fraction)


def test_a_curve_of_very_many_corners_is_left_to_root_finding():
    knots = np.linspace(0.0, 1.0, 40_001)
    steps = np.random.default_rng(0).uniform(0.5, 1.5, 40_000)
    values = np.concatenate([[0.0], np.cumsum(steps)])
    assert built(MeanResponse(lambda t: np.interp(t, knots, values), upper=1.0), 0.5, 1e4) is None


def test_levels_of_different_forms_stand_side_by_side():
    made = BY_NAME["hyperbolic tangent"].made
    sigma = np.array([1e-12, 1e-4, 0.5])
    levels = built(made, 1.0, sigma)
    assert list(levels.kind) == [kernels.POLYNOMIAL, kernels.POLYNOMIAL, kernels.TABLE]
    together = kernels.accumulate(np.random.default_rng(1), TRIALS, *levels.arguments()) * levels.unit[:, None] ** [
        1,
        2,
        4,
        0,
        0,
    ]
    for k, s in enumerate(sigma):
        one = built(made, 1.0, s)
        alone = kernels.accumulate(np.random.default_rng(1), TRIALS, *one.arguments())[0] * one.unit[0] ** np.array(
            [1, 2, 4, 0, 0]
        )
        assert np.array_equal(together[k], alone)


@pytest.mark.parametrize("name", ["ninth power", "near-plateau", "cube", "saturating", "hyperbolic tangent", "decay"])
def test_the_local_inverse_is_the_inverse_of_the_local_difference(name):
    """The difference quotient of theta^9 is a short series, its inverse a long one."""
    problem = BY_NAME[name]
    made = problem.made
    local = local_difference(made, problem.theta)
    assert local.slope == pytest.approx(abs(float(problem.slope(problem.theta))), rel=local.error)
    width, series = local.inverse()
    assert width / series[0] == pytest.approx(local.slope, rel=64 * EPS)
    v = np.linspace(-1.0, 1.0, 101)
    t = v * np.polynomial.polynomial.polyval(v, series)
    assert np.allclose(local.difference(t), v * width, rtol=1e-13, atol=1e-15 * width)


@pytest.mark.parametrize(("name", "theta"), [("broken line", 1.0), ("square", 0.0), ("root", 0.0), ("square", 1.0)])
def test_there_is_no_local_series_at_a_kink_or_at_an_end(name, theta):
    made = BY_NAME[name].made
    assert local_difference(made, theta) is None


def test_the_largest_draw_is_inside_the_window_of_every_level():
    for name in ("hyperbolic tangent", "growth without end", "falling square"):
        problem = BY_NAME[name]
        for fraction in (1e-9, 1e-3, 0.3):
            sigma = fraction * scale_of(problem.made, problem.theta)
            levels = built(problem.made, problem.theta, sigma)
            top = levels.shift[0] + levels.scale[0] * LARGEST_NORMAL
            full = levels.scale[0] / sigma  # per unit of the reading
            reach = (abs(problem.made.excess(problem.theta)) + LARGEST_NORMAL * sigma) * full
            assert top <= 1.0 + 4 * EPS or reach >= 1.0
