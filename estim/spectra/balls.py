"""Matrices of balls, of the present precision: what certificates and approximations share."""

import math

import flint
import numpy as np

from estim.arithmetic import Array, elementwise, matmul


def midpoint(array: Array) -> Array:
    """Drop the radii."""
    return elementwise(lambda ball: ball.mid(), array)


def identity(size: int) -> Array:
    """Return the identity matrix as balls."""
    return elementwise(flint.arb, np.eye(size))


def log2_above(ball: flint.arb) -> float:
    """Bound log2 of the magnitude of a ball from above, far outside the range of float64 too."""
    mantissa, exponent = ball.abs_upper().mid().man_exp()
    # 1e-9 covers the rounding of the logarithm.
    return math.log2(int(mantissa)) + int(exponent) + 1e-9 if mantissa else -math.inf


def solve(matrix: Array, right: Array) -> Array:
    """Solve a linear system in balls, which proves the matrix regular; raises ZeroDivisionError where they cannot."""
    size, count = right.shape
    left = flint.arb_mat(size, size, matrix.ravel().tolist())
    solution = left.solve(flint.arb_mat(size, count, right.ravel().tolist()))
    return np.array(solution.entries(), dtype=object).reshape(size, count)


def gram_of(columns: Array, metric: Array | None) -> Array:
    """Return V^T S V."""
    return matmul(columns.T, columns if metric is None else matmul(metric, columns))
