"""Proven enclosures of singular values from ball arithmetic.

Let the columns of Z = U V be nearly orthonormal, Z^T Z = I + E2, and those of B = A Z nearly orthogonal,
B^T B = D^2 + F with D = diag(d), d descending. For any tau > 0 and T = diag(max(d, tau)),

    -e T^2 <= F <= e T^2,   e = ||T^-1 F T^-1||_F,

hence eigenvalue i of B^T B lies within e max(d_i, tau)^2 of d_i^2; tau = d_i gives value i a bound relative to
itself, whatever lies below it. By Ostrowski's theorem the singular values of A itself differ from those of B by factors
between the singular values of Z: sigma_i(A) is in d_i [sqrt(1 - e) / sqrt(1 + e2), sqrt(1 + e) / sqrt(1 - e2)] with
e2 = ||E2||_F. Nothing is assumed on gaps, multiplicities or rank, and Z may come from anywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import flint
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, elementwise, matmul
from estim.precision import ball_bits
from estim.spectra.balls import gram_of, identity, log2_above, midpoint, solve
from estim.spectra.graded import completed, eigenvectors, pivoted_cholesky

# Covers the rounding of the float64 logarithms and exponentials that bound errors, to a relative 1e-6.
_MARGIN = 1e-6
# Bits that bounds of radii need.
_COARSE = 64
_SPARE = 48
# Each attempt at least doubles what the one before fell short of: enough for any matrix that fits in memory.
_ATTEMPTS = 24


@dataclass(frozen=True)
class Enclosures:
    """Singular values, descending, with bounds; all of them exact balls (no radius), dimensionless."""

    values: Array
    """Close to the singular values, (values,)."""
    lower: Array
    """(values,)."""
    upper: Array
    """(values,)."""
    vectors: Array
    """(columns, values) exact numbers close to the right singular vectors, in the coordinates of U; unproven."""


def enclose(
    matrix_at: Callable[[], Array], bits: int, *, rank: int, exact: bool, metric: Array | None = None
) -> Enclosures:
    """Enclose the singular values of a matrix A, given as A U.

    Parameters
    ----------
    matrix_at : callable
        Returns A U, (rows, columns), in balls of the present precision.
    bits : int
        Exact matrix: the correct bits wanted of every value. Else the bits to which the entries are known.
    rank : int
        A proven upper bound of the rank; the rank itself where `exact`.
    exact : bool
        Whether ``matrix_at`` sharpens with the precision, so that every positive value can be resolved.
    metric : (columns, columns) array of balls, optional
        U^T U, close to the identity; the identity when left out. A must vanish beside U.

    Returns
    -------
    Enclosures
        Of all ``columns`` values; those beyond `rank` are zero.
    """
    precision = bits + bits // 4 + 2 * _SPARE
    result: Enclosures | None = None
    width = flint.arb("inf")
    for _ in range(_ATTEMPTS):
        with ball_bits(precision):
            result, needed = _attempt(matrix_at(), metric, bits, rank, exact)
        if needed <= precision:
            break
        if result is not None:
            before, width = width, _widest(result, rank)
            if not width < before / 2:  # More bits do not help: an honest width, and not an endless search.
                break
        precision = needed
    if result is None:
        msg = f"{precision} bits do not show {rank} positive singular values"
        raise ArithmeticError(msg)
    return result


def _attempt(matrix: Array, metric: Array | None, bits: int, rank: int, exact: bool) -> tuple[Enclosures | None, int]:
    """Enclose at the present precision, or say which precision would do."""
    precision = flint.ctx.prec
    middle = midpoint(matrix)
    gram = matmul(middle.T, middle)
    rows, span = pivoted_cholesky(midpoint(gram), precision - 16 - len(matrix).bit_length(), rank)
    # Squares of values that the entries still show may lie below what this precision shows of the Gram matrix.
    wanted = 2 * precision if exact else 2 * bits + 2 * _SPARE
    if len(rows) < rank and wanted > precision:
        return None, wanted
    # The weakest value is not known better, relative to itself, than the entries are relative to the largest; the
    # others are, and are to profit to half the bits at least.
    reach = bits + 8 if exact else max(bits - math.ceil(span), bits // 2) + 16
    needed = reach + 2 * math.ceil(span) + _SPARE
    if needed > precision:
        return None, needed
    middle_metric = None if metric is None else midpoint(metric)
    if len(rows):
        vectors = completed(eigenvectors(midpoint(gram), middle_metric, rows, span, reach), middle_metric)
    else:
        vectors = identity(len(gram))
    result = _judge(vectors, gram, matrix, metric, rank)
    return result, 2 * precision if exact and _widest(result, rank) > flint.arb(2) ** -bits else precision


def _widest(result: Enclosures, rank: int) -> flint.arb:
    """Return the largest width of an enclosure relative to its value."""
    widths = ((high - low) / high for low, high in zip(result.lower[:rank], result.upper[:rank], strict=True))
    return max(widths, default=flint.arb(0))


def _judge(vectors: Array, gram: Array, matrix: Array, metric: Array | None, rank: int) -> Enclosures:
    """Prove what the vectors, exact numbers close to the right singular ones, show."""
    inner = matmul(vectors.T, matmul(gram, vectors))
    squares = elementwise(lambda ball: ball.mid().nonnegative_part(), np.diag(inner))
    order = np.array(sorted(range(len(squares)), key=lambda i: squares[i], reverse=True))
    inner, squares, vectors = inner[np.ix_(order, order)], squares[order], vectors[:, order]
    fault = inner - np.diag(squares)
    skew = _frobenius(gram_of(vectors, metric) - identity(len(squares)))
    with ball_bits(_COARSE):
        bounds = elementwise(lambda ball: ball.abs_upper(), fault) + _spread(matrix, vectors, np.diag(inner))
        logs = elementwise(log2_above, bounds).astype(float)
    sizes = np.array([log2_above(square) / 2 for square in squares])
    if skew >= 1:
        msg = f"the approximate singular vectors are not orthonormal (defect {skew.str(3)}): no enclosure"
        raise ArithmeticError(msg)
    values, lower, upper = (np.full(len(squares), flint.arb(0), dtype=object) for _ in range(3))
    for i in range(min(rank, len(squares))):
        error = _power_of_two(_log2_error(logs, sizes, i))
        values[i] = squares[i].sqrt().mid()
        lower[i] = ((squares[i] - error).nonnegative_part() / (1 + skew)).sqrt().lower()
        upper[i] = ((squares[i] + error) / (1 - skew)).sqrt().upper()
    return Enclosures(values, *_monotone(lower, upper), vectors)


def _spread(matrix: Array, vectors: Array, inner: Array) -> Array:
    """Bound what the radii of the matrix add to the entries of B^T B, (columns, columns)."""
    radii = elementwise(lambda ball: ball.rad(), matrix)
    moved = matmul(radii, elementwise(lambda ball: ball.abs_upper(), vectors))
    spread = elementwise(lambda square: square.sqrt().abs_upper(), (moved * moved).sum(axis=0))
    norms = elementwise(lambda square: square.abs_upper().sqrt().abs_upper(), inner)
    cross = np.multiply.outer(norms, spread)
    return np.asarray(cross + cross.T + np.multiply.outer(spread, spread))


def _log2_error(logs: NDArray[np.float64], sizes: NDArray[np.float64], i: int) -> float:
    """Bound log2 of e tau^2 for tau = d_i, or in the limit tau -> 0 where that is zero.

    `logs` bounds log2 of the entries of F, `sizes` is log2 of d.
    """
    with np.errstate(invalid="ignore"):  # Zero beside zero.
        weights = np.nan_to_num(np.minimum(sizes[i] - sizes, 0), nan=0.0, neginf=-np.inf)
    terms = 2 * (logs + weights + weights[:, None])
    top = terms.max()
    if top == -np.inf:
        return -math.inf
    return float(top + np.log2(np.exp2(terms - top).sum())) / 2 + _MARGIN


def _power_of_two(exponent: float) -> flint.arb:
    """Return 2**exponent, far outside the range of float64 too."""
    if exponent == -math.inf:
        return flint.arb(0)
    whole = math.floor(exponent)
    return flint.arb(2.0 ** (exponent - whole)) * flint.arb(2) ** whole


def _frobenius(balls: Array) -> flint.arb:
    """Bound the Frobenius norm of a matrix of balls from above."""
    return flint.arb((balls * balls).sum().abs_upper().sqrt().abs_upper())


def _monotone(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Let each bound profit from its neighbours: the singular values descend."""
    lower, upper = lower.copy(), upper.copy()
    for i in range(1, len(lower)):
        upper[i] = min(upper[i], upper[i - 1])
        lower[-1 - i] = max(lower[-1 - i], lower[-i])
    return lower, upper


def without_null(matrix: Array, null: Array) -> tuple[Array, Array, Array]:
    """Restrict a matrix to the complement of known null vectors.

    With C, from float64, close to an orthonormal basis of the complement, U = C - N (N^T N)^-1 N^T C is exactly
    orthogonal to the null vectors N; since A N = 0 exactly, A U = A C, and no digit is lost to cancellation.

    Parameters
    ----------
    matrix : (rows, columns) array of balls
        A; the null vectors are known to be exact, whatever the radii show.
    null : (columns, count) array of balls
        N, linearly independent.

    Returns
    -------
    restricted : (rows, columns - count) array of balls
        A U. With the metric it has the singular values of A, but for `count` zeros.
    metric : (columns - count, columns - count) array of balls
        U^T U.
    complement : (columns, columns - count) array of balls
        U.

    Raises
    ------
    ArithmeticError
        If the null vectors cannot be shown to be independent.
    """
    basis = elementwise(flint.arb, np.linalg.qr(null.astype(float), mode="complete")[0][:, null.shape[1] :])
    overlap = matmul(null.T, basis)
    try:
        along = solve(matmul(null.T, null), overlap)
    except ZeroDivisionError:
        msg = "the null vectors cannot be shown to be independent"
        raise ArithmeticError(msg) from None
    metric = matmul(basis.T, basis) - matmul(overlap.T, along)
    return matmul(matrix, basis), metric, basis - matmul(null, along)
