"""Eigenvectors of a Gram matrix whose eigenvalues may span thousands of decades, in balls of the present precision.

Nothing here is proven: the vectors are exact numbers that :mod:`estim.spectra.certify` then judges. Eigenvalues and
norms are squares of singular values; d stands for the singular values themselves. An error is *graded*, or relative,
when entry (i, j) of it is small against d_i d_j, and not only against the largest of them.

Road: pivoted Cholesky G = R^T R; the rows of R are graded, so R R^T = D S D with a well-conditioned S, whatever D;
one-sided Jacobi in float64 on S with D kept as exponents (Demmel and Veselic 1992, doi:10.1137/0613074) gives 14 graded
digits; Newton's iteration for eigenvectors (Ogita and Aishima 2018, doi:10.1007/s13160-018-0310-3) doubles them
with matrix products alone.
"""

import math
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, elementwise, matmul
from estim.precision import ball_bits
from estim.spectra.balls import gram_of, identity, log2_above, midpoint, solve
from estim.spectra.jacobi import graded_jacobi

# Newton's correction is trusted where it is small; a larger one means two eigenvalues too close to be told apart yet.
_TRUSTED = 2.0**-8
# Bits that the rounding of a step may cost beyond the condition number.
_SPARE = 24
# Bits that a step of Newton must gain at least.
_GAIN = 16
# Bits of orthonormality that any matrix handed to Newton and Schulz has: those of a trusted step, squared, less two.
_ORTHONORMAL_BITS = 14


def pivoted_cholesky(gram: Array, floor: int, most: int) -> tuple[Array, float]:
    """Factor G = R^T R up to pivots below ``2**-floor`` times the largest.

    Returns
    -------
    rows : (rank, n) array
        R, one row a pivot, in the column order of G.
    span : float
        log2 of the ratio of the largest to the smallest pivot row, about the condition number of R.
    """
    rest = gram.copy()
    size = len(rest)
    rows = np.full((min(size, most), size), flint.arb(0), dtype=object)
    alive = np.arange(size)
    first: flint.arb | None = None
    pivots: list[float] = []
    for row in rows:
        diagonal = rest[alive, alive]
        at = int(np.argmax(diagonal))
        top = diagonal[at]
        first = top if first is None else first
        if not top > first * flint.arb(2) ** -floor:
            break
        pivots.append(log2_above(top) / 2)
        row[alive] = midpoint(rest[alive[at], alive] / top.sqrt())
        alive = np.delete(alive, at)
        block = np.ix_(alive, alive)
        rest[block] = midpoint(rest[block] - np.multiply.outer(row[alive], row[alive]))
    return rows[: len(pivots)], pivots[0] - min(pivots) if pivots else 0.0


def eigenvectors(gram: Array, metric: Array | None, rows: Array, span: float, bits: int) -> Array:
    """Return exact numbers close to the eigenvectors V of G = R^T R, (n, rank), by descending eigenvalue.

    V^T S V is the identity, and V^T G V is diagonal relative to each pair of eigenvalues, to about ``2**-bits``,
    where the present precision exceeds `bits` by twice `span`, log2 of the condition number of R. The metric S is
    the identity when None, and must be close to it.
    """
    # Eigenvectors of the pencil (R^T R, S) lie in the range of S^-1 R^T: no constraint where the rank is full.
    if metric is None or len(rows) == len(metric):
        start = _start(rows, rows.T)
    else:
        start = _start(rows, midpoint(solve(metric, rows.T)))
    return _refined(gram, metric, start, bits, span)


def _start(rows: Array, span_of: Array) -> Array:
    """Fourteen graded digits of the eigenvectors of R^T R."""
    exponents = np.array([math.floor(log2_above((row * row).sum()) / 2) for row in rows])
    scale = elementwise(lambda e: flint.arb(2) ** -int(e), exponents)
    scaled = rows * scale[:, None]
    vectors, norms = graded_jacobi(scaled.astype(float).T, exponents)
    descending = np.argsort(-(np.log2(norms) + exponents), kind="stable")
    vectors, norms, of = vectors[descending], norms[descending], exponents[descending]
    # S^-1 R^T (R S^-1 R^T)^-1 U Sigma and not S^-1 R^T U / Sigma: so a graded error of U stays one of V^T G V. For U
    # itself R R^T is close enough to R S^-1 R^T; inverted it would not be, by the ratio of the values.
    down = elementwise(lambda e: flint.arb(2) ** int(e), of[:, None] - exponents - np.abs(of[:, None] - exponents))
    right = elementwise(flint.arb, vectors * norms[:, None]) * down
    columns = span_of * scale
    result = midpoint(matmul(columns, midpoint(solve(midpoint(matmul(scaled, columns)), right.T))))
    return midpoint(result / elementwise(lambda square: square.sqrt(), (result * result).sum(axis=0)))


def _refined(gram: Array, metric: Array | None, vectors: Array, bits: int, span: float) -> Array:
    """Double the digits of orthonormal eigenvectors until 2**-bits or until the precision is exhausted."""
    from scipy.sparse.csgraph import connected_components

    full = flint.ctx.prec
    eye = identity(vectors.shape[1])
    known, best, stalled, turned = 40.0, 0.0, 0, False
    while known < bits and stalled < 8:
        # A step needs no more than the digits that it can give.
        with ball_bits(min(full, math.ceil(2 * known + 2 * span) + 64)):
            # Nor does it give more than its own rounding lets through, however right the vectors were before.
            most = flint.ctx.prec - 2 * span - _SPARE
            # Rounding must not tell (i, j) from (j, i): over a small gap the step would no longer be a rotation.
            inner = _symmetric(matmul(vectors.T, matmul(gram, vectors)))
            excess = eye - _symmetric(gram_of(vectors, metric))
            values = midpoint(np.diag(inner) / (1 - np.diag(excess)))
            if not all(value > 0 for value in values):
                break  # Eigenvalues below what the entries show; what is known stands.
            relative = _relative(inner, values) - eye
            known = min(-log2_above((relative * relative + excess * excess).sum()) / 2, most)
            stalled, best = (0, known) if known > best + 1 else (stalled + 1, best)
            gap = values - values[:, None]
            np.fill_diagonal(gap, flint.arb(1))
            step = midpoint((inner + values * excess) / gap)
            size = np.abs(step.astype(float))
            label = connected_components(~(size < _TRUSTED), directed=False)[1]
            # Pairs so close that the square of their step, which Newton leaves behind, would undo digits or gain few:
            # the step of a multiple value is noise over noise, and could undo in every round what the last one gained.
            close = (label == label[:, None]) | (np.maximum(size, size.T) > 2 ** (-(known + _GAIN) / 2))
            turn = None if turned else _turn(inner, values, excess, np.where(close, step, 0), label, bits)
            turned = turn is not None
            change = eye + np.where(close, excess / 2, step) if turn is None else turn
            known = known if turned else min(_after_step(known, relative + excess, step, close), most)
        vectors = midpoint(matmul(vectors, midpoint(change)))
    return vectors


def _symmetric(matrix: Array) -> Array:
    """Drop the radii of a matrix that is symmetric but for rounding, and the rounding's part that is not."""
    return midpoint((matrix + matrix.T) / 2)


def _after_step(known: float, relative: Array, step: Array, close: NDArray[np.bool_]) -> float:
    """Estimate the bits after a step: its square is left behind, and what is off the diagonal between close pairs.

    A step is larger than the fault that it mends where the gap is small, and only a truly multiple eigenvalue has
    nothing off the diagonal between its close pairs.
    """
    zero: Any = flint.arb(0)
    left = np.where(close & ~np.eye(len(close), dtype=bool), relative, zero)
    taken = np.where(close, zero, step)
    bits_left, bits_taken = (-log2_above((part * part).sum()) / 2 for part in (left, taken))
    return min(2 * known, 2 * bits_taken, bits_left)


def _relative(inner: Array, values: Array) -> Array:
    """Divide a graded matrix by the square roots of the eigenvalues on both sides."""
    inverse = elementwise(lambda value: value.rsqrt(), values)
    return midpoint(inner * inverse * inverse[:, None])


def _turn(inner: Array, values: Array, excess: Array, step: Array, label: NDArray[np.int32], bits: int) -> Array | None:
    """Rotate close pairs by exactly orthogonal matrices; None where there is nothing to rotate.

    A cluster, whose members share a label, is diagonalised in float64 relative to its own spread. Between other close
    pairs the step itself is made a rotation. A multiple eigenvalue needs none: its blocks become diagonal anyway.
    """
    relative = _relative(inner, values) + excess
    count = int(label.max()) + 1
    apart = label != label[:, None]
    turn = identity(len(inner)) + np.where(apart, (step - step.T) / 2, 0)
    found = bool((step * apart != 0).any())
    turn = orthonormal(midpoint(turn)) if found else turn
    for members in (np.flatnonzero(label == cluster) for cluster in range(count)):
        block = np.ix_(members, members)
        off = relative[block] - np.diag(np.diag(relative[block]))
        if len(members) > 1 and log2_above((off * off).sum()) / 2 > -bits:
            spread = midpoint(inner[block] / values[members[0]] + excess[block]) - identity(len(members))
            unit = spread * flint.arb(2) ** -math.floor(log2_above((spread * spread).sum()) / 2)
            rotation = orthonormal(elementwise(flint.arb, np.linalg.eigh(unit.astype(float))[1][:, ::-1]))
            turn[:, members] = midpoint(matmul(turn[:, members], rotation))
            found = True
    return turn if found else None


def completed(vectors: Array, metric: Array | None) -> Array:
    """Append orthonormal columns, orthogonal to the given ones, until the matrix is square."""
    size, count = vectors.shape
    if count == size:
        return vectors
    rest = elementwise(flint.arb, np.linalg.qr(vectors.astype(float), mode="complete")[0][:, count:])
    image = rest if metric is None else matmul(metric, rest)
    # The vectors are orthonormal to the bits wanted, not to the precision; but a null vector that leans on the largest
    # by more than the precision would hide values far below it.
    along = solve(gram_of(vectors, metric), midpoint(matmul(vectors.T, image)))
    rest = midpoint(rest - matmul(vectors, midpoint(along)))
    return np.concatenate([vectors, orthonormal(rest, metric)], axis=1)


def orthonormal(columns: Array, metric: Array | None = None) -> Array:
    """Make columns that are nearly orthonormal so to the present precision (Newton and Schulz)."""
    eye = identity(columns.shape[1])
    for _ in range(math.ceil(math.log2(flint.ctx.prec / _ORTHONORMAL_BITS))):
        columns = midpoint(matmul(columns, midpoint((3 * eye - gram_of(columns, metric)) / 2)))
    return columns
