"""A matrix cut down to the part that stands out of its error."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.probe.directions.graded_svd import GRADED, complement, decompose, orthonormal, refined, svd
from estim.probe.directions.noise import norms_of

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

    def weights(self) -> Array:
        """Return the weights, (parameters, rank)."""
        return (self.right / self.values[:, None]).T if self.rescaled is None else self.rescaled

    def times(self, scale: Array, within: Array | None = None) -> tuple[Array, Array, Array]:
        """Return M_r diag(scale) decomposed: the weights, still for columns of M, the values and the right vectors.

        These lie `within` the span of orthonormal rows, if such are given: of other steps nothing counts.
        """

        def rows() -> Array:
            made = self.values[:, None] * self.right
            made *= scale
            return made if within is None else product(made, within.T)

        found = decompose(rows, self.resolution / self.weakest)
        if within is None:
            right = found.right
            # Of a parameter without part in it there is rounding, which units may make large.
            right[:, ~self.right.any(axis=0)] = 0.0
        else:
            right = product(found.right, within)
        graded = within is None and _graded(scale)
        ahead = product(found.left.T, self.values[:, None] * self.right) if graded else right
        if self.rescaled is not None:
            weights = product(self.rescaled, found.left)
        else:
            left = found.left
            left /= self.values[:, None]
            weights = product(self.right.T, left)
        return weights, found.values, _entries(right, ahead, weights, found.values, scale) if graded else right


def _graded(scale: Array) -> bool:
    sizes = scale[scale > 0.0]
    return bool(sizes.size and sizes.max() / GRADED > sizes.min())


def _entries(right: Array, ahead: Array, weights: Array, values: Array, scale: Array) -> Array:
    """Return right vectors whose small entries are right, too: in units decades apart what these do is not small.

    Of weak parameters in strong directions s d = u^T M tells them; of strong parameters in weak ones, where every
    direction is seen, d = s M^-1 u. `ahead` is u^T M in parameters of equal effect.
    """
    with np.errstate(all="ignore"):
        effects = ahead * (scale / values[:, None])
        right = np.where(scale <= values[:, None], effects, right)
        if len(right) == right.shape[1]:
            right = np.where(scale > values[:, None], weights.T * (values[:, None] / scale), right)
    return right


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
    plain = svd(columns.copy(order="K"))
    values, right = plain.values, refined(columns, plain)
    del columns, plain
    right = joined(right, complement(right))
    rank = int(np.count_nonzero(values > resolution))
    if not visible.all():
        inner, right = right, np.zeros((len(right), parameters))
        right[:, visible] = inner
    hidden = _unit_rows(~visible)
    found = Factored(
        values[:rank], right[:rank], joined(right[rank:], hidden), values[rank:], resolution,
        float(values[rank - 1]) if rank else 1.0,
    )  # fmt: skip
    if (np.abs(scale - 1.0) <= 1e-8).all():
        return found
    # Back from unit norms.
    full = np.ones(parameters)
    full[visible] = scale
    weights, values, seen = found.times(full)
    unseen = rest_of(seen, joined(right[rank:] / full, hidden))
    return replace(found, values=values, right=seen, unseen=unseen, rescaled=weights / full[:, None])


def rest_of(seen: Array, unseen: Array) -> Array:
    """Return orthonormal rows that span what is not seen: the complement of orthonormal ones, and given by others.

    Whichever are fewer tell it: those that see nothing may be thousands.
    """
    return complement(seen) if len(seen) < len(unseen) else orthonormal(unseen)


def _unit_rows(places: NDArray[np.bool_]) -> Array:
    """Return a row with a single one for each place that is true."""
    rows = np.zeros((int(np.count_nonzero(places)), len(places)))
    rows[np.arange(len(rows)), np.flatnonzero(places)] = 1.0
    return rows


def joined(rows: Array, more: Array) -> Array:
    """Put rows under others; no copy where there are none."""
    if not len(more):
        return rows
    return np.concatenate([rows, more]) if len(rows) else more
