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
from estim.recovery.monotone import EPS, LARGEST, Monotone

Array = npt.NDArray[np.float64]

POINTS = 16
HALVINGS = 12
#: Relative error from which on the usual intervals, made for parameters of size one, are not all that is tried.
POOR = 1e-6
_NODE = chebyshev.chebpts1(POINTS)
_TO_SERIES = np.linalg.inv(chebyshev.chebvander(_NODE, POINTS - 1))


def slope(
    rise: Callable[[Array], Array], grid: Monotone, lower: float, upper: float, theta: Array, rounding: float
) -> Array:
    """Return d mean / d theta at each theta inside [lower, upper]."""
    known = np.full(theta.shape, math.nan)
    for end, lowest in ((theta <= lower, True), (theta >= upper, False)):
        if end.any():
            order = order_at_end(grid, rounding, lower=lowest)
            if abs(order - 1.0) > 0.02:
                known[end] = 0.0 if order > 1.0 else grid.sign * math.inf
    found = [
        _slope_at(rise, float(t), lower, upper, rounding) if math.isnan(k) else 0.0
        for t, k in zip(theta, known, strict=True)
    ]
    return np.where(np.isnan(known), grid.sign * np.array(found), known)


def _slope_at(rise: Callable[[Array], Array], theta: float, lower: float, upper: float, rounding: float) -> float:
    """Return the slope of the best series; where the usual intervals miss the response, search in all units."""
    here = float(rise(np.array([theta]))[0])
    best, least = math.nan, math.inf
    for interval in _intervals(theta, lower, upper, range(HALVINGS)):
        value, error = _from_series(rise, theta, here, interval, (lower, upper), rounding)
        if error < least:
            best, least = value, error
    if least <= POOR * abs(best):
        return best
    closest, found = (least / abs(best) if best and least < math.inf else math.inf), best
    for halvings in (range(HALVINGS, 1000, 2), range(-1, -1000, -2)):
        if halvings.step < 0:  # wide ones, which may miss what is near, only where they are good
            closest = min(closest, POOR)
        for interval in _intervals(theta, lower, upper, halvings):
            value, error = _from_series(rise, theta, here, interval, (lower, upper), rounding)
            if error < closest * abs(value):
                closest, found = error / abs(value), value
            elif closest < POOR and error > 1e3 * closest * abs(value):
                break  # it was found, and is behind
    return found


def _from_series(
    rise: Callable[[Array], Array],
    theta: float,
    here: float,
    interval: tuple[float, float],
    domain: tuple[float, float],
    rounding: float,
) -> tuple[float, float]:
    """Return the slope at theta of the series on an interval, and its estimated error; infinite for no numbers."""
    left, right = interval
    half = 0.5 * (right - left)
    with np.errstate(over="ignore", invalid="ignore"):
        values = rise(np.clip(left + half * (1.0 + _NODE), *domain))
        if not np.isfinite(values).all():
            return math.nan, math.inf
        series = _TO_SERIES @ values
        x = min(max((theta - left) / half - 1.0, -1.0), 1.0)
        # Markov's and Bernstein's inequalities: what an error of the values can do to a derivative at x.
        growth = min(POINTS**2, POINTS / math.sqrt(max(1.0 - x * x, 1e-12)))
        largest = float(np.abs(values).max())
        # Nodes may all lie behind what happens at theta: the series then looks smooth, and misses the value there.
        missed = abs(float(chebyshev.chebval(x, series)) - here)
        missed = missed if missed > 1e-8 * largest + 1e3 * rounding else 0.0
        error = (4.0 * np.abs(series[-3:]).max() + EPS * largest + rounding + missed) * growth / half
        return float(chebyshev.chebval(x, chebyshev.chebder(series))) / half, float(error)


def _intervals(theta: float, lower: float, upper: float, halvings: range) -> Iterator[tuple[float, float]]:
    scale = min(upper - lower, max(abs(theta), 1.0))
    below, above = theta - lower, upper - theta
    near = min(below, above)
    for k in halvings:
        half = min(0.5 * near, 0.5 ** min(k, 0) * scale) * 0.5 ** max(k, 0)
        if half > 1e3 * EPS * abs(theta):
            yield theta - half, theta + half
        wide = 0.5**k * 0.5 * scale
        small = 0.0 if k < HALVINGS else 1e3 * EPS * abs(theta)
        if near <= wide < 0.25 * LARGEST and wide > small:
            yield (lower, min(lower + 2.0 * wide, upper)) if below <= above else (max(upper - 2.0 * wide, lower), upper)
