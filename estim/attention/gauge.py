"""What the outputs can determine: effective parameters, and the changes of the factors that they never show.

Notation: d_l widths, P_l = V_1 ... V_(l-1). The outputs depend on the factors only through the effective
scores B_l = P_l Q_l K_l^T P_l^T, (d_0, d_0), and the combined value map V_1 ... V_L, (d_0, d_L).

Two families of changes leave these as they are, to first order in eps and with any square matrix M:

    Q_l -> Q_l (1 + eps M),  K_l -> K_l (1 - eps M^T)
    V_l -> V_l (1 + eps M),  F_(l+1) -> (1 - eps M) F_(l+1)  for F each of Q, K, V

with M as wide as the rank of layer l in the first family, and as layer l + 1 in the second.

They are all there are where every value but the last is square and invertible and every query and key has
full column rank: such parameters are called regular here. Elsewhere the exact null space of the derivative
of (factors) -> (B, V) takes their place.
"""

from collections.abc import Callable, Sequence
from itertools import product

import flint
import numpy as np

from estim.arithmetic import Array, as_rationals, elementwise, from_rationals
from estim.attention.effective import (
    Weights,
    echelon,
    effective,
    effective_derivative,
    null_space,
    rank,
    to_matrix,
)
from estim.attention.layer import FACTORS, Convert, Layer, parameter_count, places_of

# Largest prime below 2^61: a rank at a random point modulo it is the generic rank but for odds below 1e-14.
_PRIME = (1 << 61) - 1


def irregular(layers: Sequence[Layer]) -> list[str]:
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
    if not irregular(layers) and tuple(factors) in (FACTORS, FACTORS[:2]):
        return _closed_form([layer.factors_in(convert) for layer in layers], factors)
    derivative = effective_derivative([layer.factors_in(as_rationals) for layer in layers], factors)
    return convert(from_rationals(null_space(derivative)))


def orbit_tangents(layers: Sequence[Layer], convert: Convert) -> Array:
    """Return the tangents of the group that acts on factors without changing the function, (parameters, orbit).

    Unlike the null space that `tangents_in` takes for irregular parameters, each belongs to a whole curve of factors of
    the same function. Columns are linearly independent.
    """
    columns = _closed_form([layer.factors_in(as_rationals) for layer in layers], FACTORS)
    _, pivots = echelon(columns)
    return convert(from_rationals(columns[:, pivots]))


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
    draw = _random_residues()
    derivative = effective_derivative([layer.factors_in(draw) for layer in layers], FACTORS)
    rows, columns = derivative.shape
    return int(flint.nmod_mat(rows, columns, derivative.ravel().tolist(), _PRIME).rank())


def _random_residues() -> Callable[[Array], Array]:
    rng = np.random.default_rng(0)

    def draw(entries: Array) -> Array:
        return elementwise(lambda number: flint.nmod(int(number), _PRIME), rng.integers(_PRIME, size=entries.shape))

    return draw


def gauge_dimension(layers: Sequence[Layer]) -> int:
    """Return the number of parameters of generic networks of these shapes that no output determines."""
    return parameter_count(layers, FACTORS) - identifiable_dimension(layers)


def regauged(layers: Sequence[Layer], rng: np.random.Generator) -> list[Layer]:
    """Return other factors of the same function: a random, exact element of the gauge group acts on them."""
    weights = [list(layer.factors_in(as_rationals)) for layer in layers]
    for number, (query, key, value) in enumerate(weights):
        turn, back = _random_invertible(query.shape[1], rng)
        weights[number][:2] = query @ turn, key @ back.T
        if number < len(weights) - 1:
            turn, back = _random_invertible(value.shape[1], rng)
            weights[number][2] = value @ turn
            weights[number + 1] = [back @ factor for factor in weights[number + 1]]
    return [Layer(*(from_rationals(factor) for factor in layer)) for layer in weights]


def _random_invertible(size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a random rational matrix and its inverse.

    Triangular factors with unit diagonals times a power of two: every inverse exists and stays a small
    number.
    """
    lower, upper = (np.tril(rng.integers(-1, 2, (size, size)), -1) + np.eye(size, dtype=int) for _ in range(2))
    matrix = as_rationals(lower.astype(float)) @ as_rationals(upper.T * 2.0 ** rng.integers(-1, 2))
    inverse = np.array(to_matrix(matrix).inv().tolist(), dtype=object).reshape(size, size)
    return matrix, inverse


def canonical(layers: Sequence[Layer], *, even: bool) -> list[Layer]:
    """Return the one exact representative of all factors with the same effective parameters.

    Each B_l = Q K^T with K^T in reduced row echelon form and Q the pivot columns of B_l, which is unique;
    all values are identities but the last, the combined value map. For an even normalizer each B_l takes
    the sign that makes its first entry other than zero positive.
    """
    scores, value_map = effective([layer.factors_in(as_rationals) for layer in layers])
    identity = np.eye(len(value_map))
    representative = []
    for number, score in enumerate(scores):
        query, key = _echelon_factors(_positive_first(score) if even else score)
        value = from_rationals(value_map) if number == len(scores) - 1 else identity
        representative.append(Layer(query, key, value))
    return representative


def _positive_first(score: Array) -> Array:
    first = next((entry for entry in score.flat if entry != 0), 1)
    return score if first > 0 else -score


def _echelon_factors(score: Array) -> tuple[Array, Array]:
    rows, pivots = echelon(score)
    if not pivots:
        # The zero matrix: a layer has at least one column.
        return np.zeros((len(score), 1)), np.zeros((len(score), 1))
    return from_rationals(score[:, pivots]), from_rationals(rows.T)
