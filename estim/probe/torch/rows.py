"""Rows of a Jacobian that is held: from factors where the graph gives them, else by backward passes."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from estim.probe.torch.capture import Factors, factors_of
from estim.probe.torch.source import source_of
from estim.probe.torch.uses import uses_of

#: Rows of the Jacobian taken back at a time, and bytes of them, at most.
_ROWS = 64
_BYTES = 64 * 2**20
#: Combinations of readings with random signs whose gradients rows from factors are held against.
_DRAWS = 2


def rows_of(readings: torch.Tensor, tensors: tuple[Any, ...]) -> torch.Tensor:
    """Return the derivatives of readings (n, a) by all entries of the tensors, (n a, entries)."""
    uses = uses_of(readings, tensors)
    factors, _ = factors_of(readings, [one or [] for one in uses], source_of(readings))
    parts = [
        None if use is None or found is None else _product(found, tensor)
        for tensor, use, found in zip(tensors, uses, factors, strict=True)
    ]
    unknown = _unknown(readings.reshape(-1), tensors, parts)
    if unknown:
        apart = torch.cat(list(taken_back(readings.reshape(-1), [tensors[k] for k in unknown])))
        for k, rows in zip(unknown, torch.split(apart, [tensors[k].numel() for k in unknown], dim=1), strict=True):
            parts[k] = rows
    return torch.cat([part for part in parts if part is not None], dim=1)


def _unknown(flat: torch.Tensor, tensors: tuple[Any, ...], parts: list[Any]) -> list[int]:
    """Return the numbers of the tensors whose rows are not known, or contradict a plain backward pass.

    Hooks of operations do not show in a graph; and with few digits, inputs that are mixed in a single number may pass
    for one of them.
    """
    unknown = {k for k, part in enumerate(parts) if part is None}
    for draw in range(_DRAWS):
        signs = np.random.default_rng(draw).choice((-1.0, 1.0), len(flat))
        weights = torch.as_tensor(signs, dtype=flat.dtype, device=flat.device)
        grads = torch.autograd.grad(
            flat, tensors, grad_outputs=weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for k in set(range(len(parts))) - unknown:
            rows = parts[k].double()
            off = torch.linalg.vector_norm(weights.double() @ rows - grads[k].reshape(-1).double())
            slack = max(torch.finfo(one.dtype).eps for one in (flat, tensors[k])) ** 0.5
            if not bool(off <= slack * torch.linalg.vector_norm(rows.abs().sum(0))):
                unknown.add(k)
    return sorted(unknown)


def _product(found: Factors, tensor: Any) -> torch.Tensor:
    """Return the rows of one tensor from its factors, (n a, size)."""
    if found.kind == "unused":
        return found.left.new_zeros((found.rows, tensor.numel()))  # type: ignore[no-any-return]
    if found.kind == "rows":
        rows: torch.Tensor = found.left.reshape(-1, tensor.numel())
        return rows
    left = torch.stack(found.left, dim=1)
    inputs, outputs, _, _ = left.shape
    if found.kind == "embedding":
        one_hot = torch.nn.functional.one_hot(found.right + 1, len(tensor) + 1)[..., 1:].to(left.dtype)
        return torch.einsum("nato,ntv->navo", left, one_hot).reshape(inputs * outputs, -1)
    if found.outs is not None:
        width = len(tensor) if found.kind == "linear" else tensor.shape[1]
        left = left.new_zeros((*left.shape[:3], width)).index_copy(3, found.outs, left)
    order = "nato,nti->naoi" if found.kind == "linear" else "nato,nti->naio"
    rows = torch.einsum(order, left, found.right).reshape(inputs * outputs, -1)
    return rows if found.beside is None else rows + _product(found.beside, tensor)


def taken_back(flat: torch.Tensor, parameters: list[Any]) -> Iterator[torch.Tensor]:
    """Yield blocks of rows, (rows, entries): many at once, or one by one where an operation cannot be batched."""
    batched = True
    each = sum(tensor.numel() * tensor.element_size() for tensor in parameters)
    count = max(1, min(_ROWS, _BYTES // max(1, each)))
    for start in range(0, len(flat), count):
        seeds = flat.new_zeros((min(count, len(flat) - start), len(flat)))
        seeds[:, start:].fill_diagonal_(1.0)
        if batched:
            try:
                yield _backward(flat, parameters, seeds, True)
                continue
            except RuntimeError:
                batched = False
        for seed in seeds:
            yield _backward(flat, parameters, seed, False)


def _backward(flat: torch.Tensor, parameters: list[Any], seeds: torch.Tensor, batched: bool) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operations that are batched slowly
        grads = torch.autograd.grad(
            flat, parameters, grad_outputs=seeds, retain_graph=True, allow_unused=True, materialize_grads=True,
            is_grads_batched=batched,
        )  # fmt: skip
    return torch.cat([grad.reshape(len(seeds) if batched else 1, -1) for grad in grads], dim=1)
