"""Effective parameters: all that the outputs can depend on.

Notation: d_l widths, P_l = V_1 ... V_(l-1). The tokens that enter layer l are a row-stochastic matrix times
X P_l, so its scores hold the factors only as B_l = P_l Q_l K_l^T P_l^T, (d_0, d_0), and the outputs hold
the values only as the combined value map V_1 ... V_L, (d_0, d_L).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import flint
import numpy as np

from estim.arithmetic import Array, as_float, as_rationals, from_rationals, matmul
from estim.attention.layer import FACTORS, Layer

Weights = Sequence[tuple[Array, Array, Array]]


@dataclass(frozen=True, eq=False)
class EffectiveParameters:
    """What two networks of one normalizer must share to be the same function; all dimensionless."""

    scores: Array
    """Effective scores B_l, (layers, width, width)."""
    value_map: Array
    """Combined value map, (width, output width)."""

    def layers(self) -> list[Layer]:
        """Write the same function with B_l as query, the identity as key, the value map in the last layer."""
        width, depth = self.value_map.shape[0], len(self.scores)
        identity = np.eye(width)
        return [
            Layer(scores, identity, identity if number < depth - 1 else self.value_map)
            for number, scores in enumerate(self.scores)
        ]


def effective_parameters(layers: Sequence[Layer], *, exact: bool) -> EffectiveParameters:
    """Return the effective parameters, float64 (correctly rounded) or as ``Fraction``."""
    scores, value_map = effective([layer.factors_in(as_rationals) for layer in layers])
    fractions = from_rationals(np.stack(scores)), from_rationals(value_map)
    return EffectiveParameters(*(fractions if exact else (as_float(part) for part in fractions)))


def effective(weights: Weights) -> tuple[list[Array], Array]:
    """Return the effective scores, (width, width) each, and the combined value map, in any number system."""
    scores: list[Array] = []
    path: Array | None = None
    for query, key, value in weights:
        left, right = (query, key) if path is None else (matmul(path, query), matmul(path, key))
        scores.append(matmul(left, right.T))
        path = value if path is None else matmul(path, value)
    assert path is not None
    return scores, path


def effective_derivative(weights: Weights, factors: Sequence[str]) -> Array:
    """Return the derivative of (B_1, ..., B_L, V) with respect to the chosen factors, in any number system.

    Rows: the scores layer by layer, then the value map, each row by row; columns in the order of the
    parameters.
    """
    paths = _paths(weights)
    width = weights[0][0].shape[0]
    columns = [
        _column_block(weights, paths, number, name, width)
        for number, name in product(range(len(weights)), FACTORS)
        if name in factors
    ]
    return np.concatenate(columns, axis=1)


def _identity(like: Array, size: int) -> Array:
    zero = like[:1, 0] * 0
    matrix = np.repeat(zero, size * size).reshape(size, size)
    matrix[np.arange(size), np.arange(size)] = zero + 1
    return matrix


def _paths(weights: Weights) -> list[Array]:
    paths = [_identity(weights[0][2], weights[0][2].shape[0])]
    for _, _, value in weights:
        paths.append(paths[-1] @ value)
    return paths


def _column_block(weights: Weights, paths: list[Array], number: int, name: str, width: int) -> Array:
    """Stack d B_1, ..., d B_L, d V with respect to one factor of layer `number`."""
    factor = weights[number][FACTORS.index(name)]
    zero = np.repeat(factor.ravel()[:1] * 0, width * width * factor.size).reshape(width * width, factor.size)
    blocks = []
    after: Array | None = None
    for layer, (query, key, value) in enumerate(weights):
        path = paths[layer]
        if name == "value" and layer > number:
            after = _identity(query, query.shape[0]) if after is None else after
            inner = query @ key.T @ path.T
            swapped = key @ query.T @ path.T
            left = _moved(paths[number], (after @ inner).T)
            blocks.append(left + _turned(_moved(paths[number], (after @ swapped).T)))
            after = after @ value
        elif name == "query" and layer == number:
            blocks.append(_moved(path, path @ key))
        elif name == "key" and layer == number:
            blocks.append(_turned(_moved(path, path @ query)))
        else:
            blocks.append(zero)
    if name == "value":
        after = _identity(factor, factor.shape[1]) if after is None else after
        blocks.append(_moved(paths[number], after.T))
    else:
        blocks.append(zero[:1].repeat(width * weights[-1][2].shape[1], axis=0))
    return np.concatenate(blocks)


def _moved(left: Array, right: Array) -> Array:
    """Return the matrix of X -> left X right^T, row-by-row vectors on both sides."""
    return np.asarray(np.kron(left, right))


def _turned(rows: Array) -> Array:
    """Transpose the square matrices that the rows stand for."""
    width = round(len(rows) ** 0.5)
    return rows.reshape(width, width, -1).swapaxes(0, 1).reshape(rows.shape)


def to_matrix(array: Array) -> flint.fmpq_mat:
    """Turn an array of ``fmpq`` into a flint matrix."""
    rows, columns = array.shape
    return flint.fmpq_mat(rows, columns, array.ravel().tolist())


def rank(array: Array) -> int:
    """Return the exact rank of a matrix of ``fmpq``."""
    return int(to_matrix(array).rank())


def echelon(array: Array) -> tuple[Array, list[int]]:
    """Return the nonzero rows of the reduced row echelon form of ``fmpq`` entries, and their pivot columns."""
    reduced, count = to_matrix(array).rref()
    rows = np.array(reduced.tolist(), dtype=object).reshape(array.shape)[:count]
    return rows, [next(j for j, entry in enumerate(row) if entry != 0) for row in rows]


def null_space(array: Array) -> Array:
    """Return a basis of the null space of a matrix of ``fmpq``, (columns, dimension)."""
    rows, pivots = echelon(array)
    free = [j for j in range(array.shape[1]) if j not in set(pivots)]
    basis = np.full((array.shape[1], len(free)), flint.fmpq(0), dtype=object)
    for column, j in enumerate(free):
        basis[j, column] = flint.fmpq(1)
        basis[pivots, column] = -rows[:, j]
    return basis
