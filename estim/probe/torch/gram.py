"""The Gram matrix of the Jacobian's rows, readings by readings, without ever holding the Jacobian.

Tensor by tensor, the factors of all readings are captured; a block of the tensor's columns of the Jacobian is formed
from them, multiplied by itself, and forgotten. Only the upper half is computed. Blocks are multiplied in the model's
precision and added up in double precision.

notation: M readings, K = J J^T, block = some columns of J, (M, columns).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.passes import Grams
from estim.probe.torch.by_rows import blocks_by_rows
from estim.probe.torch.capture import Factors
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject
from estim.probe.torch.segments import captured
from estim.probe.torch.sums import Sums

Array = npt.NDArray[np.float64]
#: Columns of J, (M, columns), and what returns their places in the tensor.
Block = tuple[torch.Tensor, Callable[[], torch.Tensor]]
#: Some of the outputs or inputs of a weight, in ascending order.
Which = slice | torch.Tensor

#: Columns of a block made from factors, at most: more make its product no faster.
_COLUMNS = 12288


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
    names = [name for name in dict.fromkeys(subject.parameters.groups) if only is None or name in only]
    buffer = _buffer(subject, layout)
    sums = Sums(names, layout.readings, buffer, transform, double)
    unknown = []
    for k, factors in captured(
        subject, layout, [k for k, name in enumerate(subject.parameters.groups) if name in names]
    ):
        group, size = subject.parameters.groups[k], subject.parameters.tensors[k].numel()
        if factors is None:
            unknown.append(k)
            continue
        if sums.takes_pairs(factors, size):
            sums.add_pairs(group, factors)
        else:
            for block, _ in _blocks(factors, subject.parameters.tensors[k], layout, buffer):
                sums.add(group, block, size)
        del factors  # before those of the next segment come
        if tick is not None:
            tick(size)
    for k, _, block in blocks_by_rows(subject, layout, unknown):
        sums.add(subject.parameters.groups[k], block, subject.parameters.tensors[k].numel())
        if tick is not None:
            tick(block.shape[1])
    return sums.finished([subject.parameters.names[k] for k in sorted(unknown)])


def combined_rows(subject: Subject, layout: Layout, combinations: Array, tick: Any = None) -> Array:
    """Return combinations (k, M) times J, (k, P), in double precision, tensor after tensor."""
    device = subject.parameters.device
    weights = torch.as_tensor(np.ascontiguousarray(combinations), device=device)
    found = np.zeros((len(combinations), subject.parameters.size))
    starts = np.cumsum([0, *(tensor.numel() for tensor in subject.parameters.tensors)])
    buffer = _buffer(subject, layout)
    unknown = []
    for k, factors in captured(subject, layout):
        if factors is None:
            unknown.append(k)
            continue
        for block, places in _blocks(factors, subject.parameters.tensors[k], layout, buffer):
            columns = starts[k] + places().cpu().numpy()
            found[:, columns] = (weights @ block.double()).cpu().numpy()
        del factors
        if tick is not None:
            tick(subject.parameters.tensors[k].numel())
    for k, start, block in blocks_by_rows(subject, layout, unknown):
        first = starts[k] + start
        found[:, first : first + block.shape[1]] = (weights @ block.double()).cpu().numpy()
        if tick is not None:
            tick(block.shape[1])
    return found


def _buffer(subject: Subject, layout: Layout) -> torch.Tensor:
    tensor = subject.parameters.tensors[0]
    columns = max(1, min(_COLUMNS, layout.block // (layout.readings * tensor.element_size())))
    return torch.empty(columns * layout.readings, dtype=tensor.dtype, device=tensor.device)


def _blocks(parts: list[Factors], tensor: torch.Tensor, layout: Layout, buffer: Any) -> Iterator[Block]:
    """Yield the columns of one tensor, some at a time, with what returns their places in it."""
    used = [part for part in parts if part.kind != "unused"]
    if not used:
        return
    kind = used[0].kind
    if kind == "rows":
        size = used[0].left.shape[2]
        blank = used[0].left.new_zeros
        yield torch.cat([
            part.left.flatten(0, 1) if part.kind == kind else blank((part.rows, size)) for part in parts
        ]), lambda: torch.arange(size, device="cpu")  # fmt: skip
        return
    columns, outs = _columns(used), _outs(used)
    width = len(columns) if columns is not None else used[0].right.shape[2]
    if width == 0:  # of a table no word of which has a gradient
        return
    # Of parts of which some have a few of the outputs only, another has all.
    count = max(part.left[0].shape[2] for part in used) if outs is None else len(outs)
    room = buffer.numel() // layout.readings
    across = min(width, room)
    down = max(1, min(count, room // across))
    down = -(-count // -(-count // down))  # as many blocks, of equal size
    for start in range(0, width, across):
        inner = slice(start, min(start + across, width))
        rights = [None if part.kind == "unused" else _right(part, columns, inner).to(buffer.dtype) for part in parts]
        for first in range(0, count, down):
            some = slice(first, min(first + down, count))
            outer = some if outs is None else outs[some]
            places = partial(_places, outer, inner if columns is None else columns[inner], kind == "linear", tensor)
            yield _block(parts, rights, (outer, inner), buffer), places


def _places(outer: Which, inner: Which, linear: bool, tensor: torch.Tensor) -> torch.Tensor:
    """Return the places, in a tensor, of the columns (outer, inner) of a block."""
    down, across = _numbers(outer).cpu(), _numbers(inner).cpu()
    width = tensor[0].numel()
    grid = down[:, None] * width + across if linear else across * width + down[:, None]
    return grid.reshape(-1)


def _numbers(which: Which) -> torch.Tensor:
    return torch.arange(which.start, which.stop, device="cpu") if isinstance(which, slice) else which


def _outs(parts: list[Factors]) -> torch.Tensor | None:
    """Return the outputs that gradients reach, those read in as words, too, in ascending order; None for all."""
    reached = [part.outs for part in parts if part.outs is not None]
    if len(reached) < len(parts):
        return None
    words = [part.beside.right.reshape(-1) for part in parts if part.beside is not None]
    found: torch.Tensor = torch.cat([*reached, *words]).unique()  # type: ignore[no-untyped-call]
    return found[found >= 0]


def _columns(parts: list[Factors]) -> Any:
    if parts[0].kind != "embedding":
        return None
    used: Any = torch.unique(torch.cat([part.right.reshape(-1) for part in parts]))
    return used[used >= 0]


def _right(part: Factors, columns: Any, inner: slice) -> torch.Tensor:
    if columns is None:
        right: torch.Tensor = part.right[:, :, inner]
        return right
    one_hot: torch.Tensor = (part.right[:, :, None] == columns[inner]).to(part.left[0].dtype)
    return one_hot


def _block(parts: list[Factors], rights: list[Any], which: tuple[Which, slice], buffer: Any) -> torch.Tensor:
    """Return the columns of some outputs and inputs, (M, outputs times inputs), in the buffer."""
    outer, inner = which
    rows, height, width = sum(part.rows for part in parts), len(_numbers(outer)), inner.stop - inner.start
    block: torch.Tensor = buffer[: rows * height * width].view(rows, height * width)
    start = 0
    for part, right in zip(parts, rights, strict=True):
        out = block[start : start + part.rows]
        start += part.rows
        if right is None:
            out.zero_()
            continue
        left = torch.stack(_lefts(part, outer), dim=2).flatten(2).to(block.dtype)  # (n, t, a out)
        torch.bmm(left.transpose(1, 2), right, out=out.view(len(right), -1, width))
        if part.beside is not None:
            _add_words(out.view(len(right), -1, height, width), part.beside, _numbers(outer), inner)
    return block


def _lefts(part: Factors, outer: Which) -> list[torch.Tensor]:
    """Return, of each reading, the gradients of some outputs, (n, t, out): zeros where they do not reach."""
    if part.outs is None:
        return [one[..., outer] for one in part.left]
    wanted = _numbers(outer).to(part.outs.device)
    place = torch.searchsorted(part.outs, wanted).clamp(max=len(part.outs) - 1)
    reached = part.outs[place] == wanted
    return [one[..., place] * reached for one in part.left]


def _add_words(out: torch.Tensor, words: Factors, outer: torch.Tensor, inner: slice) -> None:
    """Add to columns of a table, (n, a, its places, inner), the gradients of what was read in from there."""
    ascending = outer.to(words.right.device)
    place = torch.searchsorted(ascending, words.right).clamp(max=len(ascending) - 1)
    n, t = torch.nonzero(ascending[place] == words.right, as_tuple=True)
    values = torch.stack([one[n, t, inner] for one in words.left], dim=1)  # (met, a, inner)
    out.transpose(1, 2).index_put_((n, place[n, t]), values.to(out.dtype), accumulate=True)
