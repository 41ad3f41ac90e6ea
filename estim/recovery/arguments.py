"""Numbers, arrays and tables that a user gives, checked and raised to float64."""

import math
from collections.abc import Callable
from decimal import Decimal
from functools import wraps
from numbers import Rational
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked

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


def real_number(value: float, argument: str) -> float:
    """Return a float, or raise an error naming the argument; neither text nor True is a number."""
    msg = f"{argument} must be a real number; got {value!r:.60}"
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError(msg)
    try:
        return float(unmasked(value))
    except OverflowError as error:
        msg = f"{argument} must lie within float64, which ends at 1.8e308; got {value!r:.60}"
        raise ValueError(msg) from error
    except (TypeError, ValueError) as error:
        raise TypeError(msg) from error


def finite_number(value: float, argument: str) -> float:
    """Return a finite float, or raise."""
    number = real_number(value, argument)
    if not math.isfinite(number):
        msg = f"{argument} must be finite; got {value!r}"
        raise ValueError(msg)
    return number


def as_array(values: Any, argument: str) -> npt.NDArray[Any]:
    """Return an array of what was given, of floats where it holds fractions or decimals; its kind is not checked."""
    try:
        array = np.asarray(unmasked(values))
    except ValueError as error:
        msg = f"{argument} must be real numbers; got rows of different lengths: {values!r:.60}"
        raise TypeError(msg) from error
    if array.dtype != object or not all(isinstance(entry, Rational | Decimal | float) for entry in array.flat):
        return array
    return np.array([real_number(entry, argument) for entry in array.flat]).reshape(array.shape)


def reals(values: npt.ArrayLike, argument: str) -> Array:
    """Return real numbers of any shape as a fresh float64 array, or raise a TypeError."""
    array = as_array(values, argument)
    if array.dtype.kind not in "biuf":
        msg = f"{argument} must be real numbers; got dtype {array.dtype}"
        raise TypeError(msg)
    return array.astype(np.float64)


def check_span(span: float, argument: str, *, also: str = "") -> None:
    """Refuse units in which float64 does not hold what is computed from a difference."""
    if not 1e-290 < span < 1e300:
        msg = f"{argument} must lie between 1e-290 and 1e300{also}; got {span:g}: choose other units"
        raise ValueError(msg)


def require_one_order(one: Any, other: Any, arguments: tuple[str, str]) -> None:
    """Refuse two Series of pandas with the same labels in another order: it goes by labels, NumPy by places."""
    if not (hasattr(one, "iloc") and hasattr(other, "iloc")):
        return
    first, second = list(one.index), list(other.index)
    if len(first) != len(second) or first == second or set(first) != set(second):
        return
    k = next(k for k, (label, turned) in enumerate(zip(first, second, strict=True)) if label != turned)
    msg = (
        f"{arguments[1]} must have the order of {arguments[0]}; place {k} has the label {second[k]!r}, and "
        f"{first[k]!r} there: put it into that order with pandas' .loc, or take the labels off with .to_numpy()"
    )
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
