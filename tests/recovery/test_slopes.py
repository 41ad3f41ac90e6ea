import numpy as np
import pytest

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
