import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estim import MeanResponse
from estim.recovery.inverse import order_at_end
from tests.problems import BY_NAME, RESPONSES, named, tagged
from tests.tolerances import EPS, FORMULA_RTOL, INVERSE_RTOL

each = pytest.mark.parametrize("problem", RESPONSES, ids=lambda problem: problem.name)


def scan(problem):
    """Return thetas all over the domain and, geometrically, down to both ends."""
    made = problem.made
    lower, upper = made.lower, made.upper
    if math.isinf(upper):
        upper = lower + (15.0 if "limit" in problem.tags else 600.0)
    near = np.geomspace(1e-15, 0.5, 60)
    fractions = np.concatenate([near, 1.0 - near[near > 1e-6], np.linspace(0.003, 0.997, 100)])
    theta = lower + (upper - lower) * fractions
    if lower == 0.0:
        theta = np.concatenate([theta, np.geomspace(1e-100, 1e-15, 20) * (upper - lower)])
    return np.unique(theta[(theta > lower) & (theta < upper)])


@each
def test_the_inverse_is_accurate_wherever_float64_holds_the_information(problem):
    """The root of a rounded excess is theta plus one Newton step, exactly known; the step is of the size of rounding.

    What float64 does not hold: the response computed in float64 is off by a few roundings of its excess, and of the
    terms of a near-plateau, which moves the root by that over the slope.
    """
    theta = scan(problem)
    with mpmath.workdps(50):
        exact = [problem.excess(mpmath.mpf(t)) for t in theta.tolist()]
        slope = [problem.slope(mpmath.mpf(t)) for t in theta.tolist()]
        rounded = np.array([float(e) for e in exact])
        root = np.array(
            [
                float(t + (mpmath.mpf(r) - e) / d)
                for t, r, e, d in zip(theta.tolist(), rounded.tolist(), exact, slope, strict=True)
            ]
        )
        slope = np.abs(np.array([float(d) for d in slope]))
    kept = np.abs(rounded) > np.finfo(float).tiny
    terms = np.maximum(np.abs(rounded), theta if "near-plateau" in problem.tags else 0.0)
    unknown = FORMULA_RTOL * terms[kept] / slope[kept]
    error = np.abs(problem.made.invert_excess(rounded) - root)
    assert (error[kept] <= INVERSE_RTOL * np.abs(root[kept]) + unknown).all()


@pytest.mark.parametrize("problem", tagged("flat end", without=("limit",)), ids=lambda problem: problem.name)
def test_the_lowest_thetas_of_a_flat_end_keep_their_relative_accuracy(problem):
    """Nothing is lost to the vanishing slope: here the promise holds without an allowance for rounding."""
    for exponent in range(-1, -33, -1):
        theta = problem.made.upper * 10.0**exponent
        with mpmath.workdps(50):
            reading = float(problem.excess(mpmath.mpf(theta)))
            root = float(problem.inverse(mpmath.mpf(reading)))
        assert problem.made.invert_excess(reading) == pytest.approx(root, rel=INVERSE_RTOL, abs=0.0)


def test_saturating_up_to_ten_thousand_is_inverted_to_the_end():
    """Near its end a rounding of the reading is 1e8 roundings of theta: that much float64 does not hold."""
    problem = BY_NAME["saturating"]
    for theta in (10.0, 1e3, 9e3, 9999.0):
        reading = theta / (1 + theta)
        with mpmath.workdps(40):
            root = float(problem.inverse(mpmath.mpf(reading)))
        assert problem.made.invert_excess(reading) == pytest.approx(root, rel=4.0 * EPS * theta)


@each
def test_both_ends_invert_to_themselves(problem):
    made = problem.made
    low, high = made.attainable_excess
    ends = (low, high) if made.increasing else (high, low)
    assert made.invert_excess(ends[0]) == made.lower
    assert made.invert_excess(ends[1]) == made.upper


@each
def test_readings_outside_are_clipped_or_nan_never_a_root_that_is_not_there(problem):
    made = problem.made
    low, high = made.attainable_excess
    if made.increasing:
        below, above = made.lower, made.upper
    else:
        below, above = made.upper, made.lower
    span = high - low if math.isfinite(high - low) else 1.0
    assert made.invert_excess(low - 1e-9 * span) == below
    assert np.isnan(made.invert_excess(low - 1e-9 * span, clip=False))
    assert made.invert_excess(-math.inf) == below
    if math.isfinite(high):
        assert made.invert_excess(high + 1e-9 * span) == above
        assert np.isnan(made.invert_excess(high + 1e-9 * span, clip=False))
        assert made.invert_excess(math.inf) == above


@each
def test_unclipped_readings_inside_are_the_clipped_ones(problem):
    low, high = problem.made.attainable_excess
    readings = low + (min(high, low + 10.0) - low) * np.linspace(0.0, 1.0, 41)
    assert np.array_equal(problem.made.invert_excess(readings, clip=False), problem.made.invert_excess(readings))


@each
def test_the_inverse_rises_or_falls_with_the_reading(problem):
    low, high = problem.made.attainable_excess
    readings = low + (min(high, low + 5.0) - low) * np.linspace(0.0, 1.0, 2001)
    steps = np.diff(problem.made.invert_excess(readings)) * (1 if problem.made.increasing else -1)
    assert (steps >= -INVERSE_RTOL * abs(problem.theta)).all()


def test_c12_a_decreasing_table_is_inverted_where_np_interp_is_wrong():
    assert np.interp(0.25, [1, 0], [0, 1]) == 1.0
    assert MeanResponse.from_table([0, 1], [1, 0]).invert(0.25) == 0.75


def test_c12_a_folded_response_is_refused_rather_than_given_one_of_two_roots():
    with pytest.raises(ValueError, match=r"the response turns at theta = 1 .*two roots"):
        MeanResponse(lambda t: t * (2 - t), upper=2.0)


@pytest.mark.parametrize("problem", tagged("limit"), ids=lambda problem: problem.name)
def test_readings_at_or_above_a_limit_invert_to_infinity(problem):
    limit = problem.made.attainable[1]
    assert np.array_equal(problem.made.invert([limit, 2 * limit, math.inf]), [math.inf] * 3)
    assert np.isfinite(problem.made.invert(limit * (1 - 1e-12)))


def test_a_decreasing_limit_inverts_to_infinity_from_below():
    decay = MeanResponse(lambda t: np.exp(-t))
    assert np.array_equal(decay.invert([0.0, -1.0, 1.0, 2.0]), [math.inf, math.inf, 0.0, 0.0])
    assert decay.invert(0.5) == pytest.approx(math.log(2.0), rel=INVERSE_RTOL)


def test_invert_is_invert_excess_above_the_baseline():
    for problem in named("falling square", "decay", "collapsed", "growth from below zero"):
        made = problem.made
        y = made.baseline + np.linspace(*made.attainable_excess, 9)
        assert np.array_equal(made.invert(y), made.invert_excess(y - made.baseline))


@pytest.mark.parametrize(
    ("function", "upper", "theta"),
    [(lambda t: t - 0.99 * np.sin(t), 30.0, 2 * np.pi), (lambda t: (t - 1) ** 3, 3.0, 1.0)],
)
def test_interior_points_of_little_slope_are_inverted_as_well_as_rounding_allows(function, upper, theta):
    response = MeanResponse(function, upper=upper)
    around = theta * (1 + np.linspace(-1e-3, 1e-3, 101))
    readings = response(around)
    assert np.allclose(response(response.invert(readings)), readings, rtol=0.0, atol=4 * EPS * upper)


@pytest.mark.parametrize(
    ("name", "at_lower", "at_upper"),
    [
        ("identity", 1.0, 1.0),
        ("square", 2.0, 1.0),
        ("cube", 3.0, 1.0),
        ("ninth power", 9.0, 1.0),
        ("root", 0.5, 1.0),
        ("hyperbolic tangent", 1.0, 1.0),
        ("falling square", 2.0, 1.0),
        ("collapsed", 2.0, 1.0),
    ],
)
def test_the_order_at_an_end_is_read_off_the_grid(name, at_lower, at_upper):
    made = BY_NAME[name].made
    assert order_at_end(made._grid, made.rounding, lower=True) == pytest.approx(at_lower, abs=0.01)
    assert order_at_end(made._grid, made.rounding, lower=False) == pytest.approx(at_upper, abs=0.02)


def test_the_order_is_nan_where_rounding_hides_it():
    made = MeanResponse(lambda t: 1.0 + 1e-13 * t, upper=1.0)
    assert math.isnan(order_at_end(made._grid, made.rounding, lower=True))


# Round trips over responses nobody chose. Every family has shifted and rescaled members by construction.

amplitude = st.floats(0.0, 4.0)
decades = st.integers(-30, 30).map(lambda k: 10.0**k)


@st.composite
def monotone_excess(draw):
    """Return a signed excess, its domain, and its slope in units of the range over the width."""
    power = draw(st.floats(1.0, 4.0))
    rate = draw(st.floats(0.1, 3.0))
    linear, bent, saturating = draw(st.floats(0.05, 4.0)), draw(amplitude), draw(amplitude)
    width, height = 10.0 ** draw(st.integers(-6, 6)), draw(decades) * draw(st.sampled_from([-1.0, 1.0]))
    lower = width * draw(st.sampled_from([0.0, 0.0, -1.0, -0.5, 3.0, 100.0]))

    def excess(theta):
        x = (np.asarray(theta) - lower) / width
        return height * (linear * x + bent * x**power + saturating * np.tanh(rate * x))

    return excess, lower, lower + width, linear * abs(height) / width


@settings(max_examples=60, deadline=None, derandomize=True)
@given(monotone_excess(), st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20))
def test_theta_survives_the_round_trip_through_any_monotone_excess(case, fractions):
    excess, lower, upper, least_slope = case
    response = MeanResponse.from_excess(excess, baseline=1.0, lower=lower, upper=upper)
    theta = np.minimum(lower + (upper - lower) * np.array(fractions), upper)
    back = response.invert_excess(response.excess(theta))
    unknown = FORMULA_RTOL * np.abs(response.excess(theta)) / least_slope
    assert (np.abs(back - theta) <= INVERSE_RTOL * np.abs(theta) + unknown).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(monotone_excess(), st.floats(-10.0, 10.0), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_a_plain_function_loses_its_rounding_and_no_more(case, offset, fractions):
    excess, lower, upper, least_slope = case
    reach = abs(float(excess(upper)))
    response = MeanResponse(lambda t: offset * reach + excess(t), lower=lower, upper=upper)
    theta = np.minimum(lower + (upper - lower) * np.array(fractions), upper)
    mean = response(theta)
    unknown = FORMULA_RTOL * np.maximum(np.abs(mean), abs(response.baseline)) / least_slope
    assert (np.abs(response.invert(mean) - theta) <= INVERSE_RTOL * np.abs(theta) + unknown).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12), st.booleans(), decades, st.data())
def test_theta_survives_the_round_trip_through_any_table(steps, falling, height, data):
    """The interpolant may be flat at its ends, so the means are compared."""
    mean = height * np.concatenate([[0.0], np.cumsum(steps)]) * (-1 if falling else 1)
    gaps = data.draw(st.lists(st.floats(1e-2, 1e2), min_size=len(steps), max_size=len(steps)))
    theta = np.concatenate([[0.0], np.cumsum(gaps)])
    response = MeanResponse.from_table(theta, mean)
    assert response.increasing is not falling
    inside = theta[-1] * np.linspace(0.0, 1.0, 17)
    again = response(response.invert(response(inside)))
    assert np.allclose(again, response(inside), rtol=0.0, atol=32 * EPS * np.abs(mean).max())


def test_theta_is_infinite_where_no_float_holds_it():
    """The exponential of a mean ends at 709.78; the last point of a grid that ends before, 9e307, passed for it."""
    logarithm = MeanResponse(np.log1p)
    y = np.array([700.0, 709.5, 709.78])
    assert np.allclose(logarithm.invert(y), np.expm1(y), rtol=4 * EPS * y.max(), atol=0.0)
    assert logarithm.invert([709.79, 800.0, 1e300]).tolist() == [math.inf] * 3
    # In small units the function itself overflows, at 1.8e302.
    assert MeanResponse(lambda t: np.log1p(t / 1e-6)).invert(800.0) == math.inf
    # Where it is the mean that overflows, theta is the last one before.
    largest = np.finfo(float).max
    assert MeanResponse(lambda t: t).invert([1e308, 1.7e308, largest]).tolist() == [1e308, 1.7e308, largest]
    assert MeanResponse(lambda t: t**2).invert(largest) == pytest.approx(math.sqrt(largest), rel=4 * EPS)
