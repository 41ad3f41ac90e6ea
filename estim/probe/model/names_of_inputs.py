"""What a bank calls its inputs, where it has a word or a number for each."""

from typing import Any

import numpy as np


def names_of_inputs(bank: Any, count: int) -> tuple[str, ...]:
    """Return a name for each of so many inputs, all different: an index of pandas, or their values; else none.

    Values are those of a bank that is one number or one word an input: times, doses, sentences.
    """
    if hasattr(bank, "iloc") and type(bank.index).__name__ != "RangeIndex":
        labels = [str(label) for label in bank.index]
    else:
        values = _plain(bank)
        if values is None:
            return ()
        labels = [f"{value:.6g}" if values.dtype.kind in "iuf" else str(value) for value in values]
    named = tuple(labels[:count])
    return named if len(set(named)) == count else ()


def _plain(bank: Any) -> "np.ndarray[Any, Any] | None":
    """Return a bank of one number or one word an input as an array, (inputs,); None for any other."""
    if hasattr(bank, "detach"):  # a tensor of torch
        bank = bank.detach().cpu().tolist() if bank.ndim == 1 else None
    if not isinstance(bank, list | tuple) and not hasattr(bank, "__array__"):  # arrays of JAX, columns of pandas
        return None
    try:
        values = np.asarray(bank)
    except (TypeError, ValueError):  # ragged, or keys of random numbers
        return None
    return values if values.ndim == 1 and values.dtype.kind in "iufU" else None
