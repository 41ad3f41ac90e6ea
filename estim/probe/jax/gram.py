"""Gram matrices of the rows of a JAX function's Jacobian, block of columns after block, by vector-Jacobian products.

A block holds some leaves of the pytree, or a piece of a large one, for all readings. Where inputs do not depend on each
other, each is gone back through alone, all readings of it at once and many inputs side by side.

notation: M readings, P parameters, J (M, P).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.jax.bank import Part, is_array, pieces
from estim.probe.jax.precision import precision
from estim.probe.jax.readings import Function, explained
from estim.probe.matrix_free.passes import Grams
from estim.probe.matrix_free.sums import Sums

Array = npt.NDArray[np.float64]

#: Bytes of a block of columns, and of the gradients that it is cut from at a time.
BLOCK = 512 * 2**20
_HELD = 128 * 2**20
#: Inputs, or rows, side by side at most.
_SIDE = 64


@dataclass(frozen=True)
class Columns:
    """Some entries of a leaf, flattened."""

    leaf: int
    start: int
    stop: int


Segment = tuple[Columns, ...]


def segments_of(sizes: Sequence[int], chosen: Sequence[int], width: int) -> list[Segment]:
    """Put leaves, pieces of the large ones, in segments of at most so many columns."""
    found: list[list[Columns]] = [[]]
    room = width
    for leaf in chosen:
        start = 0
        while start < sizes[leaf]:
            if room == 0:
                found.append([])
                room = width
            stop = min(sizes[leaf], start + room)
            found[-1].append(Columns(leaf, start, stop))
            room -= stop - start
            start = stop
    return [tuple(segment) for segment in found if segment]


@dataclass
class JaxPasses:
    """A JAX function with its bank."""

    function: Function
    parts: list[Part]
    dtype: str
    """Of the rows."""
    block: int = BLOCK
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """(leaves,)."""
        return self.function.tree.names

    @property
    def sizes(self) -> tuple[int, ...]:
        """(leaves,)."""
        return self.function.tree.sizes

    @property
    def groups(self) -> tuple[str, ...]:
        """(leaves,)."""
        return self.function.tree.groups

    @property
    def readings(self) -> int:
        """M."""
        return sum(len(part.readings) for part in self.parts)

    def grams(
        self, *, only: frozenset[str] | None = None, transform: Array | None = None, double: bool = False,
        tick: Any = None,
    ) -> Grams:  # fmt: skip
        """Return J J^T of each group, or of those named; of T J for a transform T, (M', M); products in float64."""
        chosen = [k for k, group in enumerate(self.groups) if only is None or group in only]
        sums = Sums(dict.fromkeys(self.groups[k] for k in chosen), self.readings, transform, double)
        for segment, block in self._blocks(chosen):
            start = 0
            for group, width in _runs(segment, self.groups):
                sums.add(group, block[:, start : start + width])
                start += width
            if tick is not None:
                tick(start)
        return sums.finished()

    def combined_rows(self, combinations: Array, tick: Any = None) -> Array:
        """Return combinations (k, M) times J, (k, P), in double precision."""
        found, starts = np.zeros((len(combinations), sum(self.sizes))), np.cumsum([0, *self.sizes])
        for segment, block in self._blocks(range(len(self.sizes))):
            first = starts[segment[0].leaf] + segment[0].start  # the columns of a segment follow one another
            found[:, first : first + block.shape[1]] = combinations @ block.astype(np.float64)
            if tick is not None:
                tick(block.shape[1])
        return found

    def _blocks(self, chosen: Sequence[int]) -> Iterator[tuple[Segment, npt.NDArray[Any]]]:
        kind = np.dtype("float64" if self.dtype == "float64" else "float32")
        width = max(1, self.block // (self.readings * kind.itemsize))
        for segment in segments_of(self.sizes, chosen, width):
            block = np.empty((self.readings, sum(one.stop - one.start for one in segment)), dtype=kind)
            first = 0
            with precision(self.function.tree.double):
                for part in self.parts:
                    self._fill(block[first : first + len(part.readings)], segment, part)
                    first += len(part.readings)
            yield segment, block

    def _fill(self, block: npt.NDArray[Any], segment: Segment, part: Part) -> None:
        """Fill in the rows of a part: by inputs where that can be compiled, else by rows, compiled or not."""
        ways: list[tuple[str, Callable[[], None]]] = [
            ("", lambda: _by_rows(block, self.function, segment, part, True)),
            ("step by step, as it cannot be compiled", lambda: _by_rows(block, self.function, segment, part, False)),
        ]
        if part.apart:
            ways.insert(0, ("", lambda: _by_inputs(block, self.function, segment, part)))
        last: Exception | None = None
        for how, way in ways:
            try:
                way()
            except Exception as error:
                last = error
                continue
            if how:
                self._say(f"the model was differentiated {how}: {explained(last)}" if last else how)
            return
        raise ValueError(explained(last) if last else "") from last

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _runs(segment: Segment, groups: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the groups of a segment in order, with their columns."""
    names = [groups[one.leaf] for one in segment]
    width = 0
    for k, one in enumerate(segment):
        width += one.stop - one.start
        if k + 1 == len(segment) or names[k + 1] != names[k]:
            yield names[k], width
            width = 0


def _cut(gradients: Sequence[Any], segment: Segment, rows: int) -> Any:
    """Return the columns of a segment, (rows, columns), from the gradients of its leaves, in order."""
    leaves = list(dict.fromkeys(one.leaf for one in segment))
    flat = {leaf: gradient.reshape(rows, -1) for leaf, gradient in zip(leaves, gradients, strict=True)}
    kind = jnp.promote_types(jnp.result_type(*gradients), jnp.float32)
    return jnp.concatenate([flat[one.leaf][:, one.start : one.stop].astype(kind) for one in segment], axis=1)


def _pulled(function: Function, segment: Segment, leaves: Sequence[Any], bank: Any) -> Any:
    """Return readings and what takes their cotangents back to the leaves of a segment."""
    chosen = list(dict.fromkeys(one.leaf for one in segment))

    def flat(some: list[Any]) -> Any:
        every = list(leaves)
        for place, leaf in zip(chosen, some, strict=True):
            every[place] = leaf
        return function.flat(every, bank)

    return jax.vjp(flat, [leaves[place] for place in chosen])


def _by_inputs(block: npt.NDArray[Any], function: Function, segment: Segment, part: Part) -> None:
    each = len(part.readings) // part.apart
    size = sum(function.tree.sizes[leaf] for leaf in {one.leaf for one in segment})
    side = int(max(1, min(_SIDE, part.apart, _HELD // (each * size * block.itemsize))))
    structure: Any
    entries, structure = jax.tree_util.tree_flatten(part.bank)
    places = [k for k, entry in enumerate(entries) if is_array(entry)]

    def one(leaves: list[Any], arrays: list[Any]) -> Any:
        every = list(entries)
        for place, array in zip(places, arrays, strict=True):
            every[place] = array[None]
        readings, pull = _pulled(function, segment, leaves, structure.unflatten(every))
        return _cut(jax.vmap(pull)(jnp.eye(each, dtype=readings.dtype))[0], segment, each)

    step, leaves = jax.jit(jax.vmap(one, in_axes=(None, 0))), list(function.tree.leaves)
    for start in range(0, part.apart, side):
        # The last ones come with some of those before, so that one compilation does.
        first = max(0, min(start, part.apart - side))
        found = step(leaves, [jnp.asarray(entries[place][first : first + side]) for place in places])
        block[first * each : (first + side) * each] = np.asarray(found).reshape(side * each, -1)


def _by_rows(block: npt.NDArray[Any], function: Function, segment: Segment, part: Part, compiled: bool) -> None:
    """Go back from some readings at a time: through one input where inputs are apart, else through all of them."""
    size = sum(function.tree.sizes[leaf] for leaf in {one.leaf for one in segment})
    leaves = list(function.tree.leaves)
    for rows, bank in [(slice(0, len(part.readings)), part.bank)] if compiled else pieces(part, 1):
        count = rows.stop - rows.start
        side = int(max(1, min(_SIDE, count, _HELD // (size * block.itemsize))))

        def back(leaves: list[Any], seeds: Any, bank: Any = bank) -> Any:
            readings, pull = _pulled(function, segment, leaves, bank)
            return _cut(jax.vmap(pull)(seeds.astype(readings.dtype))[0], segment, len(seeds))

        step = jax.jit(back) if compiled else back
        for start in range(0, count, side):
            first = max(0, min(start, count - side))
            seeds = np.eye(side, count, first, dtype=np.float32)
            block[rows.start + first : rows.start + first + side] = np.asarray(step(leaves, jnp.asarray(seeds)))
