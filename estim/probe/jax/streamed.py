"""The record of a JAX function of few parameters on a bank too large for its Jacobian: see `matrix_free.streamed`."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import jax
import numpy as np
import numpy.typing as npt

from estim.probe.jax.bank import Read
from estim.probe.jax.dense import jacobian_of
from estim.probe.jax.jacobian import differentiated
from estim.probe.jax.pieces import Parts, Piece, all_pieces, is_array
from estim.probe.jax.precision import precision
from estim.probe.jax.products import INPUTS
from estim.probe.jax.readings import NOT_FINITE, Function
from estim.probe.matrix_free.streamed import Stream

Array = npt.NDArray[np.float64]
Found = TypeVar("Found")

#: Entries of the Jacobian of a piece, and bytes of its inputs, about.
_PIECE = 2**20


def stream_of(function: Function, read: Read, eps: float, notes: dict[str, None]) -> Stream:
    """Return a bank as the rows of its Jacobian come, in floats of rounding `eps`; `notes` are added to on the way."""
    leaves, double, size = list(function.tree.leaves), function.tree.double, _inputs(function, read.parts)

    def with_error(piece: Piece) -> tuple[Array, Array]:
        found = jacobian_of(function, piece.bank, eps, count=piece.rows.stop - piece.rows.start)
        notes.update(dict.fromkeys(found.notes))
        return found.jacobian, found.error

    def alone(piece: Piece) -> Array:
        return differentiated(function, piece.bank, leaves).jacobian[: piece.rows.stop - piece.rows.start]

    return Stream(
        jacobians=lambda: _each(read.parts, size, with_error, double),
        rows=lambda: _each(read.parts, size, alone, double),
        places=read.places,
        kept=read.kept,
        inputs=read.inputs,
        count=sum(part.count for part in read.parts.known),
        cause=f": {NOT_FINITE}",
    )


def _inputs(function: Function, parts: Parts) -> int:
    """Return how many inputs go through together: many small ones, as every piece has a cost of its own."""
    part = next(iter(parts))
    if not part.apart:
        return INPUTS
    arrays = [leaf for leaf in jax.tree_util.tree_leaves(part.bank) if is_array(leaf)]
    held = max(sum(leaf.nbytes for leaf in arrays), function.tree.size * len(part.readings)) // part.apart
    return int(max(INPUTS, _PIECE // max(1, held)))


def _each(parts: Parts, size: int, take: Callable[[Piece], Found], double: bool) -> Iterator[Found]:
    """Yield what is taken of each piece; JAX's switch is set only while it is."""
    pieces = all_pieces(parts, size)
    while True:
        with precision(double):
            piece = next(pieces, None)
            if piece is None:
                return
            found = take(piece)
        yield found
