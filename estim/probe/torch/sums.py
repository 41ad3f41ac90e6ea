"""Gram matrices of the rows of a Jacobian as they add up, block of columns after block, in tensors of torch.

Only the upper half is computed. Blocks are multiplied in their own precision and added up in double precision.

notation: M readings.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.passes import Grams
from estim.probe.matrix_free.sums import SAMPLE, rounding_seen
from estim.probe.torch.capture import Factors
from estim.probe.torch.paired import Strip, paired_strips, takes_less

Array = npt.NDArray[np.float64]

#: Rows multiplied at a time, and of the square on the diagonal: fewer are slower, more do twice what is needed once.
_ROWS = 512
_CORNER = 128


class Sums:
    """Gram matrices of some groups of tensors.

    Blocks, (M, columns), come in a buffer, and so in its precision.
    """

    def __init__(
        self, names: list[str], readings: int, buffer: torch.Tensor, transform: Array | None, double: bool
    ) -> None:
        self.transform = None if transform is None else torch.as_tensor(transform, device=buffer.device)
        self.kind = torch.float64 if double or transform is not None else buffer.dtype
        size = readings if transform is None else len(transform)
        square = partial(torch.zeros, (size, size), dtype=torch.float64, device=buffer.device)
        self.totals = {name: square() for name in names}
        self.pending: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        self.plain = self.kind == buffer.dtype and transform is None
        self.width = buffer.numel() // readings
        self.errors, self.sizes = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)

    def add(self, group: str, block: torch.Tensor, size: int) -> None:
        """Add the product of a block of a tensor of that size with itself; small tensors are put together first.

        What is small beside the rest costs nothing in double precision, and may be what is hard to see.
        """
        if size < self.width // 2:
            self.pending[group].append(block.to(torch.float64, copy=True))  # the buffer is filled anew
            if sum(part.shape[1] for part in self.pending[group]) >= self.width // 2:
                self._flush(group)
            return
        self._multiply(group, block.to(self.kind))

    def takes_pairs(self, factors: list[Factors], size: int) -> bool:
        """Tell whether the rows of a tensor of that size are better multiplied in pairs of inputs."""
        return self.plain and size >= self.width // 2 and takes_less(factors)

    def add_pairs(self, group: str, factors: list[Factors]) -> None:
        """Add the products of the rows of a tensor, from its factors."""
        few = [_first_rows(factors[0])]
        exact = self.totals[group].new_zeros((few[0].rows, few[0].rows))
        for start, product in paired_strips(few):
            exact[start : start + len(product), start:] = product
        self._accumulate(group, paired_strips(factors), exact)

    def _flush(self, group: str) -> None:
        waiting, self.pending[group] = self.pending[group], []
        if waiting:
            self._multiply(group, torch.cat(waiting, dim=1))

    def _multiply(self, group: str, block: torch.Tensor) -> None:
        given = block if self.transform is None else self.transform @ block
        few = given[:SAMPLE].double()
        self._accumulate(group, _strips(given.contiguous()), few @ few.T)

    def _accumulate(self, group: str, strips: Iterator[Strip], exact: torch.Tensor) -> None:
        """Add strips while they are near the processor, and compare the first products with those in float64."""
        total, off = self.totals[group], -exact.triu()
        for start, product in strips:
            total[start : start + len(product), start:] += product
            if start < len(off):
                first = product[: len(off) - start, : len(off) - start].double()
                off[start : start + len(first), start:] += first.triu()
        if product.dtype != torch.float64:
            self.errors[group] += float(torch.linalg.matrix_norm(off + off.triu(1).T))
            self.sizes[group] += float(exact.trace())

    def finished(self, by_rows: Sequence[str]) -> Grams:
        """Return all, both halves filled in, with the names of tensors that took backward passes."""
        for group in self.pending:
            self._flush(group)
        found = {group: _mirrored(total).cpu().numpy() for group, total in self.totals.items()}
        return Grams(found, rounding_seen(self.errors, self.sizes), tuple(by_rows))


def _first_rows(part: Factors) -> Factors:
    """Return the factors of a few inputs in double precision."""
    count = max(1, SAMPLE // len(part.left))
    return Factors(part.kind, tuple(left[:count].double() for left in part.left), part.right[:count].double())


def _strips(block: torch.Tensor) -> Iterator[Strip]:
    """Yield a block times its transpose, some rows at a time, from the diagonal on; what is below it is left open.

    torch has no product that knows of the symmetry; BLAS in SciPy has one, but its threads and torch's would wait for
    each other on every block.
    """
    room = block.new_zeros(_ROWS * len(block))
    for start in range(0, len(block), _ROWS):
        rows, columns = block[start : start + _ROWS], block[start:]
        height = len(rows)
        out = room[: height * len(columns)].view(height, len(columns))
        torch.mm(rows, columns[height:].T, out=out[:, height:])
        for k in range(0, height, _CORNER):
            torch.mm(rows[k : k + _CORNER], rows[k:].T, out=out[k : k + _CORNER, k:height])
        yield start, out


def _mirrored(upper: torch.Tensor) -> torch.Tensor:
    """Fill in the lower half of a matrix, in place: there may be many; in squares that stay near the processor."""
    for start in range(0, len(upper), _CORNER):
        rows = slice(start, start + _CORNER)
        corner = upper[rows, rows].triu()
        upper[rows, rows] = corner + corner.triu(1).T
        for across in range(start + _CORNER, len(upper), _CORNER):
            columns = slice(across, across + _CORNER)
            upper[columns, rows] = upper[rows, columns].T
    return upper
