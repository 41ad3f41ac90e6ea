"""One-sided Jacobi rotations of a graded matrix in float64 (Demmel and Veselic 1992, doi:10.1137/0613074)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Rotations of the Jacobi method whose cosine is below this leave 53-bit columns as they are.
_ORTHOGONAL = 4 * np.finfo(float).eps


def _disjoint_pairs(size: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield every pair once, in rounds of disjoint pairs (the circle method of tournaments)."""
    players = np.arange(size + size % 2)
    half = len(players) // 2
    for _ in range(len(players) - 1):
        first, second = players[:half], players[: half - 1 : -1]
        playing = np.maximum(first, second) < size
        yield first[playing], second[playing]
        players = np.concatenate([players[:1], players[-1:], players[1:-1]])


def graded_jacobi(
    factor: NDArray[np.float64], exponents: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Diagonalise D S D, with S = C^T C and D = diag(2**exponents), by rotations of the columns of C D.

    No number as large or small as D is ever formed: columns stay scaled by D, and entry (l, i) of the eigenvectors, at
    most about min(d_l/d_i, d_i/d_l), is kept multiplied by the inverse of that.

    Parameters
    ----------
    factor : (m, n) array
        C, with columns of norm about one.
    exponents : (n,) int array

    Returns
    -------
    vectors : (n, n) array
        One eigenvector a row, entry (i, l) multiplied by ``2**abs(exponents[l] - exponents[i])``.
    norms : (n,) array
        Square roots of the eigenvalues, divided by ``2**exponents``.
    """
    rows, vectors = factor.T.copy(), np.eye(factor.shape[1])
    distance = np.abs(exponents[:, None] - exponents)
    for _ in range(60):
        rotated = False
        for first, second in _disjoint_pairs(len(rows)):
            rotated |= _rotate(rows, vectors, exponents, distance, first, second)
        if not rotated:
            break
    return vectors, np.sqrt((rows * rows).sum(axis=1))


def _rotate(
    rows: NDArray[np.float64],
    vectors: NDArray[np.float64],
    exponents: NDArray[np.int64],
    distance: NDArray[np.int64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
) -> bool:
    """Make disjoint pairs of rows orthogonal, in place; return whether any was not."""
    squares = (rows * rows).sum(axis=1)
    size = np.log2(squares) / 2 + exponents
    swap = size[first] < size[second]
    large, small = np.where(swap, second, first), np.where(swap, first, second)
    inner = (rows[large] * rows[small]).sum(axis=1)
    wanted = np.abs(inner) > _ORTHOGONAL * np.sqrt(squares[large] * squares[small])
    if not wanted.any():
        return False
    large, small, inner = large[wanted], small[wanted], inner[wanted]
    shift = exponents[small] - exponents[large]
    ratio = np.ldexp(1.0, shift)
    gap = squares[large] - squares[small] * ratio**2
    # The tangent of the angle is `tangent * ratio`: the small row takes up O(1) of the large one, never the reverse.
    tangent = (2 * inner / (gap + np.hypot(gap, 2 * ratio * inner)))[:, None]
    cosine = 1 / np.hypot(1, tangent * ratio[:, None])
    from_small, from_large = rows[small], rows[large]
    rows[large] = cosine * (from_large + tangent * ratio[:, None] ** 2 * from_small)
    rows[small] = cosine * (from_small - tangent * from_large)
    lean = distance[large] - distance[small]
    from_small, from_large = vectors[small], vectors[large]
    vectors[large] = cosine * (from_large + tangent * np.ldexp(1.0, shift[:, None] + lean) * from_small)
    vectors[small] = cosine * (from_small - tangent * np.ldexp(1.0, shift[:, None] - lean) * from_large)
    return True
