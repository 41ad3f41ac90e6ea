"""Where gradients of the readings are taken from: the readings, or a place further on that all of them come through.

What lies above that place then serves the tensors below it once. With the nodes that lead to some edges in an order in
which gradients only go on, every way to these edges passes a node that no gradient jumps over.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from estim.probe.torch.graph import in_order, sources_of


@dataclass(frozen=True)
class Source:
    """A place in the graph of the readings (n, a), with what reaches it."""

    at: Any
    """The readings, or an edge."""
    seeds: Callable[[], Iterator[torch.Tensor]]
    """Gradients by it of sums of readings: with weights, with these for each digit of the input, and of each alone."""

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


def base_of(kind: torch.dtype) -> int:
    """Return the base of the numbers of inputs: 2 to the power of a digit must not overflow."""
    return 32 if torch.finfo(kind).max > 2.0**100 else 8


def digits_of(readings: torch.Tensor) -> int:
    """Return how many digits the numbers of inputs have, from 0 on; a single input needs none."""
    return next(k for k in itertools.count() if base_of(readings.dtype) ** k >= len(readings))


def source_of(readings: torch.Tensor) -> Source:
    """Return the readings, (n, a), as a source."""
    # Each reading has its own weight: equal inputs would else have, together, gradients like that of one among them.
    rng, shape = np.random.default_rng(0), tuple(readings.shape)
    drawn = rng.uniform(0.75, 1.25, shape) * rng.choice((-1.0, 1.0), shape)
    weights = torch.as_tensor(drawn, dtype=readings.dtype, device=readings.device)
    numbers, base = torch.arange(len(readings), device=readings.device)[:, None], base_of(readings.dtype)

    def seeds() -> Iterator[torch.Tensor]:
        yield weights
        for place in range(digits_of(readings)):
            yield torch.ldexp(weights, numbers // base**place % base).to(weights.dtype)
        for output in range(shape[1]):
            seed = torch.zeros_like(readings)
            seed[:, output] = 1.0
            yield seed

    return Source(readings, seeds)


def gate_to(readings: torch.Tensor, edges: Iterable[GradientEdge]) -> GradientEdge | None:
    """Return the last place that gradients of readings come through on every way to some edges; None if none is."""
    targets = {edge.node for edge in edges}
    leading: dict[Any, int] = {}  # to the edges, each with its place from the end
    order = in_order(readings.grad_fn)
    for node in reversed(order):
        if node in targets or any(source in leading for source, _ in sources_of(node)):
            leading[node] = len(leading)
    outputs, gate, last = {order[0]: {readings.output_nr}}, None, len(leading) - 1
    for node, place in reversed(leading.items()):
        # A node with several outputs has as many gradients.
        if place == last and len(outputs[node]) == 1:
            gate = GradientEdge(node, min(outputs[node]))
        if node in targets:
            break
        for source, output in sources_of(node):
            if source in leading:
                outputs.setdefault(source, set()).add(output)
                last = min(last, leading[source])
    return gate


def goes_on(edge: GradientEdge, gradient: torch.Tensor) -> bool:
    """Tell whether a gradient that was read at an edge goes on as it is: a hook may change it before or after."""
    again = torch.autograd.grad(edge, [edge], grad_outputs=gradient, retain_graph=True)[0]
    return bool(torch.equal(again, gradient))


def passes_on(node: Any) -> bool:
    """Tell whether a gradient passes a place, with one output, as it is, where it is never formed: see `goes_on`."""
    held = node.variable if hasattr(node, "variable") else node._input_metadata[0]
    gradient = torch.ones((), dtype=held.dtype, device=held.device).expand(held.shape)
    edge = GradientEdge(node, 0)
    again = torch.autograd.grad(edge, [edge], grad_outputs=gradient, retain_graph=True)[0]
    return again.data_ptr() == gradient.data_ptr() or bool(torch.equal(again, gradient))
