"""A first look at a bank: its readings, what can be taken apart, what will be held, and what it will cost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.cost import available
from estim.probe.matrix_free.way import Way, way_of
from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.torch.bank import Bank, in_parts, length, mapped
from estim.probe.torch.dense import apart, batches_of, independent
from estim.probe.torch.gram import Layout
from estim.probe.torch.readings import Subject
from estim.probe.torch.uses import uses_of

Array = npt.NDArray[np.float64]
#: Returns a fresh iterator over parts of a bank.
Parts = Callable[[], Iterator[Any]]

#: Inputs in a part of the bank, whose graph is held.
INPUTS = 32
#: Inputs that stand for a whole bank.
SAMPLED = 8
#: Bytes of a block of the Jacobian, at most and at least.
BLOCK = 256 * 2**20
_LEAST = 2**20
#: Factors may take this part of what the Jacobian would.
_PART = 0.15
#: And this many bytes in any case.
_ALWAYS = 256 * 2**20


@dataclass(frozen=True)
class Survey:
    """What a bank's readings are, before any derivative: batch after batch, input after input."""

    readings: Array
    """(M,), those of inputs left out included; of complex ones the real parts of each input, then its imaginary."""
    places: npt.NDArray[np.int64]
    """(M,) the place of each in the order that a user sees: of complex ones all real parts come first."""
    inputs: npt.NDArray[np.int64]
    """(M,)."""
    kept: npt.NDArray[np.bool_]
    """(M,): False for the readings of inputs one of which is not finite."""
    count: int
    """Number of inputs."""
    separable: tuple[bool, ...]
    """(batches,) whether the inputs of a batch do not depend on each other."""
    dropped: tuple[Any, ...]
    """(batches,) indices of the inputs to keep, None for all."""


def survey(subject: Subject, bank: Bank, omit: bool) -> Survey:
    """Evaluate the readings of all batches, each twice.

    Raises
    ------
    ValueError
        When the model refuses a batch or is not deterministic, or a reading is not finite and `omit` is False.
    """
    values: list[Array] = []
    separable: list[bool] = []
    dropped: list[Any] = []
    complex_ones: list[bool] = []
    for where, batch in batches_of(bank):
        whole = subject.checked(batch, where).detach()
        complex_ones.append(subject.complex)
        finite = whole.isfinite().all(dim=1)
        if not bool(finite.all()):
            dropped.append(_finite_inputs(whole, finite, batch, where, omit))
            batch = _selected(batch, dropped[-1])
        else:
            dropped.append(None)
        count = int(finite.sum())
        separable.append(count > 0 and length(batch) == count and _separable(subject, batch, whole[finite], where))
        values.append(whole.to(torch.float64).cpu().numpy())
    starts = np.cumsum([0, *(len(part) for part in values)])
    inputs = [
        np.repeat(start + np.arange(len(part)), part.shape[1]) for start, part in zip(starts, values, strict=False)
    ]
    readings = np.concatenate([part.ravel() for part in values])
    kept = np.concatenate([np.repeat(np.isfinite(part).all(axis=1), part.shape[1]) for part in values])
    if not kept.any():
        msg = f"readings must be finite; none of {len(kept)} is left"
        raise ValueError(msg)
    is_complex = require_one_kind(complex_ones)
    if is_complex:
        subject.notes.append(complex_note(len(readings)))
    places = places_of_parts([(len(part), part.shape[1]) for part in values], is_complex)
    return Survey(
        readings, places, np.concatenate(inputs).astype(np.int64), kept, int(starts[-1]), tuple(separable),
        tuple(dropped),
    )  # fmt: skip


def _separable(subject: Subject, batch: Any, whole: torch.Tensor, where: str) -> bool:
    """Tell whether parts of a batch, and an input alone, read as in the whole of it."""
    size = min(INPUTS, -(-len(whole) // 2))
    with torch.no_grad():
        first = subject.values(next(in_parts(batch, 1)), where)
        parts = list(in_parts(batch, size))
        return apart([first], whole[:1]) and independent(subject, parts, batch, whole, where)


def _finite_inputs(whole: torch.Tensor, finite: torch.Tensor, batch: Any, where: str, omit: bool) -> torch.Tensor:
    if not omit or length(batch) != len(whole):
        place = int(whole.isfinite().flatten().logical_not().nonzero()[0])
        value = float(whole.flatten()[place])
        msg = (
            f"{where}readings must be finite; reading {place} (input {place // whole.shape[1]}) is {value}; "
            "nan_policy='omit' leaves such inputs out"
        )
        raise ValueError(msg)
    return torch.nonzero(finite)[:, 0]


def _selected(batch: Any, indices: Any) -> Any:
    return batch if indices is None else mapped(batch, lambda tensor: tensor[indices])


def parts_of(bank: Bank, seen: Survey) -> Parts:
    """Return what goes through a bank in parts, small where its inputs do not depend on each other."""

    def parts() -> Iterator[Any]:
        for number, (_, batch) in enumerate(batches_of(bank)):
            given = _selected(batch, seen.dropped[number])
            if length(given) != 0:
                yield from in_parts(given, INPUTS if seen.separable[number] else _ALL)

    return parts


def sample_of(bank: Bank, seen: Survey) -> list[Any]:
    """Return a few inputs spread over a bank, and whole a batch whose inputs depend on each other."""
    total = len(seen.separable)
    chosen = np.unique(np.linspace(0, total - 1, SAMPLED).round())
    found = []
    for number, (_, batch) in enumerate(batches_of(bank)):
        given = _selected(batch, seen.dropped[number])
        count = length(given)
        if number not in chosen or count == 0:
            continue
        if seen.separable[number] and count is not None:
            last, most = count - 1, SAMPLED // len(chosen)
            # Of many batches one input each, from the first of the first to the last of the last.
            places = np.linspace(0, last, most) if most > 1 else [last * number / max(1, total - 1)]
            given = _selected(given, torch.as_tensor(np.unique(np.round(places)).astype(int)))
        found.append(given)
    return found


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
    count = sum(1 for _ in parts())
    with _counted(subject) as kept:
        output = subject.readings(next(parts()))
    segments, most = _segments(subject, output, readings, held)
    return Layout(parts, all(seen.separable), readings, count, segments, block, most, sum(kept.values()))


_ALL = 2**62


def way_of_module(subject: Subject, layout: Layout, keep: int, noise: Whitening) -> Way:
    """Return the way that fits the memory that is free, and what it takes."""
    element = subject.parameters.tensors[0].element_size()
    groups, size = len(set(subject.parameters.groups)), subject.parameters.size
    return way_of(
        layout.readings, size, groups, element, held=layout.held + 2.0 * layout.block,
        graph=layout.graph, keep=keep, noise=noise,
        holding="gradients, blocks of rows and the graph of a part of the bank",
    )  # fmt: skip


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
    subject: Subject, output: torch.Tensor, readings: int, held: int
) -> tuple[tuple[tuple[int, ...], ...], float]:
    """Put the tensors, from the first to the last, in segments whose factors fit; return also the most bytes held.

    Gradients of the last go through little of the model: what does not fit in the first segments costs least there.
    """
    share = readings / output.numel()
    segments: list[list[int]] = [[]]
    room, most = float(held), 0.0
    for k, uses in enumerate(uses_of(output, subject.parameters.tensors)):
        tensor = subject.parameters.tensors[k]
        size = share * output.numel() * sum(_factor_size(use, tensor, len(output)) for use in uses or [])
        if size > room and segments[-1]:
            segments.append([])
            room = float(held)
        segments[-1].append(k)
        room -= size
        most = max(most, held - room)
    return tuple(tuple(segment) for segment in segments), most


def _factor_size(use: Any, tensor: Any, inputs: int) -> float:
    """Return the bytes of a factor for each reading."""
    if use.kind in ("sum", "product"):
        return float(tensor.numel() * tensor.element_size())
    rows = use.x.numel() if use.kind == "embedding" else use.x.numel() // max(1, use.x.shape[-1])
    width = tensor.shape[0] if use.kind == "linear" else tensor.shape[1]
    return float(rows / inputs * width * tensor.element_size())
