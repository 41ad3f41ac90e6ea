"""Calls that are not allowed to change what they are given: they get a copy, and it is looked at afterwards."""

from collections.abc import Callable
from typing import Any

import numpy as np


def call_with_copy(function: Callable[[Any], Any], bank: Any, who: str) -> Any:
    """Return what a function makes of a bank.

    Arrays and tables that can be written, alone or in lists, tuples and dicts, are copied for this one call; what
    cannot be copied for sure is given as it is.

    Raises
    ------
    ValueError
        When the function wrote into its bank; the one given is as it was.
    """
    copy = _copied(bank)
    result = function(copy)
    if copy is not bank and not _same(copy, bank):
        msg = f"{who} must not change the bank, but writes into it; yours is as it was, the call was given a copy"
        raise ValueError(msg)
    return result


def _copied(bank: Any) -> Any:
    if isinstance(bank, np.ndarray):
        # What cannot be written is safe, and a memory map may be larger than the memory.
        safe = not bank.flags.writeable or isinstance(bank, np.memmap)
        return bank if safe else np.array(bank, copy=True, order="K", subok=True)
    if _is_table(bank):
        return bank.copy()
    if type(bank) is dict:
        return {key: _copied(item) for key, item in bank.items()}
    return type(bank)(map(_copied, bank)) if type(bank) in (list, tuple) else bank


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and _same_entries(one, other)
    if _is_table(other):
        return bool(one.equals(other) and (other.ndim == 1 or list(one.columns) == list(other.columns)))
    if isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in other)
    if isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other)


def _same_entries(one: Any, other: Any) -> bool:
    if one.dtype == object:
        return all(a is b for a, b in zip(one.flat, other.flat, strict=True))
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _is_table(bank: Any) -> bool:
    """Recognise a pandas table without importing the library."""
    return type(bank).__module__.split(".")[0] == "pandas" and hasattr(bank, "equals") and hasattr(bank, "copy")
