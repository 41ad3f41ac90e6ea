"""The largest singular values of a matrix known by its products alone, with bounds that do not rest on convergence.

Lanczos iteration (`scipy.sparse.linalg.eigsh`) proposes vectors; whatever they are, what they prove is computed from
them. Let X (n, k) be orthonormal, S^2 its Rayleigh quotients, C = A A^T X - X S^2. By Weyl's inequality A A^T has k
eigenvalues within c = sqrt(2) |C|_F of S^2. That they are the k largest, no number of steps of Lanczos proves: the
vectors may all be orthogonal to one not found. So what is left, B = (I - X X^T) A, is probed with Gaussian vectors g:
|B^T B B^T g|^2 is at least b^6 z^2, with b the norm of B and z standard normal, whatever B is; a low quantile of
chi-square therefore bounds b. |B^T g|^2 has the mean |B|_F^2 (Hutchinson 1990, doi:10.1080/03610919008812866).

notation: A (n, m) the matrix or its transpose, n <= m; X (n, k) vectors found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from scipy.special import gammaincinv

from estim.probe.matrix_free.rest import CONFIDENCE, Rest

Array = npt.NDArray[np.float64]

#: Restarts of the iteration, at most; relative residual of an eigenvalue at which it counts as found.
_RESTARTS = 10
_CLOSE = 1e-4
#: Random vectors that bound the rest.
_DRAWS = 8


@dataclass(frozen=True)
class Top:
    """The vectors found and what they prove."""

    values: Array
    """(k,) singular values, descending."""
    errors: Array
    """(k,) as many singular values, all different ones, lie this near, one to each."""
    vectors: Array
    """(n, k) orthonormal."""
    smallest: float
    """Below it nothing is shown."""
    rest: Rest


def products_needed(count: int, size: int) -> tuple[int, int]:
    """Return how many products with A or A^T are taken at least, and at most, for `count` values, n = `size`."""
    steps = _steps(count, size)
    beside = 3 * count + 3 * _DRAWS  # Rayleigh quotients, the other side's vectors, the rest
    return 2 * steps + beside, 2 * (1 + steps + _RESTARTS * (steps - count) + count) + beside


def memory(count: int, size: int) -> float:
    """Return the bytes of the vectors (n,) held at a time."""
    return 8.0 * size * (_steps(count, size) + 4 * count)


def largest(matrix: LinearOperator, count: int) -> Top:
    """Return up to `count` of the largest singular values of A (n, m), n <= m, and bounds.

    Fewer are returned where the iteration ends at its limit before all have converged, and vectors of a random range
    where none has.
    """
    rng = np.random.default_rng(0)
    matrix = LinearOperator(
        matrix.shape, matvec=of_unit_size(matrix.matvec), rmatvec=of_unit_size(matrix.rmatvec), dtype=np.float64
    )
    square = LinearOperator(matrix.shape[:1] * 2, matvec=lambda x: matrix.matvec(matrix.rmatvec(x)), dtype=np.float64)
    found, converged = _proposed(square, count, rng)
    images = np.stack([square.matvec(vector) for vector in found.T], axis=1)
    quotients = found.T @ images
    squares, turn = np.linalg.eigh((quotients + quotients.T) / 2.0)
    squares, turn = np.maximum(squares[::-1], 0.0), turn[:, ::-1]
    vectors, images = found @ turn, images @ turn
    rounding = 8.0 * np.sqrt(len(vectors)) * float(np.finfo(np.float64).eps) * float(squares[0])
    residual = float(np.linalg.norm(images - vectors * squares) + rounding)
    slack = np.sqrt(2.0) * residual
    values = np.sqrt(squares)
    errors = np.maximum(values - np.sqrt(np.maximum(squares - slack, 0.0)), np.sqrt(squares + slack) - values)
    information, information_se, bound = _beside(matrix, vectors, rng)
    rest = Rest(
        directions=len(vectors) - len(squares),
        information=information,
        information_se=information_se,
        bound=bound,
        confidence=CONFIDENCE,
        largest=int(np.count_nonzero(squares - 2.0 * slack > bound**2)),
        residual=residual,
        sought=count,
        converged=converged,
    )
    return Top(values, errors, vectors, float(np.sqrt(slack)), rest)


class NotFiniteProductError(ValueError):
    """A product with a Jacobian that is not finite."""


def of_unit_size(product: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a product that takes vectors with a largest entry of about one: short floats reach no others.

    Raises
    ------
    NotFiniteProductError
        When what comes out is not finite.
    """

    def scaled(vector: Array) -> Array:
        size = 2.0 ** float(np.frexp(np.abs(vector).max(initial=0.0))[1])
        found: Array = product(vector / size)
        if not np.isfinite(found).all():
            entry = found[~np.isfinite(found)][0]
            msg = f"derivatives must be finite; a product with the Jacobian has an entry that is {entry}"
            raise NotFiniteProductError(msg)
        return np.asarray(size * found)

    return scaled


def _steps(count: int, size: int) -> int:
    return min(size, max(2 * count + 1, 20))


def _proposed(square: LinearOperator, count: int, rng: np.random.Generator) -> tuple[Array, int]:
    """Return orthonormal vectors, (n, at most count), and how many of them the iteration found to its tolerance."""
    size = square.shape[0]
    start = rng.standard_normal(size)
    if count >= size:
        return np.eye(size), size
    try:
        found = eigsh(square, count, v0=start, ncv=_steps(count, size), maxiter=_RESTARTS, tol=_CLOSE)[1]
    except ArpackError as error:  # not converged, or, without any eigenvectors, nothing to iterate on
        found = np.asarray(getattr(error, "eigenvectors", np.zeros((size, 0)))).reshape(size, -1)
    converged = found.shape[1]
    if not converged:  # a flat spectrum: a random range is as good as any
        found = np.stack([square.matvec(vector) for vector in rng.standard_normal((count, size))], axis=1)
        converged = 0 if found.any() else count  # of nothing, any vectors are right
    return np.asarray(np.linalg.qr(found)[0]), converged


def _beside(matrix: LinearOperator, vectors: Array, rng: np.random.Generator) -> tuple[float, float, float]:
    """Probe what is left of A beside X: return its squared Frobenius norm, the error of that, and a bound of its norm.

    The second is a standard error; the third holds with probability `CONFIDENCE`.
    """

    def beside(vector: Array) -> Array:
        for _ in range(2):  # once more: orthogonal to rounding
            vector = vector - vectors @ (vectors.T @ vector)
        return vector

    once, thrice = np.empty(_DRAWS), np.empty(_DRAWS)
    for k in range(_DRAWS):
        image = matrix.rmatvec(beside(rng.standard_normal(len(vectors))))
        once[k] = image @ image
        unit = image / (np.sqrt(once[k]) or 1.0)  # its sixth power would leave the range of floats
        last = matrix.rmatvec(beside(matrix.matvec(unit)))
        thrice[k] = np.log(once[k]) + np.log(last @ last) if once[k] and last.any() else -np.inf
    quantile = np.log(2.0 * gammaincinv(_DRAWS / 2.0, 1.0 - CONFIDENCE))  # chi-square; scipy.stats takes a second
    bound = np.exp((np.logaddexp.reduce(thrice) - quantile) / 6.0)
    return float(once.mean()), float(once.std(ddof=1) / np.sqrt(_DRAWS)), float(bound)


def transposed(matrix: LinearOperator) -> LinearOperator:
    """Return the transpose, real as the matrix is."""
    shape: Any = matrix.shape[::-1]
    return LinearOperator(shape, matvec=matrix.rmatvec, rmatvec=matrix.matvec, dtype=np.float64)
