import copy
import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest

from estim import MeanResponse
from tests.problems import BY_NAME, RESPONSES, named, tagged
from tests.tolerances import EPS, FORMULA_RTOL, INVERSE_RTOL, SLOPE_RTOL

each = pytest.mark.parametrize("problem", RESPONSES, ids=lambda problem: problem.name)


def seen_by(function):
    """Return the function, and the set of argument types it is called with after the response is made."""
    types = set()

    def watching(theta):
        types.add(type(theta))
        return function(theta)

    response = MeanResponse(watching, upper=1.0)
    types.clear()
    response([0.25, 0.5])
    return types


def test_a_vectorised_function_is_called_with_arrays():
    assert seen_by(np.tanh) == {np.ndarray}
    assert seen_by(lambda t: t**2) == {np.ndarray}
    assert seen_by(lambda t: [entry**2 for entry in t]) == {np.ndarray}


@pytest.mark.parametrize(
    "function",
    [
        math.tanh,
        lambda t: t if t < 0.4 else 2 * t - 0.4,  # truth of an array: raises
        lambda t: float(np.max(t)),  # one number for an array
        lambda t: np.cumsum(t) if np.ndim(t) else t,  # right shape, wrong numbers
        lambda t: Fraction(t),
        lambda t: Decimal(t) * Decimal(t),
        lambda t: mpmath.mpf(t) ** 2,
    ],
)
def test_a_function_that_does_not_take_arrays_is_called_with_floats(function):
    assert seen_by(function) == {float}


@pytest.mark.parametrize(
    "square",
    [
        lambda t: t**2,
        lambda t: float(t) ** 2,
        lambda t: np.float64(t) ** 2,
        lambda t: np.array(float(t) ** 2),
        lambda t: Fraction(t) ** 2,
        lambda t: Decimal(t) ** 2,
        lambda t: mpmath.mpf(t) ** 2,
        lambda t: [entry**2 for entry in t],
        lambda t: np.asfortranarray(t**2),
        lambda t: pd.Series(t) ** 2,
        lambda t: (t**2).astype(object),
    ],
)
def test_whatever_a_function_returns_is_raised_to_float64(square):
    response = MeanResponse(square, upper=2.0)
    assert response(0.5).dtype == np.float64
    assert response(0.5) == 0.25
    assert response.invert(2.0) == pytest.approx(math.sqrt(2.0), rel=INVERSE_RTOL)


def test_a_function_that_writes_into_its_argument_does_no_harm():
    def doubling(theta):
        theta *= 2
        return theta

    response = MeanResponse(doubling, upper=1.0)
    theta = np.array([0.25, 0.5])
    assert np.array_equal(response(theta), [0.5, 1.0])
    assert np.array_equal(theta, [0.25, 0.5])
    assert response.invert(0.5) == 0.25


shapes = pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 2), (0,), (3, 0)])


@shapes
@pytest.mark.parametrize("problem", named("square", "falling square"), ids=lambda problem: problem.name)
def test_the_result_has_the_shape_of_the_argument(problem, shape):
    made = problem.made
    theta = np.full(shape, 0.5)
    for method in (made, made.excess, made.slope):
        assert np.shape(method(theta)) == shape
    for method in (made.invert, made.invert_excess):
        assert np.shape(method(np.full(shape, 0.25))) == shape
        assert np.shape(method(np.full(shape, 0.25), clip=False)) == shape


def test_a_number_gives_a_number():
    response = MeanResponse(np.tanh, upper=2.0)
    for value in (
        response(1),
        response.excess(1),
        response.slope(1),
        response.invert(0.5),
        response.invert_excess(0.5),
    ):
        assert isinstance(value, float)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float16, np.float32, np.longdouble, bool])
def test_c16_integers_and_short_floats_are_raised_to_float64(dtype):
    response = MeanResponse(lambda t: t**2, upper=4.0)
    values = np.array([0, 1], dtype)
    for method in (response, response.excess, response.slope, response.invert, response.invert_excess):
        assert method(values).dtype == np.float64
        assert np.array_equal(method(values), method(np.array([0.0, 1.0])))


def test_read_only_fortran_and_strided_arrays_are_taken_and_left_alone(read_only):
    response = MeanResponse(lambda t: t**2, upper=4.0)
    plain = np.array([[0.25, 0.5, 1.0], [2.0, 3.0, np.nan]])
    for method in (response, response.excess, response.slope, response.invert, response.invert_excess):
        expected = method(plain.copy())
        for twin in (read_only(plain), np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2]):
            before = twin.copy()
            assert np.array_equal(method(twin), expected, equal_nan=True)
            assert np.array_equal(twin, before, equal_nan=True)
        # Differences are weighted by a matrix product, whose last bit depends on the place in the batch.
        assert np.allclose(method(plain[::-1]), expected[::-1], rtol=SLOPE_RTOL, atol=0.0, equal_nan=True)


def test_lists_and_series_are_taken():
    response = MeanResponse(lambda t: t**2, upper=4.0)
    assert np.array_equal(response.invert([[1, 4], [9, 16]]), [[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(response(pd.Series([1.0, 2.0], index=[7, 9])), [1.0, 4.0])
    table = pd.DataFrame({"dose": [0, 1, 2], "mean": [5, 3, 1]})
    assert MeanResponse.from_table(table["dose"], table["mean"]).invert(4.0) == pytest.approx(0.5, rel=INVERSE_RTOL)


@each
def test_nan_stays_nan_beside_numbers(problem):
    made = problem.made
    pair = np.array([math.nan, problem.theta])
    for method in (made, made.excess, made.slope):
        assert np.isnan(method(pair))[0]
        assert method(pair)[1] == method(problem.theta)
    assert np.isnan(made.invert([math.nan, made(problem.theta)]))[0]
    assert np.isnan(made.invert_excess(math.nan, clip=False))
    assert np.isnan(made.invert_excess(math.nan))


@pytest.mark.parametrize("outside", [-1e-300, -1.0, 2.0000001, math.inf, -math.inf])
def test_theta_outside_the_domain_is_refused(outside):
    response = MeanResponse(np.tanh, upper=2.0)
    for method in (response, response.excess, response.slope):
        with pytest.raises(ValueError, match=r"^theta must be finite and lie in \[0, 2\]; got ") as caught:
            method([1.0, outside])
        assert str(caught.value).endswith(f"got {outside:g}")


@pytest.mark.parametrize("bad", ["0.5", 1j, None, [None], ["a"]])
def test_what_is_not_real_is_refused(bad):
    response = MeanResponse(np.tanh, upper=2.0)
    for method, argument in (
        (response, "theta"),
        (response.slope, "theta"),
        (response.invert, "y"),
        (response.invert_excess, "e"),
    ):
        with pytest.raises(TypeError, match=rf"^{argument} must be real numbers; got "):
            method(bad)


@each
def test_the_attainable_range_ends_at_the_means_of_the_ends(problem):
    made = problem.made
    low, high = made.attainable
    assert low < high or "collapsed" in problem.name
    assert made.attainable_excess[0 if made.increasing else 1] == 0.0
    assert made(made.lower) == (low if made.increasing else high)
    if math.isfinite(made.upper):
        assert made.excess(made.upper) == pytest.approx(
            made.attainable_excess[1 if made.increasing else 0], rel=FORMULA_RTOL
        )


def test_a_mean_is_baseline_plus_excess():
    for problem in named("decay", "falling square", "growth from below zero"):
        made = problem.made
        theta = np.linspace(made.lower, made.upper, 7)
        assert np.array_equal(made(theta), made.baseline + made.excess(theta))


def test_a_range_of_1e_minus_70_is_whole_in_the_excess_and_gone_in_the_mean():
    made = BY_NAME["collapsed"].made
    assert made(0.5) == 1.0
    assert made.excess(0.5) == pytest.approx(0.25e-70, rel=FORMULA_RTOL)
    assert made.attainable_excess == (0.0, 1e-70)


@pytest.mark.parametrize(
    ("function", "upper", "bound"),
    [(lambda t: 1e6 + np.tanh(t), 2.0, 1e6 * EPS), (lambda t: 5.0 - np.tanh(t), 2.0, 5 * EPS), (np.tanh, 2.0, 0.0)],
)
def test_a_plain_function_knows_the_rounding_of_its_mean(function, upper, bound):
    assert MeanResponse(function, upper=upper).rounding == pytest.approx(bound)
    assert MeanResponse.from_excess(np.tanh, baseline=1e6, upper=upper).rounding == 0.0


@pytest.mark.parametrize("problem", tagged(without=("near-plateau",)), ids=lambda problem: problem.name)
def test_slopes_in_the_middle_of_the_domain_are_extrapolated_accurately(problem):
    made = problem.made
    upper = made.upper if math.isfinite(made.upper) else 4.0
    theta = made.lower + (upper - made.lower) * np.array([0.2, 0.35, 0.5])
    theta = theta if problem.name != "saturating" else np.array([0.5, 1.0, 2.0])
    with mpmath.workdps(40):
        exact = np.array([float(problem.slope(mpmath.mpf(t))) for t in theta.tolist()])
    assert np.allclose(made.slope(theta), exact, rtol=SLOPE_RTOL, atol=0.0)


@pytest.mark.parametrize(
    ("name", "at_lower"),
    [
        ("identity", 1.0),
        ("square", 0.0),
        ("cube", 0.0),
        ("ninth power", 0.0),
        ("root", math.inf),
        ("hyperbolic tangent", 1.0),
        ("saturating", 1.0),
        ("falling square", 0.0),
        ("decay", -1.0),
    ],
)
def test_the_slope_at_the_lower_end_is_zero_or_infinite_exactly_where_it_must(name, at_lower):
    found = BY_NAME[name].made.slope(BY_NAME[name].made.lower)
    if at_lower in (0.0, math.inf):
        assert found == at_lower
    else:
        assert found == pytest.approx(at_lower, rel=1e-8)


def test_a_falling_root_starts_with_slope_minus_infinity():
    assert MeanResponse(lambda t: 1.0 - np.sqrt(t), upper=1.0).slope(0.0) == -math.inf


def test_a_given_derivative_is_used_as_it_is(counted):
    derivative = counted(lambda t: 2.0 * t)
    response = MeanResponse(lambda t: t**2, upper=1.0, derivative=derivative)
    assert response.has_derivative
    made = derivative.calls
    assert response.slope(0.3) == 0.6
    assert derivative.calls == made + 1
    assert not MeanResponse(lambda t: t**2, upper=1.0).has_derivative


def test_a_table_is_met_at_its_points_and_monotone_between_them():
    theta, mean = [0, 1, 2, 5, 6], [10, 8, 7.5, 1, 0.9]
    response = MeanResponse.from_table(theta, mean, name="measured")
    assert np.allclose(response(theta), mean, rtol=FORMULA_RTOL)
    assert np.allclose(response.invert(mean[:-1]), theta[:-1], rtol=INVERSE_RTOL, atol=INVERSE_RTOL)
    # PCHIP leaves the last point flat: a rounding of the reading is its square root in theta.
    assert response.invert(mean[-1]) == pytest.approx(theta[-1], abs=10 * math.sqrt(16 * EPS))
    assert (np.diff(response(np.linspace(0, 6, 1001))) < 0).all()
    assert (response.lower, response.upper, response.name, response.increasing) == (0.0, 6.0, "measured", False)


@pytest.mark.parametrize("table", [([0, 1, 8], [0, 1, 2]), ([0, 1, 2, 3], [0, 10, 10.001, 20]), ([-5, 5], [2, 1])])
def test_ordinary_tables_are_accepted(table):
    response = MeanResponse.from_table(*table)
    assert response(table[0][1]) == pytest.approx(table[1][1], rel=FORMULA_RTOL)


def test_a_table_is_copied():
    theta, mean = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    response = MeanResponse.from_table(theta, mean)
    theta[1], mean[1] = 7.0, 9.0
    assert response(1.0) == 1.0


@pytest.mark.parametrize(
    "response",
    [MeanResponse(np.tanh, upper=2.0), MeanResponse(math.tanh), MeanResponse.from_table([0, 1, 2], [5, 3, 0])],
    ids=["plain", "scalar without end", "table"],
)
def test_a_response_pickles_and_copies_when_its_function_does(response):
    for twin in (pickle.loads(pickle.dumps(response)), copy.deepcopy(response), copy.copy(response)):
        assert np.array_equal(twin.invert([0.1, 0.7]), response.invert([0.1, 0.7]))
        assert repr(twin) == repr(response)


def test_the_text_of_a_response_shows_name_direction_domain_and_range():
    response = MeanResponse.from_excess(lambda t: -t, baseline=3.0, upper=2.0, name="battery")
    assert repr(response) == "MeanResponse('battery', decreasing, theta in [0, 2], mean in [1, 3])"
    assert repr(MeanResponse(np.tanh)) == "MeanResponse(increasing, theta in [0, inf], mean in [0, 1])"


def test_making_a_response_takes_about_three_thousand_evaluations():
    """As its docstring says; a scalar function costs one call each."""
    calls = 0

    def tanh(theta):
        nonlocal calls
        calls += 1
        return math.tanh(theta)

    MeanResponse(tanh, upper=2.0)
    assert 1000 < calls < 4500


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"lower": "a"}, TypeError, "lower must be a real number; got 'a'"),
        ({"upper": None}, TypeError, "upper must be a real number; got None"),
        ({"lower": -1.7e308, "upper": 1.7e308}, ValueError, "upper - lower must lie between 1e-290 and 1e300"),
        ({"upper": 1e-320}, ValueError, "upper - lower must lie between 1e-290 and 1e300"),
    ],
)
def test_a_domain_that_is_none_is_refused(options, error, text):
    with pytest.raises(error, match=re.escape(text)):
        MeanResponse(np.tanh, **options)


def test_a_function_in_float32_is_told_to_compute_in_float64():
    with pytest.raises(ValueError, match="function must compute in float64; it returned float32"):
        MeanResponse(lambda t: np.asarray(t, np.float32) ** 2, upper=2.0)


@pytest.mark.parametrize("mean", [[4, 1, 0], [0.1, 0.3, 0.7], [0.7, 0.3, 0.1]])
def test_the_ends_of_a_table_are_exact(mean):
    table = MeanResponse.from_table([0, 1, 2], mean)
    # The excess is exact; added to the baseline it is rounded once.
    assert table.attainable == pytest.approx((min(mean), max(mean)), rel=2 * EPS, abs=0.0)
    assert table.excess(2.0) == mean[-1] - mean[0]
    assert table.invert(mean[-1]) == 2.0
    assert table.invert(mean[0]) == 0.0
    assert np.isnan(table.invert(mean[-1] + 1e-15 * (mean[-1] - mean[0]), clip=False))
