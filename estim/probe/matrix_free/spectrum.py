"""Singular values and left singular vectors of a whitened Jacobian, from the Gram matrix of its rows.

A Gram matrix has the squares of the singular values: what it is rounded by hides every value below the square root
of the rounding, relative to the largest. Where that, not the Jacobian's own error, would decide what is resolved, a
second Gram matrix is asked for: of the same rows in double precision, or of rows made nearly orthonormal by the first
(shifted Cholesky QR: Fukaya, Kannan, Nakatsukasa, Yamamoto and Yanagisawa 2020, doi:10.1137/18M1218212).

notation: J (M, P) rows of readings, F whitening, W = F J; K = J J^T; E error of J.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS
from estim.probe.directions.noise import Whitening

Array = npt.NDArray[np.float64]

#: Roundings of the largest eigenvalue by which an eigenvalue of a symmetric matrix may be off.
_EIGH = 16.0
#: Standard deviations of a sum of roundings, in units of that of its largest terms.
_ROWS = 8.0


@dataclass(frozen=True)
class Gram:
    """The Gram matrix of the rows of T F J, and how well it is known."""

    matrix: Array
    """(M', M'), symmetric."""
    slack: float
    """Bound of the norm of its error."""
    factor: Array | None = None
    """(M', M') L with T = L^-1, lower triangular, where the rows were made nearly orthonormal; else None."""
    shift: float = 0.0
    """L L^T is the first Gram matrix and this multiple of the identity."""


@dataclass(frozen=True)
class Spectrum:
    """Singular values of W, descending, with what is known of them."""

    values: Array
    """(M',), at least 0."""
    left: Array
    """(M', M') orthonormal columns."""
    slack: Array
    """(M',) how far each may be off for the Gram matrix's rounding."""
    smallest: float
    """What values must exceed to be shown by the Gram matrix; the least that do may be less by this much."""


def whitened(matrix: Array, rounding: float, noise: Whitening) -> Gram:
    """Return the Gram matrix of whitened rows from K, the norm of whose error is that part of its trace.

    Errors of entries K_ij are taken to grow with the norms of both rows, as rounding does.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if noise.forward is None:
        slack = rounding * float(np.square(noise.scale * sizes).sum())
        return Gram(matrix * np.outer(noise.scale, noise.scale), slack)
    slack = rounding * float(np.square(np.abs(noise.forward) @ sizes).sum())
    product = noise.forward @ matrix @ noise.forward.T
    return Gram((product + product.T) / 2.0, slack + 2.0 * EPS * len(matrix) * float(np.trace(product)))


def error_norm(sizes: Array, relative: float, noise: Whitening) -> float:
    """Return the Frobenius norm of F E for rows of J of given norms (M,), each known to a relative error."""
    return relative * float(np.linalg.norm(noise.weights * sizes))


def spectrum_of(gram: Gram, *, vectors: bool = True) -> Spectrum:
    """Return the singular values of W, and the left singular vectors unless they are not wanted."""
    size = len(gram.matrix)
    if gram.factor is None and not vectors:
        eigenvalues, basis = np.linalg.eigvalsh(gram.matrix), np.zeros((size, 0))
    else:
        eigenvalues, basis = np.linalg.eigh(gram.matrix)
    eigenvalues, basis = np.maximum(eigenvalues[::-1], 0.0), basis[:, ::-1]
    slack = gram.slack + _EIGH * EPS * float(eigenvalues[0])
    if gram.factor is None:
        values = np.sqrt(eigenvalues)
        return Spectrum(values, basis, values - np.sqrt(np.maximum(eigenvalues - slack, 0.0)), float(np.sqrt(slack)))
    known = np.where(eigenvalues > slack, np.sqrt(eigenvalues), 0.0)
    basis = gram.factor @ (basis * known)  # in the place of the first, which is no longer held while LAPACK works
    left, values, _ = np.linalg.svd(basis)
    # An error of the second Gram matrix moves values^2 by that times |L^T u|^2: of the whole W that is values^2 and the
    # shift, of a part of W, or of W in other units, much more where W itself moves far along u. The product rounds.
    rounding = float(4.0 * EPS * np.sqrt(size) * values[0])
    moved = slack * np.square(gram.factor.T @ left).sum(axis=0)
    least = max(float(np.sqrt(slack * gram.shift)), float(np.finfo(np.float64).tiny))
    off = np.minimum(moved / np.maximum(values, least), values)
    lost = np.square(values) <= 2.0 * moved
    shown, may_be_off = values[~lost], off[~lost]
    doubt = float((shown.min(initial=np.inf) - shown + may_be_off).max(initial=0.0))  # of the least that is shown
    smallest = max(least, float(values[lost].max(initial=0.0)), doubt) + rounding
    off += rounding + _rounding_of_rows(gram.factor, gram.shift, left)
    return Spectrum(values, left, off, smallest)


def _rounding_of_rows(factor: Array, shift: float, left: Array) -> Array:
    """Estimate how far rounding in the rows of T = L^-1 W moves each singular value of left vector u: |u^T L dT|.

    Rows of W that nearly depend on others are the sum of larger parts, whose roundings are taken to be independent.
    """
    from scipy.linalg import solve_triangular

    squares = np.maximum(np.square(factor).sum(axis=1) - shift, 0.0)  # of the norms of W's rows
    parts = np.square(solve_triangular(factor, np.eye(len(factor)), lower=True)) @ squares
    return np.asarray(_ROWS * EPS * np.sqrt(np.square(left.T @ factor) @ parts))


def hidden(found: Spectrum, error: float, most: int) -> bool:
    """Tell whether rounding of the Gram matrix hides values that the Jacobian's own error would not."""
    return bool(found.smallest > error and (found.values[:most] <= np.sqrt(2.0) * found.smallest).any())


def preconditioner(gram: Gram) -> tuple[Array, float]:
    """Return L, (M, M), lower triangular, and the shift: L L^T is the Gram matrix and that much of the identity.

    The rows of L^-1 W are then nearly orthonormal, but for directions that the first Gram matrix does not show.
    """
    size = len(gram.matrix)
    shift = max(2.0 * gram.slack, 11.0 * size * EPS * float(np.trace(gram.matrix)))
    return np.asarray(np.linalg.cholesky(gram.matrix + shift * np.eye(size))), shift


def shares(left: Array, values: Array, groups: list[Gram]) -> Array:
    """Return the share of each group in each resolved direction, (groups, resolved); columns sum to one."""
    table = np.zeros((len(groups), len(values)))
    for k, gram in enumerate(groups):
        columns = left[:, : len(values)] if gram.factor is None else gram.factor.T @ left[:, : len(values)]
        table[k] = np.maximum(np.einsum("ij,ij->j", columns, gram.matrix @ columns), 0.0)
    total = table.sum(axis=0)
    return np.asarray(table / np.where(total > 0.0, total, 1.0))
