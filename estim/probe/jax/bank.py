"""The bank of a large JAX function: its readings, and whether its inputs can be taken one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from estim.probe.jax.precision import precision, rounding
from estim.probe.jax.readings import Function, coarsest_of, require_kept, require_smooth
from estim.probe.model.batches import Batches
from estim.probe.model.calls import refusal, require_inputs, spread
from estim.probe.model.readings import (
    flatten,
    input_of_each,
    places_of_parts,
    require_one_kind,
    split_complex,
)

Array = npt.NDArray[np.float64]

#: Two readings of the same input may differ by this many roundings, to the power of 3/4, of the largest.
_SLACK = 100.0


@dataclass(frozen=True)
class Part:
    """A bank, or a batch of one, as the function takes it."""

    bank: Any
    readings: Array
    """(M,)."""
    inputs: npt.NDArray[np.int64]
    """(M,)."""
    apart: int
    """Number of inputs, where none depends on another and all arrays have them as first axis; else 0."""
    count: int
    """Number of inputs, those left out included."""
    kept: npt.NDArray[np.bool_]
    """Of all readings, those left out included, which these are."""
    complex: bool = False
    """Whether the second half of all are imaginary parts."""


@dataclass(frozen=True)
class Read:
    """A bank, read: batch after batch."""

    parts: list[Part]
    """Those with readings that are left."""
    kept: npt.NDArray[np.bool_]
    """Which of all readings these are."""
    places: npt.NDArray[np.int64]
    """Of all readings, their places in the order that a user sees: of complex ones all real parts come first."""
    complex: bool


def read_parts(function: Function, bank: Any, omit: bool) -> Read:
    """Evaluate the readings of a bank, each batch twice.

    Raises
    ------
    TypeError, ValueError
        When the model refuses the bank, is not deterministic, returns what is no reading, or one is not finite and not
        to be left out.
    """
    parts: list[Part] = []
    first = 0
    for number, batch in enumerate(bank if isinstance(bank, Batches) else [bank]):
        where = f"batch {number}: " if isinstance(bank, Batches) else ""
        try:
            part = _left(_read(function, batch), function, omit)
        except (TypeError, ValueError) as error:
            msg = f"{where}{error}"
            raise type(error)(msg) from error
        parts.append(replace(part, inputs=part.inputs + first))
        first += part.count
    kept = np.concatenate([part.kept for part in parts])
    if not kept.any():
        msg = f"readings must be finite; none of {len(kept)} is"
        raise ValueError(msg)
    is_complex = require_one_kind([part.complex for part in parts])
    places = places_of_parts([(1, len(part.kept)) for part in parts], is_complex)
    return Read([part for part in parts if len(part.readings)], kept, places, is_complex)


def _read(function: Function, batch: Any) -> Part:
    require_inputs(batch)
    require_kept(function, batch)
    with precision(function.tree.double):
        leaves = list(function.tree.leaves)
        try:
            output = function.called(leaves, batch)
        except Exception as error:
            msg = refusal(lambda some: function.called(leaves, some), batch, error)
            raise ValueError(msg) from error
        raw = flatten(output)
        if raw.size == 0:
            msg = f"the model must return at least one reading; got {output!r:.80}"
            raise ValueError(msg)
        require_smooth(output)
        readings = np.array(split_complex(raw))
        spread(readings, split_complex(flatten(function.called(leaves, batch))), coarsest_of(output))
        inputs = input_of_each(output)
        count = int(inputs.max()) + 1
        if raw.dtype.kind == "c":
            inputs = np.concatenate([inputs, inputs])
            return Part(batch, readings, inputs, 0, count, np.ones(2 * raw.size, dtype=bool), True)
        return Part(batch, readings, inputs, _apart(function, batch, output), count, np.ones(raw.size, dtype=bool))


def _apart(function: Function, batch: Any, output: Any) -> int:
    """Return the number of inputs of a batch, if each reads alone, and in halves, as in the whole of it; else 0."""
    if not hasattr(output, "ndim") or not output.ndim:
        return 0
    count = len(output)
    arrays = [leaf for leaf in jax.tree_util.tree_leaves(batch) if is_array(leaf)]
    if not arrays or any(leaf.ndim == 0 or len(leaf) != count for leaf in arrays):
        return 0
    whole = np.asarray(output).astype(np.float64)
    slack = _SLACK * rounding(output.dtype) ** 0.75 * np.abs(whole[np.isfinite(whole)]).max(initial=0.0)
    half = -(-count // 2)
    for start, stop in {(0, 1), (0, half), (half, count)}:
        if start == stop:
            continue
        try:
            alone = function.called(list(function.tree.leaves), selected(batch, slice(start, stop)))
        except Exception:
            return 0
        off = np.abs(np.asarray(alone).astype(np.float64) - whole[start:stop]) if np.shape(alone) else np.inf
        if np.shape(alone) != whole[start:stop].shape or (np.nan_to_num(off) > slack).any():
            return 0
    return count


def _left(part: Part, function: Function, omit: bool) -> Part:
    """Leave out inputs with a reading that is not finite."""
    finite = np.isfinite(part.readings)
    if finite.all():
        return part
    if not omit or not part.apart:
        i = int(np.argmin(finite))
        msg = (
            f"readings must be finite; reading {i} (input {part.inputs[i]}) is {part.readings[i]}; nan_policy='omit' "
            "leaves such inputs out, where the readings of the others do not depend on them"
        )
        raise ValueError(msg)
    whole = finite.reshape(part.apart, -1).all(axis=1)
    kept = np.repeat(whole, len(finite) // part.apart)
    return replace(
        part, bank=selected(part.bank, np.flatnonzero(whole)), readings=part.readings[kept], inputs=part.inputs[kept],
        apart=int(whole.sum()), kept=kept,
    )  # fmt: skip


def is_array(leaf: Any) -> bool:
    """Tell whether a leaf of a bank is an array."""
    return isinstance(leaf, jax.Array | np.ndarray)


def selected(batch: Any, inputs: Any) -> Any:
    """Return some inputs of a batch all of whose arrays have them as first axis."""
    return jax.tree_util.tree_map(lambda leaf: leaf[inputs] if is_array(leaf) else leaf, batch)


def copies_after(part: Part, start: int, size: int) -> Any:
    """Return so many inputs of a part from one on, the last one again and again where there are fewer."""
    return selected(part.bank, np.minimum(np.arange(start, start + size), part.apart - 1))


class Piece(NamedTuple):
    """Some inputs of a bank."""

    rows: slice
    """Places of their readings."""
    bank: Any
    size: int
    """Number of readings, those of copies after the last one included."""


def pieces(part: Part, size: int) -> Iterator[Piece]:
    """Yield a part in pieces of some inputs, whole where these depend on each other, with its places in the part.

    All pieces have as many inputs, so that one compilation does: copies after the last one have no place.
    """
    if not part.apart:
        yield Piece(slice(0, len(part.readings)), part.bank, len(part.readings))
        return
    each = len(part.readings) // part.apart
    for start in range(0, part.apart, size):
        rows = slice(start * each, min(start + size, part.apart) * each)
        yield Piece(rows, copies_after(part, start, size), size * each)


def all_pieces(parts: Sequence[Part], size: int) -> Iterator[Piece]:
    """Yield all parts in pieces of at most some inputs, with their places among all readings."""
    size = max(1, min(size, max(part.apart for part in parts)))
    start = 0
    for part in parts:
        for piece in pieces(part, size):
            yield piece._replace(rows=slice(start + piece.rows.start, start + piece.rows.stop))
        start += len(part.readings)
