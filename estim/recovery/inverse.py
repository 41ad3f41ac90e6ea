"""Inversion of a checked response by bracketed root finding."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from estim.recovery.monotone import EPS, LARGEST, Monotone

Array = npt.NDArray[np.float64]


def invert_rise(rise: Callable[[Array], Array], grid: Monotone, upper: float, target: Array) -> Array:
    """Return theta in [lower, upper] whose rise is the target, clipped to the attainable range.

    The checked grid brackets every root; `scipy.optimize.elementwise.find_root` (Chandrupatla's method) closes the
    brackets to the last bits of theta. Targets are 1-D and not NaN.
    """
    theta, known = grid.theta, grid.rise
    result = np.empty(target.shape)
    right = np.searchsorted(known, target, side="left")
    low = target <= 0.0
    high = right >= len(known)
    result[low] = theta[0]
    # Beyond the last grid point of an infinite domain the mean is within rounding of its limit, or overflows; or theta
    # does: that of a logarithm is no float from 710 on.
    result[high] = math.inf if math.isinf(grid.supremum) and known[-1] < 0.5 * LARGEST else theta[-1]
    result[target >= grid.supremum] = upper
    inside = ~(low | high | (target >= grid.supremum))
    if inside.any():
        cell = right[inside]
        result[inside] = _close(rise, theta[cell - 1], theta[cell], target[inside])
    return result


def _close(rise: Callable[[Array], Array], left: Array, right: Array, target: Array) -> Array:
    from scipy.optimize import elementwise

    found = elementwise.find_root(
        lambda t, e: rise(t) - e,
        (left, right),
        args=(target,),
        tolerances={"xatol": 0.0, "xrtol": 2.0 * EPS, "fatol": 0.0, "frtol": 0.0},
        maxiter=2200,  # bisection alone from 1e308 to 5e-324
    )
    # Status -1 (no change of sign) is left by ties of rounding only: the grid point itself is then the root.
    root = np.where(found.status == -1, left, found.x)
    return np.asarray(root, dtype=np.float64)


def order_at_end(grid: Monotone, rounding: float, *, lower: bool) -> float:
    """Return p where the response leaves an end of its domain like |theta - end|^p, or NaN where rounding hides it.

    The local exponent between two grid points tends to p toward the end; it is read as close to the end as rounding
    allows.
    """
    if lower:
        t, e = grid.theta - grid.theta[0], grid.rise
    else:
        t, e = (grid.theta[-1] - grid.theta)[::-1], (grid.rise[-1] - grid.rise)[::-1]
        rounding = max(rounding, EPS * grid.rise[-1])
    usable = np.flatnonzero((e > max(1e6 * rounding, 1e-280)) & (t > 1e9 * EPS * abs(grid.theta[0 if lower else -1])))
    if not usable.size:
        return math.nan
    first = int(usable[0])
    # At least a factor of two apart, so that the logarithms of rounded values differ enough.
    second = first + int(np.searchsorted(t[first:], 2.0 * t[first]))
    if second >= len(t):
        return math.nan
    p = math.log(e[second] / e[first]) / math.log(t[second] / t[first])
    third = second + int(np.searchsorted(t[second:], 2.0 * t[second]))
    if p < 0.98 and third < len(t):
        # A root keeps its exponent; a response that bends between points far apart, at which the grid is coarse, not.
        following = math.log(e[third] / e[second]) / math.log(t[third] / t[second])
        if abs(following - p) > 0.02:
            return math.nan
    return float(round(p)) if abs(p - round(p)) < 0.02 and round(p) >= 1 else p
