"""Columns of the Jacobian by a backward pass for each reading: of tensors whose gradients no factors are known of.

notation: M readings.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import torch

from estim.probe.torch.bank import in_parts
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject, explained
from estim.probe.torch.rows import taken_back

#: A tensor's number, and the first and last of some of its entries.
Piece = tuple[int, int, int]


def blocks_by_rows(subject: Subject, layout: Layout, numbers: Iterable[int]) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Yield columns of some tensors, (M, columns), with the tensor's number and the place in it of the first.

    As many tensors as fit are gone through together: most of what a pass costs is what lies above all of them.
    """
    tensors = subject.parameters.tensors
    room = max(1, layout.rows // (layout.readings * tensors[0].element_size()))
    for pieces in _together([(k, tensors[k].numel()) for k in numbers], room):
        widths, done = [stop - start for _, start, stop in pieces], 0
        rows = tensors[0].new_empty((layout.readings, sum(widths)), dtype=_widest(tensors))
        for block in _rows(subject, layout, pieces):
            rows[done : done + len(block)] = block
            done += len(block)
        for (k, start, _), block in zip(pieces, torch.split(rows, widths, dim=1), strict=True):
            yield k, start, block


def _widest(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    return reduce(torch.promote_types, (tensor.dtype for tensor in tensors))


def _together(sizes: Iterable[tuple[int, int]], room: int) -> Iterator[list[Piece]]:
    """Yield pieces of tensors of some sizes that fit together; what alone does not fit is cut."""
    pieces: list[Piece] = []
    left = room
    for k, size in sizes:
        for start in range(0, size, room):
            stop = min(start + room, size)
            if stop - start > left:
                yield pieces
                pieces, left = [], room
            pieces.append((k, start, stop))
            left -= stop - start
    if pieces:
        yield pieces


def _rows(subject: Subject, layout: Layout, pieces: list[Piece]) -> Iterator[torch.Tensor]:
    """Yield the rows of all readings, some at a time, the pieces beside each other."""
    tensors = [subject.parameters.tensors[k] for k, _, _ in pieces]
    for part in layout.parts():
        for one in in_parts(part, 1) if layout.separable else [part]:
            flat = subject.readings(one).reshape(-1)
            try:
                for block in taken_back(flat, tensors):
                    yield _cut(block, tensors, pieces)
            except RuntimeError as error:
                raise ValueError(explained(error)) from error


def _cut(block: torch.Tensor, tensors: list[Any], pieces: list[Piece]) -> torch.Tensor:
    if all(stop - start == tensor.numel() for tensor, (_, start, stop) in zip(tensors, pieces, strict=True)):
        return block
    each = torch.split(block, [tensor.numel() for tensor in tensors], dim=1)
    return torch.cat([rows[:, start:stop] for rows, (_, start, stop) in zip(each, pieces, strict=True)], dim=1)
