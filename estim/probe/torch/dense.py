"""The whole Jacobian of a small module, with an error measured against double precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.derivatives import rounding
from estim.probe.derivatives.rounding import MOVED, generic_signs
from estim.probe.torch.bank import Bank, in_parts, mapped
from estim.probe.torch.readings import Subject, explained
from estim.probe.torch.rows import rows_of
from estim.probe.torch.slopes import line_of

Array = npt.NDArray[np.float64]

#: Inputs differentiated at a time, where those of a batch do not depend on each other.
_INPUTS = 32
#: A rounding that leaves few digits: more than that of float32.
_FEW = 1e-4


def jacobian_of(subject: Subject, batch: Any, where: str = "") -> tuple[Array, Array]:
    """Return readings (inputs, readings of each) and their Jacobian (readings, parameters) for one batch.

    Raises
    ------
    ValueError
        When torch cannot differentiate the readings: the message says why.
    """
    with torch.no_grad():
        whole = subject.values(batch, where)
        # A reading that is NaN makes the gradients of its neighbours NaN, too: 0 times NaN.
        parts = list(in_parts(batch, _INPUTS if whole.isfinite().all() else 1))
        if len(parts) > 1 and not (read_apart(subject, parts, whole) and apart_elsewhere(subject, parts, batch)):
            parts = [batch]
    return _numpy(whole), np.concatenate([_rows(subject, subject.readings(part, where), where) for part in parts])


def apart(parts: list[torch.Tensor], whole: torch.Tensor) -> bool:
    """Tell whether the readings of inputs do not depend on which others are in the batch."""
    readings = torch.cat(parts) if len({part.shape[1] for part in parts}) == 1 else parts[0]
    slack = 100.0 * torch.finfo(whole.dtype).eps ** 0.75 * whole.abs().nan_to_num(0.0).max()
    return readings.shape == whole.shape and bool(((readings - whole).abs().nan_to_num(0.0) <= slack).all())


def read_apart(subject: Subject, parts: list[Any], whole: torch.Tensor) -> bool:
    """Tell whether inputs read in parts of a batch as in the whole of it; a model may refuse batches of other sizes."""
    try:
        return apart([subject.values(part) for part in parts], whole)
    except (TypeError, ValueError):
        return False


def apart_elsewhere(subject: Subject, parts: list[Any], batch: Any) -> bool:
    """Tell whether inputs read in parts of a batch as in the whole of it at other parameters.

    Of a mean over the batch with a weight of zero only these tell, and derivatives.
    """
    with line_of(subject)[1](0.0):
        try:
            whole = subject.values(batch)
            return read_apart(subject, parts, whole) and _alone(subject, batch, whole)
        except (TypeError, ValueError):  # not at those parameters
            return False


def _alone(subject: Subject, batch: Any, whole: torch.Tensor) -> bool:
    """Tell whether the first and last input read the same beside copies of themselves, where digits are few.

    Parts of a batch take other roundings than the whole of it: in bfloat16 these hide what the others do.
    """
    eps = torch.finfo(whole.dtype).eps
    slack = eps * whole.abs().nan_to_num(0.0).max()

    def changed(place: int) -> torch.Tensor:
        copies = mapped(batch, lambda tensor: tensor[place].expand_as(tensor))
        return (subject.values(copies)[place] - whole[place]).abs().nan_to_num(0.0)

    return eps < _FEW or all(bool((changed(place) <= slack).all()) for place in (0, -1))


def _rows(subject: Subject, readings: torch.Tensor, where: str) -> Array:
    try:
        return _numpy(rows_of(readings, subject.parameters.tensors))
    except RuntimeError as error:
        raise ValueError(where + explained(error)) from error


def _numpy(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.detach().to(torch.float64).cpu().numpy())


def measured_error(jacobian: Array, double: Array | None, moved: tuple[Array, Array], dtype: Any) -> Array:
    """Return the error of a Jacobian in a dtype, as `estim.probe.derivatives.rounding.measured_error`."""
    return rounding.measured_error(jacobian, double, moved, torch.finfo(dtype).eps)


def moved_jacobian(subject: Subject, batch: Any, side: float, where: str = "") -> Array:
    """Return the Jacobian with every parameter some roundings away, on one side (1 or -1)."""
    with moved_parameters(subject, side):
        return jacobian_of(subject, batch, where)[1]


@contextmanager
def moved_parameters(subject: Subject, side: float) -> Iterator[None]:
    """Move every parameter by some roundings to one side (1 or -1)."""
    tensors = subject.parameters.tensors
    held = [tensor.detach().clone() for tensor in tensors]
    signs = np.split(generic_signs(subject.parameters.size), np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    try:
        for tensor, sign in zip(tensors, signs, strict=True):
            step = torch.as_tensor(sign, dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
            tensor.data.mul_(1.0 + side * MOVED * torch.finfo(tensor.dtype).eps * step)
        yield
    finally:
        for tensor, value in zip(tensors, held, strict=True):
            tensor.data.copy_(value)


def batches_of(bank: Bank) -> Iterator[tuple[str, Any]]:
    """Yield each batch with what an error says before it."""
    for number, batch in enumerate(bank.batches()):
        yield "" if bank.whole else f"batch {number}: ", batch
