"""Compiled loops of the Monte Carlo recovery: draw, clip, invert, accumulate. No checks here.

A block is worked off in chunks that stay in the first-level cache. One chunk of normals serves every noise level
(common random numbers); each level then makes short passes that the compiler vectorises. The passes are apart because
a gather, a draw or a square root in a loop would keep the arithmetic beside it from being vectorised.

notation: z normal; y reading in units of the attainable excess, clipped to [0, 1]; d error of the estimate in the
level's unit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from estim.recovery.normals import standard_normal

Array = npt.NDArray[np.float64]

CHUNK = 512
#: Sums kept for each level: d, d^2, d^4, readings clipped at the lower and at the upper end of theta.
SUMS = 5

#: How a level turns the clipped reading y into its estimate, with v = 2 (y or its root) - 1: P(v); root(y) P(v) with
#: v from the root; root(y) P(v) with v from y; the table.
POLYNOMIAL, ROOT, ROOT_OF_EVEN, TABLE = 0, 1, 2, 3

#: The table: cells for each octave of the distance x from the nearer end of [0, 1], octaves kept, and rows for each
#: end: one for x nearer than the last octave, the cells, one for x = 1/2.
CELL_BITS = 5
OCTAVES = 44
CELLS = OCTAVES << CELL_BITS
ROWS = CELLS + 2
COEFFICIENTS = 6
#: Columns of a row after its coefficients: the stretch of the cell it covers. With them it fills a cache line.
START, END = 6, 7
COLUMNS = 8
_SHIFT = 52 - CELL_BITS
_FIRST = (1023 - 1 - OCTAVES) << CELL_BITS
_ONE = 1023 << 52
_FRACTION = (1 << 52) - 1


def _compile(function: Callable[..., Any]) -> Any:
    """Compile with the options of every loop here: sums may be reassociated and products fused, NaN keeps its meaning.

    LLVM vectorises such loops only under NumPy's error model.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to cache in: a read-only installation without a home
        return njit(**options)(function)


@_compile
def _read(z: Array, scale: float, shift: float, y: Array) -> tuple[int, int]:
    """Write the clipped readings into y; return how many were clipped low and high."""
    low = high = 0
    for i in range(z.size):
        value = shift + scale * z[i]
        low += value <= 0.0
        high += value >= 1.0
        y[i] = min(max(value, 0.0), 1.0)
    return low, high


@_compile
def _horner(w: Array, c: Array, p: Array) -> None:
    """Write the polynomial in v = 2 w - 1 into p, four coefficients a pass (a multiple of four in all)."""
    last = c.size
    for i in range(w.size):
        v = 2.0 * w[i] - 1.0
        p[i] = ((c[last - 1] * v + c[last - 2]) * v + c[last - 3]) * v + c[last - 4]
    for k in range(last - 8, -1, -4):
        for i in range(w.size):
            v = 2.0 * w[i] - 1.0
            p[i] = (((p[i] * v + c[k + 3]) * v + c[k + 2]) * v + c[k + 1]) * v + c[k]


@_compile
def _look_up(
    y: Array, table: Array, first: npt.NDArray[np.int64], x: Array, cell: npt.NDArray[np.int64], p: Array
) -> None:
    """Write the tabulated inverse of y in [0, 1] into p. x and cell are scratch.

    Where cells are split, ``first`` holds each cell's first row; it is empty where a cell's row has its number.
    """
    bits = x.view(np.int64)
    for i in range(y.size):
        x[i] = min(y[i], 1.0 - y[i])
    for i in range(y.size):
        b = bits[i]
        place = max((b >> _SHIFT) - _FIRST, -1) + 1
        cell[i] = place + ROWS * (y[i] > 0.5)
        bits[i] = ((b << CELL_BITS) & _FRACTION) | _ONE
    if first.size > 0:
        for i in range(y.size):
            t = x[i] - 1.0
            k = first[cell[i]]
            while t >= table[k, END]:
                k += 1
            cell[i] = k
            x[i] -= table[k, START]
    for i in range(y.size):
        k = cell[i]
        t = x[i] - 1.0
        value = table[k, COEFFICIENTS - 1]
        for j in range(COEFFICIENTS - 2, -1, -1):
            value = value * t + table[k, j]
        p[i] = value


@_compile
def _add_errors(p: Array, truth: float, sums: Array) -> None:
    s1 = s2 = s4 = 0.0
    for i in range(p.size):
        d = p[i] - truth
        s1 += d
        s2 += d * d
        s4 += (d * d) * (d * d)
    sums[0] += s1
    sums[1] += s2
    sums[2] += s4


@_compile
def _add_root_errors(y: Array, p: Array, truth: float, sums: Array) -> None:
    """Do the same for estimates root(y) p: beside the sums the root costs less than in a loop of its own."""
    s1 = s2 = s4 = 0.0
    for i in range(p.size):
        d = np.sqrt(y[i]) * p[i] - truth
        s1 += d
        s2 += d * d
        s4 += (d * d) * (d * d)
    sums[0] += s1
    sums[1] += s2
    sums[2] += s4


@_compile
def factor(
    kind: int,
    y: Array,
    c: Array,
    table: Array,
    first: npt.NDArray[np.int64],
    x: Array,
    cell: npt.NDArray[np.int64],
    p: Array,
) -> None:
    """Write into p the estimates or, for the kinds with a root, their factor beside root(y). x and cell are scratch."""
    if kind == TABLE:
        _look_up(y, table, first, x, cell, p)
    elif kind == ROOT:
        for i in range(y.size):
            x[i] = np.sqrt(y[i])
        _horner(x, c, p)
    else:
        _horner(y, c, p)


@_compile
def accumulate(
    rng: Any,
    trials: int,
    kind: npt.NDArray[np.int64],
    scale: Array,
    shift: Array,
    truth: Array,
    terms: npt.NDArray[np.int64],
    coefficients: Array,
    table: Array,
    first: npt.NDArray[np.int64],
) -> Array:
    """Return the sums (levels, SUMS) of one block of trials."""
    sums = np.zeros((scale.size, SUMS))
    z, y, p = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    x, cell = np.empty(CHUNK), np.empty(CHUNK, np.int64)
    for start in range(0, trials, CHUNK):
        n = min(CHUNK, trials - start)
        for i in range(n):
            z[i] = standard_normal(rng)
        for k in range(scale.size):
            low, high = _read(z[:n], scale[k], shift[k], y[:n])
            sums[k, 3] += low
            sums[k, 4] += high
            c = coefficients[k, : terms[k]]
            factor(kind[k], y[:n], c, table, first, x[:n], cell[:n], p[:n])
            if kind[k] == ROOT or kind[k] == ROOT_OF_EVEN:
                _add_root_errors(y[:n], p[:n], truth[k], sums[k])
            else:
                _add_errors(p[:n], truth[k], sums[k])
    return sums
