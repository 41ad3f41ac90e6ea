"""The change of a set that moves the readings least: a generalised eigenproblem, modulo gauge.

Minimise ||W d|| over the changes d of some parameters, the others held, with ||N d|| = 1 for a norm N whose null space
is gauge: with N = U S V^T, d = V S^-1 y, it is the smallest singular value of W V S^-1. Neither W nor N is squared, and
columns are scaled first, so that units do not decide.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.graded_svd import decompose
from estim.probe.noise import norms_of

Array = npt.NDArray[np.float64]

#: Singular values of a norm with columns of norm one, below which a change is gauge.
GAUGE = 1e-10
#: Beyond so many unknowns only the smallest singular value is sought, by an inverse: a tenth of the work.
_FEW = 96
# Singular values farther apart than this need Jacobi's method.
_GRADED = 1e6


@dataclass(frozen=True)
class Coordinates:
    """Coordinates y of changes in which the norm is Euclidean, gauge left out."""

    to_change: Array
    """(parameters, dimension): d = to_change @ y."""

    @property
    def dimension(self) -> int:
        """How many there are."""
        return int(self.to_change.shape[1])


def coordinates(norm: Array, members: npt.NDArray[np.bool_]) -> Coordinates:
    """Return coordinates of the changes of some members for a norm, (rows, parameters), or one weight a parameter."""
    change = np.zeros((len(members), int(members.sum())))
    if norm.ndim == 1:
        change[members] = np.diag(1.0 / norm[members])
        return Coordinates(change)
    part = norm[:, members]
    sizes = norms_of(part)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    _, values, right = np.linalg.svd(part / sizes, full_matrices=False)
    kept = values > GAUGE * values.max(initial=0.0)
    change = np.zeros((len(members), int(kept.sum())))
    change[members] = right[kept].T / values[kept] / sizes[:, None]
    return Coordinates(change)


def modulo(norm: Array, gauge: Array) -> Array:
    """Return the norm of the smallest of all changes that differ by a gauge, rows spanning it; (rows, parameters)."""
    if norm.ndim == 1:
        if not len(gauge):
            return norm
        norm = np.diag(norm)
    moved = norm @ gauge.T
    basis, _ = np.linalg.qr(moved / norms_of(moved))
    return np.asarray(norm - basis @ (basis.T @ norm))


def least(matrix: Array) -> tuple[float, Array]:
    """Return the smallest singular value of a matrix of full column rank, and its right singular vector."""
    triangle = np.asarray(np.linalg.qr(matrix, mode="r"))
    if len(triangle) > _FEW:
        value, vector = _by_inverse(triangle)
        if float(np.linalg.norm(triangle)) <= _GRADED * value:
            return value, vector
    # Columns may be decades apart, and rows: sorted, the triangle is graded downwards.
    found = decompose(triangle)
    return float(found.values[-1]), np.asarray(found.right[-1])


def _by_inverse(triangle: Array) -> tuple[float, Array]:
    """Take the largest singular value of the inverse, which loses nothing by being squared."""
    from scipy.linalg import eigh, lapack

    inverse, info = lapack.dtrtri(triangle)
    if info != 0:
        return 0.0, np.zeros(len(triangle))
    size = float(np.abs(inverse).max())
    last = len(inverse) - 1
    values, vectors = eigh((inverse / size) @ (inverse / size).T, subset_by_index=[last, last])
    return 1.0 / (size * float(np.sqrt(values[0]))), np.asarray(vectors[:, 0])
