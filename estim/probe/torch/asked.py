"""What is asked of a torch module, and the module opened to answer it: as it is, or as a copy in float64."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.torch.bank import Bank, Parts, in_parts, read_bank
from estim.probe.torch.graph import computed_in, reaches
from estim.probe.torch.parameters import Trainable, name_of, trainable
from estim.probe.torch.readings import NO_GRADIENT, Subject, as_dtype, gradients_of
from estim.probe.torch.survey import Survey, parts_of
from estim.probe.torch.untouched import untouched


@dataclass(frozen=True)
class Asked:
    """The arguments of `estim.sensitivity` that a module takes beyond sigma."""

    readings: Callable[..., Any] | None
    groups: Any
    names: Any
    inputs: Any
    dtype: Any
    keep: int
    nan_policy: str
    progress: bool


@contextmanager
def opened(module: Any, bank: Any, asked: Asked) -> Iterator[tuple[Subject, Bank]]:
    """Make a module, or its copy in another dtype, ready to be read, with its bank; it is left as it was found."""
    copied = module if asked.dtype is None else as_dtype(module, asked.dtype)
    parameters = trainable(copied, asked.groups)
    batches = read_bank(bank, parameters.device, (parameters.dtype, asked.dtype is not None))
    with untouched(copied) as snapshot:
        yield Subject(copied, asked.readings, parameters, snapshot, list(parameters.notes)), batches


@dataclass(frozen=True)
class Double:
    """A copy of a module in float64, ready to be read."""

    subject: Subject
    bank: Bank
    parts: Parts
    """Of the bank, those that the module itself is read in."""
    throughout: bool
    """Whether no number on the way to its readings is shorter."""


@contextmanager
def in_double(
    subject: Subject, module: Any, bank: Any, asked: Asked, seen: Survey, small: bool
) -> Iterator[Double | None]:
    """Yield a copy in float64 of a module that is open; None where it is so itself, or the copy does not follow.

    A small one is tried on all that was seen of the module, a large one on an input.
    """
    if subject.parameters.dtype == torch.float64:
        yield None
        return
    with ExitStack() as stack:
        found = None
        try:
            copied, batches = stack.enter_context(opened(module, bank, replace(asked, dtype=torch.float64)))
            parts = parts_of(batches, seen)
            first = next(parts())
            count, kinds = _followed(
                copied, parts() if small else [next(in_parts(first, 1)) if all(seen.separable) else first]
            )
            if not small or count == int(seen.kept.sum()):
                found = Double(copied, batches, parts, kinds == {torch.float64})
        except (TypeError, ValueError):
            pass
        yield found


def _followed(copied: Subject, parts: Iterable[Any]) -> tuple[int, set[torch.dtype]]:
    """Return how many readings some parts have, and what numbers these are made of, of a copy that can be probed."""
    count, reached, kinds = 0, False, set[torch.dtype]()
    for part in parts:
        flat = copied.readings(part).reshape(-1)
        kinds |= computed_in(flat)
        count, reached = count + len(flat), reached or reaches(flat, copied.parameters.tensors)
        gradients_of(copied, flat, torch.ones_like(flat))
    if not reached:  # they are still those of the original
        raise ValueError(NO_GRADIENT)
    return count, kinds


def precision_note(kind: Any, measured: bool) -> str:
    """Say in what precision derivatives are, and how their error is known."""
    how = "beside a copy in float64" if measured else "by moving the parameters a little, as float64 is out of reach"
    return f"derivatives are {name_of(kind)}'s, their error measured {how}; dtype=torch.float64 probes a double copy"


def vector_of(parameters: Trainable, asked: Asked) -> Parameters:
    """Return the parameters as one vector with a name for each entry."""
    pairs = list(zip(parameters.names, parameters.tensors, strict=True))
    nested = {name: tensor.detach().to(torch.float64).cpu().numpy() for name, tensor in pairs}
    groups = [group for (_, t), group in zip(pairs, parameters.groups, strict=True) for _ in range(t.numel())]
    return read_parameters(nested, names=asked.names, groups=groups, argument="model")
