"""The graph that torch keeps of readings: its nodes, the parameters in it, and the numbers that it goes through."""

import math
from typing import Any

import torch

from estim.probe.torch.parameters import name_of


def users_of(readings: torch.Tensor) -> dict[Any, list[tuple[Any, int]]]:
    """Return all nodes of the graph, with those that take their output, and as which argument."""
    root: Any = readings.grad_fn
    users: dict[Any, list[tuple[Any, int]]] = {root: []}
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        for argument, (source, _) in enumerate(node.next_functions):
            if source is None:
                continue
            users.setdefault(source, []).append((node, argument))
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return users


def sources_of(node: Any) -> list[tuple[Any, int]]:
    """Return the nodes whose output a node takes, each with the number of that output."""
    return [pair for pair in node.next_functions if pair[0] is not None]


def in_order(root: Any) -> list[Any]:
    """Return the nodes of a graph, each before those that its gradients go on to."""
    found: list[Any] = []
    seen, stack = {root}, [(root, iter(sources_of(root)))]
    while stack:
        node, left = stack[-1]
        fresh = next((source for source, _ in left if source not in seen), None)
        if fresh is None:
            found.append(node)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(sources_of(fresh))))
    return found[::-1]


def reaches(readings: torch.Tensor, parameters: tuple[Any, ...]) -> bool:
    """Tell whether a parameter is in the graph of the readings."""
    wanted = {id(parameter) for parameter in parameters}
    return any(id(getattr(node, "variable", None)) in wanted for node in users_of(readings))


def computed_in(readings: torch.Tensor) -> set[torch.dtype]:
    """Return the kinds of numbers that the graph of the readings goes through."""
    known = (held for node in users_of(readings) for held in getattr(node, "_input_metadata", ()))
    return {held.dtype for held in known if held.dtype.is_floating_point}


def rounded_on_the_way(readings: torch.Tensor, dtype: torch.dtype) -> str:
    """Say which numbers of 16 bits the graph of a model in a longer dtype goes through; nothing where it does not."""
    eps = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    shorter = [name_of(kind) for kind in computed_in(readings) if torch.finfo(kind).eps > eps]
    return f"numbers are rounded to {min(shorter)} on the way, by a cast or an autocast" if shorter else ""


def bytes_of_outputs(readings: torch.Tensor) -> float:
    """Return the bytes of what all operations in the graph of the readings gave, kept or not."""
    nodes = [node for node in users_of(readings) if not hasattr(node, "variable")]
    return float(sum(math.prod(one.shape) * one.dtype.itemsize for node in nodes for one in node._input_metadata))
