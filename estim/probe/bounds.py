"""A box of parameters, read and checked."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def read_bounds(bounds: Any, parameters: Array, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return lower and upper bounds, (P,) each; infinite where there is none.

    Parameters
    ----------
    bounds : None, pair of float or array_like of shape (P,), or object with ``lb`` and ``ub``
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
        msg = f"bounds must be a pair (lower, upper) or a scipy.optimize.Bounds; got {bounds!r:.80}"
        raise TypeError(msg)
    lower, upper = (_end(end, which, len(names)) for end, which in zip(pair, ("lower", "upper"), strict=True))
    for name, low, high, value in zip(names, lower, upper, parameters, strict=True):
        if not low < high:
            msg = f"bounds must have lower below upper; got {low:g} and {high:g} for {name}"
            raise ValueError(msg)
        if not low <= value <= high:
            msg = f"params must lie inside bounds; {name} = {value:g} is outside [{low:g}, {high:g}]"
            raise ValueError(msg)
    return lower, upper


def _end(end: Any, which: str, size: int) -> Array:
    values = np.asarray(end)
    if values.dtype.kind not in "iuf":
        msg = f"bounds must be real; got dtype {values.dtype} for the {which} ones"
        raise TypeError(msg)
    if values.ndim > 1 or values.size not in (1, size):
        msg = f"bounds must be numbers or have one entry for each of the {size} parameters; got shape {values.shape}"
        raise ValueError(msg)
    full = np.broadcast_to(values.astype(np.float64), (size,)).copy()
    if np.isnan(full).any():
        msg = f"bounds must not be NaN; got one in the {which} ones"
        raise ValueError(msg)
    return full
