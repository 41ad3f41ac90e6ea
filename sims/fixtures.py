"""Declared fixtures: networks and banks with small exact entries, ours, made to match what the note describes.

The note (arXiv:2610.09620) gives shapes, not entries. Where its figures and ours belong to the same quantity, the study
that uses the fixture prints both.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from estim.attention import Layer, Network

Exact = NDArray[np.object_]


def matrix_network() -> Network:
    """Return the matrix fixture: width 4, depth 3, query/key rank 2, softmax; 96 parameters."""
    rng = np.random.default_rng(20261009)
    layers = [Layer(_tenths(rng, (4, 2)), _tenths(rng, (4, 2)), _near_identity(rng, 4)) for _ in range(3)]
    return Network(layers)


def matrix_bank(inputs: int = 48) -> Exact:
    """Return the bank of the matrix fixture, (inputs, 4 tokens, 4 channels); 768 readings for 48 inputs."""
    return _tenths(np.random.default_rng(20261010), (inputs, 4, 4))


def scalar_chain(depth: int, scale: object, *, last: object | None = None) -> Network:
    """Return a softmax chain of width one: values 1, query = key = scale, in the last layer `last` if given."""
    scales = [scale] * (depth - 1) + [scale if last is None else last]
    return Network([Layer([[s]], [[s]], [[1]]) for s in scales])


def chain_bank() -> Exact:
    """Return the bank of the depth-four contact orders: token pairs (0, 1/2), (0, 1), (0, 3/2), (0, 2)."""
    return np.array([[[Fraction(0)], [Fraction(k, 2)]] for k in range(1, 5)], dtype=object)


def recovery_bank() -> Exact:
    """Return the bank of the one-unknown recovery: one input, tokens (0, 2)."""
    return np.array([[[Fraction(0)], [Fraction(2)]]], dtype=object)


def _tenths(rng: np.random.Generator, shape: tuple[int, ...]) -> Exact:
    return _exact(rng.integers(-10, 11, shape), 10)


def _near_identity(rng: np.random.Generator, size: int) -> Exact:
    """Return a value map whose singular values stay near one, so that depth alone makes readings weak."""
    return _exact(10 * np.eye(size, dtype=int) + rng.integers(-3, 4, (size, size)), 10)


def _exact(numerators: NDArray[np.int64], denominator: int) -> Exact:
    entries = np.empty(numerators.shape, dtype=object)
    for index, numerator in np.ndenumerate(numerators):
        entries[index] = Fraction(int(numerator), denominator)
    return entries
