"""The record of a module whose readings and parameters are both too many, from products with its Jacobian."""

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.cost import available, gram_bytes, in_bytes
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.top_record import directions_sought, top_cost, top_sensitivity
from estim.probe.torch.operator import jacobian_operator
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Survey, parts_of


def gram_fits(subject: Subject, seen: Survey) -> bool:
    """Tell whether the Gram matrices of the groups of a module fit in the memory that is free."""
    return gram_bytes(int(seen.kept.sum()), len(set(subject.parameters.groups))) <= available()


def top_plan(subject: Subject, seen: Survey, keep: int) -> tuple[str, int]:
    """Return the path, what it takes and why it was chosen in words, and the least number of passes over the bank."""
    readings, size = int(seen.kept.sum()), subject.parameters.size
    groups = len(set(subject.parameters.groups))
    said, passes, need = top_cost(directions_sought(keep, readings, size), readings, size)
    whole = float(readings) * size * subject.parameters.tensors[0].element_size()
    return (
        f"{said} and {in_bytes(need)}; {in_bytes(available())} are free, and the Gram matrices of {groups} groups "
        f"would take {in_bytes(gram_bytes(readings, groups))}, the whole Jacobian {in_bytes(whole)}: fewer groups "
        "(groups=...), inputs or readings would show all directions"
    ), passes


def require_independent(noise: Whitening) -> None:
    """Refuse a covariance, which would be as large as a Gram matrix."""
    if noise.forward is not None:
        msg = (
            "sigma must be a number or one for each reading where the Gram matrix is too large to hold; "
            "got a covariance"
        )
        raise ValueError(msg)


def strongest_of_module(
    subject: Subject, bank: Any, seen: Survey, noise: Whitening, relative: dict[str, float], *, progress: bool,
    plan: tuple[str, int], **options: Any,
) -> ModelSensitivity:  # fmt: skip
    """Return the record of the strongest directions; `bank` as read."""
    words, passes = plan
    parameters = subject.parameters
    with _bar(passes, progress) as bar:
        tick = bar.update if bar is not None else None
        matrix = jacobian_operator(subject, parts_of(bank, seen), noise.scale, tick)
        return top_sensitivity(
            matrix, parameters.names, [tensor.numel() for tensor in parameters.tensors], parameters.groups, relative,
            scale=noise.scale, derivative=f"autograd in {_kind(parameters.tensors[0].dtype)}",
            notes=(*subject.notes, words), left_out=np.flatnonzero(~seen.kept), **options,
        )  # fmt: skip


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bar(passes: int, shown: bool) -> Any:
    """Return a bar over passes, at least so many, or nothing."""
    if not shown:
        return nullcontext()
    from tqdm import tqdm

    return tqdm(total=passes, desc="sensitivity", unit="pass", file=sys.stderr)
