"""The resolved part of a Jacobian in the parameters' units, beside what is proven to be all that is not seen."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.probe.directions.factored import Factored
from estim.probe.directions.graded_svd import decompose, triangular
from estim.probe.directions.independent import freed, strength
from estim.probe.directions.proven import Subspace

Array = NDArray[np.float64]

# Of a column beside a null space and the columns before it, below which what is left has lost half its digits.
_CANCELLED = 1e-4


def beside_null(noisy: Array, found: Factored, scale: Array, null: Subspace) -> tuple[Array, Array, Array]:
    """Return weights, values and directions where `null` is proven to be all that is unseen.

    In units decades apart the weak singular values depend on the null space more finely than the whitened Jacobian
    shows it. With it known, columns that span the rest stand for all; they are made orthogonal to it, weak ones
    first, so that no strong column's rounding enters a weaker one, and Jacobi's method keeps each value accurate
    relative to itself.
    """
    from scipy.linalg import qr, solve_triangular

    rank = len(found.values)
    # Kept are columns about as independent as any, strong ones before weak ones, which the null space takes up most.
    *_, order = qr(found.unseen / strength(scale), mode="r", pivoting=True)
    others, kept = order[: len(null)], order[len(null) :]
    kept = kept[np.argsort(scale[kept], kind="stable")]
    basis, mixing = _projected(null.rows, kept)
    # A column that the null space takes up nearly whole, or beside the others, leaves rounding there.
    left_over = float(np.abs(np.diagonal(mixing)).min()) >= _CANCELLED
    if not left_over:
        kept = kept[::-1]
        basis, mixing = _eliminated(null.scaled, scale, kept, others)
    triangle = qr(noisy[:, kept], mode="r", overwrite_a=True)[0][:rank]

    def effects() -> Array:
        """Return what the basis moves: of the last column, and the next ones, no stronger column's rounding enters."""
        moved = triangle * scale[kept]
        return np.asarray(solve_triangular(mixing, moved.T, trans="T").T if left_over else moved @ mixing.T)

    left, values, right = decompose(effects, found.resolution / found.weakest)
    weights = np.zeros((len(scale), rank))
    weights[kept] = solve_triangular(triangle, left)
    return weights, values, np.concatenate([product(right, basis.T), null.rows])


def _projected(null: Array, kept: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return orthonormal columns that span what rows `null` leave, and the triangle that makes projections of them.

    Projected are the unit vectors of the kept parameters, weak ones first.
    """
    rest = -product(null.T, null[:, kept])
    rest[kept, np.arange(len(kept))] += 1.0
    return triangular(rest)


def _eliminated(scaled: Array, scale: Array, kept: NDArray[np.intp], others: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return such columns again, and the triangle that makes of them the kept parameters with others mixed in.

    Strong ones first. Eliminated in parameters of equal effect: over decades a null space may take up several beside
    one another to rounding.
    """
    return triangular((freed(scaled, others, kept) / scale[kept, None] * scale).T)
