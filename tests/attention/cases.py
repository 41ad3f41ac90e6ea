"""Networks and banks for the tests of the attention family, and the tolerances they are held to."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from estim.attention import Layer, Network

NAMES = ("softmax", "sigmoid", "softplus", "quadratic", "cosh")

#: Float64 readings and derivatives of the networks here, relative to the largest: some hundred roundings.
FLOAT_RTOL = 2e-14
#: Central differences with 50 digits and a step of 1e-16: the third derivative times 1e-32, and 1e-50 over the step.
DIFFERENCE_RTOL = 1e-29


def eighths(rng, shape, largest=8):
    """Return random exact rationals, whose float64 view is exact too."""
    numbers = rng.integers(-largest, largest + 1, shape)
    exact = np.empty(shape, dtype=object)
    for index, value in np.ndenumerate(numbers):
        exact[index] = Fraction(int(value), 8)
    return exact


def network(rng, widths, ranks, normalizer="softmax"):
    """Return a network of these widths with random exact factors."""
    shapes = zip(widths[:-1], widths[1:], ranks, strict=True)
    return Network(
        [Layer(eighths(rng, (a, r)), eighths(rng, (a, r)), eighths(rng, (a, b))) for a, b, r in shapes], normalizer
    )


def close(found, right, rtol=FLOAT_RTOL):
    """Whether two arrays agree relative to the largest entry of the second, or to one, the size of the inputs."""
    found, right = np.asarray(found, dtype=float), np.asarray(right, dtype=float)
    return found.shape == right.shape and np.abs(found - right).max() <= rtol * max(np.abs(right).max(), 1.0)


@st.composite
def networks(draw, names=NAMES, square=False):
    """Draw a network, its bank of two inputs, and a seed: ranks go above the width, widths change."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    depth = draw(st.integers(1, 3))
    sizes = st.integers(1, 3)
    widths = [draw(sizes)] * (depth + 1) if square else draw(st.lists(sizes, min_size=depth + 1, max_size=depth + 1))
    ranks = draw(st.lists(st.integers(1, 4), min_size=depth, max_size=depth))
    made = network(rng, widths, ranks, draw(st.sampled_from(names)))
    return made, eighths(rng, (2, draw(st.integers(1, 4)), widths[0])), rng
