"""Which directions of parameter space stand out of the error of a Jacobian, and how strongly.

Resolution is decided free of units. With column norms n of the whitened Jacobian W and column norms e of its error
bound E, a column with n_j <= e_j is unresolved; the others are scaled to unit norm, and a direction is resolved when
its singular value exceeds eta = ||E/n||_F, by which no error can move it (Weyl).

Reported are the singular values and directions of W_r, the resolved part of W in the user's units, and an orthonormal
basis of what it does not see. Readings without noise come first: they fix their combinations exactly.

notation: rows of `directions` are unit vectors in parameter space; D = diag(n).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from estim.probe.noise import Whitening, norms_of

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Column norms farther apart than this are graded: LAPACK's bidiagonal SVD would lose the small ones, Jacobi's does
#: not.
GRADED = 1e6
#: Rows whitened at a time.
BLOCK = 256


@dataclass(frozen=True)
class Directions:
    """The outcome: the first `rank` directions are resolved, in descending order of singular value.

    Twice: in the user's units, to be reported; and with each parameter in units of its own effect, to compute with,
    since floors and shifts then lose nothing to units that are decades apart.
    """

    rank: int
    singular_values: Array
    """(parameters,) of W_r; infinite for combinations known without noise, zero where not resolved."""
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


def resolve(jacobian: Array, error: Array | None, whitening: Whitening) -> Directions:
    """Return the directions that a Jacobian (readings, parameters), known to the error, resolves under the noise."""
    rows = BLOCK
    norms = _stacked_norms(whitening.blocks(jacobian, rows))
    scale = np.where(norms > 0.0, norms, 1.0)
    if len(whitening.noiseless):
        return _with_noiseless(jacobian / scale, np.abs(jacobian) * EPS if error is None else error, whitening, scale)
    found = _factor(
        lambda: (np.divide(block, scale, out=block) for block in whitening.blocks(jacobian, rows)),
        whitening.error_norms(jacobian, error, rows) / scale,
        len(whitening.scale),
        jacobian.shape[1],
    )
    return _both_units(np.zeros((0, len(scale))), found, scale)


def refined(found: Directions, jacobian: Array, whitening: Whitening, null: Array) -> Directions:
    """Return the directions in the user's units again, where orthonormal rows `null` are proven to be all unseen.

    In units decades apart the weak singular values depend on the null space more finely than the whitened Jacobian
    shows it. With it known, columns that span the rest stand for all; they are made orthogonal to it, weak ones
    first, so that no strong column's rounding enters a weaker one, and Jacobi's method keeps each value accurate
    relative to itself.
    """
    from scipy.linalg import qr

    scaled = (block / found.scale for block in whitening.blocks(jacobian, BLOCK))
    triangle = _triangle(scaled, len(whitening.scale), len(found.scale))
    *_, order = qr(triangle, mode="r", pivoting=True)
    kept = order[: found.rank]
    kept = kept[np.argsort(found.scale[kept], kind="stable")]
    basis, mixing = np.linalg.qr(np.eye(len(found.scale))[:, kept] - null.T @ null[:, kept])
    columns = np.linalg.solve(mixing.T, (triangle[:, kept] * found.scale[kept]).T).T
    values, right = _svd(np.asarray(np.linalg.qr(columns, mode="r")))
    directions = np.concatenate([right @ basis.T, null])
    return replace(found, singular_values=_padded(values, len(found.scale)), directions=directions)


def floors(functionals: Array, found: Directions) -> Array:
    """Return the RMSE floor of each functional (rows), infinite where a direction not seen is involved.

    Involved means beyond what the error of the unseen subspace explains: by Wedin's theorem it is known to about the
    resolution over the smallest resolved value. All in parameters of equal effect, so that units do not matter.
    """
    values = found.scaled_singular_values[: found.rank]
    finite = values[np.isfinite(values)]
    doubt = 8.0 * found.resolution / finite.min() if finite.size else 0.0
    scaled = functionals / found.scale
    lengths = norms_of(scaled.T)
    # By powers of two, exactly: squares neither overflow nor vanish.
    size = np.exp2(np.round(np.log2(np.where(lengths > 0.0, lengths, 1.0))))
    along = (scaled / size[:, None]) @ found.scaled_directions.T
    involved = np.abs(along[:, found.rank :]) > min(max(doubt, 1e-12), 1e-3) * (lengths / size)[:, None]
    squares = np.square(along[:, : found.rank] / values).sum(axis=1)
    return np.asarray(np.where(involved.any(axis=1), np.inf, size * np.sqrt(squares)))


def _with_noiseless(scaled: Array, error: Array, whitening: Whitening, scale: Array) -> Directions:
    """Take out what noiseless readings fix exactly; in the complement of it the noisy ones count."""
    known = _factor(
        lambda: iter([whitening.noiseless @ scaled]),
        norms_of(np.abs(whitening.noiseless) @ error) / scale,
        len(whitening.noiseless),
        len(scale),
    )
    basis = known.unseen
    left, left_error = scaled @ basis.T, (error / scale) @ np.abs(basis.T)
    found = _factor(
        lambda: whitening.blocks(left, len(left)),
        whitening.error_norms(left, left_error, len(left)),
        len(whitening.scale),
        len(basis),
    )
    inside = _Factored(found.rows @ basis, found.right @ basis, found.unseen @ basis, found.values, found.resolution)
    fixed = _both_units(known.right, inside, scale)
    return fixed if np.isfinite(found.resolution) else replace(fixed, resolution=known.resolution)


def _both_units(known: Array, found: "_Factored", scale: Array) -> Directions:
    """Put together what is known without noise (rows), what noisy readings resolve, and the rest, in both units."""
    rank = len(known) + len(found.rows)
    rest = len(scale) - rank
    values, right = _svd(found.rows * scale)
    fixed = _orthonormal(known * scale)
    hidden = _orthonormal(found.unseen / scale)
    infinite = np.full(len(known), np.inf)
    unresolved = found.values[len(found.rows) :][:rest]
    return Directions(
        rank=rank,
        singular_values=np.concatenate([infinite, values, np.zeros(rest)]),
        directions=np.concatenate([fixed, right, hidden]),
        scale=scale,
        scaled_singular_values=_padded(
            np.concatenate([infinite, found.values[: len(found.rows)], unresolved]), len(scale)
        ),
        scaled_directions=np.concatenate([known, found.right, found.unseen]),
        resolution=found.resolution,
    )


def _padded(values: Array, length: int) -> Array:
    return np.concatenate([values, np.zeros(length - len(values))])


@dataclass(frozen=True)
class _Factored:
    """A matrix with columns of norm one (or none), cut down to its resolved part."""

    rows: Array
    """(rank, parameters), with the Gram matrix of the resolved part."""
    right: Array
    """(rank, parameters) its right singular vectors."""
    unseen: Array
    """(parameters - rank, parameters) orthonormal, spanning the rest."""
    values: Array
    """All singular values, resolved or not."""
    resolution: float


def _factor(blocks: Callable[[], Iterator[Array]], slack: Array, readings: int, parameters: int) -> _Factored:
    """Factor a matrix given by blocks of rows, each column of it known to within `slack`.

    A column no longer than its slack is unresolved whatever the others are; the rest is scaled to unit norm, if it is
    not yet.
    """
    norms = _stacked_norms(blocks())
    visible = norms > slack
    if not visible.any():
        none = np.zeros((0, parameters))
        return _Factored(none, none, np.eye(parameters), np.zeros(parameters), np.inf)
    scale = norms[visible]
    triangle = _triangle((block[:, visible] / scale for block in blocks()), readings, len(scale))
    # The factorisation's own rounding joins the error of the matrix.
    resolution = float(np.linalg.norm(slack[visible] / scale)) + 4.0 * EPS * float(np.sqrt(len(scale)))
    _, values, right = np.linalg.svd(triangle, full_matrices=True)
    rank = int(np.count_nonzero(values > resolution))
    rows, seen = np.zeros((rank, parameters)), np.zeros((rank, parameters))
    rows[:, visible] = values[:rank, None] * right[:rank] * scale
    hidden = np.zeros((len(scale) - rank, parameters))
    if np.allclose(scale, 1.0, rtol=1e-8):
        seen[:, visible], hidden[:, visible] = right[:rank], right[rank:]
        hidden = np.concatenate([hidden, np.eye(parameters)[~visible]])
        return _Factored(rows, seen, hidden, values, resolution)
    hidden[:, visible] = right[rank:] / scale
    unseen = np.concatenate([_orthonormal(hidden), np.eye(parameters)[~visible]])
    kept, seen = _svd(rows)
    return _Factored(rows, seen, unseen, np.concatenate([kept, values[rank:]]), resolution)


def _triangle(blocks: Iterable[Array], rows: int, columns: int) -> Array:
    """Return R of the QR factorisation of stacked blocks, made in place: one copy of the matrix, not three."""
    from scipy.linalg import lapack

    stack = np.empty((rows, columns), order="F")
    start = 0
    for block in blocks:
        stack[start : start + len(block)] = block
        start += len(block)
    if rows <= columns:
        return stack
    factored, _, _, _ = lapack.dgeqrf(stack, lwork=64 * columns, overwrite_a=1)  # 64: LAPACK's block size
    return np.triu(factored[:columns])


def _stacked_norms(blocks: Iterable[Array]) -> Array:
    return norms_of(np.array([norms_of(block) for block in blocks]))


def _orthonormal(rows: Array) -> Array:
    """Return orthonormal rows with the same span; the rows, 1/n times unit vectors, may be graded."""
    if not len(rows):
        return rows
    q, _ = np.linalg.qr((rows / norms_of(rows.T)[:, None]).T)
    return np.asarray(q.T)


def _svd(rows: Array) -> tuple[Array, Array]:
    """Return singular values and right singular vectors (rows) of a matrix of full row rank, graded columns or not."""
    if not len(rows):
        return np.zeros(0), rows
    norms = norms_of(rows)
    smallest = norms[norms > 0.0].min()
    if norms.max() <= GRADED * smallest:
        _, values, right = np.linalg.svd(rows, full_matrices=False)
        return values, right
    return _jacobi_svd(rows)


def _jacobi_svd(rows: Array) -> tuple[Array, Array]:
    """LAPACK's preconditioned one-sided Jacobi method (Drmac and Veselic 2008, doi:10.1137/050639193)."""
    from scipy.linalg import lapack

    # rows^T = D B^T has graded rows; joba = 2 is the choice that keeps the accuracy for them. Its left vectors are
    # sought.
    values, left, _, work, _, info = lapack.dgejsv(rows.T, joba=2, jobu=0, jobv=3)
    if info != 0:
        msg = f"the Jacobi SVD did not converge (LAPACK dgejsv, info = {info})"
        raise ArithmeticError(msg)
    return np.asarray(values * work[0] / work[1]), np.asarray(left[:, : len(values)].T)
