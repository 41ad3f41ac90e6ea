"""Independent rows with the span of some that may be nearly parallel, or the same: what is zero in these stays zero.

What two rows leave of each other is rounding where each entry is that of the terms it is made of; such entries are
taken for zero. In the units of one parameter rows may be parallel to rounding, and yet apart by small entries.
"""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.graded_svd import triangular
from estim.probe.directions.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Singular values, of rows of norm one, below which some are the sum of others.
_SAME = 1e-10
#: Of the terms an entry is made of: rounding of these, and of coefficients known to the inverse of `_SAME` times that.
_ROUNDING, _ROUGH = 16.0 * EPS, 1e-6
#: What is left of a row beside those before it, below which it has lost digits that its entries have.
_PARALLEL = 1e-6
#: Sweeps that make entries comparable.
_SWEEPS = 30
#: Power of its strength that makes up for a column being less independent: thirty decades for three.
_STRENGTH = 0.1


def independent(rows: Array, scale: Array, idle: NDArray[np.bool_]) -> Array:
    """Return independent rows, (dimension, parameters), with the same span: those given, as far as they can stay.

    Which are independent is decided in parameters of equal effect, `scale`. Those without effect, `idle`, are not to be
    compared so: rows that differ in them alone leave rows of them alone.
    """
    effects = (rows * scale)[:, ~idle]
    lengths = norms_of(effects.T)
    acts = lengths > 0.0
    effects, acting = (part[acts] / lengths[acts, None] for part in (effects, rows))
    kept, others = _chosen(effects)
    if not idle.any():
        return acting[kept]
    differences = _less(acting[others][:, idle], effects[others], acting[kept][:, idle], effects[kept])
    still = np.concatenate([rows[~acts][:, idle], differences])
    still = still[still.any(axis=1)]
    units = _units(still)
    still /= norms_of((still / units).T)[:, None]
    still = still[_chosen(still / units)[0]]
    left = acting[kept]
    left[:, idle] = _less(left[:, idle], left[:, idle] / units, still, still / units)
    alone = np.zeros((len(still), len(idle)))
    alone[:, idle] = still
    return np.concatenate([alone, left])


def basis_of(rows: Array) -> Array:
    """Return orthonormal rows with the same span as independent ones, small entries right by graded columns."""
    if not len(rows):
        return rows
    found, triangle = triangular(rows.T)
    if (np.abs(np.diagonal(triangle)) < _PARALLEL * norms_of(rows.T)).any():
        found = triangular(echelon(rows).T)[0]
    return np.ascontiguousarray(found.T)


def strength(scale: Array) -> Array:
    """Return weights by which the choice of independent columns favours strong parameters, but not much."""
    return np.asarray(np.exp(_STRENGTH * (np.log(scale) - np.log(scale.min()))))


def freed(rows: Array, fixed: NDArray[np.intp], free: NDArray[np.intp]) -> Array:
    """Return what is orthogonal to rows, (free, columns): each has one free column, where it is 1, and fixed ones."""
    inverse = np.linalg.inv(rows[:, fixed])
    parts = inverse @ rows[:, free]
    # Nothing, or rounding, and in other units that may be large.
    made_of = np.abs(inverse) @ np.abs(rows[:, free])
    found = np.zeros((len(free), rows.shape[1]))
    found[np.arange(len(free)), free] = 1.0
    found[:, fixed] = -np.where(np.abs(parts) > _ROUNDING * made_of, parts, 0.0).T
    return found


def _chosen(rows: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of independent ones among rows of about norm one, as many as there are, and of the others."""
    from scipy.linalg import qr, svdvals

    if not rows.size:
        return np.arange(0), np.arange(len(rows))
    triangle, order = qr(rows.T, mode="r", pivoting=True)
    values = svdvals(triangle[: len(rows)])
    rank = int(np.count_nonzero(values > _SAME * values[0]))
    return np.sort(order[:rank]), np.sort(order[rank:])


def _less(rows: Array, by: Array, others: Array, others_by: Array) -> Array:
    """Return what is left of rows without that combination of others which fits best, `by` other columns of both."""
    if not (len(rows) and len(others)):
        return rows
    parts = np.linalg.lstsq(others_by.T, by.T)[0].T
    left = rows - parts @ others
    # Each part is known beside the largest.
    made_of = np.abs(rows) + np.abs(parts).max(axis=1, keepdims=True) * np.abs(others).sum(axis=0)
    return np.where(np.abs(left) > _ROUGH * made_of, left, 0.0)


def _units(rows: Array) -> Array:
    """Return units of the columns in which the entries of the rows, themselves of any length, are comparable.

    Those in which the squared logarithms of entries that are not zero have the least sum (Curtis and Reid, On the
    automatic scaling of matrices for Gaussian elimination, 1972, doi:10.1093/imamat/10.1.118), by turns.
    """
    there = rows != 0.0
    logs = np.log(np.where(there, np.abs(rows), 1.0))
    in_row, in_column = (np.maximum(there.sum(axis=axis), 1) for axis in (1, 0))
    columns = np.zeros(rows.shape[1])
    for _ in range(_SWEEPS):
        lengths = (there * (logs - columns)).sum(axis=1) / in_row
        columns = (there * (logs - lengths[:, None])).sum(axis=0) / in_column
    return np.asarray(np.exp(columns))


def echelon(rows: Array) -> Array:
    """Return the rows with each one's largest entry taken out of those after it."""
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    made_of = np.abs(rows)
    for k in range(len(rows) - 1):
        rest, pivot = slice(k + 1, None), int(np.argmax(np.abs(rows[k])))
        factor = rows[rest, pivot, None] / rows[k, pivot]
        made_of[rest] += np.abs(factor) * made_of[k]
        left = rows[rest] - factor * rows[k]
        left[:, pivot] = 0.0
        left[np.abs(left) <= _ROUNDING * made_of[rest]] = 0.0
        largest = np.abs(left).max(axis=1, keepdims=True)
        rows[rest], made_of[rest] = left / largest, made_of[rest] / largest
    return rows
