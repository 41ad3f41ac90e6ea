"""The Jacobian of a part of a bank, held whole, with its error measured beside double precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.derivatives.rounding import MOVED, generic_signs, measured_error
from estim.probe.torch.readings import Subject, explained
from estim.probe.torch.rows import rows_of

Array = npt.NDArray[np.float64]


def jacobian_of(subject: Subject, parts: list[Any], where: str = "") -> Array:
    """Return the Jacobian of the readings of some parts of a bank, one after the other, (M, P).

    Raises
    ------
    ValueError
        When torch cannot differentiate the readings: the message says why.
    """
    found = []
    for part in parts:
        readings = subject.readings(part, where)
        try:
            rows = rows_of(readings, subject.parameters.tensors)
        except RuntimeError as error:
            raise ValueError(where + explained(error)) from error
        found.append(rows.detach().to(torch.float64).cpu().numpy())
    return np.concatenate(found)


def jacobian_with_error(
    subject: Subject, parts: list[Any], double: tuple[Subject, list[Any]] | None, where: str = ""
) -> tuple[Array, Array]:
    """Return the Jacobian of some parts of a bank and its error, entry by entry, (M, P) each.

    It is estimated from two more at parameters moved to both sides; beside a copy in float64, `double` with its parts,
    where there is one, it is measured, and these two are the copy's.
    """
    jacobian = jacobian_of(subject, parts, where)
    exact = None if double is None else jacobian_of(*double, where)
    best, given = (subject, parts) if double is None else double
    moved = []
    for side in (1.0, -1.0):
        with moved_parameters(best, side):
            moved.append(jacobian_of(best, given, where))
    eps = torch.finfo(subject.parameters.dtype).eps
    return jacobian, measured_error(jacobian, exact, (moved[0], moved[1]), eps)


@contextmanager
def moved_parameters(subject: Subject, side: float) -> Iterator[None]:
    """Move every parameter by some roundings to one side (1 or -1)."""
    tensors = subject.parameters.tensors
    held = [tensor.detach().clone() for tensor in tensors]
    steps = subject.parameters.split(generic_signs(subject.parameters.size))
    try:
        for tensor, step in zip(tensors, steps, strict=True):
            tensor.data.mul_(1.0 + side * MOVED * torch.finfo(tensor.dtype).eps * step)
        yield
    finally:
        for tensor, value in zip(tensors, held, strict=True):
            tensor.data.copy_(value)
