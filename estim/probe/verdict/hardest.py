"""The change of a set that moves the readings least: a generalised eigenproblem, modulo gauge.

Minimise ||W d|| over the changes d of some parameters, the others held, with ||N d|| = 1 for a norm N whose null space
is gauge: with N = U S V^T, d = V S^-1 y, it is the smallest singular value of W V S^-1. Neither W nor N is squared, and
columns are scaled first, so that units do not decide.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.directions.graded_svd import decompose, triangular
from estim.probe.directions.noise import norms_of

Array = npt.NDArray[np.float64]

#: Singular values of a norm with columns of norm one, below which a change is gauge.
GAUGE = 1e-10
#: Beyond so many unknowns only the smallest singular value is sought, by an inverse: a fraction of the work.
_FEW = 96
# Singular values farther apart than this need Jacobi's method.
_GRADED = 1e6
# Of the eigenvalue: its error is that of the vector squared.
_CONVERGED = 1e-13


@dataclass(frozen=True)
class Coordinates:
    """Coordinates y of the changes of some parameters, in which a norm of them is Euclidean, gauge left out."""

    members: npt.NDArray[np.intp]
    """(members,) places of the parameters that change."""
    to_change: Array
    """(members, dimension): d = to_change @ y; or (members,), factors of each parameter alone."""

    @property
    def dimension(self) -> int:
        """How many there are."""
        return int(self.to_change.shape[-1])

    def moved(self, rows: Array) -> Array:
        """Return what rows, (directions, parameters), say of the coordinates, (directions, dimension)."""
        part = rows[:, self.members]
        return np.asarray(part * self.to_change if self.to_change.ndim == 1 else part @ self.to_change)

    def change(self, place: Array, parameters: int) -> Array:
        """Return the change, (parameters,), at one place."""
        change = np.zeros(parameters)
        change[self.members] = self.to_change * place if self.to_change.ndim == 1 else self.to_change @ place
        return change


def coordinates(norm: Array, members: npt.NDArray[np.bool_], scale: Array) -> Coordinates:
    """Return coordinates of the changes of some members for a norm, (rows, parameters), or one weight a parameter.

    Where the norm leaves out no change, each is of parameters that are no stronger, by `scale`, than one it has alone:
    no strong one's rounding then enters what a weaker one moves.
    """
    from scipy.linalg import solve_triangular

    places = np.flatnonzero(members)
    if norm.ndim == 1:
        return Coordinates(places, 1.0 / norm[places])
    places = places[np.argsort(scale[places], kind="stable")]
    part = norm[:, places]
    sizes = norms_of(part)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    part /= sizes
    _, values, right = np.linalg.svd(part, full_matrices=False)
    kept = values > GAUGE * values.max(initial=0.0)
    if kept.all() and len(kept) == len(places) > 0:
        inverse = solve_triangular(triangular(part)[1], np.eye(len(places)))
        return Coordinates(places, inverse / sizes[:, None])
    return Coordinates(places, right[kept].T / values[kept] / sizes[:, None])


def modulo(norm: Array, gauge: Array) -> Array:
    """Return the norm of the smallest of all changes that differ by a gauge, rows spanning it; (rows, parameters)."""
    if norm.ndim == 1:
        if not len(gauge):
            return norm
        norm = np.diag(norm)
    moved = norm @ gauge.T
    basis, _ = np.linalg.qr(moved / norms_of(moved))
    return np.asarray(norm - basis @ (basis.T @ norm))


def least(matrix: Array, inverse: Array | None = None) -> tuple[float, Array]:
    """Return the smallest singular value of a matrix of full column rank, and its right singular vector.

    The inverse, where it is known without work, saves nearly all of it.
    """
    if len(matrix.T) > _FEW:
        value, vector = _by_inverse(_inverse_triangle(matrix) if inverse is None else inverse)
        if value > 0.0 and float(np.linalg.norm(matrix)) <= _GRADED * value:
            return value, vector
    # Columns may be decades apart, and rows: sorted, the triangle is graded downwards.
    found = decompose(lambda: np.asarray(np.linalg.qr(matrix, mode="r")))
    return float(found.values[-1]), np.asarray(found.right[-1])


def most_doubt(value: float, moved: Array, scaled: Array, resolution: float) -> float:
    """Return by how much, at most, the Jacobian's own error lessens the least that changes of a set move.

    By it one change moves the readings less by up to the resolution times its size in parameters of equal effect, so
    all of them by up to that of the largest; and each by up to the resolution over what it moves for each of that size,
    in parts of what it moves.

    Parameters
    ----------
    value : float
        What the hardest change moves.
    moved : ndarray, shape (directions, dimension)
        What coordinates move.
    scaled : ndarray, shape (members, dimension) or (dimension,)
        The coordinates in parameters of equal effect; one number a coordinate where each is a parameter.
    resolution : float
    """
    if scaled.ndim == 1:
        weakest = least(moved / scaled)[0]
        largest = float(np.abs(scaled).max())
    else:
        triangle = np.asarray(np.linalg.qr(scaled, mode="r"))
        weakest = least(np.linalg.solve(triangle.T, moved.T).T)[0]
        largest = float(np.linalg.norm(scaled, 2))
    return min(resolution * largest, value * resolution / weakest if weakest > 0.0 else np.inf)


def _inverse_triangle(matrix: Array) -> Array:
    """Return the inverse of R in the QR factorisation; of infinities where there is none."""
    from scipy.linalg import lapack

    inverse, info = lapack.dtrtri(np.linalg.qr(matrix, mode="r"))
    return np.asarray(inverse if info == 0 else np.full_like(inverse, np.inf))


def _by_inverse(inverse: Array) -> tuple[float, Array]:
    """Take the largest singular value of the inverse, by Lanczos' method; squaring loses nothing of the largest."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    size, count = float(np.abs(inverse).max()), len(inverse)
    start = np.random.default_rng(0).standard_normal(count)
    if not np.isfinite(size):
        return 0.0, start
    inverse = inverse / size
    squared = LinearOperator((count, count), matvec=lambda v: inverse @ (inverse.T @ v), dtype=np.float64)
    try:
        values, vectors = eigsh(squared, k=1, v0=start, tol=_CONVERGED)
    except ArpackNoConvergence:
        return 0.0, start
    return 1.0 / (size * float(np.sqrt(values[0]))), np.asarray(vectors[:, 0])
