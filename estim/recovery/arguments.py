"""Numbers, arrays and tables that a user gives, checked and raised to float64."""

import math
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from estim.order_of_labels import require_one_order
from estim.real_numbers import real_number, reals

Array = npt.NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")

TABLES = "a table goes to MeanResponse.from_table(theta, mean)"


def of_one_function(make: Callable[P, R]) -> Callable[P, R]:
    """Let a method take one function, and say of a second argument without a name what it should have been."""

    @wraps(make)
    def checked(*given: P.args, **options: P.kwargs) -> R:
        if len(given) > 2:  # self, the function
            msg = f"a MeanResponse takes one function, and all else by name, lower= and upper= too; {TABLES}"
            raise TypeError(msg)
        return make(*given, **options)

    return checked


def finite_number(value: float, argument: str) -> float:
    """Return a finite float, or raise."""
    number = real_number(value, argument)
    if not math.isfinite(number):
        msg = f"{argument} must be finite; got {value!r}"
        raise ValueError(msg)
    return number


def check_sigma(sigma: npt.ArrayLike) -> Array:
    """Return noise levels as a fresh 1-D float64 array, or raise."""
    levels = reals(sigma, "sigma", flags=False)
    if levels.ndim > 1 or levels.size == 0:
        msg = f"sigma must be a number or a non-empty 1-D array; got shape {levels.shape}"
        raise ValueError(msg)
    levels = np.atleast_1d(levels)
    bad = ~((levels > 0.0) & np.isfinite(levels))
    if bad.any():
        msg = f"sigma must be positive and finite; got {levels[bad][0]} at entry {int(np.argmax(bad))}"
        raise ValueError(msg)
    extreme = (levels < 1e-290) | (levels > 1e290)
    if extreme.any():
        msg = f"sigma must lie between 1e-290 and 1e290 (choose other units); got {levels[extreme][0]}"
        raise ValueError(msg)
    return levels


def check_span(span: float, argument: str, *, also: str = "") -> None:
    """Refuse units in which float64 does not hold what is computed from a difference."""
    if not 1e-290 < span < 1e300:
        msg = f"{argument} must lie between 1e-290 and 1e300{also}; got {span:g}: choose other units"
        raise ValueError(msg)


def checked_table(theta: npt.ArrayLike, mean: npt.ArrayLike) -> tuple[Array, Array]:
    """Return theta and mean of a strictly monotone table, or raise a ValueError naming the place."""
    require_one_order(theta, mean, ("theta", "mean"))
    points, values = reals(theta, "theta"), reals(mean, "mean")
    if points.ndim != 1 or points.shape != values.shape or points.size < 2:
        msg = f"theta and mean must be 1-D, of one length, at least 2; got shapes {points.shape} and {values.shape}"
        raise ValueError(msg)
    for argument, array in (("theta", points), ("mean", values)):
        if not np.isfinite(array).all():
            i = int(np.argmin(np.isfinite(array)))
            msg = f"{argument} must be finite; got {array[i]} at entry {i}"
            raise ValueError(msg)
    with np.errstate(over="ignore"):  # what is too far apart is refused below
        gaps, steps = np.diff(points), np.diff(values)
        ends = float(points[-1] - points[0]), float(values[-1] - values[0])
    if (gaps <= 0.0).any():
        i = int(np.argmax(gaps <= 0.0))
        msg = f"theta must be strictly increasing; got {points[i]:g}, then {points[i + 1]:g} (entries {i} and {i + 1})"
        raise ValueError(msg)
    steps = steps * (np.sign(ends[1]) or np.sign(steps[0]))
    if (steps <= 0.0).any():
        i = int(np.argmax(steps <= 0.0))
        what = "flat" if steps[i] == 0.0 else "turning"
        msg = f"mean must be strictly monotone; it is {what} between theta = {points[i]:g} and {points[i + 1]:g}"
        raise ValueError(msg)
    for argument, end in zip(("the range of theta", "the range of mean"), ends, strict=True):
        check_span(abs(end), argument)
    return points, values
