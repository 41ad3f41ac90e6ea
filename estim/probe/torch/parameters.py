"""The parameters of a module: those that train, each once, with names and groups."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.groups import given_groups
from estim.probe.torch.untouched import require_values

#: Group of parameters that the module itself owns.
ROOT = "module"


@dataclass(frozen=True)
class Trainable:
    """What a module's readings are differentiated by."""

    names: tuple[str, ...]
    """(tensors,) such as ``layers.0.weight``."""
    tensors: tuple[Any, ...]
    """(tensors,) the torch parameters themselves."""
    groups: tuple[str, ...]
    """(tensors,)."""
    notes: tuple[str, ...]

    @property
    def dtype(self) -> torch.dtype:
        """The model's: that of the first."""
        return self.tensors[0].dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """Of all."""
        return self.tensors[0].device  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Number of parameters, all tensors together."""
        return sum(tensor.numel() for tensor in self.tensors)

    def split(self, vector: npt.NDArray[np.float64]) -> list[torch.Tensor]:
        """Return a vector, (P,), as tensors like the parameters."""
        parts = np.split(vector, np.cumsum([tensor.numel() for tensor in self.tensors])[:-1])
        return [
            torch.as_tensor(np.ascontiguousarray(part), device=tensor.device, dtype=tensor.dtype).reshape(tensor.shape)
            for part, tensor in zip(parts, self.tensors, strict=True)
        ]


def trainable(module: torch.nn.Module, groups: Any = "layers") -> Trainable:
    """Return the parameters of a module that require gradients, tied ones once.

    Parameters
    ----------
    module : torch.nn.Module
    groups : "layers", sequence of str, or mapping
        "layers" groups by the path of the module that owns a parameter. Else a group for each tensor, or a mapping
        from a group to names of tensors, or beginnings of names up to a dot.

    Raises
    ------
    TypeError
        When a parameter is complex, or not of floating point.
    ValueError
        When no parameter requires a gradient, one is not initialised or not finite, or on another device than the
        others, two share memory without being one, an embedding has sparse gradients, or `groups` does not fit.
    """
    _require_dense(module)
    once: dict[int, tuple[str, Any]] = {}
    tied: list[str] = []
    for name, tensor in module.named_parameters(remove_duplicate=False):
        if id(tensor) in once:
            tied.append(f"{name} is {once[id(tensor)][0]} again, and counted once")
        once.setdefault(id(tensor), (name, tensor))
    kept = [(name, tensor) for name, tensor in once.values() if tensor.requires_grad]
    frozen = [name for name, tensor in once.values() if not tensor.requires_grad]
    if not kept:
        why = f"all {len(frozen)} are frozen (requires_grad=False)" if frozen else "it has none"
        msg = f"model must have parameters that require gradients; {type(module).__name__}: {why}"
        raise ValueError(msg)
    for name, tensor in kept:
        _check(name, tensor)
    devices = list(dict.fromkeys(str(tensor.device) for _, tensor in kept))
    if len(devices) > 1:
        msg = f"parameters must be on one device; got {', '.join(devices)}"
        raise ValueError(msg)
    _require_apart(kept)
    notes = list(tied)
    if frozen:
        count = sum(tensor.numel() for _, tensor in once.values() if not tensor.requires_grad)
        notes.append(f"{count} frozen parameters are left out: {_listed(frozen)}")
    names = tuple(name for name, _ in kept)
    return Trainable(names, tuple(tensor for _, tensor in kept), tensor_groups(groups, names), tuple(notes))


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype, such as float32."""
    return str(dtype).removeprefix("torch.")


def tensor_groups(groups: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the group of each tensor; raises ValueError when `groups` does not fit."""
    if groups is None or isinstance(groups, str):
        if groups not in (None, "layers"):
            msg = f"groups must be 'layers', one group for each tensor, or a mapping; got {groups!r}"
            raise ValueError(msg)
        return tuple(name.rpartition(".")[0] or ROOT for name in names)
    return given_groups(groups, names)


def _check(name: str, tensor: torch.Tensor) -> None:
    require_values(name, tensor)
    if not tensor.is_leaf:
        msg = (
            f"parameters must be leaves of the graph; {name} is computed from other tensors, by {tensor.grad_fn!r:.60}"
        )
        raise ValueError(msg)
    if tensor.is_complex() or not tensor.is_floating_point():
        msg = f"parameters must be real; got {tensor.dtype} for {name}: hold its real and imaginary parts as parameters"
        raise TypeError(msg)
    if not bool(torch.isfinite(tensor.detach()).all()):
        place = int(torch.isfinite(tensor.detach()).flatten().logical_not().nonzero()[0])
        value = float(tensor.detach().flatten()[place])
        msg = f"parameters must be finite; got {value} for {name}, entry {place}"
        raise ValueError(msg)


def _require_dense(module: torch.nn.Module) -> None:
    for path, part in module.named_modules():
        if getattr(part, "sparse", False) and isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag):
            msg = f"gradients must be dense; {path or ROOT} is an embedding with sparse=True: set its sparse to False"
            raise ValueError(msg)


def _require_apart(kept: list[tuple[str, Any]]) -> None:
    """Refuse two parameters over the same memory: a change of one would be a change of the other."""
    spans = sorted(
        (tensor.untyped_storage().data_ptr(), tensor.storage_offset() * tensor.element_size(), name, tensor)
        for name, tensor in kept
        if tensor.numel() and tensor.is_contiguous()
    )
    for (base, start, name, tensor), (other_base, other_start, other, _) in itertools.pairwise(spans):
        if base == other_base and base and other_start < start + tensor.numel() * tensor.element_size():
            msg = f"{name} and {other} share memory, but are two parameters: tie them by making them the same Parameter"
            raise ValueError(msg)


def _listed(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more tensors" if len(names) > most else "")
