"""The inverse of a response in the form the compiled loop works with, built for any response.

Three forms, in this order for each noise level. Where all draws stay in the reach of the local series, a polynomial
in the reading around the truth: exact for the smallest noise. Else one polynomial over the attainable readings, in
the reading or its root, if one of at most twenty terms fits to 1e-12. Else a table of polynomials in cells that grow
geometrically away from both ends of the attainable range, since the slope may vanish there. If that does not fit
either (a plateau inside), None: the caller inverts each reading by root finding.

notation: y = rise / (rise at the top of the window), in [0, 1]; estimates are (theta - lower) / (theta at the top -
lower).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from estim.recovery import kernels
from estim.recovery.inverse import order_at_end
from estim.recovery.local import Local
from estim.recovery.monotone import EPS, Monotone
from estim.recovery.normals import LARGEST_NORMAL
from estim.recovery.table import NO_SPLITS, NO_TABLE, known_to, tabulate

if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]

ACCURACY = 1e-12  # relative to theta - lower
MOST_TERMS = 20
NARROW = 0.1  # of the local series' reach: few terms suffice there, and beyond it nothing is lost by the other forms
NODES = 32


@dataclass(frozen=True)
class Levels:
    """The arguments of the compiled loop, one entry a noise level, and the unit of each level's errors."""

    kind: npt.NDArray[np.int64]
    scale: Array
    shift: Array
    truth: Array
    terms: npt.NDArray[np.int64]
    coefficients: Array
    table: Array
    first: npt.NDArray[np.int64]
    unit: Array

    def arguments(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Return what `kernels.accumulate` takes after the Generator and the number of trials."""
        return (
            self.kind, self.scale, self.shift, self.truth, self.terms, self.coefficients, self.table, self.first,
        )  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    """One form of the inverse over the whole window."""

    kind: int
    coefficients: Array
    table: Array
    first: npt.NDArray[np.int64]

    def __call__(self, y: Array) -> Array:
        p, scratch, cell = np.empty_like(y), np.empty_like(y), np.empty(y.shape, np.int64)
        kernels.factor(self.kind, y, self.coefficients, self.table, self.first, scratch, cell, p)
        return np.sqrt(y) * p if self.kind in (kernels.ROOT, kernels.ROOT_OF_EVEN) else p


def build_levels(response: "MeanResponse", truth: float, local: Local | None, sigma: Array) -> Levels | None:
    """Build the compiled inverse for each noise level, or return None when no form reaches the accuracy."""
    levels = len(sigma)
    out = Levels(
        kind=np.zeros(levels, np.int64), scale=np.empty(levels), shift=np.empty(levels), truth=np.zeros(levels),
        terms=np.empty(levels, np.int64), coefficients=np.zeros((levels, MOST_TERMS)), table=NO_TABLE,
        first=NO_SPLITS, unit=np.empty(levels),
    )  # fmt: skip
    width, series = local.inverse() if local is not None else (0.0, np.zeros(0))
    narrow = sigma * LARGEST_NORMAL <= NARROW * width
    for k in np.flatnonzero(narrow):
        _set_narrow(out, int(k), width, series, float(sigma[k]))
    broad = np.flatnonzero(~narrow)
    if not broad.size:
        return out
    invert, grid, lower = response._invert_rise, response._grid, response.lower
    here = float(response._rise(np.array([truth]))[0])
    top = min(grid.supremum, here + LARGEST_NORMAL * float(sigma.max()))
    span = float(invert(np.array([top]))[0]) - lower
    if not np.isfinite(span):
        return None
    shape = _fit(lambda y: (invert(y * top) - lower) / span, grid, response.rounding, top, EPS * abs(lower) / span)
    if shape is None:
        return None
    # By the form itself, so that its error cancels near the truth; but the table ends above the smallest truths.
    at_truth = float(shape(np.array([here / top]))[0])
    if here / top < np.exp2(-kernels.OCTAVES):
        at_truth = (truth - lower) / span
    terms = len(shape.coefficients)
    out.kind[broad], out.terms[broad], out.coefficients[broad, :terms] = shape.kind, terms, shape.coefficients
    out.scale[broad], out.shift[broad] = sigma[broad] / top, here / top
    out.truth[broad], out.unit[broad] = at_truth, span
    return replace(out, table=shape.table, first=shape.first)


def _set_narrow(out: Levels, k: int, width: float, series: Array, sigma: float) -> None:
    """Enter t = sum_j c_j v^(j+1) with v = z / LARGEST_NORMAL in [-1, 1]; the reading is (1 + v) / 2."""
    reach = sigma * LARGEST_NORMAL / width
    c = np.concatenate([[0.0], series * reach ** np.arange(1, len(series) + 1)])
    c /= c[1]
    needed = 1 + int(np.flatnonzero(np.abs(c) > 1e-15)[-1])
    terms = min(-(-needed // 4) * 4, MOST_TERMS)
    out.kind[k], out.terms[k] = kernels.POLYNOMIAL, terms
    out.coefficients[k, : min(terms, len(c))] = c[:terms]
    out.scale[k], out.shift[k], out.unit[k] = 0.5 / LARGEST_NORMAL, 0.5, series[0] * reach


def _fit(inverse: Callable[[Array], Array], grid: Monotone, rounding: float, top: float, grain: float) -> _Shape | None:
    """Return the cheapest form that reaches the accuracy at points of its own, never used in the fit."""
    order = order_at_end(grid, rounding, lower=True)
    check = (np.arange(400.0) + 0.5) / 400.0
    check = np.concatenate([check, check**4])
    expected, blur = inverse(check), known_to(inverse, check, rounding / top, grain)
    kinds = {1.0: [kernels.POLYNOMIAL], 2.0: [kernels.ROOT_OF_EVEN, kernels.ROOT]}.get(order, [])
    fits = [shape for kind in kinds if (shape := _fit_polynomial(kind, inverse)) is not None]
    for shape in sorted(fits, key=lambda s: len(s.coefficients)):
        # A polynomial in the reading itself cannot be exact relative to theta at its zero, and need not be: the error
        # is absolute.
        floor = 1e-3 if shape.kind == kernels.POLYNOMIAL else 0.0
        allowed = np.maximum(ACCURACY * np.maximum(expected, floor), blur)
        if (np.abs(shape(check) - expected) <= allowed).all():
            return shape
    found = tabulate(inverse, rounding / top, grain, ACCURACY)
    return None if found is None else _Shape(kernels.TABLE, np.zeros(4), *found)


def _fit_polynomial(kind: int, inverse: Callable[[Array], Array]) -> _Shape | None:
    x = chebyshev.chebpts1(NODES)
    w = 0.5 * (1.0 + x)
    y = w * w if kind == kernels.ROOT else w
    root = 1.0 if kind == kernels.POLYNOMIAL else np.sqrt(y)
    series = chebyshev.chebfit(x, inverse(y) / root, NODES - 1)
    tail = np.cumsum(np.abs(series[::-1]))[::-1]
    # A quarter of the accuracy for what is cut off, relative to the smallest value of the series on [0, 1] at most.
    for terms in range(4, MOST_TERMS + 1, 4):
        if tail[terms] <= 0.25 * ACCURACY * np.abs(series).max():
            return _Shape(kind, np.resize(chebyshev.cheb2poly(series[:terms]), terms), NO_TABLE, NO_SPLITS)
    return None
