"""What a model returns, of any shape, as one vector of readings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked

Array = npt.NDArray[np.float64]


def flatten(output: Any) -> npt.NDArray[Any]:
    """Return readings, an array or nested ones, as a float64 or complex128 vector in C order.

    Raises
    ------
    TypeError
        If an entry is not a number: the message shows it.
    """
    if type(output) is np.ndarray and output.dtype == np.float64:
        return output.ravel()
    parts = [_numbers(leaf) for leaf in leaves_of(output)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)


def input_of_each(output: Any) -> npt.NDArray[np.int64]:
    """Return which input each reading belongs to: the first axis of the readings.

    A list is an axis of its own; in a tuple or a dict the first axis of every array counts. A lone number belongs to
    input 0.
    """
    if isinstance(output, list):
        sizes = [sum(_numbers(leaf).size for leaf in leaves_of(item)) for item in output]
        return np.repeat(np.arange(len(output), dtype=np.int64), sizes)
    if isinstance(output, Mapping | tuple):
        items = list(output.values()) if isinstance(output, Mapping) else list(output)
        return np.concatenate([input_of_each(item) for item in items]) if items else np.empty(0, dtype=np.int64)
    shape = np.shape(output)
    length = shape[0] if shape else 1
    return np.repeat(np.arange(length, dtype=np.int64), int(np.prod(shape[1:], dtype=np.int64)))


def split_complex(rows: npt.NDArray[Any]) -> Array:
    """Turn complex rows into real rows: all real parts, then all imaginary parts."""
    return np.concatenate([rows.real, rows.imag]) if rows.dtype.kind == "c" else rows


def places_of_parts(shapes: Sequence[tuple[int, int]], is_complex: bool) -> npt.NDArray[np.int64]:
    """Return the place of each reading of a bank in parts, in the order of `split_complex` of the whole; (M,).

    Parameters
    ----------
    shapes : sequence of (int, int)
        (rows, readings of each), part after part; of complex ones the real parts of a row, then its imaginary parts.
    is_complex : bool
    """
    half, first = sum(rows * columns for rows, columns in shapes) // 2, 0
    found = [np.empty(0, dtype=np.int64)]
    for rows, columns in shapes:
        count = rows * columns
        if is_complex:
            real = first + np.arange(count // 2, dtype=np.int64).reshape(rows, columns // 2)
            found.append(np.concatenate([real, half + real], axis=1).ravel())
            first += count // 2
        else:
            found.append(np.arange(first, first + count, dtype=np.int64))
            first += count
    return np.concatenate(found)


def require_one_kind(complex_ones: Sequence[bool]) -> bool:
    """Return whether readings are complex; raises ValueError when those of some batches are, and others are not."""
    words = ["complex" if one else "real" for one in complex_ones]
    if len(set(words)) > 1:
        other = next(k for k, word in enumerate(words) if word != words[0])
        msg = (
            "the model must return complex readings for every batch or for none; "
            f"batch 0 has {words[0]} ones, batch {other} {words[other]} ones"
        )
        raise ValueError(msg)
    return any(complex_ones)


def complex_note(readings: int) -> str:
    """Say in what order complex readings come, of which there are half as many."""
    return f"complex readings: {readings // 2} real parts, then {readings // 2} imaginary parts"


def leaves_of(output: Any) -> Iterator[Any]:
    """Yield the arrays or numbers of nested readings, in order."""
    if isinstance(output, Mapping):
        for item in output.values():
            yield from leaves_of(item)
    elif isinstance(output, list | tuple):
        for item in output:
            yield from leaves_of(item)
    else:
        yield output


def _numbers(leaf: Any) -> npt.NDArray[Any]:
    array = np.asarray(unmasked(leaf))
    if array.dtype.kind in "biuf":
        return array.astype(np.float64).ravel()
    if array.dtype.kind == "c":
        return array.astype(np.complex128).ravel()
    try:
        return np.array([float(entry) for entry in array.ravel()])
    except (TypeError, ValueError) as error:
        msg = f"the model must return readings that are numbers; got {leaf!r:.80}"
        raise TypeError(msg) from error
