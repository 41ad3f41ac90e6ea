"""Singular value decompositions that stay right where columns are decades apart."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.probe.directions.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Singular values farther apart than this would be less than ten digits good in LAPACK's bidiagonal SVD.
GRADED = 1e6
#: Rotations that one step of a refinement finds to rounding; singular values too near to one another ask for larger.
_SMALL = 1e-8


class Decomposition(NamedTuple):
    """M = left diag(values) right, thin; values descend."""

    left: Array
    """(rows, rank), orthonormal columns."""
    values: Array
    """(rank,), NaN for those more than the range of floats below the largest."""
    right: Array
    """(rank, columns), orthonormal rows."""


def svd(matrix: Array) -> Decomposition:
    """Decompose a matrix of whatever rank and overwrite it; numpy's own needs room for three more of it."""
    from scipy.linalg import lapack

    if not matrix.size:
        return Decomposition(np.zeros((len(matrix), 0)), np.zeros(0), np.zeros((0, matrix.shape[1])))
    # LAPACK keeps columns together: what numpy keeps by rows is the transpose there.
    turned = not matrix.flags.f_contiguous
    given = np.asfortranarray(matrix.T if turned else matrix)
    work, _ = lapack.dgesdd_lwork(*given.shape, full_matrices=False)
    left, values, right, info = lapack.dgesdd(given, full_matrices=False, lwork=int(work), overwrite_a=1)
    if info != 0:
        msg = f"the singular value decomposition did not converge (LAPACK dgesdd, info = {info})"
        raise ArithmeticError(msg)
    return Decomposition(right.T, values, left.T) if turned else Decomposition(left, values, right)


def refined(matrix: Array, found: Decomposition) -> Array:
    """Return right vectors whose effects are at right angles to rounding of the largest value, from those of LAPACK.

    LAPACK leaves out what couples a value with weaker ones where that is below some fifty roundings of the former
    (dbdsqr, dlasdq) or the largest (dlasd2). The values stay right, but steps along weak directions then move more than
    these. One step of an iteration that converges quadratically (Ogita and Aishima 2020,
    doi:10.1016/j.cam.2019.112512), for right vectors alone.
    """
    left, values, right = found
    coupled = product(left.T, product(matrix, right.T))
    np.fill_diagonal(coupled, 0.0)
    if np.abs(coupled).max(initial=0.0) <= 4.0 * EPS * values.max(initial=0.0):
        return right
    squares = np.square(values)
    apart = squares[:, None] - squares
    coupled = values[:, None] * coupled + values * coupled.T
    small = np.abs(coupled) < _SMALL * np.abs(apart)
    rotation = np.divide(coupled, apart, out=np.zeros_like(coupled), where=small)
    return right + product(rotation, right)


def decompose(rows: Callable[[], Array], loss: float = 0.0) -> Decomposition:
    """Decompose a matrix of full row rank, each value and its vectors accurate relative to itself.

    Parameters
    ----------
    rows : callable
        Makes the matrix, (rank, parameters), anew: it is overwritten, and seldom wanted again. Columns may be graded;
        scaled to norm one it must be well conditioned beside 1 / `loss`.
    loss : float
        Relative error that the weakest value has anyway, and may have again.
    """
    matrix = rows()
    if not len(matrix):
        return Decomposition(np.zeros((0, 0)), np.zeros(0), matrix)
    if len(matrix) == 1:
        length = norms_of(matrix.T)
        return Decomposition(np.ones((1, 1)), length, matrix / length)
    norms = norms_of(matrix)
    if norms.max() / GRADED <= norms[norms > 0.0].min():
        found = svd(matrix)
        if EPS * found.values[0] <= max(EPS * GRADED, loss) * found.values[-1]:
            return found
    return _jacobi(rows())


def _jacobi(rows: Array) -> Decomposition:
    """LAPACK's preconditioned one-sided Jacobi method (Drmac and Veselic 2008, doi:10.1137/050639193)."""
    from scipy.linalg import lapack

    # rows^T = D B^T has graded rows; joba = 2 is the choice that keeps the accuracy for them. It must not be turned
    # (jobt = 0): a third faster, but small values of a matrix graded both ways were off by 1e-3 at 20 decades.
    values, right, left, work, _, info = lapack.dgejsv(rows.T, joba=2, jobu=0, jobv=0, jobt=0)
    if info != 0:
        msg = f"the Jacobi SVD did not converge (LAPACK dgejsv, info = {info})"
        raise ArithmeticError(msg)
    values = values * work[0] / work[1]
    # The rank is full: a zero is too small beside the largest for a float to hold.
    return Decomposition(left, np.where(values > 0.0, values, np.nan), right[:, : len(values)].T)


def triangular(columns: Array) -> tuple[Array, Array]:
    """Return orthonormal columns and the triangle that make independent columns, small entries right by graded rows.

    Householder's reflections keep them when each pivot is about the largest entry left (Cox and Higham, Stability of
    Householder QR factorization for weighted least squares problems, Numerical Analysis 1997).
    """
    from scipy.linalg import lapack

    order, reflections, factors, sizes = _reflections(columns)
    triangle = np.triu(reflections[: len(sizes)]) * sizes
    work = _sound("dorgqr", lapack.dorgqr(reflections, factors, lwork=-1))[1]
    found = np.empty(columns.shape)
    found[order] = _sound("dorgqr", lapack.dorgqr(reflections, factors, lwork=int(work[0]), overwrite_a=1))[0]
    return found, triangle


def orthonormal(rows: Array) -> Array:
    """Return orthonormal rows with the same span as independent ones, as :func:`triangular` does."""
    return np.ascontiguousarray(triangular(rows.T)[0].T) if len(rows) else rows


def in_turn(columns: Array) -> Array:
    """Return orthonormal columns, each turned to the side of what it was: those before it are taken out of it."""
    from scipy.linalg import lapack

    work = 64 * columns.shape[1]
    factored, tau, *_ = lapack.dgeqrf(np.asfortranarray(columns), lwork=work, overwrite_a=1)
    signs = np.where(np.diagonal(factored) < 0.0, -1.0, 1.0)
    found, *_ = lapack.dorgqr(factored, tau, lwork=work, overwrite_a=1)
    found *= signs
    return np.ascontiguousarray(found)


def complement(rows: Array) -> Array:
    """Return orthonormal rows, (columns - rank, columns), orthogonal to independent ones, (rank, columns).

    Where rows are graded their complement is graded the other way, and its small entries are right, as those of
    :func:`triangular`.
    """
    from scipy.linalg import lapack

    rank, size = rows.shape
    if rank == size:
        return np.zeros((0, size))
    if not rank:
        return np.eye(size)
    order, reflections, factors, _ = _reflections(rows.T)
    rest = np.zeros((size, size - rank), order="F")
    rest[np.arange(rank, size), np.arange(size - rank)] = 1.0
    work = _sound("dormqr", lapack.dormqr("L", "N", reflections, factors, rest, -1))[1]
    rest, *_ = _sound("dormqr", lapack.dormqr("L", "N", reflections, factors, rest, int(work[0]), overwrite_c=1))
    found = np.empty((size - rank, size))
    found[:, order] = rest.T
    return found


def _reflections(columns: Array) -> tuple[NDArray[np.intp], Array, Array, Array]:
    """Return the order of the rows, reflections as LAPACK keeps them that make a triangle of columns, and their norms.

    The triangle is that of columns of norm one.
    """
    from scipy.linalg import lapack

    sizes = norms_of(columns)
    columns = columns / sizes
    order = np.arange(len(columns))
    for place, pivot in enumerate(_sound("dgetrf", lapack.dgetrf(columns))[1]):
        order[[place, pivot]] = order[[pivot, place]]
    work = _sound("dgeqrf", lapack.dgeqrf_lwork(*columns.shape))[0]
    reflections, factors, *_ = _sound("dgeqrf", lapack.dgeqrf(columns[order], lwork=int(work), overwrite_a=1))
    return order, reflections, factors, sizes


def _sound(name: str, found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a routine of LAPACK found; raises ArithmeticError where it says that it failed."""
    info = found[-1]
    if info != 0:
        why = "the columns are not independent" if name == "dgetrf" and info > 0 else f"info = {info}"
        msg = f"an orthonormal basis was not found (LAPACK {name}: {why})"
        raise ArithmeticError(msg)
    return found
