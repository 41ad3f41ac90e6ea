"""The whole Jacobian of a small module, with an error measured against double precision."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.rounding import error_by_moving, generic_signs
from estim.probe.torch.bank import Bank, in_parts
from estim.probe.torch.readings import Subject, explained

Array = npt.NDArray[np.float64]

#: Inputs differentiated at a time, where those of a batch do not depend on each other.
_INPUTS = 32
#: Rows of the Jacobian taken back at a time.
_ROWS = 64
#: Relative move of the parameters, in roundings, that shows the rounding of a derivative: see `rounding`.
_MOVE = 2.0**10


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
        if len(parts) > 1 and not apart([subject.values(part, where) for part in parts], whole):
            parts = [batch]
    return _numpy(whole), np.concatenate([_rows(subject, subject.readings(part, where), where) for part in parts])


def apart(parts: list[torch.Tensor], whole: torch.Tensor) -> bool:
    """Tell whether the readings of inputs do not depend on which others are in the batch."""
    readings = torch.cat(parts) if len({part.shape[1] for part in parts}) == 1 else parts[0]
    slack = 100.0 * torch.finfo(whole.dtype).eps ** 0.75 * whole.abs().nan_to_num(0.0).max()
    return readings.shape == whole.shape and bool(((readings - whole).abs().nan_to_num(0.0) <= slack).all())


def _rows(subject: Subject, readings: torch.Tensor, where: str) -> Array:
    flat = readings.reshape(-1)
    jacobian = np.empty((len(flat), subject.parameters.size))
    try:
        for start, rows in taken_back(flat, list(subject.parameters.tensors)):
            jacobian[start : start + len(rows)] = _numpy(rows)
    except RuntimeError as error:
        raise ValueError(where + explained(error)) from error
    return jacobian


def taken_back(flat: torch.Tensor, parameters: list[Any]) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield blocks of rows: many at once where torch can, one by one where an operation cannot be batched."""
    batched = True
    for start in range(0, len(flat), _ROWS):
        seeds = torch.eye(len(flat), dtype=flat.dtype, device=flat.device)[start : start + _ROWS]
        if batched:
            try:
                yield start, _backward(flat, parameters, seeds, True)
                continue
            except RuntimeError:
                batched = False
        for k, seed in enumerate(seeds):
            yield start + k, _backward(flat, parameters, seed, False)


def _backward(flat: torch.Tensor, parameters: list[Any], seeds: torch.Tensor, batched: bool) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operations that are batched slowly
        grads = torch.autograd.grad(
            flat, parameters, grad_outputs=seeds, retain_graph=True, allow_unused=True, materialize_grads=True,
            is_grads_batched=batched,
        )  # fmt: skip
    return torch.cat([grad.reshape(len(seeds) if batched else 1, -1) for grad in grads], dim=1)


def _numpy(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.detach().to(torch.float64).cpu().numpy())


def measured_error(jacobian: Array, double: Array | None, moved: tuple[Array, Array], dtype: Any) -> Array:
    """Return the error of a Jacobian, entry by entry, from two at moved parameters, and from one in double precision.

    Without the latter the two tell what rounding does. With it they are its own, and what a lower precision loses is
    seen beside it; an entry that is right by chance still carries a rounding.
    """
    rounding = torch.finfo(dtype).eps * np.abs(jacobian)
    if double is None:
        return np.asarray(error_by_moving(jacobian, *moved) + (0.0 if dtype == torch.float64 else 8.0 * rounding))
    return np.asarray(np.maximum(np.abs(jacobian - double), rounding) + error_by_moving(double, *moved))


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
            tensor.data.mul_(1.0 + side * _MOVE * torch.finfo(tensor.dtype).eps * step)
        yield
    finally:
        for tensor, value in zip(tensors, held, strict=True):
            tensor.data.copy_(value)


def batches_of(bank: Bank) -> Iterator[tuple[str, Any]]:
    """Yield each batch with what an error says before it."""
    for number, batch in enumerate(bank.batches()):
        yield "" if bank.whole else f"batch {number}: ", batch
