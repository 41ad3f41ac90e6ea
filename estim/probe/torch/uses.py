"""Where parameters enter the graph of the readings, and what their gradients are made of there.

The gradient of a weight W in ``x W^T`` is a sum over rows (tokens) of outer products g x, with g the gradient of the
product: both are read off the graph, whatever module or function built it, and W's own gradient is never formed. A
parameter whose every use is of a kind known here needs no backward pass of its own.

notation: x rows of what meets the parameter; g gradient of a reading by what comes out, one row each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from estim.probe.torch.convolution import convolution_of
from estim.probe.torch.graph import users_of
from estim.probe.torch.source import passes_on

#: Kinds whose rows of the Jacobian take less than what they are made of.
ROWS = frozenset({"sum", "product", "convolution"})

#: Kinds of a table whose words are read out by what they are read in by.
TIED = frozenset({"linear", "embedding"})


@dataclass(frozen=True)
class Use:
    """One use of a parameter by one node of the graph."""

    kind: str
    """"linear": rows of x times a weight (out, in); "transposed": a weight (in, out); "embedding": rows of a table;
    "patches": "linear" for each patch of x that a filter meets; "convolution": the same, its gradients formed at once;
    "sum": the gradient is a sum of rows g; "product": of rows g x."""
    edge: GradientEdge
    """What comes out."""
    x: Any
    """(rows, in) for weights, (rows,) indices for tables, a `Convolution` for filters; for products what returns it,
    (rows, size); None for sums."""
    shape: tuple[int, ...] = ()
    """For sums and products, the parameter's along the last axes of the gradient, which make one row: it is broadcast
    along those of length one."""


def uses_of(readings: torch.Tensor, parameters: tuple[Any, ...]) -> list[list[Use] | None]:
    """Return the uses of each parameter, none where it is not used; None where one is of an unknown kind."""
    users = users_of(readings)
    leaves = {id(node.variable): node for node in users if hasattr(node, "variable")}
    return [_read(parameter, users, leaves.get(id(parameter))) for parameter in parameters]


def _read(parameter: Any, users: dict[Any, list[tuple[Any, int]]], leaf: Any) -> list[Use] | None:
    if leaf is None:
        return []
    if not passes_on(leaf):  # a hook of the parameter changes its gradient
        return None
    found: list[Use] = []
    for node, argument in users[leaf]:
        if _transposes(node):
            inner = [_weight(user, place, "linear") for user, place in users[node]] if passes_on(node) else [None]
        else:
            known = _KNOWN.get(node.name())
            inner = [known(node, argument, parameter) if known else None]
        if node.name() == "EmbeddingBackward0" and inner[0] is not None:
            inner = (passes_on(node) and _broadcast(inner[0], users[node])) or inner
        if None in inner:
            return None
        found += [use for use in inner if use is not None]
    kinds = {use.kind for use in found}
    if kinds == {"patches", "convolution"}:
        return [replace(use, kind="convolution") for use in found]
    return found if len(kinds) < 2 or kinds <= ROWS or kinds == TIED else None


def _transposes(node: Any) -> bool:
    """Tell whether a node swaps the two axes of a weight, as w.t(), w.T, w.mT and w.transpose(-1, -2) do."""
    kind = node.name()
    if len(node._input_metadata[0].shape) != 2:
        return False
    if kind == "PermuteBackward0":
        return [axis % 2 for axis in node._saved_dims] == [1, 0]  # negative ones are kept as unsigned
    return kind == "TBackward0" or (kind == "TransposeBackward0" and bool((node._saved_dim0 - node._saved_dim1) % 2))


def _broadcast(use: Use, users: list[tuple[Any, int]]) -> list[Use | None]:
    """Return the uses of a table's rows for each input, where the same are added to what comes of every one."""
    own, found = use.edge.node._input_metadata[0].shape, list[Use | None]()
    for node, argument in users:
        added = node.name() == "AddBackward0" and _scale(node, argument) == 1
        shape = node._input_metadata[0].shape if added else own
        if shape == own or shape[-1] != own[-1]:
            return []
        found.append(replace(use, edge=GradientEdge(node, 0), x=use.x.expand(shape[:-1])))
    return found


def _scale(node: Any, argument: int) -> Any:
    return node._saved_alpha if argument == 1 else 1


def _row(parameter: Any) -> tuple[int, ...]:
    """Return the shape of a parameter without leading axes of length one, over which it is broadcast."""
    shape = tuple(parameter.shape)
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def _sum(node: Any, shape: tuple[int, ...]) -> Use:
    return Use("sum", GradientEdge(node, 0), None, shape)


def _product(node: Any, x: Callable[[], torch.Tensor], shape: tuple[int, ...]) -> Use:
    return Use("product", GradientEdge(node, 0), x, shape)


def _weight(node: Any, argument: int, kind: str) -> Use | None:
    """Read ``x @ weight``, with or without a bias added."""
    if node.name() == "MmBackward0" and argument == 1:
        return Use(kind, GradientEdge(node, 0), node._saved_self)
    if node.name() == "AddmmBackward0" and argument == 2 and node._saved_alpha == 1:
        return Use(kind, GradientEdge(node, 0), node._saved_mat1)
    return None


def _of_addmm(node: Any, argument: int, parameter: Any) -> Use | None:
    if argument == 0 and node._saved_beta == 1 and parameter.ndim == 1:
        return _sum(node, _row(parameter))
    return _weight(node, argument, "transposed")


def _of_product(node: Any, argument: int, parameter: Any) -> Use | None:
    other = node._saved_other if argument == 0 else node._saved_self
    return _product(node, lambda: other, _row(parameter))


def _of_layer_norm(node: Any, argument: int, parameter: Any) -> Use | None:
    shape = _row(parameter)
    return _sum(node, shape) if argument == 2 else _product(node, lambda: _by_layer(node), shape)


def _by_layer(node: Any) -> torch.Tensor:
    normalized: torch.Tensor = (node._saved_input - node._saved_result1) * node._saved_result2
    return normalized


def _of_batch_norm(node: Any, argument: int, parameter: Any) -> Use | None:
    if node._saved_training:  # by the statistics of the batch: inputs depend on each other
        return None
    return _of_channels(node, argument, _by_batch)


def _of_channels(node: Any, argument: int, normalized: Callable[[Any], torch.Tensor]) -> Use:
    """Read a gain or an offset for each channel of what was normalized, (rows, channels, ...)."""
    shape = (node._saved_input.shape[1], *_places(node))
    return _sum(node, shape) if argument == 2 else _product(node, lambda: normalized(node), shape)


def _places(node: Any) -> tuple[int, ...]:
    """Return the shape of one channel's parameter along the other axes of images."""
    axes: int = node._saved_input.ndim
    return (1,) * (axes - 2)


def _by_batch(node: Any) -> torch.Tensor:
    mean, variance = (held.reshape(-1, *_places(node)) for held in (node._saved_running_mean, node._saved_running_var))
    normalized: torch.Tensor = (node._saved_input - mean) / (variance + node._saved_eps).sqrt()
    return normalized


def _by_group(node: Any) -> torch.Tensor:
    x, mean, inverse = node._saved_input, node._saved_result1.reshape(-1, 1), node._saved_result2.reshape(-1, 1)
    normalized: torch.Tensor = ((x.reshape(len(mean), -1) - mean) * inverse).view(x.shape)
    return normalized


def _of_convolution(node: Any, argument: int, parameter: Any) -> Use | None:
    if argument == 2:
        return _sum(node, (len(parameter), *_places(node)))
    if argument == 0:
        return None
    found = convolution_of(node)
    return Use("patches" if found.by_patches else "convolution", GradientEdge(node, 0), found)


def _of_embedding(node: Any, argument: int, parameter: Any) -> Use | None:
    if node._saved_scale_grad_by_freq:
        return None
    indices = node._saved_indices
    padding = indices == node._saved_padding_idx  # has no gradient
    return Use("embedding", GradientEdge(node, 0), indices.masked_fill(padding, -1))


#: By the name of a node: what reads a parameter that it takes as some argument.
_KNOWN: dict[str, Callable[[Any, int, Any], Use | None]] = {
    "AddmmBackward0": _of_addmm,
    "MmBackward0": lambda node, argument, parameter: _weight(node, argument, "transposed"),
    # Broadcast over leading axes only.
    "AddBackward0": lambda node, argument, parameter: (
        _sum(node, _row(parameter)) if _scale(node, argument) == 1 else None
    ),
    "ExpandBackward0": lambda node, argument, parameter: _sum(node, _row(parameter)),
    "MulBackward0": _of_product,
    "ConvolutionBackward0": _of_convolution,
    "NativeLayerNormBackward0": _of_layer_norm,
    "NativeBatchNormBackward0": _of_batch_norm,
    "NativeGroupNormBackward0": lambda node, argument, parameter: _of_channels(node, argument, _by_group),
    "EmbeddingBackward0": _of_embedding,
}
