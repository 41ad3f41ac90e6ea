"""Slopes of a response by extrapolated differences."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from estim._inverse import order_at_end
from estim._monotone import Monotone

Array = npt.NDArray[np.float64]


def slope(
    rise: Callable[[Array], Array], grid: Monotone, lower: float, upper: float, theta: Array, rounding: float
) -> Array:
    """Return d mean / d theta at each theta inside [lower, upper]."""
    from scipy.differentiate import derivative

    to_lower, to_upper = theta - lower, upper - theta
    scale = np.minimum(upper - lower, np.maximum(np.abs(theta), 1.0))
    at_end = np.minimum(to_lower, to_upper) <= 0.0
    step = np.where(at_end, 0.05 * scale, 0.5 * np.minimum(np.minimum(to_lower, to_upper), scale))
    direction = np.where(at_end, np.where(to_lower <= 0.0, 1, -1), 0)
    found = derivative(
        lambda t: rise(np.clip(t, lower, upper)),
        theta,
        initial_step=step,
        step_direction=direction,
        tolerances={"atol": 0.0, "rtol": 1e-13},
        maxiter=12,
    )
    values = grid.sign * np.asarray(found.df)
    for end, lowest in ((to_lower <= 0.0, True), (to_upper <= 0.0, False)):
        if end.any():
            order = order_at_end(grid, rounding, lower=lowest)
            if abs(order - 1.0) > 0.02:
                values[end] = 0.0 if order > 1.0 else grid.sign * math.inf
    return np.asarray(values)
