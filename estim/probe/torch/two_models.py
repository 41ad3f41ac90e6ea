"""Two torch modules compared: both read, and the derivative of the first along the difference."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.along import noisy
from estim.probe.derivatives.rounding import EPS, error_by_moving
from estim.probe.directions.noise import Whitening
from estim.probe.torch.bank import in_batches, mapped
from estim.probe.torch.jacobian import moved_parameters
from estim.probe.torch.line import Line, Weights, line_between
from estim.probe.torch.parameters import tensor_groups
from estim.probe.torch.readings import Subject, flat_array
from estim.probe.torch.slopes import require_derivative_along
from estim.probe.torch.state import weights_like
from estim.probe.torch.untouched import alone, untouched
from estim.probe.two_models.pair import (
    DIRECTIONS,
    Pair,
    blocks_of,
    require_finite,
    third_margin,
    typical_margin,
    whole_change,
    worst_margin,
)
from estim.probe.verdict.any_change import AnyChange, relative_size
from estim.probe.verdict.margin import Margin

Array = npt.NDArray[np.float64]

#: Times the error that was measured: it is one draw of rounding.
_MARGIN = 2.0


@contextmanager
def compared_modules(
    before: Any, after: Any, bank: Any, sigma: Any, readings: Any, groups: Any, dtype: Any
) -> Iterator[Pair]:
    """Read both modules, and yield them as a pair that can be evaluated; both are left as they were found."""
    bank = in_batches(bank)
    with alone, line_between(before, after, bank, readings, dtype) as (line, notes):
        tensor_groups(groups, tuple(line.held))
        start = line.start()
        require_finite(start, "before")
        noise = noisy(sigma, len(start))
        changed = _own_readings(line, after, dtype, start) - start
        require_finite(changed, "after")
        expected = line.derivative(line.delta)
        own = isinstance(after, torch.nn.Module) and dtype is None
        error = _error(line, (before, after, bank, readings), own, (start, expected, changed))
        yield Pair(
            expected=expected, changed=changed, error=error,
            partly=lambda t: line.readings(t) - start if t < 1.0 else changed,
            noise=noise, project=partial(whole_change, noise=noise),
            margin=lambda smallest, rng: _margin(line, smallest, start, noise, groups, rng),
            delta=np.array([_norm(line.delta.values()), _norm(line.held.values())]),
            parameters=sum(int(torch.count_nonzero(change)) for change in line.delta.values()),
            notes=(*line.subject.notes, *notes),
        )  # fmt: skip


def _norm(tensors: Any) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def _own_readings(line: Line, after: Any, dtype: Any, start: Array) -> Array:
    """Return the readings after: of a module by its own arithmetic, unless a copy in another dtype is probed."""
    if not isinstance(after, torch.nn.Module) or dtype is not None:
        return line.readings(1.0)
    with untouched(after) as snapshot, torch.no_grad():
        subject = Subject(after, line.subject.function, line.subject.parameters, snapshot)
        batches = ((f"after: {where}", _as_read_by(after, line, batch)) for where, batch in line.bank.numbered())
        parts = [flat_array(subject.values(batch, where)) for where, batch in batches]
    found = np.concatenate(parts)
    if len(found) != len(start):
        msg = f"after must give as many readings as before; got {len(found)} and {len(start)}"
        raise ValueError(msg)
    return found[line.order]


def _as_read_by(after: torch.nn.Module, line: Line, batch: Any) -> Any:
    """Return a batch whose floats have the dtype of a module that is all in another one than the model before."""
    own = line.subject.parameters.dtype
    first, *others = {tensor.dtype for tensor in after.parameters() if tensor.is_floating_point()} or {own}
    return batch if others else mapped(batch, lambda tensor: tensor.to(first) if tensor.dtype == own else tensor)


def _error(line: Line, asked: tuple[Any, Any, Any, Any], own: bool, found: tuple[Array, Array, Array]) -> Array:
    """Return how far both changes of the readings may be off, (M,): measured beside a copy in double precision.

    Raises
    ------
    ValueError
        When the derivative along the change is not that of the readings.
    """
    start, expected, changed = found
    kind = line.subject.parameters.dtype
    with _doubled(line, asked) as (double, first):
        if double is not None:
            ahead, last = double.derivative(double.delta), double.readings(1.0)
            require_derivative_along(double.at, double.held, double.delta, first, ahead)
            moved = 0.0 if own else changed - (last - first)
            off = np.abs(expected - ahead) + np.abs(start - first if own else moved)
            return np.asarray(_MARGIN * off + 2.0 * EPS * np.abs(start))
    require_derivative_along(line.at, line.held, line.delta, start, expected)
    with moved_parameters(line.subject, 1.0):
        above = line.derivative(line.delta)
    with moved_parameters(line.subject, -1.0):
        below = line.derivative(line.delta)
    own_rounding = 8.0 * torch.finfo(kind).eps * (np.abs(expected) + np.abs(start) + np.abs(changed))
    return np.asarray(error_by_moving(expected, above, below) + own_rounding)


@contextmanager
def _doubled(line: Line, asked: tuple[Any, Any, Any, Any]) -> Iterator[tuple[Line | None, Array]]:
    """Yield the same way in double precision, and the readings at its start; None where there is no such copy."""
    kind = line.subject.parameters.dtype
    with ExitStack() as stack:
        double, first = None, np.empty(0)
        if kind != torch.float64:
            try:
                double, _ = stack.enter_context(line_between(*asked, torch.float64))
                double.order = line.order
                first = double.readings(0.0)
            except (TypeError, ValueError):
                double = None
                line.subject.notes.append(f"{kind}'s error is an estimate: the model has no copy in double precision")
        yield double, first


def _margin(line: Line, smallest: Any, start: Array, noise: Whitening, groups: Any, rng: np.random.Generator) -> Margin:
    if not isinstance(smallest, AnyChange):
        third, _ = weights_like(line.subject.module, smallest, "smallest_change")
        return third_margin(line.at(third) - start, partial(whole_change, noise=noise))
    members = _members(line, smallest.group, groups)
    if smallest.case == "worst":
        size = sum(tensor.numel() for block in members.values() for _, tensor in block)
        return worst_margin(smallest, size, len(start))
    changes = [_drawn(members, smallest, rng) for _ in range(DIRECTIONS)]
    moved = [line.derivative(change) for change in changes]
    require_derivative_along(line.at, line.held, changes[0], start, moved[0])
    return typical_margin(smallest, moved, noise)


def _members(line: Line, group: str | None, groups: Any) -> dict[str, list[Any]]:
    """Return (name, tensor) of what changes, in the blocks to which a change is relative."""
    held = list(line.held.items())
    blocks = blocks_of(list(line.held), tensor_groups(groups, tuple(line.held)), group)
    return {home: [held[k] for k in places] for home, places in blocks.items()}


def _drawn(members: dict[str, list[Any]], change: AnyChange, rng: np.random.Generator) -> Weights:
    """Return a change of random direction, uniform on the unit sphere of the norm that measures it."""
    drawn = torch.Generator().manual_seed(int(rng.integers(2**63)))
    found, total = {}, 0.0
    for name, block in members.items():
        size = relative_size(name, _norm(tensor for _, tensor in block)) if change.relative else 1.0
        for path, tensor in block:
            normal = torch.randn(tensor.shape, generator=drawn, dtype=torch.float32, device="cpu")
            normal = normal.to(tensor.device, tensor.dtype)
            total += float(normal.double().square().sum())
            found[path] = size * normal
    return {path: tensor * (change.size / math.sqrt(total)) for path, tensor in found.items()}
