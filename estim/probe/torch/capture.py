"""The factors of the Jacobian's rows for one batch: what meets each parameter, and the gradients of what comes out.

Where inputs depend on each other, see `owners`, a parameter is left to plain backward passes.

notation: n inputs, a readings of each, t rows (tokens, places) of each input; g and x as in `uses`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from estim.probe.torch.convolution import gradients_of_filters, patches_of
from estim.probe.torch.owners import Table, rows_of_inputs
from estim.probe.torch.source import Source, digits_of, goes_on
from estim.probe.torch.uses import ROWS, TIED, Use


@dataclass(frozen=True)
class Factors:
    """What one batch says of one parameter: the row of reading (n, a) is the sum over t of left times right."""

    kind: str
    """"linear", "transposed" or "embedding" as in `uses`, "rows", or "unused" by this batch."""
    left: Any
    """Of each reading a, (n, t, out), as torch gave them; for "rows" these themselves, (n, a, size); (n, a, 0)."""
    right: Any
    """(n, t, in); (n, t) places in the table, -1 for none, for "embedding"; None for "rows" and "unused"."""
    outs: torch.Tensor | None = None
    """The outputs that left has, in ascending order; all of them when None."""
    beside: "Factors | None" = None
    """What is to be added to "linear" ones, for a table by whose words the readings are read out: its "embedding"."""

    @property
    def rows(self) -> int:
        """Number of rows of the Jacobian, n a."""
        return int(self.left.shape[:2].numel()) if self.right is None else len(self.right) * len(self.left)


def edges_of(uses: Sequence[Sequence[Use]]) -> list[Any]:
    """Return every place where gradients are read, once."""
    found: dict[tuple[int, int], Any] = {}
    for one in uses:
        for use in one:
            found.setdefault((id(use.edge.node), use.edge.output_nr), use.edge)
    return list(found.values())


def factors_of(
    readings: torch.Tensor, uses: Sequence[Sequence[Use]], source: Source, gate: GradientEdge | None = None
) -> tuple[list[Factors | None], list[Any]]:
    """Return the factors of some parameters for a batch of readings (n, a); None where inputs depend on each other.

    Gradients are taken from a source on; those that come through a gate, if there is one, are returned beside.
    """
    edges = edges_of(uses)
    through: list[Any] = []
    place = {(id(edge.node), edge.output_nr): k for k, edge in enumerate(edges)}
    gradients = source.reaching(edges, gate, through)
    plain, *weighted = [next(gradients) for _ in range(1 + digits_of(readings))]
    # Where no gradient comes, as custom functions may have it, is no use.
    reached = {key for key, k in place.items() if plain[k] is not None}
    uses = [[use for use in one if (id(use.edge.node), use.edge.output_nr) in reached] for one in uses]
    chosen = [[place[id(use.edge.node), use.edge.output_nr] for use in one] for one in uses]
    steady = [gradient is None or goes_on(edge, gradient) for edge, gradient in zip(edges, plain, strict=True)]
    tables = _tables(plain, weighted, uses, chosen, readings, steady)
    shapes = [() if gradient is None else gradient.shape for gradient in plain]
    del plain, weighted
    collected = [
        None if None in found else _collector(one, found, readings) for one, found in zip(uses, tables, strict=True)
    ]
    for found in gradients:
        for parts, places in zip(collected, chosen, strict=True):
            if parts is not None:
                parts.add([readings.new_zeros(shapes[k]) if found[k] is None else found[k] for k in places])
        found.clear()  # before the next are held beside them
    return [None if parts is None else parts.factors() for parts in collected], through


def _tables(
    plain: list[Any],
    weighted: list[list[Any]],
    uses: Sequence[Sequence[Use]],
    chosen: list[list[int]],
    readings: torch.Tensor,
    steady: list[bool],
) -> list[list[Any]]:
    """Return the rows of each input for each use of each parameter; None where inputs are mixed or gradients hooked."""
    known: dict[tuple[int, int], Any] = {}
    for one, places in zip(uses, chosen, strict=True):
        for use, k in zip(one, places, strict=True):
            width = _width(use, plain[k])
            if (k, width) not in known:
                known[k, width] = (
                    rows_of_inputs(plain[k], [some[k] for some in weighted], width, readings)
                    if width and steady[k]
                    else None
                )
    return [
        [known[k, _width(use, plain[k])] for use, k in zip(one, places, strict=True)]
        for one, places in zip(uses, chosen, strict=True)
    ]


def _width(use: Use, gradient: Any) -> int:
    """Return how many entries of a gradient make one row; 0 where the parameter is broadcast in another way."""
    if use.kind in ("patches", "convolution"):
        return int(gradient[0].numel())
    if use.kind in ("sum", "product"):
        shape = _last(gradient, use)
        fits = len(shape) == len(use.shape) and all(k in (1, size) for k, size in zip(use.shape, shape, strict=True))
        return int(shape.numel()) if fits else 0
    return int(gradient.shape[-1])


def _last(gradient: Any, use: Use) -> torch.Size:
    """Return the last axes of a gradient, as many as the parameter's."""
    return torch.Size(gradient.shape[max(0, gradient.ndim - len(use.shape)) :])


def _collector(uses: Sequence[Use], tables: list[Table], readings: torch.Tensor) -> "_Collected | _Tied":
    kind = _Tied if {use.kind for use in uses} == TIED else _Collected
    return kind(uses, tables, readings)


class _Collected:
    """The gradients of one parameter, as they come in."""

    def __init__(self, uses: Sequence[Use], tables: list[Table], readings: torch.Tensor) -> None:
        self.uses, self.tables, self.none = uses, tables, readings.new_zeros((*readings.shape, 0))
        self.rows = bool(uses) and uses[0].kind in ROWS
        self.met = [_met(use, table) if self.rows else None for use, table in zip(uses, tables, strict=True)]
        # Several uses have their outputs in common.
        self.outs = tables[0].columns if len(uses) == 1 and uses[0].kind in ("linear", "transposed") else None
        self.apart: list[torch.Tensor] = []

    def add(self, gradients: list[Any]) -> None:
        """Take in the gradients of one reading of every input."""
        given = zip(self.uses, self.tables, self.met, gradients, strict=True)
        if self.rows:
            self.apart.append(torch.stack([_row(*one) for one in given]).sum(dim=0))
        elif self.uses:
            parts = [_left(use, table, gradient, self.outs) for use, table, _, gradient in given]
            self.apart.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))

    def factors(self) -> Factors:
        """Return all of it."""
        if not self.uses:
            return Factors("unused", self.none, None)
        if self.rows:
            return Factors("rows", torch.stack(self.apart, dim=1), None)
        kind = {"patches": "linear"}.get(self.uses[0].kind, self.uses[0].kind)
        parts = [_right(use, table) for use, table in zip(self.uses, self.tables, strict=True)]
        return Factors(kind, tuple(self.apart), torch.cat(parts, dim=1), self.outs)


class _Tied:
    """The gradients of a table by whose words the readings are read out."""

    def __init__(self, uses: Sequence[Use], tables: list[Table], readings: torch.Tensor) -> None:
        self.own, self.beside = ([use.kind == kind for use in uses] for kind in ("linear", "embedding"))
        self.parts = [
            _Collected(list(compress(uses, which)), list(compress(tables, which)), readings)
            for which in (self.own, self.beside)
        ]

    def add(self, gradients: list[Any]) -> None:
        """Take in the gradients of one reading of every input."""
        for part, which in zip(self.parts, (self.own, self.beside), strict=True):
            part.add(list(compress(gradients, which)))

    def factors(self) -> Factors:
        """Return all of it."""
        own, beside = (part.factors() for part in self.parts)
        return replace(own, beside=beside)


def _met(use: Use, table: Table) -> Any:
    """Return what meets a parameter whose rows are formed as gradients come."""
    if use.kind == "convolution":
        return _images(table, use.x.images)
    return use.x().detach().conj() if use.kind == "product" else None


def _row(use: Use, table: Table, met: Any, gradient: torch.Tensor) -> torch.Tensor:
    """Return the gradient by the parameter of the reading of each input, (n, size)."""
    if use.kind == "convolution":
        return gradients_of_filters(met, _images(table, gradient), use.x)
    terms = gradient if met is None else gradient * torch.broadcast_to(met, gradient.shape)
    terms = terms.real if terms.is_complex() else terms  # parameters are real
    rows, last = table.taken(terms.reshape(-1, table.width)), _last(gradient, use)
    broadcast = [2 + k for k, size in enumerate(use.shape) if size == 1]
    return rows.reshape(*rows.shape[:2], *last).sum(dim=(1, *broadcast)).reshape(len(rows), -1)


def _left(use: Use, table: Table, gradient: torch.Tensor, outs: torch.Tensor | None) -> torch.Tensor:
    """Return the rows of each input, (n, t, out), not copied where they lie in a regular order."""
    if outs is not None:
        return table.taken(gradient.reshape(-1, table.width)[:, outs])
    if use.kind == "patches":
        taken = _images(table, gradient).flatten(3).transpose(2, 3).flatten(1, 2)
    else:
        taken = table.taken(gradient.reshape(-1, table.width))
    # A part of a larger tensor would keep all of it.
    larger = taken.untyped_storage().nbytes() > taken.numel() * taken.element_size()
    return taken.clone() if larger else taken


def _right(use: Use, table: Table) -> torch.Tensor:
    """Return what meets the rows of each input, (n, t, in); places in a table, (n, t)."""
    if use.kind == "embedding":
        return table.taken(use.x.reshape(-1), -1)
    if use.kind == "patches":
        return _images(table, patches_of(use.x)).flatten(1, 2)
    return table.taken(use.x.detach().reshape(-1, use.x.shape[-1]))


def _images(table: Table, images: torch.Tensor) -> torch.Tensor:
    """Return the images (or what stands for each) of each input, (n, t, ...)."""
    taken = table.taken(images.flatten(1))
    return taken.reshape(*taken.shape[:2], *images.shape[1:])
