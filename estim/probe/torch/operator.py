"""The whitened Jacobian of a module as an operator: its products with vectors, part after part of the bank.

W v comes from forward-mode derivatives, W^T u from a backward pass. Where an operation has no forward mode, or swapped
parameters do not reach the readings, W v is the derivative by u of W^T u: a backward pass through a backward pass.

notation: W (M, P) = D J, D = 1 / sd of the readings; v (P,), u (M,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator

from estim.probe.torch.bank import Parts
from estim.probe.torch.graph import rounded_on_the_way
from estim.probe.torch.readings import Subject, explained, flat_array, gradients_of
from estim.probe.torch.swapped import differentiable_attention, forward_derivative

Array = npt.NDArray[np.float64]
#: Takes a part of the bank and a direction for each tensor; returns the derivative of the part's readings along it.
Along = Callable[[Subject, Any, list[torch.Tensor]], torch.Tensor]


def jacobian_operator(subject: Subject, parts: Parts, scale: Array, tick: Any = None) -> LinearOperator:
    """Return W, (M, P), of parameters as one vector, tensor after tensor.

    Parameters
    ----------
    subject : Subject
    parts : callable
        Returns a fresh iterator over parts of the bank.
    scale : ndarray, shape (M,)
        1 / sd of each reading.
    tick : callable, optional
        Called with 1 after every pass over the bank.

    Raises
    ------
    ArithmeticError
        When W v and W^T u contradict each other: gradients are changed on their way.
    """
    along = _chosen(subject, next(parts()))
    size = subject.parameters.size

    def forward(vector: Array) -> Array:
        tangents, found, start = subject.parameters.split(np.ravel(vector)), np.empty(len(scale)), 0
        for part in parts():
            with differentiable_attention():
                moved = flat_array(along(subject, part, tangents))
            found[start : start + len(moved)] = scale[start : start + len(moved)] * moved
            start += len(moved)
        if tick is not None:
            tick(1)
        return found

    def backward(vector: Array) -> Array:
        weights, found, start = scale * np.ravel(vector), np.zeros(size), 0
        for part in parts():
            with differentiable_attention():
                flat = subject.readings(part).reshape(-1)
                grads = gradients_of(subject, flat, weights[start : start + len(flat)])
                found += np.concatenate([flat_array(grad) for grad in grads])
            start += len(flat)
        if tick is not None:
            tick(1)
        return found

    return LinearOperator((len(scale), size), matvec=forward, rmatvec=backward, dtype=np.float64)


def _chosen(subject: Subject, part: Any) -> Along:
    """Return the way to W v that agrees with W^T u on a part of the bank: u . W v = v . W^T u."""
    rng = np.random.default_rng(2)
    with differentiable_attention():
        flat = subject.readings(part).reshape(-1)
        seed = torch.as_tensor(rng.standard_normal(len(flat)), device=flat.device, dtype=flat.dtype)
        taken = [grad.detach() for grad in gradients_of(subject, flat, seed)]
        tangents = subject.parameters.split(rng.standard_normal(subject.parameters.size))
        pairs = list(zip(taken, tangents, strict=True))
        back = sum(float((one.double() * two.double()).sum()) for one, two in pairs)
        most = np.sqrt(sum(float((one.double() * two.double()).square().sum()) for one, two in pairs))
        slack = torch.finfo(flat.dtype).eps ** 0.5 * most
        said = ""
        for way in (_by_forward_mode, _by_two_backward_passes):
            try:
                moved = way(subject, part, tangents).reshape(-1)
            except Exception as error:  # an operation without this derivative may raise anything
                said = explained(error)
                continue
            forth = float((moved.double() * seed.double()).sum())
            if abs(forth - back) <= slack + np.finfo(np.float64).tiny:
                return way
            cause = rounded_on_the_way(flat, subject.parameters.dtype) or "a hook that changes gradients?"
            said = f"u . J v is {forth:.6g}, and v . J^T u {back:.6g}: {cause}"
    msg = f"products with the Jacobian and with its transpose must agree; {said}"
    raise ArithmeticError(msg)


def _by_forward_mode(subject: Subject, part: Any, tangents: list[torch.Tensor]) -> torch.Tensor:
    names, tensors = subject.parameters.names, subject.parameters.tensors
    weights, change = (dict(zip(names, given, strict=True)) for given in (tensors, tangents))
    return forward_derivative(subject, weights, change, part)


def _by_two_backward_passes(subject: Subject, part: Any, tangents: list[torch.Tensor]) -> torch.Tensor:
    flat = subject.readings(part).reshape(-1)
    seed = torch.zeros_like(flat, requires_grad=True)
    taken = gradients_of(subject, flat, seed, create_graph=True)
    used = [(one, two) for one, two in zip(taken, tangents, strict=True) if one.requires_grad]
    found: torch.Tensor = torch.autograd.grad(
        [one for one, _ in used], seed, [two for _, two in used], allow_unused=True, materialize_grads=True
    )[0]
    return found
