"""How well a Jacobian that is never held is known: its error's norm, from a few combinations of its rows.

For signs r drawn at random, E |r^T X|^2 = |X|_F^2: a backward pass or two tell the norm of a matrix that is the
difference of two Jacobians, and of the Jacobian itself, tensor by tensor (Hutchinson 1990,
doi:10.1080/03610919008812866).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.rounding import error_by_moving
from estim.probe.torch.bank import in_parts, length
from estim.probe.torch.dense import moved_parameters
from estim.probe.torch.gram import Layout
from estim.probe.torch.readings import Subject

Array = npt.NDArray[np.float64]
Parts = Callable[[], Iterator[Any]]

#: Parts of the bank in the sample, about, the inputs of each that are, and combinations of their readings.
_PARTS = 4
_INPUTS = 8
_DRAWS = 2
#: Times the estimate: rows outside the sample may be known worse.
_MARGIN = 2.0


def relative_errors(
    subject: Subject, layout: Layout, weights: Array, double: "tuple[Subject, Parts] | None" = None
) -> dict[str, float]:
    """Return |E|_F / |J|_F for the tensors of each group, and of all under "", on a sample of the bank.

    Parameters
    ----------
    subject, layout
    weights : ndarray, shape (M,)
        1 / sd of each reading: what its row counts.
    double : tuple of Subject and parts, optional
        The same in float64. Without it the parameters are moved a little instead.
    """
    kind = subject.parameters.tensors[0].dtype
    plain = _combinations(subject, layout.parts, layout.count, weights)
    if double is None:
        with moved_parameters(subject, 1.0):
            above = _combinations(subject, layout.parts, layout.count, weights)
        with moved_parameters(subject, -1.0):
            below = _combinations(subject, layout.parts, layout.count, weights)
        own = 0.0 if kind == torch.float64 else 8.0 * torch.finfo(kind).eps
        triples = zip(plain, above, below, strict=True)
        errors = [_error_by_tensor(subject, triple) + own * np.abs(triple[0]) for triple in triples]
        truth = plain
    else:
        truth = _combinations(double[0], double[1], layout.count, weights)
        errors = [one - two for one, two in zip(plain, truth, strict=True)]
    return _by_group(subject, errors, truth, 0.5 * torch.finfo(kind).eps)


def _error_by_tensor(subject: Subject, triple: tuple[Array, Array, Array]) -> Array:
    """Estimate the error of combinations of rows, tensor by tensor: what is typical of one is not of another."""
    stops = np.cumsum([tensor.numel() for tensor in subject.parameters.tensors])[:-1]
    parts = zip(*(np.split(rows, stops) for rows in triple), strict=True)
    return np.concatenate([error_by_moving(*part) for part in parts])


def _by_group(subject: Subject, errors: list[Array], truth: list[Array], least: float) -> dict[str, float]:
    stops = np.cumsum([tensor.numel() for tensor in subject.parameters.tensors])
    off, size = (
        dict.fromkeys(("", *subject.parameters.groups), 0.0),
        dict.fromkeys(("", *subject.parameters.groups), 0.0),
    )
    for error, value in zip(errors, truth, strict=True):
        for k, group in enumerate(subject.parameters.groups):
            part = slice(stops[k] - subject.parameters.tensors[k].numel(), stops[k])
            for name in ("", group):
                off[name] += float(np.square(error[part]).sum())
                size[name] += float(np.square(value[part]).sum())
    return {name: _MARGIN * max(np.sqrt(off[name] / size[name]) if size[name] else 0.0, least) for name in off}


def _combinations(subject: Subject, parts: Parts, count: int, weights: Array) -> list[Array]:
    """Return combinations of rows with random signs, (P,) each; the same signs on every call."""
    rng = np.random.default_rng(0)
    found: list[Array] = []
    start, outputs = 0, 0
    step = max(1, count // _PARTS)
    for number, part in enumerate(parts()):
        inputs = length(part)
        if number % step and inputs is not None:
            start += inputs * outputs
            continue
        readings = subject.readings(next(in_parts(part, _INPUTS)))
        flat, outputs = readings.reshape(-1), readings.shape[1]
        weight = weights[start : start + len(flat)]
        start += (len(readings) if inputs is None else inputs) * outputs
        for _ in range(_DRAWS):
            seed = torch.as_tensor(weight * rng.choice((-1.0, 1.0), len(weight)), dtype=flat.dtype, device=flat.device)
            grads = torch.autograd.grad(
                flat, list(subject.parameters.tensors), grad_outputs=seed, retain_graph=True, allow_unused=True,
                materialize_grads=True,
            )  # fmt: skip
            found.append(np.concatenate([grad.detach().double().reshape(-1).cpu().numpy() for grad in grads]))
        del readings, flat
    return found
