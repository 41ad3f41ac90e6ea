"""Gram matrices of the rows of a JAX function's Jacobian, block of columns after block.

notation: M readings, P parameters, J (M, P).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.jax.bank import Part
from estim.probe.jax.precision import precision
from estim.probe.jax.readings import Function, explained, step_by_step
from estim.probe.jax.rows import Rows
from estim.probe.jax.segments import Segment, runs, segments_of
from estim.probe.matrix_free.passes import Grams
from estim.probe.matrix_free.sums import Sums

Array = npt.NDArray[np.float64]

#: Bytes of a block of columns.
BLOCK = 512 * 2**20


@dataclass
class JaxPasses:
    """A JAX function with its bank."""

    function: Function
    parts: list[Part]
    dtype: str
    """Of the rows."""
    block: int = field(default_factory=lambda: BLOCK)
    notes: list[str] = field(default_factory=list)
    rows: dict[tuple[Any, ...], Rows] = field(default_factory=dict)
    """By leaves and width: compiled once for all passes."""
    failed: dict[tuple[bool, int], Exception] = field(default_factory=dict)
    """Ways to the rows that do not work, of parts whose inputs are apart or not, and why."""

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
        """Fill in the rows of a part: by inputs where that can be compiled, else by rows, compiled or not."""
        key = (segment.leaves, segment.width)
        rows = self.rows.setdefault(key, Rows(self.function, *key))
        most = max(one.apart for one in self.parts)
        ways: list[Callable[[], None]] = [
            lambda: rows.by_inputs(block, segment, part, most),
            *(partial(rows.by_rows, block, segment, part, way) for way in range(len(rows.ways))),
        ]
        apart = part.apart > 0
        for k in range(0 if apart else 1, len(ways)):
            if (apart, k) in self.failed:
                continue
            try:
                ways[k]()
            except Exception as error:
                if k == len(ways) - 1:
                    raise ValueError(explained(error)) from error
                self.failed[apart, k] = error
                continue
            if k == len(ways) - 1:
                self._say(step_by_step(self.failed[apart, k - 1]))
            return

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
