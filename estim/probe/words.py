"""Subspaces of parameter space in words: "a + b", "a - b"."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.directions.noise import read_sigma

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

#: Coefficients below this, beside a leading one of 1, are rounding.
NEGLIGIBLE = 1e-6
MOST_TERMS = 6


def combinations(
    rows: Array, names: tuple[str, ...], scale: Array, most: int, beside: Array | None = None
) -> tuple[str, ...]:
    """Return a simple basis of a subspace, each vector as a sum of named parameters; so many of them at most.

    Parameters
    ----------
    rows : ndarray, shape (vectors, parameters)
        Spanning the subspace, independent.
    names : tuple of str, (parameters,)
    scale : ndarray, shape (parameters,)
        Size of a parameter's effect; pivots are chosen, and coefficients judged, with each parameter in units of
        1/scale.
    beside : ndarray, shape (parameters - vectors, parameters), optional
        Spanning the orthogonal complement: the pivots are then found in it, which is faster where it is smaller.

    Returns
    -------
    tuple of str
        From the reduced echelon form: every vector has a parameter that no other one has.
    """
    reduced = echelon(rows, scale, beside)
    found = tuple(phrase(row, names, scale) for row in reduced[:most])
    more = len(reduced) - len(found)
    return (*found, f"... and {more} more combinations") if more else found


def told_apart(found: "Sensitivity") -> Array:
    """Return the directions; where it is not known in the parameters' units which is which, those free of units."""
    vague = np.isnan(found.singular_values)[:, None]
    return np.where(vague, found.scaled_directions / found.scale, found.directions)


def echelon(rows: Array, scale: Array, beside: Array | None = None) -> Array:
    """Return the reduced row echelon form with pivots on the columns that matter most."""
    from scipy.linalg import lapack  # as all beside it: threads of NumPy's BLAS would hold up those of SciPy's

    count, size = rows.shape
    if not count:
        return rows
    weighted = rows * scale
    every = np.arange(size)
    # Columns that the complement needs least are the pivots of the others.
    pivots = _pivots(weighted) if beside is None else np.setdiff1d(every, _pivots(beside / scale, last=True))
    others = np.setdiff1d(every, pivots)
    reduced = np.empty_like(weighted)
    reduced[:, pivots] = np.eye(count)
    reduced[:, others] = lapack.dgesv(weighted[:, pivots], weighted[:, others])[2]
    reduced[np.abs(reduced) < NEGLIGIBLE] = 0.0
    # Back to the parameters' own units, with the pivot's coefficient one.
    reduced *= scale[pivots, None] / scale
    return reduced


def _pivots(rows: Array, *, last: bool = False) -> npt.NDArray[np.intp]:
    """Return, in order, columns that determine the others; of those that matter alike the first ones, or the last."""
    from scipy.linalg import qr

    tilt = 1.0 - 1e-6 * np.linspace(0.0, 1.0, rows.shape[1])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    *_, order = qr(rows * (tilt[::-1] if last else tilt), pivoting=True, mode="r")
    return np.sort(order[: len(rows)])


def phrase(row: Array, names: tuple[str, ...], scale: Array) -> str:
    """Write one combination, largest effects kept, three digits a coefficient."""
    effect = np.abs(row * scale)
    kept = np.flatnonzero(effect > NEGLIGIBLE * effect.max())
    dropped = len(kept) - MOST_TERMS
    if dropped > 0:
        kept = np.sort(kept[np.argsort(-effect[kept], kind="stable")][:MOST_TERMS])
    text = ""
    for j in kept:
        value = float(row[j])
        size = f"{abs(value):.3g}"
        term = names[j] if size == "1" else f"{size} {names[j]}"
        sign = ("-" if value < 0.0 else "") if not text else (" - " if value < 0.0 else " + ")
        text += sign + term
    return f"{text} + ... ({dropped} more)" if dropped > 0 else text


def noise_phrase(sigma: Any, repeats: int) -> str:
    """Say what noise was given: "sd 0.1", the range of one for each reading, or a covariance."""
    values = read_sigma(sigma)
    covariance = values.ndim == 2
    sd = np.sqrt(np.maximum(np.diagonal(values), 0.0)) if covariance else values
    low, high = float(sd.min()), float(sd.max())
    text = f"sd {low:.4g}" if low == high else f"sd {low:.4g} to {high:.4g}"
    text += " with a covariance" if covariance else ""
    return f"{text}, mean of {repeats} repeats" if repeats > 1 else text


def blind_notes(rank: int) -> tuple[str, ...]:
    """Say what it may mean that no direction is resolved."""
    if rank:
        return ()
    return (
        "No reading shows any parameter beyond the error of the derivatives: does the model use them, and has it an "
        "effect of first order where they are?",
    )
