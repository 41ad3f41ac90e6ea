"""Two torch modules compared: both read, and the derivative of the first along the difference."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from estim.probe.along import absolute, noisy, whitened
from estim.probe.derivatives.rounding import error_by_moving
from estim.probe.directions.noise import Whitening
from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.torch.bank import Bank, in_batches, read_bank
from estim.probe.torch.dense import batches_of, moved_parameters
from estim.probe.torch.parameters import tensor_groups, trainable
from estim.probe.torch.readings import Subject, as_dtype, explained, flat_array
from estim.probe.torch.state import weights_like
from estim.probe.torch.untouched import untouched
from estim.probe.two_models.pair import (
    Pair,
    blocks_of,
    relative_size,
    require_finite,
    third_margin,
    whole_change,
    worst_margin,
)
from estim.probe.verdict.any_change import AnyChange
from estim.probe.verdict.margin import Margin

Array = npt.NDArray[np.float64]
Weights = dict[str, torch.Tensor]

#: Random directions drawn for a typical change: a Jacobian product each.
DIRECTIONS = 16
#: Times the error that was measured: it is one draw of rounding.
_MARGIN = 2.0
_EPS = float(np.finfo(np.float64).eps)


@contextmanager
def compared_modules(
    before: Any, after: Any, bank: Any, sigma: Any, readings: Any, groups: Any, dtype: Any
) -> Iterator[Pair]:
    """Read both modules, and yield them as a pair that can be evaluated; both are left as they were found."""
    bank = in_batches(bank)
    with _line(before, after, bank, readings, dtype) as (line, notes):
        start = line.start()
        noise = noisy(sigma, len(start))
        changed = _own_readings(line, after, dtype, start) - start
        require_finite(changed, "after")
        expected = line.derivative(line.delta)
        own = isinstance(after, torch.nn.Module) and dtype is None
        error = _error(line, (before, after, bank, readings), own, (start, expected, changed))
        yield Pair(
            expected=expected, changed=changed, error=error,
            partly=lambda t: line.readings(t) - start if t < 1.0 else changed,
            whiten=lambda change: whitened(noise, change), absolute=lambda bound: absolute(noise, bound),
            project=lambda change: whole_change(whitened(noise, change)),
            margin=lambda smallest, rng: _margin(line, smallest, start, noise, groups, rng),
            delta=np.array([_norm(line.delta.values()), _norm(line.held.values())]),
            parameters=sum(int(torch.count_nonzero(change)) for change in line.delta.values()),
            notes=(*line.subject.notes, *notes),
        )  # fmt: skip


@contextmanager
def _line(before: Any, after: Any, bank: Any, readings: Any, dtype: Any) -> Iterator[tuple["Line", tuple[str, ...]]]:
    """Make the way from one set of weights to another ready to be read; frozen parameters are on it, too."""
    module = before if dtype is None else as_dtype(before, dtype)
    with untouched(module) as snapshot:
        for tensor in module.parameters():
            if tensor.is_floating_point():
                tensor.requires_grad_(True)
        parameters = trainable(module)
        kind, device = parameters.tensors[0].dtype, parameters.tensors[0].device
        batches = read_bank(bank, device, (kind, dtype is not None))
        other, notes = weights_like(module, after, "after")
        yield Line(Subject(module, readings, parameters, snapshot), batches, other), notes


class Line:
    """A module with its parameters moved along the way from one set to another."""

    def __init__(self, subject: Subject, bank: Bank, end: Weights) -> None:
        self.subject, self.bank = subject, bank
        self.holder = _Holder(subject)
        self.order = np.empty(0, dtype=np.int64)
        """(M,) the readings as they come in their own order, known after `start`."""
        names, tensors = subject.parameters.names, subject.parameters.tensors
        self.held = {name: tensor.detach() for name, tensor in zip(names, tensors, strict=True)}
        start = self.held
        self.delta = {name: end[name] - start[name] for name in start if not torch.equal(end[name], start[name])}
        if not self.delta:
            msg = "after must differ from before; all parameters are the same"
            raise ValueError(msg)

    def batches(self) -> Iterator[tuple[str, Any]]:
        """Yield each batch with what an error says before it."""
        return batches_of(self.bank)

    def start(self) -> Array:
        """Return the readings before, each batch called twice to see whether they repeat."""
        parts, complex_ones = [], []
        for where, batch in self.batches():
            parts.append(self.subject.checked(batch, where))
            complex_ones.append(self.subject.complex)
        places = places_of_parts([(len(part), part.shape[1]) for part in parts], require_one_kind(complex_ones))
        self.order = np.argsort(places)
        if any(complex_ones):
            self.subject.notes.append(complex_note(len(places)))
        return np.concatenate([flat_array(part) for part in parts])[self.order]

    def readings(self, fraction: float) -> Array:
        """Return the readings after a fraction of the change, (M,)."""
        return self.at({name: self.held[name] + fraction * change for name, change in self.delta.items()})

    def at(self, weights: Weights) -> Array:
        """Return the readings with some parameters replaced, (M,)."""
        with torch.no_grad():
            parts = [flat_array(self._called(weights, batch, where)) for where, batch in self.batches()]
        return np.concatenate(parts)[self.order]

    def derivative(self, delta: Weights) -> Array:
        """Return J delta, (M,), forward where torch can, by a backward pass for each reading where it cannot."""
        found = [self._forward(delta, batch, where) for where, batch in self.batches()]
        return np.concatenate(found)[self.order]

    def _forward(self, delta: Weights, batch: Any, where: str) -> Array:
        start = {name: self.held[name] for name in delta}
        try:
            with differentiable_attention():
                moved = torch.func.jvp(lambda given: self._called(given, batch, ""), (start,), (delta,))[1]
        except (RuntimeError, NotImplementedError, ValueError):
            return self._backward(delta, batch, where)
        return flat_array(moved)

    def _backward(self, delta: Weights, batch: Any, where: str) -> Array:
        start = {name: self.held[name].clone().requires_grad_() for name in delta}
        flat = self._called(start, batch, where).reshape(-1)
        found = np.zeros(len(flat))
        try:
            for k in range(len(flat)):
                grads = torch.autograd.grad(
                    flat[k], list(start.values()), retain_graph=True, allow_unused=True, materialize_grads=True
                )
                found[k] = sum(
                    float((g.double() * d.double()).sum()) for g, d in zip(grads, delta.values(), strict=True)
                )
        except RuntimeError as error:
            raise ValueError(where + explained(error)) from error
        return found

    def _called(self, weights: Weights, batch: Any, where: str) -> torch.Tensor:
        given = {f"inner.{name}": tensor for name, tensor in weights.items()}
        readings: torch.Tensor = torch.func.functional_call(self.holder, given, (batch, where))
        return readings


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Take torch's plain attention, as its fused kernels have no forward derivative."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch about itself
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class _Holder(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """The readings of a subject as the output of a module, so that torch can put other parameters in."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.inner = subject.module
        self._subject = [subject]

    def forward(self, batch: Any, where: str) -> torch.Tensor:
        """Return the readings, (inputs, readings of each)."""
        return self._subject[0].values(batch, where)


def _norm(tensors: Any) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def _own_readings(line: Line, after: Any, dtype: Any, start: Array) -> Array:
    """Return the readings after: of a module by its own arithmetic, unless a copy in another dtype is probed."""
    if not isinstance(after, torch.nn.Module) or dtype is not None:
        return line.readings(1.0)
    with untouched(after) as snapshot, torch.no_grad():
        subject = Subject(after, line.subject.function, line.subject.parameters, snapshot)
        parts = [flat_array(subject.values(batch, f"after: {where}")) for where, batch in line.batches()]
    found = np.concatenate(parts)
    if len(found) != len(start):
        msg = f"after must give as many readings as before; got {len(found)} and {len(start)}"
        raise ValueError(msg)
    return found[line.order]


def _error(line: Line, asked: tuple[Any, ...], own: bool, found: tuple[Array, Array, Array]) -> Array:
    """Return how far both changes of the readings may be off, (M,): measured beside a copy in double precision."""
    start, expected, changed = found
    kind = line.subject.parameters.tensors[0].dtype
    if kind != torch.float64:
        before, after, bank, readings = asked
        try:
            with _line(before, after, bank, readings, torch.float64) as (double, _):
                double.order = line.order
                truth = double.readings(0.0), double.derivative(double.delta), double.readings(1.0)
            moved = 0.0 if own else changed - (truth[2] - truth[0])
            off = np.abs(expected - truth[1]) + np.abs(start - truth[0] if own else moved)
            return np.asarray(_MARGIN * off + 2.0 * _EPS * np.abs(start))
        except (TypeError, ValueError):
            line.subject.notes.append(f"{kind}'s error is an estimate: the model has no copy in double precision")
    with moved_parameters(line.subject, 1.0):
        above = line.derivative(line.delta)
    with moved_parameters(line.subject, -1.0):
        below = line.derivative(line.delta)
    own_rounding = 8.0 * torch.finfo(kind).eps * (np.abs(expected) + np.abs(start) + np.abs(changed))
    return np.asarray(error_by_moving(expected, above, below) + own_rounding)


def _margin(line: Line, smallest: Any, start: Array, noise: Whitening, groups: Any, rng: np.random.Generator) -> Margin:
    if not isinstance(smallest, AnyChange):
        third, _ = weights_like(line.subject.module, smallest, "smallest_change")
        changed = line.at(third) - start
        require_finite(changed, "smallest_change")
        return third_margin(float(np.linalg.norm(whitened(noise, changed))))
    members = _members(line, smallest.group, groups)
    if smallest.case == "worst":
        size = sum(tensor.numel() for block in members.values() for _, tensor in block)
        return worst_margin(smallest, size, len(start))
    shifts = [_shift(line, _drawn(members, smallest, rng), noise) for _ in range(DIRECTIONS)]
    return Margin(str(smallest), np.sort(shifts), None)


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
            normal = torch.randn(tensor.shape, generator=drawn, dtype=torch.float32).to(tensor.device, tensor.dtype)
            total += float(normal.double().square().sum())
            found[path] = size * normal
    return {path: tensor * (change.size / math.sqrt(total)) for path, tensor in found.items()}


def _shift(line: Line, delta: Weights, noise: Whitening) -> float:
    return float(np.linalg.norm(whitened(noise, line.derivative(delta))))
