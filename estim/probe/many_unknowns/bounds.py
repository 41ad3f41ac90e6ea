"""A box of parameters, read and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.labels import by_name
from estim.real_numbers import real_number, reals

Array = npt.NDArray[np.float64]


def read_bounds(bounds: Any, parameters: Array, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return lower and upper bounds, (P,) each; infinite where there is none.

    Parameters
    ----------
    bounds : None, pair of float, array_like of shape (P,) or mapping of names to numbers, or object with ``lb``, ``ub``
    parameters : (P,) array
        Inside the box; at an end of it is legal.
    names : tuple of str, (P,)

    Raises
    ------
    TypeError, ValueError
        When `bounds` is no such pair, an entry is NaN, a lower one is not below its upper one, or a parameter lies
        outside: the message names it.
    """
    if bounds is None:
        return np.full(len(names), -np.inf), np.full(len(names), np.inf)
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") and hasattr(bounds, "ub") else bounds
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        named = " (by name: a mapping of lower ends, and one of upper ends)" if isinstance(pair, Mapping) else ""
        msg = f"bounds must be a pair (lower, upper){named} or a scipy.optimize.Bounds; got {bounds!r:.80}"
        raise TypeError(msg)
    lower, upper = (_end(*end, names) for end in zip(pair, ("lower", "upper"), (-np.inf, np.inf), strict=True))
    for name, low, high, value in zip(names, lower, upper, parameters, strict=True):
        if not low < high:
            msg = (
                f"bounds must have lower below upper, each for all parameters; got {low:g} and {high:g} for {name} "
                "(leave a known parameter out of params)"
            )
            raise ValueError(msg)
        if not low <= value <= high:
            msg = f"params must lie inside bounds; {name} = {value:g} is outside [{low:g}, {high:g}]"
            raise ValueError(msg)
    return lower, upper


def _end(end: Any, which: str, missing: float, names: tuple[str, ...]) -> Array:
    argument = f"bounds, the {which} ones,"
    end = by_name(end, names, argument)
    if isinstance(end, Mapping):
        unknown = next((name for name in end if name not in names), None)
        if unknown is not None:
            msg = f"{argument} must name parameters; got {unknown!r}, and the names are {', '.join(names[:8])}"
            raise ValueError(msg)
        end = [real_number(end.get(name, missing), f"{argument} for {name}") for name in names]
    values = reals(end, argument, flags=False)
    if values.ndim > 1 or values.size not in (1, len(names)):
        msg = (
            f"{argument} must be one number or have one entry for each of the {len(names)} parameters; "
            f"got shape {values.shape}"
        )
        raise ValueError(msg)
    if np.isnan(values).any():
        msg = f"{argument} must not be NaN (infinite where there is none); got one"
        raise ValueError(msg)
    return np.broadcast_to(values, (len(names),)).copy()
