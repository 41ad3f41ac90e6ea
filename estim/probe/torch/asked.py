"""What is asked of a torch module, and the module opened to answer it: as it is, or as a copy in float64."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.torch.bank import Bank, read_bank
from estim.probe.torch.parameters import Trainable, trainable
from estim.probe.torch.readings import Subject, as_dtype
from estim.probe.torch.survey import Parts, Survey, parts_of
from estim.probe.torch.untouched import untouched
from estim.probe.torch.uses import require_reached


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
    device = parameters.tensors[0].device
    batches = read_bank(bank, device, (parameters.tensors[0].dtype, asked.dtype is not None))
    with untouched(copied) as snapshot:
        yield Subject(copied, asked.readings, parameters, snapshot, list(parameters.notes)), batches


@contextmanager
def in_double(module: Any, bank: Any, asked: Asked, seen: Survey) -> Iterator[tuple[Subject, Parts] | None]:
    """Yield a copy of a module in float64 with its bank in parts; None where it does not follow."""
    with ExitStack() as stack:
        found = None
        try:
            copied, batches = stack.enter_context(opened(module, bank, replace(asked, dtype=torch.float64)))
            parts = parts_of(batches, seen)
            require_reached(copied.readings(next(iter(parts()))), copied.parameters.tensors)
            with torch.no_grad():
                for part in parts():
                    copied.values(part)
            found = copied, parts
        except (TypeError, ValueError):
            pass
        yield found


def precision_note(kind: Any, measured: bool) -> str:
    """Say in what precision derivatives are, and how their error is known."""
    how = "beside a copy in float64" if measured else "by moving the parameters a little, as float64 is out of reach"
    return f"derivatives are {name_of(kind)}'s, their error measured {how}; dtype=torch.float64 probes a double copy"


def name_of(kind: Any) -> str:
    """Return the name of a dtype, such as float32."""
    return str(kind).removeprefix("torch.")


def vector_of(parameters: Trainable, asked: Asked) -> Parameters:
    """Return the parameters as one vector with a name for each entry."""
    pairs = list(zip(parameters.names, parameters.tensors, strict=True))
    nested = {name: tensor.detach().to(torch.float64).cpu().numpy() for name, tensor in pairs}
    groups = [group for (_, t), group in zip(pairs, parameters.groups, strict=True) for _ in range(t.numel())]
    return read_parameters(nested, names=asked.names, groups=groups, argument="model")
