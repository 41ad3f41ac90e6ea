"""A user's module, used and given back exactly as it was found."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from estim.one_thread import OneThread
from estim.probe.torch.surroundings import plain_surroundings

#: Of modules that are being read, the outermost first.
_open: list["Snapshot"] = []


def _put_back() -> None:
    while _open:
        _open.pop().restore()


#: A module is moved where it is, and random states are of the whole process: threads that read modules wait.
alone = OneThread(_put_back)


@contextmanager
def untouched(module: torch.nn.Module) -> Iterator["Snapshot"]:
    """Put a module in eval mode, with gradients on, and restore everything at the end, whatever happened.

    Restored are training flags, attributes, hooks, buffers, parameters with their ``requires_grad`` and ``grad``, and
    the state of the random number generators of torch, NumPy and Python.
    """
    snapshot = Snapshot(module)
    devices = {tensor.device for tensor in snapshot.tensors if tensor.device.type == "cuda"}
    with ExitStack() as stack:
        stack.callback(snapshot.restore)
        _open.append(snapshot)
        stack.callback(_open.pop)
        stack.enter_context(torch.random.fork_rng([device.index for device in devices]))
        stack.enter_context(_other_generators())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(plain_surroundings(module))
        # Not module.eval(), which a subclass may have made into something else.
        for part in snapshot.parts:
            part.training = False
        yield snapshot


class Snapshot:
    """Everything a module holds, and its way back."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.parts = list(module.modules())
        self._training = [part.training for part in self.parts]  # no entry of __dict__ in scripted modules
        self._attributes = [dict(part.__dict__) for part in self.parts]
        # Of parameters, buffers, parts and hooks among others: a forward pass, or a reading, may replace or add some.
        self._contents = [
            (held, dict(held) if isinstance(held, dict) else list(held))
            for attributes in self._attributes
            for held in attributes.values()
            if isinstance(held, dict | list | set)
        ]
        self.parameters = list(module.parameters())
        self.buffers = dict(module.named_buffers())
        self.tensors = [*self.parameters, *self.buffers.values()]
        for name, tensor in [*module.named_parameters(), *self.buffers.items()]:
            require_values(name, tensor)
            if tensor.is_inference():
                msg = f"parameters must be able to take gradients; {name} was made in torch.inference_mode"
                raise ValueError(msg)
        self._flags = [(tensor.requires_grad, tensor.grad) for tensor in self.tensors]
        self._grads = [None if grad is None else grad.detach().clone() for _, grad in self._flags]
        self._values = [tensor.detach().clone() for tensor in self.tensors]
        self._versions = [tensor._version for tensor in self.tensors]

    def written(self) -> list[torch.Tensor]:
        """Return the parameters and buffers that something wrote into since the last time."""
        pairs = zip(self.tensors, self._versions, strict=True)
        return [tensor for tensor, version in pairs if tensor._version != version]

    def rewind(self, *, thorough: bool = False) -> None:
        """Give parameters and buffers their values back; `thorough` compares bits, as ``.data`` writes unseen."""
        with torch.no_grad():
            for k, (tensor, value) in enumerate(zip(self.tensors, self._values, strict=True)):
                if tensor._version != self._versions[k] or (thorough and not _same_bits(tensor, value)):
                    tensor.copy_(value)
                    self._versions[k] = tensor._version

    def restore(self) -> None:
        """Put everything back."""
        for held, contents in self._contents:
            held.clear()
            held.extend(contents) if isinstance(held, list) else held.update(contents)
        for part, attributes in zip(self.parts, self._attributes, strict=True):
            part.__dict__.clear()
            part.__dict__.update(attributes)
        for part, training in zip(self.parts, self._training, strict=True):
            part.training = training
        self.rewind(thorough=True)
        for tensor, (needed, grad), value in zip(self.tensors, self._flags, self._grads, strict=True):
            tensor.requires_grad_(needed)
            tensor.grad = grad
            if grad is not None and value is not None and not _same_bits(grad, value):
                grad.detach().copy_(value)


def require_values(name: str, tensor: torch.Tensor, argument: str = "parameters") -> None:
    """Refuse a parameter or buffer that is not made yet, or only its shape."""
    if torch.nn.parameter.is_lazy(tensor):
        msg = f"{argument} must hold values; {name} is not initialised yet: call the model once on a batch"
        raise ValueError(msg)
    if tensor.is_meta:
        msg = f"{argument} must hold values; {name} is on the device meta"
        raise ValueError(msg)


def _same_bits(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, NaN included."""
    held = tensor.detach()
    if held.dtype != value.dtype or held.shape != value.shape:
        return False
    if torch.equal(held, value) or not held.is_floating_point():
        return bool(torch.equal(held, value))
    return bool(((held == value) | (held.isnan() & value.isnan())).all())


@contextmanager
def _other_generators() -> Iterator[Any]:
    """Keep the global states of NumPy and Python, which a model may draw from."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
