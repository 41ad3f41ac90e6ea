"""Which input each row (token, image) of a gradient belongs to.

That is not guessed from shapes: readings weighted by 2 to the power of a digit of their input's number give gradients
that are, row by row, that multiple of the unweighted ones, without any rounding, and so name the input. Where a row is
no such multiple, inputs depend on each other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from estim.probe.torch.source import base_of

#: Combinations of the entries of a row.
_MIXED = 4
#: How far a weighted gradient may be from the multiple of the unweighted, in roundings: sums may take another order.
_MULTIPLE = 1e3
#: And relative to it.
_MOST = 0.03
#: Columns among which it pays to look for those that gradients reach: a model of language has as many as words.
_WIDE = 4096
#: With fewer digits than that, what the weights of readings cancel may be no zero.
_FEW = 1e-4


@dataclass(frozen=True)
class Table:
    """Which rows belong to each input."""

    rows: torch.Tensor
    """(inputs, most), their number standing for none."""
    width: int
    order: str
    """Which axis of all rows goes by inputs: "first", "last"; "" where they are in no such order."""
    columns: torch.Tensor | None = None
    """Those that gradients reach at all, where these are few."""

    def taken(self, rows: torch.Tensor, empty: float = 0.0) -> torch.Tensor:
        """Return the rows (count, ...) of each input, (n, t, ...)."""
        if self.order == "first":
            return rows.reshape(*self.rows.shape, *rows.shape[1:])
        if self.order == "last":
            return rows.reshape(*self.rows.T.shape, *rows.shape[1:]).transpose(0, 1)
        none = self.rows == len(rows)
        if not bool(none.any()):
            return rows[self.rows]
        found = rows[self.rows.clamp(max=len(rows) - 1)]
        found[none] = empty
        return found


def rows_of_inputs(plain: Any, weighted: list[Any], width: int, readings: torch.Tensor) -> Table | None:
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
    if not bool((owner < inputs).all()):
        return None
    sparse = torch.finfo(rows.dtype).eps < _FEW
    columns = _reached(rows) if sparse and width >= _WIDE else None
    table, order = _ordered(owner, live, len(largest), inputs, sparse)
    missed = len(live) < len(largest) and not order  # a row left over may be some input's
    mixed = 0 < len(live) < inputs  # and a few may be those of all inputs together
    if not sparse and (missed or mixed):
        return None
    return Table(table, width, order, columns)


def _real(rows: torch.Tensor) -> torch.Tensor:
    """Return rows of complex numbers as their real and imaginary parts."""
    return torch.view_as_real(rows.resolve_conj()).flatten(1) if rows.is_complex() else rows


def _reached(rows: torch.Tensor) -> torch.Tensor | None:
    reached = torch.nonzero((rows != 0.0).any(dim=0))[:, 0]
    return reached if 0 < 2 * len(reached) < rows.shape[1] else None


def _ordered(
    owner: torch.Tensor, live: torch.Tensor, count: int, inputs: int, sparse: bool
) -> tuple[torch.Tensor, str]:
    """Return, of rows some of which have an owner, those of each input, and the order in which they are, as `Table`."""
    if count % inputs == 0 and not (sparse and 0 < 2 * len(live) <= count):
        grid = torch.arange(count, device=live.device)
        if torch.equal(live // (count // inputs), owner):
            return grid.reshape(inputs, -1), "first"
        if torch.equal(live % inputs, owner):
            return grid.reshape(-1, inputs).T, "last"
    order = torch.argsort(owner, stable=True)
    sizes = torch.bincount(owner, minlength=inputs)
    starts = torch.cumsum(sizes, 0) - sizes
    table = torch.full((inputs, int(sizes.max()) if len(sizes) else 0), count, device=live.device)
    owners = owner[order]
    table[owners, torch.arange(len(owners), device=live.device) - starts[owners]] = live[order]
    return table, ""
