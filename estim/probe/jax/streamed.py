"""The record of a JAX function of few parameters on a bank too large for its Jacobian: see `matrix_free.streamed`."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from estim.probe.jax.bank import Read
from estim.probe.jax.dense import jacobian_of
from estim.probe.jax.jacobian import differentiated
from estim.probe.jax.pieces import Parts, Piece, all_pieces
from estim.probe.jax.precision import precision
from estim.probe.jax.products import INPUTS
from estim.probe.jax.readings import Function
from estim.probe.matrix_free.streamed import Stream

Array = npt.NDArray[np.float64]
Found = TypeVar("Found")


def stream_of(function: Function, read: Read, eps: float, notes: dict[str, None]) -> Stream:
    """Return a bank as the rows of its Jacobian come, in floats of rounding `eps`; `notes` are added to on the way."""
    leaves, double = list(function.tree.leaves), function.tree.double

    def with_error(piece: Piece) -> tuple[Array, Array]:
        found = jacobian_of(function, piece.bank, eps, count=piece.rows.stop - piece.rows.start)
        notes.update(dict.fromkeys(found.notes))
        return found.jacobian, found.error

    def alone(piece: Piece) -> Array:
        return differentiated(function, piece.bank, leaves).jacobian[: piece.rows.stop - piece.rows.start]

    return Stream(
        jacobians=lambda: _each(read.parts, with_error, double),
        rows=lambda: _each(read.parts, alone, double),
        places=read.places,
        kept=read.kept,
        inputs=read.inputs,
        count=sum(part.count for part in read.parts.known),
    )


def _each(parts: Parts, take: Callable[[Piece], Found], double: bool) -> Iterator[Found]:
    """Yield what is taken of each piece; JAX's switch is set only while it is."""
    pieces = all_pieces(parts, INPUTS)
    while True:
        with precision(double):
            piece = next(pieces, None)
            if piece is None:
                return
            found = take(piece)
        yield found
