"""How a bank is gone through: in which parts, which tensors at a time, in blocks of which size, and what it takes."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.cost import available
from estim.probe.matrix_free.way import Way, way_of
from estim.probe.torch.bank import Bank, in_parts, length
from estim.probe.torch.graph import bytes_of_outputs
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Survey, parts_of
from estim.probe.torch.uses import ROWS, uses_of

#: Bytes of a block of the Jacobian, at most and at least.
BLOCK = 256 * 2**20
_LEAST = 2**20
#: Factors may take this part of what the Jacobian would.
_PART = 0.15
#: And this many bytes in any case.
_ALWAYS = 256 * 2**20
#: Inputs that tell what each takes.
_INPUTS = 4
#: Sizes of segments that are tried.
_TRIED = 17


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
    rows: int
    """Bytes of rows of tensors no factors are known of, at most: each block of them takes a pass over the bank."""
    held: float = 0.0
    """Bytes of the factors of a segment, or of rows where those take more."""
    graph: float = 0.0
    """Bytes of what the graph of a part keeps beside the parameters."""


def layout_of(
    subject: Subject, bank: Bank, seen: Survey, *, block: int | None = None, held: int | None = None
) -> Layout:
    """Return how to go through a bank: in parts, with factors of some tensors held at a time.

    `block` and `held` are bytes, of a block of the Jacobian and of factors; what fits the machine by default.
    """
    readings = int(seen.kept.sum())
    element = subject.parameters.tensors[0].element_size()
    whole = readings * subject.parameters.size * element
    block = min(BLOCK, max(_LEAST, whole // 64)) if block is None else block
    held = int(min(available() / 4, max(_PART * whole, _ALWAYS))) if held is None else held
    parts = parts_of(bank, seen)
    first, count = next(parts()), sum(1 for _ in parts())
    some = next(in_parts(first, _INPUTS)) if all(seen.separable) else first
    output, kept = _graph(subject, some)
    graph = kept * (length(first) or 1) / (length(some) or 1)
    uses = uses_of(output, subject.parameters.tensors)
    segments, most = _segments(subject, uses, output, readings, held)
    # Factors are gone when rows are taken: what those may take is free.
    rows = max(2 * block, held)
    unknown = sum(tensor.numel() for tensor, use in zip(subject.parameters.tensors, uses, strict=True) if use is None)
    most = max(most, min(rows, readings * unknown * element))
    return Layout(parts, all(seen.separable), readings, count, segments, block, rows, most, graph)


def way_of_module(subject: Subject, layout: Layout, keep: int, noise: Whitening) -> Way:
    """Return the way that fits the memory that is free, and what it takes."""
    element = subject.parameters.tensors[0].element_size()
    groups, size = len(set(subject.parameters.groups)), subject.parameters.size
    return way_of(
        layout.readings, size, groups, element, held=layout.held + 2.0 * layout.block,
        graph=layout.graph, keep=keep, noise=noise,
        holding="gradients, blocks of rows and the graph of a part of the bank",
    )  # fmt: skip


def _graph(subject: Subject, part: Any) -> tuple[torch.Tensor, float]:
    """Return the readings of a part of the bank, with the bytes of what their graph keeps beside the parameters."""
    try:
        with _counted(subject) as kept:
            return subject.readings(part), sum(kept.values())
    except ValueError:  # derivatives inside of the model (torch.func) let nobody look at what is saved
        output = subject.readings(part)
        return output, bytes_of_outputs(output)


@contextmanager
def _counted(subject: Subject) -> Iterator[dict[int, float]]:
    """Collect the bytes of what graphs made inside keep beside the parameters, by the place of their storage."""
    own = {tensor.untyped_storage().data_ptr() for tensor in subject.snapshot.tensors}
    kept: dict[int, float] = {}

    def look(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = float(storage.nbytes())
        return tensor.detach()  # itself would keep the graph for good

    with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
        yield kept


def _segments(
    subject: Subject, uses: Sequence[Any], output: torch.Tensor, readings: int, held: int
) -> tuple[tuple[tuple[int, ...], ...], float]:
    """Put the tensors in segments, as few as can be, whose factors fit; return also the most bytes held."""
    each = zip(uses, subject.parameters.tensors, strict=True)
    sizes = [readings * sum(_factor_size(use, tensor, *output.shape) for use in some or []) for some, tensor in each]
    few = _packed(sizes, float(held))
    # As many, of nearly equal size, take less memory in no more time.
    for part in np.linspace(1.0 / len(few), 1.0, _TRIED):
        segments = _packed(sizes, min(float(held), part * sum(sizes)))
        if len(segments) == len(few):
            break
    return segments, max(sum(sizes[k] for k in segment) for segment in segments)


def _packed(sizes: list[float], room: float) -> tuple[tuple[int, ...], ...]:
    """Put consecutive tensors in segments of at most that size, or of a single tensor."""
    segments: list[list[int]] = [[]]
    left = room
    for k, size in enumerate(sizes):
        if size > left and segments[-1]:
            segments.append([])
            left = room
        segments[-1].append(k)
        left -= size
    return tuple(tuple(segment) for segment in segments)


def _factor_size(use: Any, tensor: Any, inputs: int, outputs: int) -> float:
    """Return the bytes of a factor for each reading, of a bank with that many outputs for each input."""
    if use.kind in ROWS:
        return float(tensor.numel() * tensor.element_size())
    if use.kind == "patches":
        count, *out = use.edge.node._input_metadata[use.edge.output_nr].shape
        patches = math.prod(out[1:]) * tensor[0].numel() / outputs
        return float(count / inputs * (math.prod(out) + patches) * tensor.element_size())
    rows = use.x.numel() if use.kind == "embedding" else use.x.numel() // max(1, use.x.shape[-1])
    width = tensor.shape[0] if use.kind == "linear" else tensor.shape[1]
    return float(rows / inputs * width * tensor.element_size())
