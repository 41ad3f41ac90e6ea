"""A first look at a bank: its readings, what can be taken apart, what will be held, and what it will cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.torch.apart import INPUTS, SAMPLED, separable
from estim.probe.torch.bank import Bank, Parts, in_parts, length, selected, spread
from estim.probe.torch.graph import reaches
from estim.probe.torch.readings import NO_GRADIENT, Subject

Array = npt.NDArray[np.float64]

#: More inputs than any batch has.
_ALL = 2**62


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
    apart: list[bool] = []
    dropped: list[Any] = []
    complex_ones: list[bool] = []
    met = False
    for where, batch in bank.numbered():
        graph = subject.checked(batch, where)
        met, whole = met or reaches(graph, subject.parameters.tensors), graph.detach()
        del graph
        complex_ones.append(subject.complex)
        finite = whole.isfinite().all(dim=1)
        if not bool(finite.all()):
            dropped.append(_finite_inputs(whole, finite, batch, where, omit))
            batch = selected(batch, dropped[-1])
        else:
            dropped.append(None)
        count = int(finite.sum())
        apart.append(count > 0 and length(batch) == count and separable(subject, batch, whole[finite]))
        values.append(whole.to(torch.float64).cpu().numpy())
    if not met:
        raise ValueError(NO_GRADIENT)
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
        readings, places, np.concatenate(inputs).astype(np.int64), kept, int(starts[-1]), tuple(apart), tuple(dropped)
    )  # fmt: skip


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


def _finite(batch: Any, places: Any) -> Any:
    """Return the inputs of a batch all of whose readings are finite."""
    return batch if places is None else selected(batch, places)


def parts_of(bank: Bank, seen: Survey) -> Parts:
    """Return what goes through a bank in parts, small where its inputs do not depend on each other."""

    def parts() -> Iterator[Any]:
        for number, (_, batch) in enumerate(bank.numbered()):
            given = _finite(batch, seen.dropped[number])
            if length(given) != 0:
                yield from in_parts(given, INPUTS if seen.separable[number] else _ALL)

    return parts


def sample_of(bank: Bank, seen: Survey) -> list[Any]:
    """Return a few inputs spread over a bank, and whole a batch whose inputs depend on each other."""
    total = len(seen.separable)
    chosen = np.unique(np.linspace(0, total - 1, SAMPLED).round())
    found = []
    for number, (_, batch) in enumerate(bank.numbered()):
        given = _finite(batch, seen.dropped[number])
        count = length(given)
        if number not in chosen or count == 0:
            continue
        if seen.separable[number] and count is not None:
            # Of many batches one input each, from the first of the first to the last of the last.
            given = spread(given, count, SAMPLED // len(chosen), number / max(1, total - 1))
        found.append(given)
    return found
