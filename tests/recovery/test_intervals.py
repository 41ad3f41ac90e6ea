import copy
import itertools
import math
import pickle
import re

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import chi2, norm

import estim
from estim.plotting import plot_coverage
from estim.recovery.acceptance import acceptance
from estim.recovery.intervals import ConfidenceInterval, confidence_interval, coverage
from tests.problems import BY_NAME, fixture
from tests.tolerances import EPS, Z_LIMIT

METHODS = ("feldman-cousins", "central", "likelihood-ratio")
mpf = mpmath.mpf

#: The docstring: limits in noise units, or in units of the attainable range where that is shorter.
LIMIT_TOL = 1e-12
#: Issue 7: Feldman and Cousins' coverage is the level to 1e-8; exact by construction it is so to the rounding of it.
COVERAGE_TOL = 1e-8
#: Half a unit in the last of two printed decimals; the table was computed on a grid, hence the tenth on top.
TABLE_TOL = 0.0051
#: C11 prints three decimals, and two values with five and four.
PRINTED = 5.1e-4
#: Grid steps of the brute force in mean and reading, added: an interval ends between two grid means, and a region
#: between two grid readings.
MEAN_STEP, READING_STEP = 0.01, 0.005
BRUTE_TOL = MEAN_STEP + 2.0 * READING_STEP


@pytest.fixture(scope="module")
def identity():
    return estim.MeanResponse.from_excess(lambda t: t)


@pytest.fixture(scope="module")
def two():
    return estim.MeanResponse.from_excess(lambda t: t, upper=2.0)


def of_width(width):
    """Return a mean that is theta times the width, or theta itself on the half line."""
    if math.isinf(width):
        return estim.MeanResponse.from_excess(lambda t: t)
    return estim.MeanResponse.from_excess(lambda t: t * width, upper=1.0)


# Two references that share nothing with the package: the definition on a grid, and the definition as a p-value.


def brute_force(readings, width, levels):
    """Return the intervals by Feldman and Cousins' construction on a grid: cells of x sorted by likelihood ratio."""
    last = min(width, 6.5)
    x = np.arange(-5.0, last + 5.0, READING_STEP)
    mu = np.linspace(0.0, last, round(last / MEAN_STEP) + 1)[:, None]
    edges = np.concatenate([[-np.inf], 0.5 * (x[1:] + x[:-1]), [np.inf]])
    log_ratio = -0.5 * (x - mu) ** 2 + 0.5 * (x - np.clip(x, 0.0, width)) ** 2
    order = np.argsort(-log_ratio, axis=1, kind="stable")
    mass = np.take_along_axis(np.diff(norm.cdf(edges - mu), axis=1), order, axis=1)
    before = np.cumsum(mass, axis=1) - mass
    column = np.rint((readings - x[0]) / READING_STEP).astype(int)
    for level in levels:
        accepted = np.zeros(mass.shape, dtype=bool)
        np.put_along_axis(accepted, order, before < level, axis=1)
        means = [mu[accepted[:, c], 0] for c in column]
        yield level, np.array([m.min() for m in means]), np.array([m.max() for m in means])


def bisect(condition, low, high):
    """Return where a condition turns true."""
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high


def tail(distance):
    return mpmath.erfc(distance / mpmath.sqrt(2)) / 2


def p_value(x, mu, width):
    """Return the probability of a likelihood ratio no greater than that of x."""

    def q(v):
        return (v - mu) ** 2 - (v - min(max(v, mpf(0)), width)) ** 2

    side, span = (-1 if x > mu else 1), mpf(1)
    while q(mu + side * span) < q(x):
        span *= 4
        if span > 1e90:  # q is flat on that side: the mean is at that end of the domain
            return tail(abs(x - mu))
    return tail(abs(x - mu)) + tail(bisect(lambda d: q(mu + side * d) >= q(x), mpf(0), span))


def reference(x, width, level, digits=40):
    """Return the limits as the means whose p-value is the missing level."""
    with mpmath.workdps(digits):
        x, width, missing = mpf(x), mpf(width), 1 - mpf(level)
        best = min(max(x, mpf(0)), width)
        top = best + 10 if mpmath.isinf(width) else width

        def kept(mu):
            return p_value(x, mu, width) >= missing

        low = mpf(0) if kept(mpf(0)) else bisect(kept, mpf(0), best)
        high = top if kept(top) else bisect(lambda mu: not kept(mu), best, top)
        return low, high


class TestFeldmanCousins:
    @pytest.mark.parametrize(
        ("z", "low", "high"),
        [
            (-3, 0.0, 0.423),
            (-1, 0.0, 1.102),
            (0, 0.0, 1.960),
            (1, 0.0, 2.960),
            (2, 0.355, 3.960),
            (3, 1.141, 4.960),
        ],
    )
    def test_c11(self, identity, z, low, high):
        found = confidence_interval(identity, z, 1.0)
        assert (found.low, found.high) == pytest.approx((low, high), abs=PRINTED)

    def test_c11_mean_of_thirty_readings(self, identity):
        low, high = confidence_interval(identity, -0.2, 1 / math.sqrt(30))
        assert low == 0.0
        assert high == pytest.approx(0.18953, abs=5e-6)

    def test_c11_two_ends(self, two):
        low, high = confidence_interval(two, 0.0, 1.0)
        assert low == 0.0
        assert high == pytest.approx(1.6452, abs=5e-5)

    #: Feldman and Cousins (1998), Table X, as printed.
    TABLE = (
        (0.6827, -3.0, 0.00, 0.04),
        (0.6827, -2.0, 0.00, 0.07),
        (0.6827, -1.0, 0.00, 0.27),
        (0.6827, 0.0, 0.00, 1.00),
        (0.6827, 0.5, 0.02, 1.50),
        (0.6827, 1.0, 0.24, 2.00),
        (0.6827, 3.1, 2.10, 4.10),
        (0.90, -3.0, 0.00, 0.26),
        (0.90, -2.0, 0.00, 0.40),
        (0.90, -1.0, 0.00, 0.81),
        (0.90, 0.0, 0.00, 1.64),
        (0.90, 1.0, 0.00, 2.64),
        (0.90, 2.0, 0.58, 3.64),
        (0.90, 2.6, 1.02, 4.24),
        (0.90, 3.0, 1.37, 4.64),
        (0.95, -3.0, 0.00, 0.42),
        (0.95, -2.0, 0.00, 0.62),
        (0.95, -1.0, 0.00, 1.10),
        (0.95, 0.0, 0.00, 1.96),
        (0.95, 1.0, 0.00, 2.96),
        (0.95, 2.0, 0.35, 3.96),
        (0.95, 3.0, 1.14, 4.96),
        (0.99, -3.0, 0.00, 0.80),
        (0.99, -2.0, 0.00, 1.10),
        (0.99, 0.0, 0.00, 2.58),
        (0.99, 1.0, 0.00, 3.58),
        (0.99, 2.0, 0.00, 4.58),
    )

    @pytest.mark.parametrize(("level", "x", "low", "high"), TABLE)
    def test_published_table(self, identity, level, x, low, high):
        found = confidence_interval(identity, x, 1.0, confidence_level=level)
        assert (found.low, found.high) == pytest.approx((low, high), abs=TABLE_TOL)

    @pytest.mark.parametrize("width", [math.inf, 2.0, 0.5])
    def test_the_construction_on_a_grid(self, width):
        x = np.linspace(-3.0, 3.1, 62)
        response = estim.MeanResponse.from_excess(lambda t: t, upper=width)
        for level, brute_low, brute_high in brute_force(x, width, (0.6827, 0.90, 0.95, 0.99)):
            low, high = confidence_interval(response, x, 1.0, confidence_level=level)
            assert np.abs(low - brute_low).max() < BRUTE_TOL
            assert np.abs(high - brute_high).max() < BRUTE_TOL

    HALF_LINE = tuple(itertools.product((math.inf,), (-40.0, -3.0, 0.0, 1.7, 3.3, 40.0), (0.6827, 0.95, 1 - 1e-9)))
    BOTH_ENDS = tuple(itertools.product((5.0, 3.0, 0.3, 1e-3), (-40.0, -0.1, 1.7, 4.0, 40.0), (0.95,)))
    COLLAPSED = tuple(itertools.product((1e-70,), (-40.0, 1.7, 2.1, 40.0), (0.95,)))

    @pytest.mark.parametrize(("width", "x", "level"), HALF_LINE + BOTH_ENDS + COLLAPSED)
    def test_limits_are_the_means_whose_p_value_is_the_missing_level(self, width, x, level):
        low, high = confidence_interval(of_width(width), x, 1.0, confidence_level=level)
        expected = reference(x, width, level, digits=40 if width > 1e-9 else 240)
        for got, right in zip((low, high), expected, strict=True):
            unit = 1.0 if math.isinf(width) else width
            assert abs(mpf(got) * unit - right) < LIMIT_TOL * min(unit, 1.0)

    def test_the_lower_limit_leaves_zero_at_the_one_sided_quantile(self, identity):
        turn = norm.isf(0.1)  # 1.28 at 90 %
        low, _ = confidence_interval(identity, [turn - 1e-9, turn + 1e-9], 1.0, confidence_level=0.9)
        assert low[0] == 0.0
        assert low[1] == pytest.approx(1e-9, rel=1e-6)

    @pytest.mark.parametrize("width", [math.inf, 1e3, 4.0, 2.0, 0.1, 1e-6])
    @pytest.mark.parametrize("level", [0.3, 0.5, 0.6827, 0.95, 1 - 1e-9])
    @pytest.mark.parametrize("method", METHODS[::2])
    def test_limits_rise_with_the_reading_and_never_faster(self, width, level, method):
        y = np.concatenate([np.linspace(-9.0, 13.0, 4001), 1e3 + np.linspace(-9.0, 9.0, 1001)])
        response = estim.MeanResponse.from_excess(lambda t: t, upper=width)
        limits = confidence_interval(response, y, 1.0, confidence_level=level, method=method)
        assert (limits.low <= limits.high).all()
        for limit in limits:
            steps = np.diff(limit)
            assert steps.min() >= -4.0 * EPS * limit.max()
            assert (steps - np.diff(y)).max() <= 4.0 * EPS * y.max()

    @pytest.mark.parametrize("z", [-40.0, -3.0, 1.7, 3.0, 40.0])
    def test_noise_far_above_the_range_scales_out(self, z):
        wide, wider = (confidence_interval(of_width(w), z, 1.0) for w in (1e-12, 1e-70))
        assert tuple(wide) == pytest.approx(tuple(wider), rel=1e-10)

    def test_far_inside_it_is_the_central_interval(self, two):
        y = np.linspace(0.5, 1.5, 7)
        found = confidence_interval(two, y, 1e-3)
        half = 1e-3 * norm.isf(0.025)
        assert found.low == pytest.approx(y - half, rel=4.0 * EPS)
        assert found.high == pytest.approx(y + half, rel=4.0 * EPS)

    @pytest.mark.parametrize("y", [-1e308, -1e10, 1e10, 1e308])
    def test_readings_beyond_any_range_give_an_end(self, two, y):
        low, high = confidence_interval(two, y, 1e-290)
        assert (low, high) == ((0.0, 0.0) if y < 0.0 else (2.0, 2.0))

    def test_below_one_half_the_ties_at_an_end_cover_one_half(self, two):
        covered = coverage(two, [0.0, 1e-9, 1.0, 2.0], 1.0, confidence_level=0.3)
        assert covered == pytest.approx([0.5, 0.3, 0.3, 0.5], abs=1e-15)
        assert tuple(confidence_interval(two, -40.0, 1.0, confidence_level=0.3)) == pytest.approx((0.0, 0.0), abs=1e-15)

    @pytest.mark.parametrize("width", [math.inf, 3.0, 0.1, 1e-70])
    def test_both_ends_of_a_region_have_one_likelihood_ratio_and_hold_the_level(self, width):
        share = np.array([0.01, 0.3, 0.5, 0.9])
        below = share * min(width, 3.0)
        above = np.full(4, math.inf) if math.isinf(width) else (1.0 - share) * width
        d1, d2 = acceptance(below, above, 0.05)
        assert norm.cdf(d2) - norm.cdf(-d1) == pytest.approx(np.full(4, 0.95), abs=4 * EPS)
        with mpmath.workdps(240):
            for b, a, left, right in zip(below, above, d1, d2, strict=True):
                mu, top = mpf(b), mpf(b) + mpf(a)
                lower, upper = mu - mpf(left), mu + mpf(right)
                q = [(v - mu) ** 2 - (v - min(max(v, mpf(0)), top)) ** 2 for v in (lower, upper)]
                assert abs(q[0] / q[1] - 1) < LIMIT_TOL


class TestCentral:
    def test_it_is_cut_to_the_domain_or_empty(self, two):
        y = np.array([-2.0, -1.0, 1.0, 3.0, 4.0])
        found = confidence_interval(two, y, 1.0, method="central")
        half = norm.isf(0.025)
        assert found.empty.tolist() == [True, False, False, False, True]
        assert found.low == pytest.approx([np.nan, 0.0, 0.0, 3.0 - half, np.nan], nan_ok=True)
        assert found.high == pytest.approx([np.nan, half - 1.0, 2.0, 2.0, np.nan], nan_ok=True)

    def test_what_it_covers_and_how_often_it_is_empty_is_said(self, two):
        found = confidence_interval(two, [-3.0, 0.0], 1.0, method="central")
        lost = norm.sf(1.96) + norm.sf(3.96)
        assert found.notes[0] == "1 of 2 intervals are empty."
        assert "covers every theta with probability 0.95 when empty sets count as misses" in found.notes[1]
        assert f"empty with probability up to {lost:.2g}" in found.notes[1]
        assert f"up to {0.95 / (1 - lost):.4g} when it is not" in found.notes[1]

    def test_beyond_the_limit_on_an_infinite_domain_it_is_empty(self):
        response = BY_NAME["hyperbolic tangent without end"].made
        found = confidence_interval(response, [0.5, 0.999, 1.5], 0.1, method="central")
        assert found.empty.tolist() == [False, False, True]
        assert found.high[0] == pytest.approx(math.atanh(0.5 + 0.1 * norm.isf(0.025)))
        assert found.high[1] == math.inf


class TestLikelihoodRatio:
    @pytest.mark.parametrize("width", [math.inf, 5.0, 1.0, 1e-3])
    def test_twice_the_log_ratio_at_a_limit_is_the_cutoff(self, width):
        cutoff = chi2.ppf(0.95, 1)
        response = estim.MeanResponse.from_excess(lambda t: t, upper=width)
        for x in (-40.0, -3.0, 0.0, 0.7, 2.5, 7.0, 40.0):
            low, high = confidence_interval(response, x, 1.0, method="likelihood-ratio")
            best = min(max(x, 0.0), width)

            def excess(mu, x=x, best=best):
                return (x - mu) ** 2 - (x - best) ** 2 - cutoff

            right_low = brentq(excess, 0.0, best) if best > 0.0 and excess(0.0) > 0.0 else 0.0
            top = min(width, best + 50.0)
            right_high = brentq(excess, best, top) if best < top and excess(top) > 0.0 else width
            assert (low, high) == pytest.approx((right_low, right_high), abs=1e-10)

    def test_it_covers_too_much_beside_an_end_and_all_under_large_noise(self, two, identity):
        covered = coverage(identity, [0.0, 0.5, 1.96, 5.0], 1.0, method="likelihood-ratio")
        assert covered[0] == pytest.approx(0.975, abs=1e-15)
        assert 0.95 < covered[1] < 0.975
        assert covered[2:] == pytest.approx([0.95, 0.95], abs=1e-5)
        assert coverage(two, 1.0, 1e3, method="likelihood-ratio") == 1.0

    def test_what_the_cutoff_does_is_said(self, identity):
        notes = confidence_interval(identity, 0.0, 1.0, method="likelihood-ratio").notes
        assert "chi-square quantile of one degree" in notes[0]
        assert "covers with probability 0.95 to 0.975 over the domain, not 0.95" in notes[0]

    @pytest.mark.parametrize("width", [math.inf, 3.0, 0.1])
    def test_it_holds_the_interval_of_feldman_and_cousins(self, width):
        y = np.linspace(-9.0, 12.0, 500)
        response = estim.MeanResponse.from_excess(lambda t: t, upper=width)
        inner, outer = (confidence_interval(response, y, 1.0, method=method) for method in METHODS[::2])
        assert (outer.low <= inner.low + 1e-14).all()
        assert (outer.high >= inner.high - 1e-14).all()


RESPONSES = (
    ("theta >= 0", lambda: estim.MeanResponse(lambda t: t), 1.0),
    ("theta in [0, 2]", lambda: estim.MeanResponse(lambda t: t, upper=2.0), 1.0),
    ("falling, a plain function", lambda: estim.MeanResponse(lambda t: 3.0 - np.expm1(t), upper=1.0), 0.8),
    ("falling", lambda: BY_NAME["decay"].made, 0.3),
    ("falling with baseline", lambda: BY_NAME["falling square"].made, 1.0),
    ("shifted", lambda: BY_NAME["growth from below zero"].made, 20.0),
    ("infinite with a limit", lambda: BY_NAME["Michaelis-Menten without end"].made, 30.0),
    ("collapsed", lambda: estim.MeanResponse.from_excess(lambda t: 1e-70 * t**2, upper=1.0), 1e-71),
    ("declared fixture, no baseline", lambda: estim.MeanResponse.from_excess(fixture().excess, upper=0.15), 4e-8),
)
each_response = pytest.mark.parametrize(("make", "sigma"), [r[1:] for r in RESPONSES], ids=[r[0] for r in RESPONSES])


def places(response):
    upper = response.upper if math.isfinite(response.upper) else response.lower + 10.0
    return response.lower + (upper - response.lower) * np.array([0.02, 0.2, 0.5, 0.8, 0.98])


def reach_of_likelihood_ratio(response, noise, level):
    """Return, for theta at its lower end, how far above it likelihood ratios hold: (width + cutoff / width) / 2."""
    low, high = response.attainable_excess
    width = (high - low) / noise
    root = norm.isf(0.5 * (1.0 - level))
    return np.where(width >= root, root, 0.5 * (width + root**2 / width))


class TestCoverage:
    @each_response
    @pytest.mark.parametrize("method", METHODS)
    def test_it_is_the_probability_of_the_readings_whose_interval_holds_theta(self, make, sigma, method):
        response = make()
        theta = places(response)
        mean = response(theta)

        def held(d):
            low, high = confidence_interval(response, mean + sigma * d, sigma, method=method)
            return (low <= theta) & (theta <= high)

        side = np.array([[-1.0], [1.0]])
        inside, outside = np.zeros((2, theta.size)), np.full((2, theta.size), 60.0)
        endless = held(side * outside)
        for _ in range(40):
            middle = 0.5 * (inside + outside)
            inside, outside = np.where(held(side * middle), (middle, outside), (inside, middle))
        probability = np.where(endless, 0.5, norm.cdf(inside) - 0.5).sum(axis=0)
        # A limit is known to a few roundings of the reading and of theta; at the flattest place here, theta = 9.8 of
        # the Michaelis-Menten curve, a rounding of theta moves the reading by far less than 1e-12 of the noise.
        assert np.abs(probability - coverage(response, theta, sigma, method=method)).max() < 1e-11

    @each_response
    @pytest.mark.parametrize("level", [0.5, 0.6827, 0.9, 0.95, 0.99, 1 - 1e-9])
    def test_feldman_cousins_and_central_cover_the_level_everywhere(self, make, sigma, level):
        response = make()
        upper = response.upper if math.isfinite(response.upper) else response.lower + 50.0
        theta = np.linspace(response.lower, upper, 201)[:, None]
        noise = sigma * np.geomspace(1e-6, 1e6, 25)
        for method in METHODS[:2]:
            covered = coverage(response, theta, noise, confidence_level=level, method=method)
            assert covered.shape == (201, 25)
            assert np.abs(covered - level).max() < COVERAGE_TOL
            assert np.abs(covered - level).max() < 4.0 * EPS
        more = coverage(response, theta, noise, confidence_level=level, method="likelihood-ratio")
        assert more.min() >= level - 4.0 * EPS
        assert more.max() <= 1.0
        assert more[0] == pytest.approx(1.0 - norm.sf(reach_of_likelihood_ratio(response, noise, level)), abs=1e-13)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("theta", [0.0, 0.05, 0.7, 1.0])
    def test_simulated_readings_agree(self, method, theta):
        """Twelve comparisons, each a false alarm with probability 6.3e-5 were the seed free."""
        response = estim.MeanResponse(lambda t: 3.0 - np.expm1(t), upper=1.0)
        trials, sigma = 50_000, 0.8
        rng = np.random.default_rng([20261130, METHODS.index(method), round(100 * theta)])
        y = response(theta) + sigma * rng.standard_normal(trials)
        low, high = confidence_interval(response, y, sigma, method=method)
        expected = coverage(response, theta, sigma, method=method)
        error = math.sqrt(expected * (1.0 - expected) / trials)
        assert abs(np.mean((low <= theta) & (theta <= high)) - expected) < Z_LIMIT * error

    def test_simulated_empty_sets_are_as_frequent_as_said(self, two):
        """One comparison: false alarm 6.3e-5."""
        trials, lost = 50_000, norm.sf(1.96) + norm.sf(3.96)
        y = np.random.default_rng(20261130).standard_normal(trials)
        empty = confidence_interval(two, y, 1.0, method="central").empty
        assert abs(empty.mean() - lost) < Z_LIMIT * math.sqrt(lost * (1.0 - lost) / trials)

    def test_a_scalar_is_a_float_and_none_are_none(self, two):
        assert isinstance(coverage(two, 1.0, 1.0), float)
        assert coverage(two, [], 1.0).shape == (0,)

    def test_a_theta_outside_the_domain_is_refused(self, two):
        with pytest.raises(ValueError, match=r"theta must be finite and lie in \[0, 2\]; got 2\.5"):
            coverage(two, [1.0, 2.5], 1.0)


class TestThroughTheResponse:
    @pytest.mark.parametrize("method", METHODS)
    def test_a_falling_response_turns_the_readings_around(self, two, method):
        y = np.linspace(-4.0, 6.0, 41)
        falling = estim.MeanResponse.from_excess(lambda t: -t, upper=2.0, baseline=5.0)
        assert falling.increasing is False
        ours = confidence_interval(falling, 5.0 - y, 1.0, method=method)
        assert np.allclose(tuple(ours), tuple(confidence_interval(two, y, 1.0, method=method)), 0, 1e-14, True)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("width", [10.0, 2.0, 0.01])
    def test_the_ends_are_treated_alike(self, method, width):
        response = estim.MeanResponse.from_excess(lambda t: t, upper=width)
        y = np.linspace(-6.0, 8.0, 57)
        here = confidence_interval(response, y, 1.0, method=method)
        there = confidence_interval(response, width - y, 1.0, method=method)
        assert np.allclose(here.low, width - there.high, rtol=0.0, atol=1e-13 * max(width, 1.0), equal_nan=True)
        assert (here.empty == there.empty).all()

    @pytest.mark.parametrize("method", METHODS)
    def test_a_curve_maps_the_limits_of_its_mean(self, method):
        response = BY_NAME["decay"].made
        low_mean, high_mean = response.attainable
        y = np.linspace(-1.0, 2.0, 31)
        line = estim.MeanResponse.from_excess(lambda t: t, upper=high_mean - low_mean)
        mean = confidence_interval(line, y - low_mean, 0.3, method=method)
        theta = confidence_interval(response, y, 0.3, method=method)
        assert theta.low == pytest.approx(response.invert(mean.high + low_mean), rel=1e-10, abs=1e-14, nan_ok=True)
        assert theta.high == pytest.approx(response.invert(mean.low + low_mean), rel=1e-10, abs=1e-14, nan_ok=True)

    @pytest.mark.parametrize("method", METHODS)
    def test_a_range_of_1e_minus_70_loses_nothing(self, method):
        z = np.linspace(-5.0, 15.0, 41)
        tiny = estim.MeanResponse.from_excess(lambda t: 1e-70 * t**2, upper=1.0)
        unit = estim.MeanResponse.from_excess(lambda t: t**2, upper=1.0)
        found = confidence_interval(tiny, z * 1e-71, 1e-71, method=method)
        assert np.allclose(tuple(found), tuple(confidence_interval(unit, z * 0.1, 0.1, method=method)), 1e-12, 0, True)

    def test_an_infinite_domain_with_a_limit(self):
        response = BY_NAME["hyperbolic tangent without end"].made
        low, high = confidence_interval(response, [-0.5, 0.5, 0.99, 1.2], 0.1)
        assert high[0] < high[1] < math.inf
        assert high[2:].tolist() == [math.inf, math.inf]
        assert np.isfinite(low).all()
        # Beyond the limit 1 the lower limit solves the same condition as below 0, seen from the other end.
        mirrored = confidence_interval(estim.MeanResponse.from_excess(lambda t: t, upper=1.0), -0.2, 0.1)
        assert low[3] == pytest.approx(math.atanh(1.0 - mirrored.high), rel=1e-10)

    def test_an_infinite_domain_without_a_limit(self):
        response = BY_NAME["growth without end"].made
        low, high = confidence_interval(response, [-3.0, 100.0], 1.0)
        assert (low[0], high[0]) == pytest.approx((0.0, math.log1p(0.4227857612629472)))
        assert (low[1], high[1]) == pytest.approx(
            (math.log1p(100 - norm.isf(0.025)), math.log1p(100 + norm.isf(0.025)))
        )

    @pytest.mark.parametrize("method", METHODS)
    def test_a_limit_beyond_float64_is_infinite(self, method):
        # exp(600 + 60 z) for z = 1.96 is 2e311; 9e307 was said.
        found = confidence_interval(estim.MeanResponse(np.log1p), 600.0, 60.0, method=method)
        assert found.low == pytest.approx(math.exp(600.0 - 60.0 * norm.isf(0.025)), rel=1e-10)
        assert found.high == math.inf

    @pytest.mark.parametrize("method", METHODS[::2])
    def test_infinite_readings_give_the_end_they_point_to(self, two, identity, method):
        y = [-math.inf, math.inf]
        for response, end in ((two, 2.0), (identity, math.inf)):
            found = confidence_interval(response, y, 1.0, method=method)
            assert found.low.tolist() == found.high.tolist() == [0.0, end]
            assert not found.empty.any()
        falling = estim.MeanResponse.from_excess(lambda t: -t, upper=2.0)
        assert confidence_interval(falling, y, 1.0, method=method).low.tolist() == [2.0, 0.0]

    def test_infinite_readings_have_no_central_interval_inside_a_bound(self, two, identity):
        y = [-math.inf, math.inf]
        assert confidence_interval(two, y, 1.0, method="central").empty.tolist() == [True, True]
        found = confidence_interval(identity, y, 1.0, method="central")
        assert found.empty.tolist() == [True, False]
        assert (found.low[1], found.high[1]) == (math.inf, math.inf)

    def test_rounding_of_a_plain_function_is_said(self):
        plain = estim.MeanResponse(lambda t: 1.0 + 1e-10 * t, upper=1.0)
        assert any("give the exact excess" in note for note in confidence_interval(plain, 1.0, 1e-12).notes)


class TestPlumbing:
    @pytest.mark.parametrize("method", METHODS)
    def test_shapes_broadcast_and_each_entry_is_the_scalar_result(self, two, method, read_only):
        y = read_only([[-1.0, 0.5, 3.0], [math.inf, 1.0, 9.0]])
        sigma = read_only([[0.1], [2.0]])
        found = confidence_interval(two, y, sigma, method=method)
        assert found.low.shape == found.high.shape == found.empty.shape == (2, 3)
        for i, j in itertools.product(range(2), range(3)):
            alone = confidence_interval(two, y[i, j], sigma[i, 0], method=method)
            assert isinstance(alone.low, float)
            assert isinstance(alone.empty, bool)
            assert (alone.low, alone.high) == pytest.approx((found.low[i, j], found.high[i, j]), rel=1e-14, nan_ok=True)
            assert alone.empty == found.empty[i, j]

    def test_no_readings(self, two):
        found = confidence_interval(two, [], 1.0, method="central")
        assert found.low.shape == found.empty.shape == (0,)
        assert found.notes == ()

    def test_integers_and_lists_are_floats(self, two):
        as_integers = confidence_interval(two, [0, 1], 1)
        assert as_integers == confidence_interval(two, np.array([0.0, 1.0]), 1.0)
        assert confidence_interval(two, np.float32([0, 1]), np.float32(1)) == as_integers

    @pytest.mark.parametrize("y", [1.0, -9.0, math.inf, [1.0, -9.0, -math.inf, math.inf], [[0.0], [1.0]]])
    def test_the_record_is_frozen_and_round_trips(self, identity, y):
        found = confidence_interval(identity, y, 1.0, method="central")
        again = ConfidenceInterval.from_json(found.to_json())
        for twin in (again, pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert twin == found
            assert np.array_equal(twin.low, found.low, equal_nan=True)
            assert type(twin.low) is type(found.low)
            assert np.array_equal(twin.empty, found.empty)
            assert np.asarray(twin.empty).dtype == bool
        with pytest.raises(AttributeError, match="cannot assign to field 'low'"):
            found.low = 0.0
        if isinstance(y, list):
            with pytest.raises(ValueError, match="read-only"):
                found.high[0] = 0.0

    def test_it_unpacks_to_the_limits(self, two):
        found = confidence_interval(two, [0.0, 1.0], 1.0)
        low, high = found
        assert low is found.low
        assert high is found.high
        assert (found.method, found.confidence_level) == ("feldman-cousins", 0.95)

    @pytest.mark.parametrize(
        ("change", "error", "text"),
        [
            ({"response": 3.0}, TypeError, "response must be an estim.MeanResponse; got float"),
            ({"values": 1j}, TypeError, "{} must be real numbers; got 1j"),
            (
                {"values": [1.0, math.nan]},
                ValueError,
                "{} must not be NaN; got one at entry 1: leave out what is missing",
            ),
            ({"values": math.nan}, ValueError, "{} must not be NaN; got one at entry 0: leave out what is missing"),
            ({"values": "1"}, TypeError, "{} must be real numbers; got '1'"),
            ({"sigma": 0.0}, ValueError, "sigma must be positive and finite; got 0.0 at entry 0"),
            ({"sigma": [1.0, -1.0]}, ValueError, "sigma must be positive and finite; got -1.0 at entry 1"),
            ({"sigma": [[1.0], [math.nan]]}, ValueError, "sigma must be positive and finite; got nan at entry 1"),
            ({"sigma": 1e300}, ValueError, "sigma must lie between 1e-290 and 1e290 (choose other units); got 1e+300"),
            ({"sigma": []}, ValueError, "sigma must be a number or a non-empty 1-D array; got shape (0,)"),
            ({"sigma": "1"}, TypeError, "sigma must be real numbers; got '1'"),
            (
                {"values": [1.0, 1.0], "sigma": [1.0] * 3},
                ValueError,
                "{} and sigma must broadcast; got shapes (2,) and (3,)",
            ),
            ({"confidence_level": 1.0}, ValueError, "confidence_level must lie between 0 and 1; got 1.0"),
            ({"confidence_level": 0}, ValueError, "confidence_level must lie between 0 and 1; got 0"),
            ({"confidence_level": 95}, ValueError, "confidence_level must lie between 0 and 1; got 95"),
            ({"confidence_level": math.nan}, ValueError, "confidence_level must lie between 0 and 1; got nan"),
            ({"confidence_level": "0.9"}, TypeError, "confidence_level must be a real number; got '0.9'"),
            ({"confidence_level": True}, TypeError, "confidence_level must be a real number; got True"),
            ({"confidence_level": [0.9]}, TypeError, "confidence_level must be one real number; got [0.9]"),
            (
                {"method": "wald"},
                ValueError,
                "method must be 'feldman-cousins', 'central' or 'likelihood-ratio'; got 'wald'",
            ),
            (
                {"method": None},
                ValueError,
                "method must be 'feldman-cousins', 'central' or 'likelihood-ratio'; got None",
            ),
        ],
    )
    @pytest.mark.parametrize(("function", "name"), [(confidence_interval, "y"), (coverage, "theta")])
    def test_bad_input(self, two, function, name, change, error, text):
        arguments = {"response": two, "values": 1.0, "sigma": 1.0, **change}
        data = [arguments.pop(key) for key in ("response", "values", "sigma")]
        with pytest.raises(error, match=f"^{re.escape(text.format(name))}$"):
            function(*data, **arguments)

    def test_bad_input_fails_before_the_response_is_asked(self, counted):
        calls = counted(lambda t: t)
        response = estim.MeanResponse(calls, upper=2.0)
        before = calls.calls
        with pytest.raises(ValueError, match="sigma"):
            confidence_interval(response, 1.0, -1.0)
        with pytest.raises(ValueError, match="method"):
            coverage(response, 1.0, 1.0, method="")
        assert calls.calls == before


class TestPlot:
    def test_each_method_is_a_line_in_the_order_of_theta(self, two):
        theta = np.array([2.0, 0.0, 1.0])
        covered = {method: coverage(two, theta, 0.5, method=method) for method in METHODS}
        (axes,) = plot_coverage(theta, covered, parameter="dose").axes
        drawn = {line.get_label(): line for line in axes.lines}
        assert [*drawn] == [*METHODS, "level asked for: 0.95"]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [*drawn]
        assert drawn["likelihood-ratio"].get_xdata().tolist() == [0.0, 1.0, 2.0]
        assert np.array_equal(drawn["likelihood-ratio"].get_ydata(), covered["likelihood-ratio"][[1, 2, 0]])
        assert axes.get_xlabel() == "dose"

    def test_the_level_is_inside_the_picture(self):
        (axes,) = plot_coverage([0.0, 1.0], {"mine": [0.5, 0.6]}, confidence_level=0.9).axes
        low, high = axes.get_ylim()
        assert low < 0.5 < 0.9 < high

    def test_a_record_draws_the_coverage_of_each_method_over_the_domain(self, two):
        found = confidence_interval(two, [-1.0, 0.5, 3.0], [0.2, 0.4, 0.5])
        _, axes = found.plot().axes
        drawn = {line.get_label(): line for line in axes.lines}
        assert axes.get_title(loc="left") == "Coverage at sigma = 0.5; those above are feldman-cousins"
        assert found.theta[[0, -1]].tolist() == [0.0, 2.0]
        for method in METHODS:
            assert np.array_equal(drawn[method].get_xdata(), found.theta)
            assert_allclose(drawn[method].get_ydata(), coverage(two, found.theta, 0.5, method=method), rtol=1e-12)

    @pytest.mark.parametrize("increasing", [True, False])
    def test_thetas_of_the_picture_are_near_the_ends_that_exist(self, increasing):
        sign = 1.0 if increasing else -1.0
        half_line = estim.MeanResponse(lambda t: sign * t)
        assert_allclose(confidence_interval(half_line, 0.0, 0.5).theta, np.linspace(0.0, 3.0, 61), atol=1e-12)
        long = confidence_interval(estim.MeanResponse(lambda t: sign * t, upper=100.0), 0.0, 0.5).theta
        assert_allclose(long, [*np.linspace(0.0, 3.0, 61), *np.linspace(97.0, 100.0, 61)], atol=1e-12)
        limited = confidence_interval(estim.MeanResponse(lambda t: sign * t / (1.0 + t)), 0.0, 1.0)
        assert np.isfinite(limited.theta).all()
        assert limited.span == 1.0

    def test_bars_arrows_and_crosses_are_the_intervals(self):
        limited = estim.MeanResponse(lambda t: t / (1.0 + t), name="saturating")
        found = confidence_interval(limited, [-1.0, -np.inf, 0.5, 0.9], 0.1, method="central")
        above, _ = found.plot().axes
        (bars,) = above.collections
        assert np.allclose(bars.get_segments(), [[[0.5, found.low[2]], [0.5, found.high[2]]]])
        points = {line.get_label(): line.get_xdata().tolist() for line in above.lines}
        assert points["no upper limit: from here up"] == [0.9]
        assert points["empty: no theta agrees"] == [-1.0]
        assert above.get_title(loc="left") == "saturating: what agrees with each reading"

    def test_ends_far_apart_are_drawn_side_by_side(self):
        # In one panel the end at zero was a vertical line: the other lies four decades away.
        limited = estim.MeanResponse(lambda t: t / (1.0 + t))
        found = confidence_interval(limited, [0.2, 0.5], 0.05)
        _, lower, upper = found.plot().axes
        (low,), (high,) = ([line for line in axes.lines if line.get_label() == "central"] for axes in (lower, upper))
        assert np.array_equal(np.concatenate([low.get_xdata(), high.get_xdata()]), found.theta)
        assert low.get_xdata()[-1] == pytest.approx(0.3 / 0.7)
        assert high.get_xdata()[0] == pytest.approx(0.7 / 0.3)
        assert (lower.get_xscale(), upper.get_xscale()) == ("linear", "log")
        assert (lower.get_xlabel(), upper.get_xlabel()) == ("theta, at the lower end", "theta, at the upper end")

    def test_thetas_over_many_decades_are_all_seen(self):
        logarithm = estim.MeanResponse(np.log, lower=1e-6, upper=1e6)
        above = confidence_interval(logarithm, [-12.0, 0.0, 12.0], 0.5).plot().axes[0]
        assert above.get_yscale() == "symlog"
        assert confidence_interval(logarithm, [0.0, 1.0], 0.5).plot().axes[0].get_yscale() == "linear"

    def test_of_very_many_readings_an_even_choice_is_drawn(self, two, tmp_path):
        readings = np.random.default_rng(5).permutation(np.linspace(-3.0, 5.0, 20_000))
        found = confidence_interval(two, readings, 0.5, method="central")
        above = found.plot().axes[0]
        (bars,) = above.collections
        (crosses,) = (line for line in above.lines if line.get_label() == "empty: no theta agrees")
        drawn = np.sort([*(bar[0, 0] for bar in bars.get_segments()), *crosses.get_xdata()])
        assert_allclose(drawn, np.linspace(-3.0, 5.0, 300), atol=8.0 / 20_000)
        assert len(crosses.get_xdata()) == pytest.approx(300 * found.empty.mean(), abs=2.0)
        assert above.get_xlabel() == "reading (300 of 20,000 are drawn)"
        found.report(tmp_path / "intervals.html")
        assert (tmp_path / "intervals.html").stat().st_size < 1e6

    def test_what_is_not_drawn_is_said(self, two):
        above = confidence_interval(two, [-np.inf, 1.0, np.inf], 0.5).plot().axes[0]
        assert above.get_xlabel() == "reading (1 of 3 are drawn)"
        assert above.get_legend() is None

    def test_one_reading_and_none_have_pictures_and_frames(self, two):
        assert len(confidence_interval(two, 1.0, 0.5).plot().axes) == 2
        nothing = confidence_interval(two, [], 0.5)
        assert len(nothing.plot().axes) == 2
        assert nothing.to_frame().shape == (0, 5)

    def test_the_page_holds_table_picture_and_notes(self, two, tmp_path):
        found = confidence_interval(two, [-1.0, 0.5], 0.5, method="central")
        found.report(tmp_path / "intervals.html")
        page = (tmp_path / "intervals.html").read_text(encoding="utf-8")
        assert "<h1>95 % confidence intervals</h1>" in page
        assert "Method: central." in page
        assert page.count("<svg") == 1
        assert "Coverage at sigma = 0.5" in page
        assert all(note in page for note in found.notes)
        assert len(found.notes) == 2

    def test_frame_has_a_row_a_reading(self, two):
        frame = confidence_interval(two, [[0.1, 0.5]], [[0.5], [0.7]]).to_frame()
        assert frame.columns.tolist() == ["readings", "sigma", "low", "high", "empty"]
        assert frame["readings"].tolist() == [0.1, 0.5, 0.1, 0.5]
        assert frame["sigma"].tolist() == [0.5, 0.5, 0.7, 0.7]
