"""A table of the inverse of a response: polynomials in cells, split where the inverse is not smooth.

The cells are those that the compiled look-up finds from the bits of a reading: equal parts of each octave of its
distance from the nearer end of the attainable range. A cell whose polynomial misses the accuracy is cut in four,
again and again: so a kink (of an interpolated table, say) or a near-plateau costs some rows around it and nothing
elsewhere.

notation: y reading in [0, 1]; t in [0, 1) place in a cell, away from the end.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Chebyshev, Polynomial, chebyshev

from estim.recovery import kernels
from estim.recovery.monotone import EPS

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Cuts in four: to 1e-12 of a cell, where even a jump of the slope is below the accuracy.
DEEPEST = 20
MOST_ROWS = 1 << 16

NO_TABLE = np.zeros((1, kernels.COLUMNS))
NO_SPLITS = np.zeros(0, np.int64)


def tabulate(
    inverse: Callable[[Array], Array], rounding: float, grain: float, accuracy: float
) -> tuple[Array, Integers] | None:
    """Return the table and each cell's first row (empty when no cell is split), or None when it would not fit.

    The accuracy is relative, and checked between the nodes; where float64 holds less of y, that is all that is asked.
    """
    nodes, to_powers = _interpolation()
    check = np.array([0.02, 0.5, 0.98])
    cell = np.concatenate([1 + np.arange(kernels.CELLS), kernels.ROWS + 1 + np.arange(kernels.CELLS)])
    start, size = np.zeros(len(cell)), np.ones(len(cell))
    cells, rows = [], []
    for depth in range(DEEPEST + 1):
        values = inverse(_reading(cell, start, size, nodes)).reshape(len(cell), -1)
        coefficients = values @ to_powers
        at = _reading(cell, start, size, check)
        expected = inverse(at)
        got = (coefficients @ np.vander(check, kernels.COEFFICIENTS, increasing=True).T).ravel()
        miss = np.abs(got - expected) - accuracy * np.abs(expected)
        missed = miss > 0.0
        miss[missed] -= known_to(inverse, at[missed], rounding, grain)
        good = (miss <= 0.0).reshape(len(cell), -1).all(axis=1)
        scaled = coefficients / size[:, None] ** np.arange(kernels.COEFFICIENTS)
        cells.append(cell[good])
        rows.append(np.column_stack([scaled, start, start + size])[good])
        if good.all():
            return _assemble(np.concatenate(cells), np.concatenate(rows), float(inverse(np.array([0.5]))[0]))
        if depth == DEEPEST or 4 * np.count_nonzero(~good) > MOST_ROWS:
            break
        cell, size = np.repeat(cell[~good], 4), np.repeat(0.25 * size[~good], 4)
        start = np.repeat(start[~good], 4) + size * np.tile(np.arange(4.0), len(cell) // 4)
    return None


def known_to(inverse: Callable[[Array], Array], y: Array, rounding: float, grain: float) -> Array:
    """Return how well float64 determines the inverse: its change over a few roundings of y, and its own grain.

    Near a saturating end a rounding of the reading is a large change of theta. ``grain``: the rounding of theta at the
    lower end, in units of the window; it is all there is of theta - lower near a lower end that is not zero.
    """
    blur = 4.0 * EPS * y + rounding
    change = np.abs(inverse(np.minimum(y + blur, 1.0)) - inverse(np.maximum(y - blur, 0.0)))
    return np.asarray(4.0 * (change + grain))


def _reading(cell: Integers, start: Array, size: Array, place: Array) -> Array:
    """Return the readings at the relative places of each stretch of a cell, flattened."""
    high, number = np.divmod(cell, kernels.ROWS)
    per_octave = 1 << kernels.CELL_BITS
    octave, part = np.divmod(number - 1, per_octave)
    t = start[:, None] + size[:, None] * place
    x = np.exp2(octave - kernels.OCTAVES - 1.0)[:, None] * (1.0 + (part[:, None] + t) / per_octave)
    return np.where(high[:, None] == 1, 1.0 - x, x).ravel()


def _interpolation() -> tuple[Array, Array]:
    """Return the nodes in [0, 1], and the map from values there to powers of the place."""
    n = kernels.COEFFICIENTS
    x = chebyshev.chebpts1(n)
    powers = np.zeros((n, n))
    for degree in range(n):
        basis = Chebyshev.basis(degree, domain=[0.0, 1.0]).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])
        powers[degree, : degree + 1] = basis.coef
    return 0.5 * (1.0 + x), np.linalg.inv(chebyshev.chebvander(x, n - 1)).T @ powers


def _assemble(cell: Integers, rows: Array, middle: float) -> tuple[Array, Integers]:
    """Sort the rows by cell and start, and add the ends themselves and y = 1/2, each a cell of one row."""
    ends = np.zeros((4, kernels.COLUMNS))
    ends[:, 0] = 0.0, middle, 1.0, middle
    ends[:, kernels.END] = 1.0
    cell = np.concatenate([cell, [0, kernels.ROWS - 1, kernels.ROWS, 2 * kernels.ROWS - 1]])
    rows = np.concatenate([rows, ends])
    order = np.lexsort([rows[:, kernels.START], cell])
    first = np.searchsorted(cell[order], np.arange(2 * kernels.ROWS))
    return np.ascontiguousarray(rows[order]), NO_SPLITS if len(rows) == 2 * kernels.ROWS else first.astype(np.int64)
