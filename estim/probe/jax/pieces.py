"""The bank of a large JAX function in pieces: some inputs at a time, all pieces of a size, or a few spread over it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Pieces that stand for a whole bank.
_SAMPLED = 8


@dataclass(frozen=True)
class Part:
    """A bank, or a batch of one: what is known of it, and while it is gone through itself."""

    readings: Array
    """(M,), input after input where these are the first axis of an array; of complex ones the real parts of each input,
    then its imaginary parts."""
    inputs: npt.NDArray[np.int64]
    """(M,)."""
    apart: int
    """Number of inputs, where none depends on another and all arrays have them as first axis; else 0."""
    count: int
    """Number of inputs, those left out included."""
    kept: npt.NDArray[np.bool_]
    """Of all readings, those left out included, which these are."""
    shape: tuple[int, int]
    """(rows, readings of each), those left out included: in rows real parts come before imaginary ones."""
    complex: bool
    rounding: float
    """Of the readings with the fewest digits."""
    bank: Any = None
    """As the function takes it, without the inputs left out."""

    def holding(self, batch: Any) -> "Part":
        """Return it with its inputs of a batch."""
        if self.kept.all():
            return replace(self, bank=batch)
        return replace(self, bank=selected(batch, np.flatnonzero(self.kept.reshape(self.count, -1).all(axis=1))))


@dataclass(frozen=True)
class Parts:
    """A bank, batch after batch, as often as it is asked for: at most one batch is held."""

    batches: Callable[[], Iterable[Any]]
    known: tuple[Part, ...]
    """One for each batch."""

    def __iter__(self) -> Iterator[Part]:
        """Iterate over the batches that have readings left."""
        for part, batch in zip(self.known, self.batches(), strict=True):
            if len(part.readings):
                yield part.holding(batch)

    @property
    def readings(self) -> int:
        """M, those left out not included."""
        return sum(len(part.readings) for part in self.known)

    @property
    def most(self) -> int:
        """Inputs of the largest batch whose inputs are apart, at least 1."""
        return max(1, *(part.apart for part in self.known))


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


def sampled(parts: Parts, size: int) -> list[Piece]:
    """Return a few pieces of some inputs spread over all parts, with places among these."""
    left = sum(len(part.readings) > 0 for part in parts.known)
    chosen = set(np.linspace(0, left - 1, _SAMPLED).round().astype(int).tolist())
    found: list[Piece] = []
    start = 0
    for k, part in enumerate(parts):
        if k in chosen:
            for piece in _sampled(part, min(size, parts.most), _SAMPLED // len(chosen)):
                found.append(piece._replace(rows=slice(start, start + piece.rows.stop)))
                start = found[-1].rows.stop
    return found


def _sampled(part: Part, size: int, most: int) -> Iterator[Piece]:
    """Yield at most so many pieces of a part, each of inputs from its first to its last ones."""
    if part.apart <= size:
        yield from pieces(part, size)
        return
    each, inputs = len(part.readings) // part.apart, np.linspace(0, part.apart - 1, min(part.apart, size * most))
    inputs = inputs.round().astype(int)
    for k in range(-(-len(inputs) // size)):
        some = inputs[k :: -(-len(inputs) // size)]
        padded = some[np.minimum(np.arange(size), len(some) - 1)]
        yield Piece(slice(0, len(some) * each), selected(part.bank, padded), size * each)


def all_pieces(parts: Parts, size: int) -> Iterator[Piece]:
    """Yield all parts in pieces of at most some inputs, with their places among all readings."""
    start = 0
    for part in parts:
        for piece in pieces(part, min(size, parts.most)):
            yield piece._replace(rows=slice(start + piece.rows.start, start + piece.rows.stop))
        start += len(part.readings)
