"""Directions decided by certified arithmetic, where float64 cannot resolve them.

A direction is resolved when the enclosure of its singular value excludes zero, which is a proof. Values and vectors
are then rounded to float64: they are reported, not used to decide.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flint
import numpy as np
import numpy.typing as npt

from estim.arithmetic import Array as Balls
from estim.arithmetic import as_balls, elementwise, matmul
from estim.precision import ball_bits, check_digits
from estim.probe.directions.graded_svd import complement
from estim.probe.directions.noise import Whitening
from estim.probe.directions.resolve import Directions, Moved
from estim.spectra.balls import midpoint
from estim.spectra.certify import Enclosures, enclose, without_null

if TYPE_CHECKING:
    from estim.probe.model.probed import Probed

Array = npt.NDArray[np.float64]


def network_directions(network: Any, bank: Any, noise: Whitening, digits: int) -> Directions:
    """Return the directions that a network's ball Jacobian of so many digits resolves, its gauge taken out first."""
    from estim.attention.bank import read_bank
    from estim.attention.gauge import tangents_in
    from estim.attention.jacobian import ball_jacobian
    from estim.attention.layer import FACTORS
    from estim.spectra.rank_bound import rank_bound

    _check(digits, noise)
    layers, read = network.layers, read_bank(bank, network.width)
    balls = ball_jacobian(layers, read, network.normalizer, digits, factors=FACTORS)
    most, _ = rank_bound(network, read, FACTORS)
    bits = math.ceil(digits * math.log2(10))
    with ball_bits(bits + 64):
        null = tangents_in(layers, as_balls, factors=FACTORS)
    return _directions(lambda: balls, noise, null, bits, most, exact=False)


def matrix_directions(probed: "Probed", noise: Whitening, digits: int) -> Directions:
    """Return the directions that exact entries resolve at so many digits.

    Raises
    ------
    ValueError
        When the entries are floats, whose error no digits mend.
    """
    from estim.arithmetic import as_rationals
    from estim.attention.effective import rank

    if probed.exact is None:
        msg = "digits need exact entries (integers, Fraction or decimal strings) or an attention.Network; got floats"
        raise ValueError(msg)
    _check(digits, noise)
    exact = probed.exact
    most = rank(as_rationals(exact))
    # Digits of every value relative to itself: the precision follows the condition of the matrix.
    bits = math.ceil(digits * math.log2(10))
    return _directions(lambda: as_balls(exact), noise, np.zeros((exact.shape[1], 0), object), bits, most, exact=True)


def _check(digits: Any, noise: Whitening) -> None:
    check_digits(digits)
    if len(noise.noiseless):
        msg = "digits and noiseless readings do not go together; give every reading a positive sigma"
        raise ValueError(msg)


def _whiten(balls: Balls, noise: Whitening) -> Balls:
    """Whiten exactly as float64 does: the whitening itself is a choice of the user's, taken at its binary value."""
    if noise.forward is not None:
        return matmul(elementwise(lambda x: flint.arb(float(x)), noise.forward), balls)
    return np.asarray(balls * elementwise(lambda x: flint.arb(float(x)), noise.scale)[:, None])


def _directions(
    jacobian: Callable[[], Balls], noise: Whitening, null: Balls, bits: int, most: int, *, exact: bool
) -> Directions:
    """Enclose the values in the user's units, and again with columns scaled, exactly, to a norm of about one."""

    def whitened() -> Balls:
        return _whiten(jacobian(), noise)

    with ball_bits(bits + 64):
        sizes = _column_sizes(whitened())
        scale = elementwise(lambda size: flint.arb(2) ** int(size), sizes)
        scaled_null = null * scale[:, None]
    plain, vectors = _enclosed(whitened, null, bits, most, exact)
    scaled, scaled_vectors = _enclosed(lambda: whitened() / scale, scaled_null, bits, most, exact)
    rank = max(_positive(plain), _positive(scaled))
    values = _floats(plain.values, len(sizes))
    values[rank:] = 0.0
    scaled_values = _floats(scaled.values, len(sizes))
    return Directions(
        rank=rank,
        singular_values=values,
        directions=_completed(_unit_rows(vectors[:, :rank])),
        scale=np.exp2(sizes.astype(np.float64)),
        scaled_singular_values=scaled_values,
        scaled_directions=_completed(_unit_rows(scaled_vectors[:, :rank])),
        resolution=float(scaled_values.max(initial=0.0)) * 2.0**-bits,
        moved=_moved(jacobian, noise, vectors[:, :rank], bits),
    )


def _moved(jacobian: Callable[[], Balls], noise: Whitening, vectors: Balls, bits: int) -> Moved:
    """Move along each direction in balls: strong parameters cancel in weak directions."""
    # Twice the digits, for what cancels; the radii say whether they do.
    with ball_bits(2 * bits + 64):
        moved = matmul(jacobian(), vectors)
        whitened = _whiten(moved, noise)
        size, radius = (
            elementwise(lambda square: square.sqrt().abs_upper(), (part * part).sum(axis=0))
            for part in (midpoint(whitened), elementwise(lambda ball: ball.rad(), whitened))
        )
        unit = elementwise(lambda norm: norm if norm > 0 else flint.arb(1), size)
        error = np.where((size > 0).astype(bool), (radius / unit).astype(np.float64), np.inf)
        columns = midpoint(moved / unit).astype(np.float64)
    return Moved(np.eye(vectors.shape[1]), error, columns)


def _completed(rows: Array) -> Array:
    """Append orthonormal rows that span the complement, tangents included."""
    return np.concatenate([rows, complement(rows)])


def _enclosed(matrix: Callable[[], Balls], null: Balls, bits: int, most: int, exact: bool) -> tuple[Enclosures, Balls]:
    """Return the enclosures and the right singular vectors as columns."""
    if not null.shape[1]:
        found = enclose(matrix, bits, rank=most, exact=exact)
        return found, found.vectors
    with ball_bits(bits + 64):
        restricted, metric, complement = without_null(matrix(), null)
    found = enclose(lambda: restricted, bits, rank=most, exact=exact, metric=metric)
    with ball_bits(bits + 64):
        return found, matmul(complement, found.vectors)


def _unit_rows(vectors: Balls) -> Array:
    rows = vectors.astype(np.float64).T
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _column_sizes(balls: Balls) -> npt.NDArray[np.int64]:
    """Return log2 of the norms of the columns, rounded; 0 for a column of zeros."""
    squares = (balls * balls).sum(axis=0)
    return np.array([_log2(square) // 2 if square.mid() > 0 else 0 for square in squares], dtype=np.int64)


def _log2(ball: flint.arb) -> int:
    mantissa, exponent = ball.mid().man_exp()
    return int(exponent) + int(mantissa).bit_length()


def _positive(found: Enclosures) -> int:
    return sum(bool(value > 0) for value in found.lower)


def _floats(values: Balls, length: int) -> Array:
    """Round to float64; values below its range become its smallest positive number, so that they stay positive."""
    floats = np.zeros(length)
    for i, value in enumerate(values):
        floats[i] = max(float(value), np.finfo(float).tiny) if value > 0 else 0.0
    return floats
