import math

import numpy as np
import pytest

import estim
from estim import MeanResponse

CASES = {
    "square": (lambda t: t**2, lambda t: 2 * t, 0.0, 1.0, [1e-6, 0.3, 0.999999, 1.0]),
    "decay": (lambda t: np.exp(-t), lambda t: -np.exp(-t), 0.0, 5.0, [0.0, 1e-6, 2.0, 4.9999, 5.0]),
    "root": (np.sqrt, lambda t: 0.5 / np.sqrt(t), 0.0, 3.0, [1e-6, 1e-2, 1.0, 3.0]),
    "power": (lambda t: t**2.5, lambda t: 2.5 * t**1.5, 0.0, 2.0, [1e-6, 0.5, 2.0]),
    "shifted": (lambda t: np.sin(t), np.cos, -1.5, 1.5, [-1.4, -1e-3, 0.0, 1.4]),
    "endless": (np.log1p, lambda t: 1 / (1 + t), 0.0, np.inf, [0.0, 1e-3, 1.0, 1e6]),
}


@pytest.mark.parametrize("name", CASES)
def test_slopes_are_right_inside_near_the_ends_and_at_them(name):
    mean, slope, lower, upper, theta = CASES[name]
    response = MeanResponse.from_excess(lambda t: mean(t) - mean(np.float64(lower)), lower=lower, upper=upper)
    # The exact excess loses some of its digits here where it starts at a nonzero mean.
    np.testing.assert_allclose(response.slope(theta), slope(np.array(theta)), rtol=1e-9)


@pytest.mark.parametrize(("power", "expected"), [(0.5, np.inf), (1.0, 1.0), (1.5, 0.0), (3.0, 0.0)])
def test_the_order_at_the_lower_end_decides_the_slope_there(power, expected):
    assert MeanResponse(lambda t: t**power, upper=1.0).slope(0.0) == pytest.approx(expected, abs=1e-12)


def test_readings_up_to_overflow_have_their_root():
    response = MeanResponse(np.expm1)
    np.testing.assert_allclose(response.invert([1e290, 1e300, 1.7e308]), np.log([1e290, 1e300, 1.7e308]), rtol=1e-13)


@pytest.mark.parametrize("unit", [1e-149, 1e-12, 1e-6, 1e-4, 1.0, 1e6, 1e20, 1e149])
@pytest.mark.parametrize("span", [5.0, math.inf])
def test_slopes_do_not_depend_on_the_unit_of_theta(unit, span):
    # 1 + log(1 + t) has the slope 1 / (1 + t); its layer at 0 lies between the nodes of intervals of size one.
    response = estim.MeanResponse(lambda t: 1.0 + np.log1p(t / unit), upper=span * unit)
    for t in (0.0, 1e-3, 1.0, 3.0):
        assert float(response.slope(t * unit)) * unit * (1.0 + t) == pytest.approx(1.0, rel=1e-8)
    if math.isinf(span):
        assert estim.recover(response, 0.0, 1e-3, method="exact").linear_rmse[0] == pytest.approx(1e-3 * unit, rel=1e-8)


def test_slopes_are_found_where_all_usual_intervals_overflow():
    t = np.array([0.0, 1e-10, 5e-7])
    response = MeanResponse.from_excess(lambda t: np.expm1(t / 1e-9))
    np.testing.assert_allclose(response.slope(t), 1e9 * np.exp(t / 1e-9), rtol=1e-9)
