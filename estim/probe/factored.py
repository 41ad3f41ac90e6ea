"""A matrix cut down to the part that stands out of its error."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estim.probe.graded_svd import Decomposition, decompose, orthonormal, svd
from estim.probe.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Rounding of a factorisation, relative to the norm of a column.
ROUNDING = 4.0 * EPS


@dataclass(frozen=True)
class Factored:
    """The resolved part M_r of a matrix, M_r = (M weights) diag(values) right, M weights orthonormal."""

    values: Array
    """(rank,)."""
    right: Array
    """(rank, parameters) orthonormal rows."""
    unseen: Array
    """(parameters - rank, parameters) orthonormal rows, spanning the rest."""
    unresolved: Array
    """The other singular values."""
    resolution: float
    weakest: float
    """Smallest resolved singular value with columns of norm one, as the resolution is; 1 where there is none."""
    rescaled: Array | None = None
    """(parameters, rank), the weights where they are not (right / values)^T."""

    def weights(self, left: Array) -> Array:
        """Return the weights times a matrix, (rank, columns)."""
        if self.rescaled is None:
            return np.asarray(self.right.T @ (left / self.values[:, None]))
        return np.asarray(self.rescaled @ left)

    def times(self, scale: Array) -> tuple[Array, Decomposition]:
        """Return the weights, still for columns of M, and the decomposition, of M_r diag(scale)."""
        found = decompose(lambda: self.values[:, None] * self.right * scale, self.resolution / self.weakest)
        return self.weights(found.left), found


def factor(matrix: Array, slack: Array) -> Factored:
    """Factor a matrix, (rows, parameters), each column of it known to within `slack`; it is overwritten.

    A column no longer than its slack is unresolved whatever the others are; the rest is scaled to unit norm, if it is
    not yet.
    """
    parameters = matrix.shape[1]
    norms = norms_of(matrix)
    visible = norms > slack
    if not visible.any():
        none = np.zeros((0, parameters))
        return Factored(np.zeros(0), none, np.eye(parameters), np.zeros(parameters), np.inf, 1.0)
    scale = norms[visible]
    columns = matrix if visible.all() else matrix[:, visible]
    columns /= scale
    # The factorisation's own rounding joins the error of the matrix.
    resolution = float(np.linalg.norm(slack[visible] / scale)) + ROUNDING * float(np.sqrt(len(scale)))
    _, values, right = svd(columns, full=len(columns) < len(scale))
    rank = int(np.count_nonzero(values > resolution))
    if not visible.all():
        inner, right = right, np.zeros((len(right), parameters))
        right[:, visible] = inner
    hidden = np.eye(parameters)[~visible]
    found = Factored(
        values[:rank], right[:rank], np.concatenate([right[rank:], hidden]), values[rank:], resolution,
        float(values[rank - 1]) if rank else 1.0,
    )  # fmt: skip
    if (np.abs(scale - 1.0) <= 1e-8).all():
        return found
    # Back from unit norms.
    full = np.ones(parameters)
    full[visible] = scale
    weights, (_, values, seen) = found.times(full)
    unseen = np.concatenate([orthonormal(right[rank:] / full), hidden])
    return replace(found, values=values, right=seen, unseen=unseen, rescaled=weights / full[:, None])
