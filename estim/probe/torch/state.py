"""A second set of weights for a module: a state dict, or a module that has one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from estim.probe.torch.untouched import require_values

#: Where torch keeps the weight and bias of a layer that was quantised as a module.
_PACKED = "_packed_params._packed_params"
#: Names that adapters of low rank have before they are merged.
_ADAPTERS = ("lora_", "adapter")
#: Parts of names that wrappers add: DataParallel, torch.compile, sharding, checkpointing.
_WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def weights_like(module: torch.nn.Module, other: Any, argument: str) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Return the parameters of another model under the names of this one's, in its dtypes, and notes.

    Parameters
    ----------
    module : torch.nn.Module
    other : mapping of names to tensors, or torch.nn.Module
        Quantised tensors are dequantised. Tied parameters may stand under any of their names, and all with or without
        what DataParallel or torch.compile adds to a name.
    argument : str
        What to call `other` in an error.

    Raises
    ------
    TypeError
        When it is neither, or an entry is no tensor of real numbers.
    ValueError
        When names or shapes differ, tied parameters do, or an entry is not finite: the message names the parameter.
    """
    state = _dequantised(_state(other, argument), argument)
    state = _renamed(state, [*dict(module.named_parameters(remove_duplicate=False)), *dict(module.named_buffers())])
    names: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    held = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers())
    _require_known([name for name in state if name not in held and name not in buffers], argument)
    found = {}
    for aliases in names.values():
        given = [name for name in aliases if name in state]
        if not given:
            msg = f"{argument} must have every parameter of before; {aliases[0]} is missing"
            raise ValueError(msg)
        for name in given:
            _check(name, state[name], held[name], argument)
            if not torch.equal(state[name], state[given[0]]):
                msg = f"{argument} must tie what before ties; {given[0]} and {name} differ"
                raise ValueError(msg)
        tensor = held[aliases[0]]
        found[aliases[0]] = state[given[0]].detach().to(device=tensor.device, dtype=tensor.dtype)
    moved = [n for n, b in buffers.items() if n in state and not torch.equal(state[n].to(b.device, b.dtype), b)]
    note = f"buffers are not parameters: those of {argument} differ and were left out ({', '.join(moved)})"
    return found, (note,) if moved else ()


def _state(other: Any, argument: str) -> Mapping[str, Any]:
    if isinstance(other, torch.nn.Module):
        return dict(other.state_dict())
    if isinstance(other, Mapping):
        return other
    msg = f"{argument} must be a state dict or a torch.nn.Module; got {type(other).__name__}"
    raise TypeError(msg)


def _renamed(state: dict[str, torch.Tensor], names: list[str]) -> dict[str, torch.Tensor]:
    """Return entries under the names of a module, where only wrappers of the one or the other tell names apart."""
    if set(state) <= set(names):
        return state
    own = {_unwrapped(name): name for name in names}
    found = {own.get(_unwrapped(name), name): tensor for name, tensor in state.items()}
    return found if len(own) == len(names) and len(found) == len(state) else state


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _dequantised(state: Mapping[str, Any], argument: str) -> dict[str, torch.Tensor]:
    """Return plain tensors, those of quantised layers under the names that the layer had before."""
    found: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        if name.endswith(_PACKED):
            place = name.removesuffix(_PACKED)
            weight, bias = value
            found[f"{place}weight"] = weight.dequantize()
            if bias is not None:
                found[f"{place}bias"] = bias
        elif isinstance(value, torch.Tensor):
            require_values(name, value, argument)
            found[name] = value.dequantize() if value.is_quantized else value
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":  # of safetensors, or another library
            found[name] = torch.as_tensor(np.array(value), device="cpu")
        elif "_packed_params" not in name:
            hint = f": is {argument}[{name!r}] the state dict?" if isinstance(value, Mapping) else ""
            msg = f"{argument} must hold tensors; got {type(value).__name__} for {name}{hint}"
            raise TypeError(msg)
    scales = [name for name in found if name.rpartition(".")[2] in ("scale", "zero_point", "dtype")]
    packed = {name.removesuffix(_PACKED) for name in state if name.endswith(_PACKED)}
    for name in scales:
        if f"{name.rpartition('.')[0]}." in packed or name.endswith("_packed_params.dtype"):
            del found[name]
    return found


def _require_known(unknown: list[str], argument: str) -> None:
    if not unknown:
        return
    hint = ""
    if any(part in name for name in unknown for part in _ADAPTERS):
        hint = ": merge the adapters into the weights first"
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    msg = f"{argument} must have the names of before; {unknown[0]}{more} is not one of them{hint}"
    raise ValueError(msg)


def _check(name: str, value: torch.Tensor, held: torch.Tensor, argument: str) -> None:
    if value.shape != held.shape:
        shapes = f"{tuple(value.shape)}, not {tuple(held.shape)}"
        msg = f"{argument} must have the shapes of before; {name} has {shapes}"
        raise ValueError(msg)
    if not value.is_floating_point():
        msg = f"{argument} must hold real floating-point numbers; {name} has {value.dtype}: dequantise it first"
        raise TypeError(msg)
    if not bool(torch.isfinite(value).all()):
        msg = f"{argument} must be finite; {name} is not"
        raise ValueError(msg)
