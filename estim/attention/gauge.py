"""What the outputs can determine: effective parameters, and the changes of the factors that they never show.

Notation: d_l widths, P_l = V_1 ... V_(l-1). The outputs depend on the factors only through the effective
scores B_l = P_l Q_l K_l^T P_l^T, (d_0, d_0), and the combined value map V_1 ... V_L, (d_0, d_L).

Two families of changes leave these as they are, to first order in eps and with any square matrix M:

    Q_l -> Q_l (1 + eps M),  K_l -> K_l (1 - eps M^T)                 M as wide as the rank of layer l V_l
    -> V_l (1 + eps M),  F_(l+1) -> (1 - eps M) F_(l+1)           F each of Q, K, V; M as wide as layer l +
    1

They are all there are where every value but the last is square and invertible and every query and key has
full column rank: such parameters are called regular here. Elsewhere the exact null space of the derivative
of (factors) -> (B, V) takes their place.
"""

from collections.abc import Callable, Sequence
from itertools import product

import flint
import numpy as np

from estim.arithmetic import Array, as_rationals, elementwise, from_rationals
from estim.attention.layer import FACTORS, Convert, Layer, parameter_count, places_of

Weights = Sequence[tuple[Array, Array, Array]]

# Largest prime below 2^61: a rank at a random point modulo it is the generic rank but for odds below 1e-14.
_PRIME = (1 << 61) - 1


def effective(weights: Weights) -> tuple[list[Array], Array]:
    """Return the effective scores, (width, width) each, and the combined value map, in any number system."""
    scores: list[Array] = []
    path: Array | None = None
    for query, key, value in weights:
        left, right = (query, key) if path is None else (path @ query, path @ key)
        scores.append(left @ right.T)
        path = value if path is None else path @ value
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
            blocks.append(
                _moved(paths[number], (after @ inner).T) + _turned(_moved(paths[number], (after @ swapped).T))
            )
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


def null_space(array: Array) -> Array:
    """Return a basis of the null space of a matrix of ``fmpq``, (columns, dimension)."""
    reduced, count = to_matrix(array).rref()
    rows = np.array(reduced.tolist(), dtype=object).reshape(array.shape)[:count]
    pivots = [next(j for j, entry in enumerate(row) if entry != 0) for row in rows]
    free = [j for j in range(array.shape[1]) if j not in set(pivots)]
    basis = np.full((array.shape[1], len(free)), flint.fmpq(0), dtype=object)
    for column, j in enumerate(free):
        basis[j, column] = flint.fmpq(1)
        basis[pivots, column] = -rows[:, j]
    return basis


def exceptional(layers: Sequence[Layer]) -> list[str]:
    """Name, by layer, what keeps the closed-form tangents from being all; empty for regular parameters."""
    found = []
    for number, layer in enumerate(layers):
        query, key, value = layer.factors_in(as_rationals)
        for name, factor in (("query", query), ("key", key)):
            if rank(factor) < layer.rank:
                found.append(f"layer {number}: {name} of rank {rank(factor)} below its {layer.rank} columns")
        if number < len(layers) - 1:
            if layer.width != layer.output_width:
                found.append(f"layer {number}: value not square, {value.shape}")
            elif rank(value) < layer.width:
                found.append(f"layer {number}: value singular, rank {rank(value)} of {layer.width}")
    return found


def tangents_in(layers: Sequence[Layer], convert: Convert, *, factors: Sequence[str] = FACTORS) -> Array:
    """Return the gauge tangents in any number system.

    Parameters
    ----------
    layers : sequence of Layer
    convert : callable
        From exact entries (float64, or object array of ``Fraction``) to an array of the number system:
        ``as_float``, ``as_balls``, ``as_fractions``, ``as_rationals``.
    factors : sequence of str
        The factors that may change; the rest is held.

    Returns
    -------
    (parameters, dimension) array
        Linearly independent columns.
    """
    if not exceptional(layers) and tuple(factors) in (FACTORS, FACTORS[:2]):
        return _closed_form([layer.factors_in(convert) for layer in layers], factors)
    derivative = effective_derivative([layer.factors_in(as_rationals) for layer in layers], factors)
    return convert(from_rationals(null_space(derivative)))


def _closed_form(weights: Weights, factors: Sequence[str]) -> Array:
    """Write the two families with M running over the unit matrices."""
    sizes = [layer[0].shape[1] ** 2 for layer in weights]
    if "value" in factors:
        sizes += [layer[2].shape[1] ** 2 for layer in weights[:-1]]
    places = places_of(weights, factors)
    zero = weights[0][0].ravel()[:1] * 0
    tangents = np.repeat(zero, places[-1][factors[-1]].stop * sum(sizes)).reshape(-1, sum(sizes))

    def block(number: int, name: str) -> Array:
        shape = weights[number][FACTORS.index(name)].shape
        return tangents[places[number][name]].reshape(*shape, -1)

    column = 0
    for number, (query, key, _) in enumerate(weights):
        for i, j in product(range(query.shape[1]), repeat=2):
            block(number, "query")[:, j, column] = query[:, i]
            block(number, "key")[:, i, column] = -key[:, j]
            column += 1
    if "value" not in factors:
        return tangents
    for number, (_, _, value) in enumerate(weights[:-1]):
        for i, j in product(range(value.shape[1]), repeat=2):
            block(number, "value")[:, j, column] = value[:, i]
            for name, factor in zip(FACTORS, weights[number + 1], strict=True):
                block(number + 1, name)[i, :, column] = -factor[j]
            column += 1
    return tangents


def identifiable_dimension(layers: Sequence[Layer]) -> int:
    """Return the number of parameters that generic networks of these shapes determine.

    With inner widths all d it is sum_l (2 d r - r^2) + d d_L, r the smaller of rank and d. Otherwise it is
    the rank of the derivative of (factors) -> (B, V) at a random point modulo a prime.
    """
    width = layers[0].width
    if all(layer.width == width for layer in layers):
        ranks = [min(layer.rank, width) for layer in layers]
        return sum(2 * width * r - r * r for r in ranks) + width * layers[-1].output_width
    derivative = effective_derivative([layer.factors_in(_random_residues()) for layer in layers], FACTORS)
    rows, columns = derivative.shape
    return int(flint.nmod_mat(rows, columns, derivative.ravel().tolist(), _PRIME).rank())


def _random_residues() -> Callable[[Array], Array]:
    rng = np.random.default_rng(0)

    def draw(entries: Array) -> Array:
        return elementwise(
            lambda number: flint.nmod(int(number), _PRIME), rng.integers(_PRIME, size=entries.shape)
        )

    return draw


def gauge_dimension(layers: Sequence[Layer]) -> int:
    """Return the number of parameters of generic networks of these shapes that no output determines."""
    return parameter_count(layers, FACTORS) - identifiable_dimension(layers)
