"""Gauges and effective parameters: dimensions, tangents, canonical forms, exceptional cases."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from estim.arithmetic import as_rationals, midpoints
from estim.attention import Layer, Network
from estim.attention.effective import effective_derivative, null_space, rank
from estim.attention.gauge import tangents_in
from estim.attention.jacobian import ball_jacobian
from estim.attention.layer import FACTORS
from estim.precision import ball_digits
from tests.attention.cases import close, eighths, network, networks


def derivative(made, factors=FACTORS):
    return effective_derivative([layer.factors_in(as_rationals) for layer in made.layers], factors)


@pytest.mark.parametrize(("width", "inner", "right"), [(2, 1, 3), (3, 1, 5), (2, 2, 4), (3, 2, 8), (4, 2, 12)])
def test_rank_of_the_score_map(width, inner, right):
    """C6: the rank of d(W_Q W_K^T) is 2 d k - k^2, and 0 where both are zero."""
    made = network(np.random.default_rng(20261121), (width, 1), (inner,))
    assert rank(derivative(made, ("query", "key"))) == right == 2 * width * inner - inner**2
    zero = np.zeros((width, inner))
    assert rank(derivative(Network([Layer(zero, zero, np.ones((width, 1)))]), ("query", "key"))) == 0


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 1000), Fraction(1, 10**30)])
def test_singular_values_of_the_score_map_at_every_scale(scale):
    """C6: W_Q = e (1, 2), W_K = e (3, 1): e (sqrt 15, sqrt 10, sqrt 5, 0)."""
    made = Network([Layer([[scale], [2 * scale]], [[3 * scale], [scale]], [[1], [1]])])
    rows = derivative(made, ("query", "key"))[:4]
    gram = (rows.T @ rows) / as_rationals(np.array([scale**2], dtype=object))
    values = np.linalg.eigvalsh(np.array([[float(x.p) / float(x.q) for x in row] for row in gram]))
    assert values == pytest.approx([0, 5, 10, 15], abs=1e-13)
    assert null_space(rows).shape == (4, 1)


SHAPES = [
    ((4, 4, 4, 4), (2, 2, 2)),
    ((3, 3), (5,)),
    ((2, 2, 2, 1), (1, 4, 2)),
    ((3, 5, 2, 4), (2, 2, 2)),
    ((2, 3, 3), (4, 1)),
    ((5, 2, 4), (2, 3)),
    ((1, 1, 1), (1, 1)),
]


@pytest.mark.parametrize(("widths", "ranks"), SHAPES)
def test_dimensions_and_tangents_are_those_of_the_exact_derivative(widths, ranks):
    made = network(np.random.default_rng(20261122), widths, ranks)
    exact = derivative(made)
    assert made.identifiable_dimension == rank(exact)
    assert made.gauge_dimension == made.parameters.size - rank(exact)
    tangents = tangents_in(made.layers, as_rationals)
    assert tangents.shape == (made.parameters.size, made.gauge_dimension)
    assert rank(tangents) == made.gauge_dimension
    assert not (exact @ tangents != 0).any()


def test_the_closed_dimensions_are_the_generic_ones():
    for width, inner, depth in ((4, 2, 3), (3, 1, 2), (2, 5, 2)):
        made = network(np.random.default_rng(3), (width,) * (depth + 1), (inner,) * depth)
        r = min(inner, width)
        assert made.identifiable_dimension == depth * (2 * width * r - r * r) + width**2
        if inner <= width:
            assert made.gauge_dimension == depth * inner**2 + (depth - 1) * width**2


@pytest.mark.parametrize("factors", [("query", "key"), ("value",), ("query", "value"), ("query",)])
def test_tangents_of_chosen_factors_are_the_null_space_of_theirs(factors):
    made = network(np.random.default_rng(20261123), (3, 3, 3), (2, 1))
    tangents = made.gauge_tangents(factors=factors, exact=True)
    assert tangents.shape[1] == tangents.shape[0] - rank(derivative(made, factors))
    if tangents.size:
        assert not (derivative(made, factors) @ as_rationals(tangents) != 0).any()


@given(networks())
@settings(max_examples=40, deadline=None)
def test_gauges_share_effective_parameters_and_the_canonical_form(case):
    made, _, rng = case
    other = made.regauged(rng=rng)
    one, two = made.effective(exact=True), other.effective(exact=True)
    assert (one.scores == two.scores).all()
    assert (one.value_map == two.value_map).all()
    assert made.canonical() == other.canonical()
    assert made.canonical().canonical() == made.canonical()
    again = made.canonical().effective(exact=True)
    assert (again.value_map == one.value_map).all()
    same = (again.scores == one.scores).all(axis=(1, 2)) | (
        made.normalizer.even & (again.scores == -one.scores).all(axis=(1, 2))
    )
    assert same.all()


def test_the_sign_of_the_scores_is_a_gauge_of_even_normalizers_only():
    layer = Layer([[1], [2]], [["0.5"], [-1]], [[1], [3]])
    turned = Layer(-layer.query, layer.key, layer.value)
    bank = [[[1, 2], [0, -1], [3, 1]]]
    for name in ("cosh", "quadratic"):
        assert close(Network([layer], name)(bank), Network([turned], name)(bank))
        assert Network([layer], name).canonical() == Network([turned], name).canonical()
    assert Network([layer]).canonical() != Network([turned]).canonical()
    assert not close(Network([layer])(bank), Network([turned])(bank))


def test_effective_parameters_by_hand():
    found = Network([Layer([[1]], [[2]], [[3]]), Layer([[5]], [[7]], [["0.5"]])]).effective(exact=True)
    assert found.scores.ravel().tolist() == [2, 3 * 35 * 3]
    assert found.value_map.tolist() == [[Fraction(3, 2)]]


class TestExceptional:
    """Parameters that are not generic are named, and nothing divides by zero on them."""

    def check(self, made, bank, *names):
        found = made.exceptional(bank)
        for name in names:
            assert any(name in sentence for sentence in found), (name, found)
        tangents = tangents_in(made.layers, as_rationals)
        assert tangents.shape[1] >= made.gauge_dimension
        with ball_digits(30):
            moved = ball_jacobian(made.layers, bank, made.normalizer, 30) @ tangents
        assert max(abs(entry) for entry in midpoints(moved).flat) < 1e-25
        assert np.isfinite(made.jacobian(bank)).all()
        assert made.canonical() == made.regauged(rng=1).canonical()

    def test_a_zero_factor(self):
        rng = np.random.default_rng(20261124)
        first = Layer(np.zeros((2, 1)), eighths(rng, (2, 1)), eighths(rng, (2, 2)))
        made = Network([first, *network(rng, (2, 2), (1,)).layers])
        bank = eighths(rng, (3, 3, 2))
        self.check(made, bank, "layer 0: query of rank 0", "layer 0: effective scores are zero")
        # Equal scores: every output token is the mean of the inputs through the value map.
        mean = bank.astype(float).mean(axis=1) @ made.effective().value_map
        assert close(made(bank), np.repeat(mean[:, None], 3, axis=1))

    def test_a_singular_value(self):
        rng = np.random.default_rng(20261125)
        first = Layer(eighths(rng, (2, 1)), eighths(rng, (2, 1)), [[1, 2], [2, 4]])
        made = Network([first, *network(rng, (2, 2), (1,)).layers])
        self.check(made, eighths(rng, (3, 3, 2)), "layer 0: value singular, rank 1 of 2")

    def test_a_zero_value_map(self):
        rng = np.random.default_rng(20261126)
        made = Network([Layer(eighths(rng, (2, 1)), eighths(rng, (2, 1)), np.zeros((2, 2)))])
        self.check(made, eighths(rng, (3, 3, 2)), "the combined value map is zero")
        assert not made(eighths(rng, (3, 3, 2))).any()

    def test_equal_tokens(self):
        made = network(np.random.default_rng(20261127), (2, 2), (1,))
        bank = [[[1, 2], [3, 4]], [[1, 2], [1, 2]], [[5, 6]]]
        self.check(made, bank, "input 1: all tokens equal", "input 2: all tokens equal")
        assert not made.jacobian(bank[1:], factors=("query", "key")).any()

    def test_a_normalizer_without_slope_at_zero(self):
        made = network(np.random.default_rng(20261128), (2, 2), (1,), "cosh")
        self.check(made, [[[1, 2], [3, 4]]], "normalizer 'cosh' has zero slope at zero")

    def test_a_generic_network_is_not_named(self):
        assert network(np.random.default_rng(20261129), (3, 3, 3), (2, 2)).exceptional() == ()
