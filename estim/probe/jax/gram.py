"""Gram matrices of the rows of a JAX function's Jacobian, block of columns after block.

notation: M readings, P parameters, J (M, P).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from estim.probe.directions.noise import Whitening
from estim.probe.jax.compiled import FirstOf
from estim.probe.jax.pieces import Part, Parts
from estim.probe.jax.precision import precision
from estim.probe.jax.products import Products, jacobian_operator
from estim.probe.jax.readings import Function, explained
from estim.probe.jax.rows import HELD, Rows, ways_to_rows
from estim.probe.jax.segments import Segment, runs, segments_of
from estim.probe.matrix_free.passes import Grams
from estim.probe.matrix_free.sums import Sums
from estim.probe.matrix_free.way import Way, way_of

Array = npt.NDArray[np.float64]

#: Bytes of a block of columns.
BLOCK = 512 * 2**20


@dataclass
class JaxPasses:
    """A JAX function with its bank."""

    function: Function
    parts: Parts
    dtype: str
    """Of the rows."""
    block: int = field(default_factory=lambda: BLOCK)
    rows: dict[tuple[Any, ...], Rows] = field(default_factory=dict)
    """By leaves and width: compiled once for all passes."""
    ways: dict[bool, FirstOf] = field(default_factory=ways_to_rows)
    """To the rows of parts whose inputs are apart or not."""

    @property
    def names(self) -> tuple[str, ...]:
        """(leaves,)."""
        return self.function.tree.names

    @property
    def sizes(self) -> tuple[int, ...]:
        """(leaves,)."""
        return self.function.tree.sizes

    @property
    def norms(self) -> tuple[float, ...]:
        """(leaves,)."""
        return tuple(float(np.linalg.norm(np.asarray(leaf, dtype=np.float64))) for leaf in self.function.tree.leaves)

    @property
    def groups(self) -> tuple[str, ...]:
        """(leaves,)."""
        return self.function.tree.groups

    @property
    def readings(self) -> int:
        """M."""
        return self.parts.readings

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of how rows were found."""
        found = [note for way in self.ways.values() for note in way.notes]
        return tuple(dict.fromkeys((*found, *Products(self.function).notes)))

    def grams(
        self, *, only: frozenset[str] | None = None, transform: Array | None = None, double: bool = False,
        tick: Any = None,
    ) -> Grams:  # fmt: skip
        """Return J J^T of each group, or of those named; of T J for a transform T, (M', M); products in float64."""
        chosen = [k for k, group in enumerate(self.groups) if only is None or group in only]
        sums = Sums(dict.fromkeys(self.groups[k] for k in chosen), self.readings, transform, double)
        for segment, block in self._blocks(chosen):
            start = 0
            for group, width in runs(segment, self.sizes, self.groups):
                sums.add(group, block[:, start : start + width])
                start += width
            if tick is not None:
                tick(start)
        return sums.finished()

    def combined_rows(self, combinations: Array, tick: Any = None) -> Array:
        """Return combinations (k, M) times J, (k, P), in double precision."""
        found, starts = np.zeros((len(combinations), sum(self.sizes))), np.cumsum([0, *self.sizes])
        for segment, block in self._blocks(range(len(self.sizes))):
            first = starts[segment.leaves[0]] + segment.start
            found[:, first : first + block.shape[1]] = combinations @ block.astype(np.float64)
            if tick is not None:
                tick(block.shape[1])
        return found

    def operator(self, scale: Array, tick: Any = None) -> LinearOperator:
        """Return the whitened Jacobian by its products."""
        return jacobian_operator(self.function, self.parts, scale, tick)

    def way(self, keep: int, noise: Whitening) -> Way:
        """Return the way that fits the memory that is free, and what it takes."""
        element, size = 8 if self.dtype == "float64" else 4, sum(self.sizes)
        whole = self.readings * size * element
        block = min(self.block, whole)
        # A block of rows, and itself again in float64 or transformed; the gradients that it is cut from.
        held = (1.0 + 8.0 / element) * block + min(HELD, whole)
        return way_of(
            self.readings, size, len(set(self.groups)), element, held=held, graph=0.0,
            holding="blocks of rows and gradients, beside what JAX itself holds of a call", keep=keep, noise=noise,
        )  # fmt: skip

    def _blocks(self, chosen: Sequence[int]) -> Iterator[tuple[Segment, npt.NDArray[Any]]]:
        kind = np.dtype("float64" if self.dtype == "float64" else "float32")
        width = max(1, self.block // (self.readings * kind.itemsize))
        for segment in segments_of(self.sizes, chosen, width):
            block = np.empty((self.readings, segment.columns), dtype=kind)
            first = 0
            with precision(self.function.tree.double):
                for part in self.parts:
                    self._fill(block[first : first + len(part.readings)], segment, part)
                    first += len(part.readings)
            yield segment, block

    def _fill(self, block: npt.NDArray[Any], segment: Segment, part: Part) -> None:
        """Fill in the rows of a part; raises ValueError when JAX cannot differentiate the function backwards."""
        key = (segment.leaves, segment.width)
        rows = self.rows.setdefault(key, Rows(self.function, *key, self.parts.most))
        try:
            self.ways[part.apart > 0](rows, block, segment, part)
        except Exception as error:
            raise ValueError(explained(error)) from error
