"""Rows of the Jacobian of a JAX function, some columns at a time, by vector-Jacobian products.

Where inputs do not depend on each other, each is gone back through alone, all readings of it at once and many inputs
side by side. What goes back is compiled once for all batches and passes, if it can be compiled.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.jax.compiled import Compiled, CompiledHolding, FirstOf
from estim.probe.jax.pieces import Part, Piece, copies_after, is_array, pieces
from estim.probe.jax.readings import Function
from estim.probe.jax.segments import Segment

Block = npt.NDArray[Any]

#: Bytes of the gradients that a block is cut from at a time.
HELD = 128 * 2**20
#: Inputs, or rows, side by side at most.
_SIDE = 64
#: The way by rows that is not compiled.
_PLAIN = 2


class Rows:
    """What takes the columns of some leaves, `width` of them from any on, for rows of any part of a bank.

    `most` is the number of inputs of the largest part whose inputs are apart.
    """

    def __init__(self, function: Function, leaves: tuple[int, ...], width: int, most: int) -> None:
        self.function, self.leaves, self.width, self.most = function, leaves, width, most
        self.size = sum(function.tree.sizes[leaf] for leaf in leaves)
        self._of_inputs = Compiled(self._through_inputs)
        self._of_all = (Compiled(self._through_all), CompiledHolding(self._through_all), self._through_all)

    def by_inputs(self, block: Block, segment: Segment, part: Part) -> None:
        """Fill in the rows of a part whose inputs are apart, all readings of some inputs at a time."""
        each, columns, first = self._measure(segment, part)
        side = int(max(1, min(_SIDE, self.most, HELD // (each * self.size * block.itemsize))))
        for start in range(0, part.apart, side):
            found = self._of_inputs(copies_after(part, start, side), list(self.function.tree.leaves), first)
            rows = min(side, part.apart - start) * each
            block[start * each :][:rows] = np.asarray(found).reshape(side * each, -1)[:rows, columns]

    def by_rows(self, block: Block, segment: Segment, part: Part, way: int) -> None:
        """Go back from some readings at a time: compiled (0), compiled for this bank alone (1), or not (2)."""
        _, columns, first = self._measure(segment, part)
        back, leaves = self._of_all[way], list(self.function.tree.leaves)
        whole = Piece(slice(0, len(part.readings)), part.bank, len(part.readings))
        # Not compiled, inputs that are apart are gone through alone.
        for rows, bank, count in pieces(part, 1) if way == _PLAIN else [whole]:
            side = int(max(1, min(_SIDE, count, HELD // (self.size * block.itemsize))))
            for start in range(0, count, side):
                # The last ones come with some of those before, so that one compilation does.
                begin = max(0, min(start, count - side))
                seeds = jnp.asarray(np.eye(side, count, begin, dtype=np.float32))
                found = np.asarray(back(bank, leaves, seeds, first))[:, columns]
                block[rows.start + begin : rows.start + begin + side] = found

    def _measure(self, segment: Segment, part: Part) -> tuple[int, slice, int]:
        """Return readings of an input, and where a segment is in the columns from which on."""
        first = min(segment.start, self.size - self.width)
        offset = segment.start - first
        return len(part.readings) // max(1, part.apart), slice(offset, offset + segment.columns), first

    def _through_inputs(self, bank: Any, leaves: list[Any], first: Any) -> Any:
        """Return the rows of each input, (inputs, readings, width)."""
        structure: Any
        entries, structure = jax.tree_util.tree_flatten(bank)
        places = [k for k, entry in enumerate(entries) if is_array(entry)]

        def one(arrays: list[Any]) -> Any:
            every = list(entries)
            for place, array in zip(places, arrays, strict=True):
                every[place] = array[None]
            readings, pull = self._pulled(leaves, structure.unflatten(every))
            return self._cut(jax.vmap(pull)(jnp.eye(len(readings), dtype=readings.dtype))[0], len(readings), first)

        return jax.vmap(one)([entries[place] for place in places])

    def _through_all(self, bank: Any, leaves: list[Any], seeds: Any, first: Any) -> Any:
        """Return rows combined with each of some seeds, (seeds, width)."""
        readings, pull = self._pulled(leaves, bank)
        return self._cut(jax.vmap(pull)(seeds.astype(readings.dtype))[0], len(seeds), first)

    def _pulled(self, leaves: Sequence[Any], bank: Any) -> Any:
        """Return readings, and what takes their cotangents back to the leaves."""

        def flat(some: list[Any]) -> Any:
            every = list(leaves)
            for place, leaf in zip(self.leaves, some, strict=True):
                every[place] = leaf
            return self.function.flat(every, bank)

        return jax.vjp(flat, [leaves[place] for place in self.leaves])

    def _cut(self, gradients: Sequence[Any], rows: int, first: Any) -> Any:
        """Return columns, (rows, width), from the gradients of the leaves in order."""
        kind = jnp.promote_types(jnp.result_type(*gradients), jnp.float32)
        flat = [gradient.reshape(rows, -1).astype(kind) for gradient in gradients]
        return jax.lax.dynamic_slice_in_dim(jnp.concatenate(flat, axis=1), first, self.width, axis=1)


def ways_to_rows() -> dict[bool, FirstOf]:
    """Return the ways to fill in rows, ``way(rows, block, segment, part)``, of a part whose inputs are apart or not."""
    whole, alone, plain = (partial(Rows.by_rows, way=way) for way in range(_PLAIN + 1))
    return {True: FirstOf((Rows.by_inputs, whole, alone), (plain,)), False: FirstOf((whole, alone), (plain,))}
