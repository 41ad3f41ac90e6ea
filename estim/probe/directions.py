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

from estim.probe.condensed import Condensed
from estim.probe.graded_svd import Decomposition, decompose, orthonormal
from estim.probe.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Rounding of a factorisation, relative to the norm of a column.
ROUNDING = 4.0 * EPS


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


def resolve(condensed: Condensed) -> Directions:
    """Return the directions that a condensed Jacobian, known to its slack, resolves."""
    scale = norms_of(condensed.noisy)
    if len(condensed.noiseless):
        scale = np.where(scale > 0.0, scale, norms_of(condensed.noiseless))
    scale = np.where(scale > 0.0, scale, 1.0)
    noisy, slack = condensed.noisy / scale, condensed.slack / scale
    if not len(condensed.noiseless):
        return _in_own_units(None, _factor(noisy, slack), scale, slack)
    # What noiseless readings fix exactly is taken out; in the complement of it the noisy ones count.
    known_slack = condensed.noiseless_slack / scale
    known = _factor(condensed.noiseless / scale, known_slack)
    basis = known.unseen
    inside = _factor(noisy @ basis.T, (slack + ROUNDING) @ np.abs(basis.T))
    found = replace(
        inside, weights=basis.T @ inside.weights, right=inside.right @ basis, unseen=inside.unseen @ basis,
        resolution=inside.resolution if np.isfinite(inside.resolution) else known.resolution,
    )  # fmt: skip
    return _in_own_units(known, found, scale, np.maximum(slack, known_slack))


@dataclass(frozen=True)
class _Factored:
    """The resolved part M_r of a matrix, M_r = (M weights) diag(values) right, M weights orthonormal."""

    weights: Array
    """(parameters, rank)."""
    values: Array
    """(rank,)."""
    right: Array
    """(rank, parameters) orthonormal rows."""
    unseen: Array
    """(parameters - rank, parameters) orthonormal rows, spanning the rest."""
    unresolved: Array
    """The other singular values."""
    resolution: float

    def times(self, scale: Array) -> tuple[Array, Decomposition]:
        """Return the weights, still for columns of M, and the decomposition, of M_r diag(scale)."""
        loss = self.resolution / self.values[-1] if len(self.values) else 0.0
        found = decompose(self.values[:, None] * self.right * scale, loss)
        return self.weights @ found.left, found


def _factor(matrix: Array, slack: Array) -> _Factored:
    """Factor a matrix, (rows, parameters), each column of it known to within `slack`.

    A column no longer than its slack is unresolved whatever the others are; the rest is scaled to unit norm, if it is
    not yet.
    """
    parameters = matrix.shape[1]
    norms = norms_of(matrix)
    visible = norms > slack
    if not visible.any():
        none = np.zeros((0, parameters))
        return _Factored(none.T, np.zeros(0), none, np.eye(parameters), np.zeros(parameters), np.inf)
    scale = norms[visible]
    columns = matrix[:, visible] / scale
    # The factorisation's own rounding joins the error of the matrix.
    resolution = float(np.linalg.norm(slack[visible] / scale)) + ROUNDING * float(np.sqrt(len(scale)))
    _, values, inner = np.linalg.svd(columns, full_matrices=len(columns) < len(scale))
    rank = int(np.count_nonzero(values > resolution))
    right = np.zeros((len(inner), parameters))
    right[:, visible] = inner
    hidden = np.eye(parameters)[~visible]
    weights = (right[:rank] / values[:rank, None]).T
    found = _Factored(
        weights, values[:rank], right[:rank], np.concatenate([right[rank:], hidden]), values[rank:], resolution
    )
    if np.allclose(scale, 1.0, rtol=1e-8):
        return found
    # Back from unit norms.
    full = np.ones(parameters)
    full[visible] = scale
    weights, (_, values, seen) = found.times(full)
    unseen = np.concatenate([orthonormal(right[rank:] / full), hidden])
    return replace(found, weights=weights / full[:, None], values=values, right=seen, unseen=unseen)


def _in_own_units(known: _Factored | None, found: _Factored, scale: Array, slack: Array) -> Directions:
    """Put together what is known without noise, what noisy readings resolve, and the rest, in both units."""
    parts = [found] if known is None else [known, found]
    size = len(scale)
    weights, own = zip(*(part.times(scale) for part in parts), strict=True)
    fixed = np.full(0 if known is None else len(known.values), np.inf)
    rank = len(fixed) + len(found.values)
    combined = np.concatenate(weights, axis=1)
    return Directions(
        rank=rank,
        singular_values=_padded(np.concatenate([fixed, own[-1].values]), size),
        directions=np.concatenate([*(part.right for part in own), orthonormal(found.unseen / scale)]),
        scale=scale,
        scaled_singular_values=_padded(np.concatenate([fixed, found.values, found.unresolved])[:size], size),
        scaled_directions=np.concatenate([*(part.right for part in parts), found.unseen]),
        resolution=found.resolution,
        moved=Moved(combined, (slack + ROUNDING) @ np.abs(combined)),
    )


def refined(found: Directions, condensed: Condensed, null: Array) -> Directions:
    """Return the directions in the user's units again, where orthonormal rows `null` are proven to be all unseen.

    In units decades apart the weak singular values depend on the null space more finely than the whitened Jacobian
    shows it. With it known, columns that span the rest stand for all; they are made orthogonal to it, weak ones
    first, so that no strong column's rounding enters a weaker one, and Jacobi's method keeps each value accurate
    relative to itself.
    """
    from scipy.linalg import qr, solve_triangular

    scaled = condensed.noisy / found.scale
    *_, order = qr(scaled, mode="r", pivoting=True)
    kept = order[: found.rank]
    kept = kept[np.argsort(found.scale[kept], kind="stable")]
    basis, mixing = np.linalg.qr(np.eye(len(found.scale))[:, kept] - null.T @ null[:, kept])
    factor = np.linalg.qr(scaled[:, kept], mode="r")
    columns = solve_triangular(mixing, (factor * found.scale[kept]).T, trans="T").T
    left, values, right = decompose(columns, found.resolution / found.scaled_singular_values[found.rank - 1])
    weights = np.zeros_like(found.moved.weights)
    weights[kept] = solve_triangular(factor, left)
    slack = condensed.slack / found.scale + ROUNDING
    return replace(
        found,
        singular_values=_padded(values, len(found.scale)),
        directions=np.concatenate([right @ basis.T, null]),
        moved=Moved(weights, slack @ np.abs(weights)),
    )


def floors(
    functionals: Array, scale: Array, scaled_singular_values: Array, scaled_directions: Array, resolution: float
) -> Array:
    """Return the RMSE floor of each functional (rows), infinite where a direction not seen is involved.

    The singular values are the resolved ones. Involved means beyond what the error of the unseen subspace explains: by
    Wedin's theorem it is known to about the resolution over the smallest resolved value. All in parameters of equal
    effect, so that units do not matter.
    """
    values = scaled_singular_values
    finite = values[np.isfinite(values)]
    doubt = 8.0 * resolution / finite.min() if finite.size else 0.0
    scaled = functionals / scale
    lengths = norms_of(scaled.T)
    # By powers of two, exactly: squares neither overflow nor vanish.
    size = np.exp2(np.round(np.log2(np.where(lengths > 0.0, lengths, 1.0))))
    along = (scaled / size[:, None]) @ scaled_directions.T
    involved = np.abs(along[:, len(values) :]) > min(max(doubt, 1e-12), 1e-3) * (lengths / size)[:, None]
    part = along[:, : len(values)]
    if finite.size < values.size:  # beside what is known without noise, rounding is no part
        part = np.where(np.abs(part) > 64.0 * EPS * (lengths / size)[:, None], part, 0.0)
    squares = np.square(part / values).sum(axis=1)
    return np.asarray(np.where(involved.any(axis=1), np.inf, size * np.sqrt(squares)))


def _padded(values: Array, length: int) -> Array:
    return np.concatenate([values, np.zeros(length - len(values))])
