"""The factors of the Jacobian's rows for one batch: what meets each parameter, and the gradients of what comes out.

Which input a row (token) belongs to is not guessed from shapes: readings weighted by 2 to the power of a digit of their
input's number give gradients that are, row by row, that multiple of the unweighted ones, without any rounding, and so
name the input. Where it is no such multiple, inputs depend on each other, and the parameter is left to plain backward
passes.

notation: n inputs, a readings of each, t rows (tokens) of each input; g and x as in `uses`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from estim.probe.torch.source import Source, base_of, digits_of, goes_on
from estim.probe.torch.uses import Use

#: Combinations of the entries of a row.
_MIXED = 4
#: How far a weighted gradient may be from the multiple of the unweighted, in roundings: sums may take another order.
_MULTIPLE = 1e3
#: And relative to it.
_MOST = 0.03


@dataclass(frozen=True)
class Factors:
    """What one batch says of one parameter: the row of reading (n, a) is the sum over t of left times right."""

    kind: str
    """"linear", "transposed" or "embedding" as in `uses`, "rows", or "unused" by this batch."""
    left: Any
    """Of each reading a, (n, t, out), as torch gave them; for "rows" these themselves, (n, a, size); (n, a, 0)."""
    right: Any
    """(n, t, in); (n, t) places in the table, -1 for none, for "embedding"; None for "rows" and "unused"."""

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
    del plain, weighted
    collected = [
        None if None in found else _Collected(one, found, readings) for one, found in zip(uses, tables, strict=True)
    ]
    for found in gradients:
        for parts, places in zip(collected, chosen, strict=True):
            if parts is not None:
                parts.add([found[k] for k in places])
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
                    _rows_of_inputs(plain[k], [some[k] for some in weighted], width, readings)
                    if width and steady[k]
                    else None
                )
    return [
        [known[k, _width(use, plain[k])] for use, k in zip(one, places, strict=True)]
        for one, places in zip(uses, chosen, strict=True)
    ]


def _width(use: Use, gradient: Any) -> int:
    """Return how many entries of a gradient make one row; 0 where the parameter is broadcast in another way."""
    if use.kind in ("sum", "product"):
        fits = tuple(gradient.shape[gradient.ndim - len(use.shape) :]) == use.shape
        return int(torch.Size(use.shape).numel()) if fits else 0
    return int(gradient.shape[-1])


@dataclass(frozen=True)
class _Table:
    rows: torch.Tensor
    """(inputs, most), their number standing for none."""
    width: int
    order: str
    """Which axis of all rows goes by inputs: "first", "last"; "" where they are in no such order."""

    def taken(self, rows: torch.Tensor, empty: float = 0.0) -> torch.Tensor:
        """Return the rows (count, ...) of each input, (n, t, ...)."""
        if self.order == "first":
            return rows.reshape(*self.rows.shape, *rows.shape[1:])
        if self.order == "last":
            return rows.reshape(*self.rows.T.shape, *rows.shape[1:]).transpose(0, 1)
        padded = torch.cat([rows, torch.full_like(rows[:1], empty)])
        return padded[self.rows]


def _rows_of_inputs(plain: Any, weighted: list[Any], width: int, readings: torch.Tensor) -> _Table | None:
    """Return the rows of each input; None where inputs are mixed."""
    rows, inputs, base = _real(plain.reshape(-1, width)), len(readings), base_of(readings.dtype)
    # A few combinations of a row's entries tell as much as all of them.
    drawn = np.random.default_rng(0).standard_normal((rows.shape[1], _MIXED))
    mixing = torch.as_tensor(drawn, dtype=rows.dtype, device=plain.device)
    one = rows @ mixing
    largest = one.abs().amax(dim=1, keepdim=True)
    live = torch.nonzero(largest[:, 0] > 0.0)[:, 0]
    one = one[live] / largest[live]  # squares neither overflow nor vanish
    slack = min(_MULTIPLE * torch.finfo(rows.dtype).eps, _MOST)
    owner = torch.zeros_like(live)
    for place, gradient in enumerate(weighted):
        two = (_real(gradient.reshape(-1, width)) @ mixing)[live] / largest[live]
        digit = ((one * two).sum(dim=1) / one.square().sum(dim=1)).log2().round()
        multiple = digit.exp2()
        off = (two - multiple[:, None] * one).abs().amax(dim=1)
        if not bool(((off <= slack * multiple) & (digit >= 0) & (digit < base)).all()):
            return None
        owner += digit.to(torch.int64) * base**place
    return _table(owner, live, len(largest), inputs, width) if bool((owner < inputs).all()) else None


def _real(rows: torch.Tensor) -> torch.Tensor:
    """Return rows of complex numbers as their real and imaginary parts."""
    return torch.view_as_real(rows.resolve_conj()).flatten(1) if rows.is_complex() else rows


def _table(owner: torch.Tensor, live: torch.Tensor, count: int, inputs: int, width: int) -> _Table:
    """Return, of rows some of which have an owner, those of each input, in a regular order where there is one."""
    if count % inputs == 0:
        grid = torch.arange(count, device=live.device)
        if torch.equal(live // (count // inputs), owner):
            return _Table(grid.reshape(inputs, -1), width, "first")
        if torch.equal(live % inputs, owner):
            return _Table(grid.reshape(-1, inputs).T, width, "last")
    order = torch.argsort(owner, stable=True)
    sizes = torch.bincount(owner, minlength=inputs)
    starts = torch.cumsum(sizes, 0) - sizes
    table = torch.full((inputs, int(sizes.max()) if len(sizes) else 0), count, device=live.device)
    owners = owner[order]
    table[owners, torch.arange(len(owners), device=live.device) - starts[owners]] = live[order]
    return _Table(table, width, "")


class _Collected:
    """The gradients of one parameter, as they come in."""

    def __init__(self, uses: Sequence[Use], tables: list[_Table], readings: torch.Tensor) -> None:
        self.uses, self.tables, self.none = uses, tables, readings.new_zeros((*readings.shape, 0))
        self.rows = bool(uses) and uses[0].kind in ("sum", "product")
        self.apart: list[torch.Tensor] = []

    def add(self, gradients: list[Any]) -> None:
        """Take in the gradients of one reading of every input."""
        parts = [self._taken(*given) for given in zip(self.uses, self.tables, gradients, strict=True)]
        if parts:
            joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            self.apart.append(joined.sum(dim=1) if self.rows else joined)

    def _taken(self, use: Use, table: _Table, gradient: Any) -> torch.Tensor:
        """Return the rows of each input, (n, t, out), not copied where they lie in a regular order."""
        if gradient is None:
            return self.none.new_zeros((*table.rows.shape, table.width))
        taken = table.taken(_multiplied(use, gradient, table))
        # A part of a larger tensor would keep all of it.
        larger = taken.untyped_storage().nbytes() > taken.numel() * taken.element_size()
        return taken.clone() if larger and not self.rows else taken

    def factors(self) -> Factors:
        """Return all of it."""
        if not self.uses:
            return Factors("unused", self.none, None)
        if self.rows:
            return Factors("rows", torch.stack(self.apart, dim=1), None)
        kind, parts = self.uses[0].kind, []
        for use, table in zip(self.uses, self.tables, strict=True):
            if kind == "embedding":
                parts.append(table.taken(use.x.reshape(-1), -1))
            else:
                parts.append(table.taken(use.x.detach().reshape(-1, use.x.shape[-1])))
        return Factors(kind, tuple(self.apart), torch.cat(parts, dim=1))


def _multiplied(use: Use, gradient: torch.Tensor, table: _Table) -> torch.Tensor:
    """Return the rows of a gradient, times what meets the parameter."""
    rows = gradient.reshape(-1, table.width)
    if use.kind == "product":
        rows = rows * torch.broadcast_to(use.x.detach().conj(), gradient.shape).reshape(rows.shape)
    return rows.real if rows.is_complex() else rows  # parameters are real
