"""Jacobians in floats shorter than float64, or only stored in such: what their rounding is."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from estim.masks import unmasked
from estim.probe.model.given import is_nested

#: Rounding of short floats, as NumPy's ``finfo`` has it; bfloat16 is of torch and JAX.
_SHORT = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
#: Entries at a time.
_ENTRIES = 2**16


def short_floats(jacobian: Any) -> float:
    """Return the relative rounding of a Jacobian in short floats, also of one that was only stored in long ones.

    Entries with few digits, as of whole numbers or of halves, tell nothing: zero.
    """
    parts = list(_parts(jacobian))
    short = max(map(rounding_of, parts), default=0.0)
    if short:
        return short
    arrays = [np.asarray(unmasked(part)) for part in parts]
    if not arrays or any(array.dtype != np.float64 or not array.size for array in arrays):
        return 0.0
    blocks = [block for array in arrays for block in np.array_split(array.reshape(-1), -(-array.size // _ENTRIES))]
    with np.errstate(over="ignore"):
        held = all((block == block.astype(np.float32)).all() for block in blocks)
        if not held or all((block * 2.0**12 == np.round(block * 2.0**12)).all() for block in blocks):
            return 0.0
    return float(np.finfo(np.float32).eps)


def _parts(jacobian: Any) -> Iterator[Any]:
    """Yield the matrices of a Jacobian that is nested like parameters, or the one that it is."""
    if not is_nested(jacobian):
        yield jacobian
        return
    for part in jacobian.values() if isinstance(jacobian, Mapping) else jacobian:
        yield from _parts(part)


def rounding_of(array: Any) -> float:
    """Return the relative rounding of numbers whose type says that they are short floats, of any library; else zero."""
    if isinstance(array, list | tuple):
        array = np.asarray(unmasked(array))
    kinds = list(array.dtypes) if hasattr(array, "columns") else [getattr(array, "dtype", None)]
    return max((_SHORT.get(getattr(kind, "name", str(kind)).rpartition(".")[2], 0.0) for kind in kinds), default=0.0)


def short_note(relative: float) -> str:
    """Say what the error of a Jacobian in short floats is taken to be."""
    return f"the Jacobian is in short floats: its error is taken to be {relative:.1g} of its entries"
