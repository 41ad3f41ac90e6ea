"""A module with its parameters moved along the way to those of another, and its derivative along changes of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.torch.bank import Bank, read_bank
from estim.probe.torch.parameters import trainable
from estim.probe.torch.readings import Subject, as_dtype, explained, flat_array
from estim.probe.torch.rows import taken_back
from estim.probe.torch.state import weights_like
from estim.probe.torch.swapped import forward_derivative
from estim.probe.torch.untouched import untouched

Array = npt.NDArray[np.float64]
Weights = dict[str, torch.Tensor]


@contextmanager
def line_between(
    before: Any, after: Any, bank: Any, readings: Any, dtype: Any
) -> Iterator[tuple["Line", tuple[str, ...]]]:
    """Make the way from one set of weights to another ready to be read; frozen parameters are on it, too."""
    module = before if dtype is None else as_dtype(before, dtype)
    with untouched(module) as snapshot:
        for tensor in module.parameters():
            if tensor.is_floating_point():
                tensor.requires_grad_(True)
        parameters = trainable(module)
        batches = read_bank(bank, parameters.device, (parameters.dtype, dtype is not None))
        other, notes = weights_like(module, after, "after")
        yield Line(Subject(module, readings, parameters, snapshot), batches, other), notes


class Line:
    """A module with its parameters moved along the way from one set to another."""

    def __init__(self, subject: Subject, bank: Bank, end: Weights) -> None:
        self.subject, self.bank = subject, bank
        self.order = np.empty(0, dtype=np.int64)
        """(M,) the readings as they come in their own order, known after `start`."""
        self.held = {name: tensor.detach() for name, tensor in self._tensors()}
        start = self.held
        self.delta = {name: end[name] - start[name] for name in start if not torch.equal(end[name], start[name])}
        if not self.delta:
            msg = "after must differ from before; all parameters are the same"
            raise ValueError(msg)

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        return zip(self.subject.parameters.names, self.subject.parameters.tensors, strict=True)

    def start(self) -> Array:
        """Return the readings before, each batch called twice to see whether they repeat."""
        parts, shapes, complex_ones = [], [], []
        for where, batch in self.bank.numbered():
            readings = self.subject.checked(batch, where)
            parts.append(flat_array(readings))
            shapes.append((len(readings), readings.shape[1]))
            complex_ones.append(self.subject.complex)
        places = places_of_parts(shapes, require_one_kind(complex_ones))
        self.order = np.argsort(places)
        if any(complex_ones):
            self.subject.notes.append(complex_note(len(places)))
        return np.concatenate(parts)[self.order]

    def readings(self, fraction: float) -> Array:
        """Return the readings after a fraction of the change, (M,)."""
        return self.at({name: self.held[name] + fraction * change for name, change in self.delta.items()})

    def at(self, weights: Weights) -> Array:
        """Return the readings with some parameters replaced, (M,), in place: a model may hold them elsewhere, too."""
        tensors = {name: tensor.data for name, tensor in self._tensors() if name in weights}
        held = {name: tensor.clone() for name, tensor in tensors.items()}
        try:
            for name, tensor in tensors.items():
                tensor.copy_(weights[name])
            with torch.no_grad():
                parts = [flat_array(self.subject.values(batch, where)) for where, batch in self.bank.numbered()]
        finally:
            for name, tensor in tensors.items():
                tensor.copy_(held[name])
        return np.concatenate(parts)[self.order]

    def derivative(self, delta: Weights) -> Array:
        """Return J delta, (M,), forward where torch can, by a backward pass for each reading where it cannot."""
        found = [self._forward(delta, batch, where) for where, batch in self.bank.numbered()]
        return np.concatenate(found)[self.order]

    def _forward(self, delta: Weights, batch: Any, where: str) -> Array:
        start = {name: self.held[name] for name in delta}
        try:
            moved = forward_derivative(self.subject, start, delta, batch)
        except (RuntimeError, NotImplementedError, ValueError):
            return self._backward(delta, batch, where)
        return flat_array(moved)

    def _backward(self, delta: Weights, batch: Any, where: str) -> Array:
        changed = [(tensor, delta[name]) for name, tensor in self._tensors() if name in delta]
        vector = np.concatenate([flat_array(change) for _, change in changed])
        flat = self.subject.readings(batch, where).reshape(-1)
        try:
            rows = taken_back(flat, [tensor for tensor, _ in changed])
            return np.concatenate([block.double().cpu().numpy() @ vector for block in rows])
        except RuntimeError as error:
            raise ValueError(where + explained(error)) from error
