"""Which directions of parameter space stand out of the error of a Jacobian, and how strongly.

Resolution is decided free of units. With column norms n of the whitened Jacobian W and column norms e of its error
bound E, a column with n_j <= e_j is unresolved; the others are scaled to unit norm, and a direction is resolved when
its singular value exceeds eta = ||E/n||_F, by which no error can move it (Weyl).

Reported are the singular values and directions of W_r, the resolved part of W in the user's units, and an orthonormal
basis of what it does not see. Readings without noise come first: they fix their combinations exactly.

notation: rows of `directions` are unit vectors in parameter space; D = diag(n).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.beside_null import beside_null
from estim.probe.directions.blas import product
from estim.probe.directions.condensed import Condensed
from estim.probe.directions.factored import ROUNDING, Factored, factor, joined
from estim.probe.directions.graded_svd import complement, in_turn
from estim.probe.directions.independent import basis_of, echelon
from estim.probe.directions.noise import norms_of
from estim.probe.directions.proven import Subspace
from estim.probe.directions.units import beside_known, in_units

Array = NDArray[np.float64]

#: Rows at a time.
_ROWS = 64


@dataclass(frozen=True)
class Directions:
    """The outcome: the first `rank` directions are resolved, in descending order of singular value.

    Twice: in the user's units, to be reported; and with each parameter in units of its own effect, to compute with,
    since floors and shifts then lose nothing to units that are decades apart.
    """

    rank: int
    singular_values: Array
    """(parameters,) of W_r; infinite for combinations known without noise, zero where not resolved, NaN where float64
    does not know them."""
    directions: Array
    """(parameters, parameters) unit rows: resolved ones, then a basis of what is not seen."""
    scale: Array
    """(parameters,) readings' whitened norm per unit of the parameter; 1 where it has no effect."""
    scaled_singular_values: Array
    """(parameters,) of W / scale: free of units; those not resolved as float64 has them."""
    scaled_directions: Array
    """(parameters, parameters) orthonormal rows in the parameters times `scale`, in the same order."""
    resolution: float
    """eta: what a scaled singular value must exceed."""
    moved: "Moved"
    """What a step along each resolved direction moves."""
    undecided: Array | None = None
    """(parameters,) of W, where some direction is neither resolved nor proven not to be seen: as float64 has them, as
    many as it has, then zeros."""

    def raw_singular_values(self) -> Array:
        """Return the singular values of W without any decision; zero for those that float64 cannot hold."""
        values = self.singular_values if self.undecided is None else self.undecided
        return np.where(np.isnan(values), 0.0, values)


@dataclass(frozen=True)
class Moved:
    """What a step along each resolved direction moves: the readings that are its left singular vector, whitened.

    Not from the direction itself: where a weak direction takes up strong parameters, whose effects cancel, float64
    would show the rounding of these.
    """

    weights: Array
    """(columns, resolved), to multiply `columns` with."""
    error: Array
    """(resolved,) bound on the relative error of the readings moved."""
    columns: Array | None = None
    """(readings, columns); None stands for the Jacobian over `scale`."""


def resolve(condensed: Condensed, proven: Subspace | None = None) -> Directions:
    """Return the directions that a condensed Jacobian, known to its slack, resolves.

    What is `proven` not to be seen helps the weak values in the user's units.
    """
    scale = condensed.scale
    slack = condensed.slack / scale
    if len(condensed.noiseless):
        return _with_noiseless(condensed, condensed.noisy / scale, slack, scale, proven)
    found = factor(condensed.noisy / scale, slack)
    rank, size = len(found.values), len(scale)
    if proven is not None and rank and len(proven):
        found = _at_right_angles(found, proven.scaled)
    decided = proven is not None and 0 < rank == size - len(proven) < size
    plain = undecided(condensed.noisy) if rank < size and not decided else None
    noisy = condensed.noisy / scale if decided else None
    del condensed  # nor need the caller hold it, if memory matters
    if proven is not None and noisy is not None:
        weights, values, directions = beside_null(noisy, found, scale, proven)
        found = replace(found, unseen=proven.scaled)
    else:
        weights, values, directions = in_units(found, scale, proven)
    return Directions(
        rank=rank,
        singular_values=_padded(values, size),
        directions=np.ascontiguousarray(directions),  # as the record will have it: it need not hold both
        scale=scale,
        scaled_singular_values=_padded(np.concatenate([found.values, found.unresolved]), size),
        scaled_directions=np.ascontiguousarray(joined(found.right, found.unseen)),
        resolution=found.resolution,
        moved=Moved(weights, _error(weights, slack + ROUNDING, values)),
        undecided=plain,
    )


def _at_right_angles(found: Factored, proven: Array) -> Factored:
    """Take out of the resolved directions what is proven to move nothing: weak ones take it up by rounding."""
    within = product(found.right, proven.T)
    if np.abs(within).max() <= ROUNDING:
        return found
    right = np.ascontiguousarray(in_turn((found.right - product(within, proven)).T).T)
    return replace(found, right=right, unseen=complement(right))


def _with_noiseless(
    condensed: Condensed, noisy: Array, slack: Array, scale: Array, proven: Subspace | None
) -> Directions:
    """Take out what noiseless readings fix exactly; in the complement of it the noisy ones count."""
    noiseless, known_slack = condensed.noiseless / scale, condensed.noiseless_slack / scale
    known = factor(noiseless.copy(), known_slack)
    inverse = known.right.T / known.values
    rows, free = _known_rows(noiseless, known)
    # Null vectors may be off by tens of roundings; one step takes back what of them is fixed.
    fixed_part = (noiseless @ known.weights()).T @ (noiseless @ free.T)
    basis = free - (inverse @ fixed_part).T
    # The error of what is fixed tilts the complement, and lets strong columns in.
    fixed_slack = known_slack + ROUNDING * norms_of(noiseless)
    let_in = float(np.linalg.norm(noisy @ inverse))
    inside_slack = (slack + ROUNDING) @ np.abs(basis.T) + let_in * (fixed_slack @ np.abs(basis.T))
    inside = factor(noisy @ basis.T, inside_slack)
    found = replace(inside, right=inside.right @ basis, unseen=inside.unseen @ basis, rescaled=inside.weights())
    span = basis_of(rows * scale)
    fixing, _, fixed = known.times(scale, span)
    still = complement(span if proven is None else joined(span, proven.rows))
    weights, values, directions = beside_known(found, scale, fixed, still, proven)
    errors = [
        _error(fixing, fixed_slack, np.ones(len(fixed))),
        _error(weights, inside_slack, values),
    ]
    size, infinite = len(scale), np.full(len(fixed), np.inf)
    return Directions(
        rank=len(fixed) + len(values),
        singular_values=_padded(np.concatenate([infinite, values]), size),
        directions=directions,
        scale=scale,
        scaled_singular_values=_padded(np.concatenate([infinite, found.values, found.unresolved])[:size], size),
        scaled_directions=np.concatenate([rows, found.right, found.unseen]),
        resolution=inside.resolution if np.isfinite(inside.resolution) else known.resolution,
        moved=Moved(np.concatenate([fixing, basis.T @ weights], axis=1), np.concatenate(errors)),
        undecided=undecided(condensed.noisy, len(fixed)) if len(fixed) + len(values) < size else None,
    )


def _known_rows(noiseless: Array, known: Factored) -> tuple[Array, Array]:
    """Return orthonormal rows with the span of noiseless readings, and of what these leave.

    Small entries, and zeros, stay what they are in the readings: a decomposition has rounding there, which is large in
    units decades apart, and moves what is known. But where readings nearly repeat one another it knows the span better.
    """
    from scipy.linalg import qr

    count = len(known.values)
    if not 0 < count < noiseless.shape[1]:
        return known.right, known.unseen
    *_, order = qr(noiseless.T, mode="r", pivoting=True)
    rows = basis_of(echelon(np.where(known.right.any(axis=0), noiseless[np.sort(order[:count])], 0.0)))
    if np.abs(product(rows, known.unseen.T)).max() > known.resolution / known.weakest:
        return known.right, known.unseen
    return rows, complement(rows)


def undecided(noisy: Array, known: int = 0) -> Array:
    """Return the singular values as float64 has them, beside so many infinite ones."""
    from scipy.linalg import svdvals

    size = noisy.shape[1]
    return np.concatenate([np.full(known, np.inf), svdvals(noisy, check_finite=False), np.zeros(size)])[:size]


def _error(weights: Array, slack: Array, values: Array) -> Array:
    known = np.flatnonzero(np.isfinite(slack))  # a column without bound is unresolved, and has no weight
    reach = np.zeros(weights.shape[1])
    for some in np.split(known, range(_ROWS, len(known), _ROWS)):
        reach += np.einsum("i,ij->j", slack[some], np.abs(weights[some]))
    return np.where(np.isnan(values), np.inf, reach)


def _padded(values: Array, length: int) -> Array:
    return np.concatenate([values, np.zeros(length - len(values))])
