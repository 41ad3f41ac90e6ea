"""Slopes of a response from Chebyshev series through its values.

At each theta, series on several intervals around it are tried: centred ones that stay inside the domain, which are
right where the response starts like a root or a power at the end nearby (theta^2.5 at 1e-6), and ones that reach from
that end inward, which are right where it does not. The one with the smallest estimated error gives the slope.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from estim.recovery.inverse import order_at_end
from estim.recovery.monotone import EPS, Monotone

Array = npt.NDArray[np.float64]

POINTS = 16
_NODE = chebyshev.chebpts1(POINTS)
_TO_SERIES = np.linalg.inv(chebyshev.chebvander(_NODE, POINTS - 1))


def slope(
    rise: Callable[[Array], Array], grid: Monotone, lower: float, upper: float, theta: Array, rounding: float
) -> Array:
    """Return d mean / d theta at each theta inside [lower, upper]."""
    values = np.array([grid.sign * _slope_at(rise, float(t), lower, upper, rounding) for t in theta])
    for end, lowest in ((theta <= lower, True), (theta >= upper, False)):
        if end.any():
            order = order_at_end(grid, rounding, lower=lowest)
            if abs(order - 1.0) > 0.02:
                values[end] = 0.0 if order > 1.0 else grid.sign * math.inf
    return values


def _slope_at(rise: Callable[[Array], Array], theta: float, lower: float, upper: float, rounding: float) -> float:
    best, least = math.nan, math.inf
    for left, right in _intervals(theta, lower, upper):
        half = 0.5 * (right - left)
        points = np.clip(left + half * (1.0 + _NODE), lower, upper)
        values = rise(points)
        series = _TO_SERIES @ values
        x = min(max((theta - left) / half - 1.0, -1.0), 1.0)
        # Markov's and Bernstein's inequalities: what an error of the values can do to a derivative at x.
        growth = min(POINTS**2, POINTS / math.sqrt(max(1.0 - x * x, 1e-12)))
        error = (4.0 * np.abs(series[-3:]).max() + EPS * np.abs(values).max() + rounding) * growth / half
        if error < least:
            best, least = float(chebyshev.chebval(x, chebyshev.chebder(series))) / half, error
    return best


def _intervals(theta: float, lower: float, upper: float) -> Iterator[tuple[float, float]]:
    scale = min(upper - lower, max(abs(theta), 1.0))
    below, above = theta - lower, upper - theta
    near = min(below, above)
    for k in range(12):
        half = 0.5**k * min(0.5 * near, scale)
        if half > 1e3 * EPS * abs(theta):
            yield theta - half, theta + half
        wide = 0.5**k * 0.5 * scale
        if wide >= near and wide > 0.0:
            yield (lower, min(lower + 2.0 * wide, upper)) if below <= above else (max(upper - 2.0 * wide, lower), upper)
