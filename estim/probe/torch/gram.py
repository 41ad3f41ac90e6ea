"""The Gram matrix of the Jacobian's rows, readings by readings, without ever holding the Jacobian.

Tensor by tensor, the factors of all readings are captured; a block of the tensor's columns of the Jacobian is formed
from them, multiplied by itself, and forgotten. Only the upper half is computed. Blocks are multiplied in the model's
precision and added up in double precision.

notation: M readings, K = J J^T, block = some columns of J, (M, columns).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.passes import Grams
from estim.probe.torch.bank import in_parts
from estim.probe.torch.capture import Factors, factors_of
from estim.probe.torch.paired import paired_product, takes_less
from estim.probe.torch.readings import Subject, explained
from estim.probe.torch.rows import taken_back
from estim.probe.torch.uses import uses_of

Array = npt.NDArray[np.float64]
#: Columns of J, (M, columns), and what returns their places in the tensor.
Block = tuple[torch.Tensor, Callable[[], torch.Tensor]]

#: Rows of the first blocks whose products are formed again in double precision, to see what rounding does.
_SAMPLE = 48
#: Times what the sample shows.
_MARGIN = 3.0
EPS = float(np.finfo(np.float64).eps)
#: Rows below which a product is slower than its upper half saves.
_LEAF = 100


@dataclass(frozen=True)
class Layout:
    """How a bank is gone through."""

    parts: Callable[[], Iterator[Any]]
    """Fresh iterator over parts of the bank, small enough for a graph."""
    separable: bool
    """Whether the readings of an input depend on no other, so that some inputs of a part may go alone."""
    readings: int
    """M."""
    count: int
    """Number of parts."""
    segments: tuple[tuple[int, ...], ...]
    """Tensors whose factors are held at the same time."""
    block: int
    """Bytes of a block."""
    held: float = 0.0
    """Bytes of the factors of a segment."""
    graph: float = 0.0
    """Bytes of what the graph of a part keeps beside the parameters."""


def grams_of(
    subject: Subject,
    layout: Layout,
    *,
    only: frozenset[str] | None = None,
    transform: Array | None = None,
    double: bool = False,
    tick: Any = None,
) -> Grams:
    """Return K of each group of tensors, of T J instead of J where a transform T (M', M) is given.

    Parameters
    ----------
    subject : Subject
    layout : Layout
    only : frozenset of str, optional
        Groups to go through; all of them when left out.
    transform : ndarray, shape (M', M), optional
        Applied to the rows in double precision.
    double : bool
        Whether blocks of a lower precision are raised to float64 before they are multiplied.
    tick : callable, optional
        Called with the number of parameters done.
    """
    sums = _Sums(subject, layout, only, transform, double)
    for every in layout.segments:
        segment = tuple(k for k in every if only is None or subject.parameters.groups[k] in only)
        if not segment:
            continue
        names = [subject.parameters.names[k] for k in segment]
        for k, factors in zip(segment, _captured(subject, layout, segment), strict=True):
            group, size = subject.parameters.groups[k], subject.parameters.tensors[k].numel()
            if factors is None:
                sums.by_rows.append(names[segment.index(k)])
            if factors and sums.takes_pairs(factors, size):
                sums.add_pairs(group, factors)
            else:
                for block, _ in _blocks_of(subject, layout, k, factors, sums.buffer):
                    sums.add(group, block, size)
            if tick is not None:
                tick(size)
    return sums.finished()


def combined_rows(subject: Subject, layout: Layout, combinations: Array, tick: Any = None) -> Array:
    """Return combinations (k, M) times J, (k, P), in double precision, tensor after tensor."""
    device = subject.parameters.tensors[0].device
    weights = torch.as_tensor(np.ascontiguousarray(combinations), device=device)
    found = np.zeros((len(combinations), subject.parameters.size))
    starts = np.cumsum([0, *(tensor.numel() for tensor in subject.parameters.tensors)])
    buffer = _buffer(subject, layout)
    for segment in layout.segments:
        for k, factors in zip(segment, _captured(subject, layout, segment), strict=True):
            for block, places in _blocks_of(subject, layout, k, factors, buffer):
                columns = starts[k] + places().cpu().numpy()
                found[:, columns] = (weights @ block.double()).cpu().numpy()
            if tick is not None:
                tick(subject.parameters.tensors[k].numel())
    return found


def _blocks_of(
    subject: Subject, layout: Layout, number: int, factors: list[Factors] | None, buffer: torch.Tensor
) -> Iterator[Block]:
    """Yield the columns of one tensor, some at a time, with their places in it."""
    if factors is None:
        yield from _by_rows(subject, layout, number)
        return
    yield from _blocks(factors, tuple(subject.parameters.tensors[number].shape), layout, buffer)


def _buffer(subject: Subject, layout: Layout) -> torch.Tensor:
    tensor = subject.parameters.tensors[0]
    columns = max(1, layout.block // (layout.readings * tensor.element_size()))
    return torch.empty(columns * layout.readings, dtype=tensor.dtype, device=tensor.device)


def _captured(subject: Subject, layout: Layout, segment: tuple[int, ...]) -> list[list[Factors] | None]:
    """Return the factors of every part of the bank for each tensor; None where they are not known."""
    tensors = tuple(subject.parameters.tensors[k] for k in segment)
    found: list[list[Factors] | None] = [[] for _ in segment]
    for part in layout.parts():
        readings = subject.readings(part)
        uses = uses_of(readings, tensors)
        with _explained():
            factors = factors_of(readings, [one or [] for one in uses])
        for k, (one, use) in enumerate(zip(factors, uses, strict=True)):
            held = found[k]
            if held is not None:
                found[k] = None if one is None or use is None else [*held, one]
        del readings, uses, factors
    return found


class _explained(AbstractContextManager[None]):  # noqa: N801 - reads as a statement
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, RuntimeError):
            raise ValueError(explained(error)) from error


def _blocks(parts: list[Factors], shape: tuple[int, ...], layout: Layout, buffer: Any) -> Iterator[Block]:
    kinds = {part.kind for part in parts if part.left.shape[-1]}
    if not kinds:
        return
    if kinds == {"rows"}:
        rows = torch.cat([part.left.reshape(-1, part.left.shape[-1]) for part in parts])
        yield rows, lambda: torch.arange(rows.shape[1])
        return
    outs, columns = parts[0].left.shape[3], _columns(parts)
    width = len(columns) if columns is not None else parts[0].right.shape[2]
    room = buffer.numel() // layout.readings
    across = min(width, room)
    down = max(1, min(outs, room // across))
    down = -(-outs // -(-outs // down))  # as many blocks, of equal size
    for start in range(0, width, across):
        inner = slice(start, min(start + across, width))
        rights = [_right(part, columns, inner) for part in parts]
        for first in range(0, outs, down):
            outer = slice(first, min(first + down, outs))
            places = partial(_places, outer, inner if columns is None else columns[inner], kinds == {"linear"}, shape)
            yield _block(parts, rights, outer, buffer), places


def _places(outer: slice, inner: Any, linear: bool, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the places, in a tensor of that shape, of the columns (outer, inner) of a block."""
    down = torch.arange(outer.start, outer.stop)
    across = torch.arange(inner.start, inner.stop) if isinstance(inner, slice) else inner.cpu()
    grid = down[:, None] * shape[1] + across if linear else across * shape[1] + down[:, None]
    return grid.reshape(-1)


def _columns(parts: list[Factors]) -> Any:
    if parts[0].kind != "embedding":
        return None
    used = torch.unique(torch.cat([part.right.reshape(-1) for part in parts]))
    return used[used >= 0]


def _right(part: Factors, columns: Any, inner: slice) -> torch.Tensor:
    if columns is None:
        right: torch.Tensor = part.right[:, :, inner]
        return right
    one_hot: torch.Tensor = (part.right[:, :, None] == columns[inner]).to(part.left.dtype)
    return one_hot


def _block(parts: list[Factors], rights: list[torch.Tensor], outer: slice, buffer: Any) -> torch.Tensor:
    """Return the columns of some outputs, (M, outputs times inputs), in the buffer."""
    height, width = outer.stop - outer.start, rights[0].shape[2]
    rows = sum(part.left.shape[0] * part.left.shape[1] for part in parts)
    block: torch.Tensor = buffer[: rows * height * width].view(rows, height * width)
    start = 0
    for part, right in zip(parts, rights, strict=True):
        inputs, outputs, tokens, _ = part.left.shape
        left = part.left[..., outer].transpose(1, 2).reshape(inputs, tokens, outputs * height)
        out = block[start : start + inputs * outputs].view(inputs, outputs * height, width)
        torch.bmm(left.transpose(1, 2), right, out=out)
        start += inputs * outputs
    return block


def _by_rows(subject: Subject, layout: Layout, number: int) -> Iterator[Block]:
    """Yield the columns of a tensor by a backward pass for each reading."""
    tensor = subject.parameters.tensors[number]
    step = max(1, 4 * layout.block // (layout.readings * tensor.element_size()))
    for start in range(0, tensor.numel(), step):
        rows = []
        for part in layout.parts():
            for one in in_parts(part, 1) if layout.separable else [part]:
                readings = subject.readings(one)
                with _explained():
                    found = [block for _, block in taken_back(readings.reshape(-1), [tensor])]
                rows += [block[:, start : start + step].clone() for block in found]
                del readings
        block = torch.cat(rows)
        yield block, partial(torch.arange, start, start + block.shape[1])


class _Sums:
    """Gram matrices as they add up."""

    def __init__(self, subject: Subject, layout: Layout, only: Any, transform: Array | None, double: bool) -> None:
        tensor = subject.parameters.tensors[0]
        self.transform = None if transform is None else torch.as_tensor(transform, device=tensor.device)
        self.kind = torch.float64 if double or transform is not None else tensor.dtype
        size = layout.readings if transform is None else len(transform)
        names = [name for name in dict.fromkeys(subject.parameters.groups) if only is None or name in only]
        self.totals = {name: _square(size, torch.float64, tensor.device) for name in names}
        self.buffer = _buffer(subject, layout)
        self.scratch = {kind: _square(size, kind, tensor.device) for kind in {self.kind, torch.float64}}
        self.pending: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        self.width = self.buffer.numel() // layout.readings
        self.errors, self.sizes = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        self.by_rows: list[str] = []

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
        plain = self.transform is None and self.kind == self.buffer.dtype
        return plain and size >= self.width // 2 and takes_less(factors)

    def add_pairs(self, group: str, factors: list[Factors]) -> None:
        """Add the products of the rows of a tensor, from its factors."""
        product = paired_product(factors, self.scratch[self.kind], self.buffer)
        if self.kind != torch.float64:
            few = [_first_rows(factors[0])]
            count = few[0].left.shape[0] * few[0].left.shape[1]
            room = torch.zeros((count, count), dtype=torch.float64, device=product.device)
            self._compare(group, paired_product(few, room, room.new_empty(0)), product)
        self.totals[group] += product

    def _flush(self, group: str) -> None:
        waiting, self.pending[group] = self.pending[group], []
        if waiting:
            self._multiply(group, torch.cat(waiting, dim=1))

    def _multiply(self, group: str, block: torch.Tensor) -> None:
        given = block if self.transform is None else self.transform @ block
        product = _upper_product(given.contiguous(), self.scratch[given.dtype])
        if given.dtype != torch.float64:
            self._look(group, given, product)
        self.totals[group] += product

    def _look(self, group: str, block: torch.Tensor, product: torch.Tensor) -> None:
        """Compare a few products with double precision."""
        few = block[:_SAMPLE].double()
        self._compare(group, few @ few.T, product)

    def _compare(self, group: str, exact: torch.Tensor, product: torch.Tensor) -> None:
        off = (product[: len(exact), : len(exact)].double() - exact).triu()
        self.errors[group] += float(torch.linalg.matrix_norm(off + off.triu(1).T))
        self.sizes[group] += float(exact.trace())

    def finished(self) -> Grams:
        """Return all, both halves filled in."""
        for group in self.pending:
            self._flush(group)
        found = {}
        for group in list(self.totals):
            upper = self.totals.pop(group).triu()  # one at a time: there may be many
            found[group] = (upper + upper.triu(1).T).cpu().numpy()
        # Sums of many products in double precision have nothing better to be compared with.
        rounding = {
            group: 8.0 * EPS + (_MARGIN * self.errors[group] / size if size else 0.0)
            for group, size in self.sizes.items()
        }
        return Grams(found, rounding, tuple(self.by_rows))


def _first_rows(part: Factors) -> Factors:
    """Return the factors of a few inputs in double precision."""
    count = max(1, _SAMPLE // part.left.shape[1])
    return Factors(part.kind, part.left[:count].double(), part.right[:count].double())


def _square(size: int, kind: Any, device: Any) -> torch.Tensor:
    """Return room for a product."""
    return torch.zeros((size, size), dtype=kind, device=device)


def _upper_product(block: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Write the upper half, at least, of a block times its transpose; torch has no product that knows of the symmetry.

    BLAS in SciPy has one, but its threads and torch's would wait for each other on every block.
    """
    half = len(block) // 2
    if half < _LEAF:
        torch.mm(block, block.T, out=out)
        return out
    _upper_product(block[:half], out[:half, :half])
    _upper_product(block[half:], out[half:, half:])
    torch.mm(block[:half], block[half:].T, out=out[:half, half:])
    return out
