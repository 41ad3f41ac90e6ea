"""Where gradients of the readings are taken from: the readings, or a place further on that all of them come through.

What lies above that place then serves the tensors below it once. A node is on every path from the readings to some
nodes when the paths that lead to it, times those that lead on from it, are as many as there are.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from estim.probe.derivatives.rounding import generic_signs


@dataclass(frozen=True)
class Source:
    """A place in the graph of the readings (n, a), with what reaches it."""

    at: Any
    """The readings, or an edge."""
    seeds: Callable[[], Iterator[torch.Tensor]]
    """Gradients by it of 2 + a sums of readings: with signs, with signs times the input's number, and of each alone."""

    def reaching(self, edges: list[GradientEdge], gate: GradientEdge | None, through: list[Any]) -> Iterator[list[Any]]:
        """Yield the gradients at some edges further on, for each seed; add those at a gate to what came through."""
        ends = edges if gate is None else [*edges, gate]
        for seed in self.seeds():
            if not ends:
                yield []
                continue
            found = list(torch.autograd.grad(self.at, ends, grad_outputs=seed, retain_graph=True, allow_unused=True))
            if gate is not None:
                through.append(found.pop())
            yield found


def source_of(readings: torch.Tensor) -> Source:
    """Return the readings, (n, a), as a source."""
    inputs, outputs = readings.shape
    signs = torch.as_tensor(generic_signs(outputs), dtype=readings.dtype, device=readings.device)
    numbers = torch.arange(1, inputs + 1, dtype=readings.dtype, device=readings.device)

    def seeds() -> Iterator[torch.Tensor]:
        yield signs.expand(inputs, outputs)
        yield numbers[:, None] * signs
        for output in range(outputs):
            seed = torch.zeros_like(readings)
            seed[:, output] = 1.0
            yield seed

    return Source(readings, seeds)


def gate_to(readings: torch.Tensor, edges: Iterable[GradientEdge]) -> GradientEdge | None:
    """Return the last place that gradients of readings come through on every way to some edges; None if none is."""
    order = _in_order(readings.grad_fn)
    targets = {edge.node for edge in edges}
    above, below = dict.fromkeys(order, 0), {node: int(node in targets) for node in order}
    above[order[0]] = 1
    outputs: dict[Any, set[int]] = {order[0]: {readings.output_nr}}
    for node in order:
        for source, output in _sources(node):
            above[source] += above[node]
            outputs.setdefault(source, set()).add(output)
    for node in reversed(order):
        below[node] += sum(below[source] for source, _ in _sources(node))
    ways = below[order[0]]
    # A node with several outputs has as many gradients.
    gates = [node for node in order if ways and above[node] * below[node] == ways and len(outputs[node]) == 1]
    return GradientEdge(gates[-1], min(outputs[gates[-1]])) if gates else None


def _sources(node: Any) -> list[tuple[Any, int]]:
    return [pair for pair in node.next_functions if pair[0] is not None]


def _in_order(root: Any) -> list[Any]:
    """Return the nodes of a graph, each before those that its gradients go on to."""
    found: list[Any] = []
    seen, stack = {root}, [(root, iter(_sources(root)))]
    while stack:
        node, left = stack[-1]
        fresh = next((source for source, _ in left if source not in seen), None)
        if fresh is None:
            found.append(node)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(_sources(fresh))))
    return found[::-1]
