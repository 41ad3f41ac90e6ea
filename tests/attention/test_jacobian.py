"""Derivatives: against differences in 50 digits, complex steps, each other, and closed forms."""

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings

from estim.arithmetic import as_balls, as_rationals
from estim.attention import Layer, Network, formula
from estim.attention.effective import rank
from estim.attention.gauge import tangents_in
from estim.attention.jacobian import ball_jacobian, jacobian_in
from estim.attention.layer import FACTORS, unflatten
from estim.attention.named_normalizers import NORMALIZERS
from estim.attention.normalizers import power_series
from estim.precision import ball_digits, series_terms
from sims.fixtures import matrix_bank, matrix_network
from tests.attention import reference
from tests.attention.cases import DIFFERENCE_RTOL, NAMES, close, eighths, network, networks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("widths", "ranks"), [((2, 2), (3,)), ((3, 2, 1), (1, 2)), ((2, 3, 2, 2), (2, 1, 3))])
def test_against_central_differences_in_50_digits(name, widths, ranks):
    rng = np.random.default_rng(20261111)
    made, bank = network(rng, widths, ranks, name), eighths(rng, (2, 3, widths[0]))
    exact, floats = made.jacobian(bank, digits=60), made.jacobian(bank)
    for _ in range(2):
        direction = rng.integers(-4, 5, floats.shape[1]).tolist()
        with mpmath.workdps(50):
            right = reference.central_difference(made, bank, direction, mpmath.mpf(10) ** -16)
            found = [sum(d * entry for d, entry in zip(direction, row, strict=True)) for row in exact]
            largest = max(abs(entry) for entry in right)
            error = max(abs(one - other) for one, other in zip(found, right, strict=True))
            assert error < DIFFERENCE_RTOL * largest
        assert close(floats @ direction, right, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_against_complex_steps(name):
    rng = np.random.default_rng(20261112)
    made, bank = network(rng, (3, 2, 3), (2, 4), name), eighths(rng, (3, 4, 3)).astype(float)
    floats = made.jacobian(bank)
    for _ in range(3):
        direction = rng.normal(size=floats.shape[1])
        moves = unflatten(made.layers, direction, FACTORS)
        # A step of 1e-200 leaves no error of its own: the derivative is the imaginary part, to rounding.
        weights = [
            tuple(factor + 1e-200j * move for factor, move in zip(layer.float64, moved, strict=True))
            for layer, moved in zip(made.layers, moves, strict=True)
        ]
        moved = formula.forward(weights, bank.astype(complex), made.normalizer).imag.ravel() / 1e-200
        assert close(floats @ direction, moved, rtol=1e-13)


@pytest.mark.parametrize("tokens", [(3, 3, 3, 3), (2, 3, 2, 3)])
def test_blocks_of_any_size_give_the_jacobian(monkeypatch, tokens):
    rng = np.random.default_rng(20261130)
    made = network(rng, (3, 2, 3), (2, 4), "softmax")
    bank = [eighths(rng, (count, 3)) for count in tokens]
    whole = made.jacobian(bank)
    for chunk in (1, 100, 500):
        monkeypatch.setattr("estim.attention.jacobian._CHUNK", chunk)
        np.testing.assert_allclose(made.jacobian(bank), whole, rtol=1e-13, atol=1e-15)


@given(networks())
@settings(max_examples=60, deadline=None)
def test_forward_and_reverse_products_are_the_jacobian(case):
    made, bank, rng = case
    jacobian = made.jacobian(bank)
    tangent, cotangent = rng.normal(size=jacobian.shape[1]), rng.normal(size=jacobian.shape[0])
    scale = max(np.abs(jacobian).max(), 1.0)
    assert np.abs(made.jvp(bank, tangent) - jacobian @ tangent).max() <= 1e-12 * scale
    assert np.abs(made.vjp(bank, cotangent) - cotangent @ jacobian).max() <= 1e-12 * scale


@given(networks())
@settings(max_examples=60, deadline=None)
def test_rank_is_at_most_the_identifiable_dimension(case):
    made, bank, _ = case
    values = np.linalg.svd(made.jacobian(bank), compute_uv=False)
    assert (values[made.identifiable_dimension :] <= 1e-12 * max(values[0], 1.0)).all()


@given(networks(names=["quadratic"]))
@settings(max_examples=15, deadline=None)
def test_exact_rank_is_at_most_the_identifiable_dimension(case):
    made, bank, _ = case
    exact = jacobian_in(made.layers, bank[:1, :2], as_rationals, made.normalizer)
    assert rank(exact) <= made.identifiable_dimension
    # And no gauge moves a reading, exactly.
    assert not (exact @ tangents_in(made.layers, as_rationals) != 0).any()


@pytest.mark.parametrize("factors", [("query",), ("key", "query"), ("value",), ("query", "value"), "key"])
def test_chosen_factors_are_columns_of_the_whole(factors):
    rng = np.random.default_rng(20261113)
    made, bank = network(rng, (2, 3, 2), (1, 2)), eighths(rng, (2, 3, 2))
    kept, start = [], 0
    for layer in made.layers:
        for name in FACTORS:
            size = getattr(layer, name).size
            kept += list(range(start, start + size)) if name in factors else []
            start += size
    part, whole = made.jacobian(bank, factors=factors), made.jacobian(bank)
    assert close(part, whole[:, kept])
    assert close(made.vjp(bank, np.arange(12.0), factors=factors), np.arange(12.0) @ part)
    assert close(made.jvp(bank, np.arange(float(len(kept))), factors=factors), part @ np.arange(len(kept)))


def test_a_ragged_bank_keeps_the_order_of_its_readings():
    rng = np.random.default_rng(20261114)
    made = network(rng, (2, 3), (2,))
    bank = [eighths(rng, (tokens, 2)) for tokens in (3, 1, 3, 2)]
    right = np.concatenate([made.jacobian([item]) for item in bank])
    assert close(made.jacobian(bank), right)
    assert close(made.jacobian(bank, digits=30).astype(float), right)
    cotangent = rng.normal(size=len(right))
    assert close(made.vjp(bank, cotangent), cotangent @ right)
    assert close(made.jvp(bank, made.parameters), right @ made.parameters)


def test_blocks_of_readings_and_inputs_make_the_same_jacobian(monkeypatch):
    rng = np.random.default_rng(20261115)
    made, bank = network(rng, (3, 2), (2,)), eighths(rng, (5, 4, 3))
    whole = made.jacobian(bank)
    for size in (1, 60, 200):
        monkeypatch.setattr("estim.attention.jacobian._CHUNK", size)
        assert close(made.jacobian(bank), whole)


def test_every_number_system_gives_the_same_derivatives():
    rng = np.random.default_rng(20261116)
    made, bank = network(rng, (2, 3, 2), (2, 1), "quadratic"), eighths(rng, (2, 3, 2))
    exact = jacobian_in(made.layers, bank, as_rationals, made.normalizer)
    balls = ball_jacobian(made.layers, bank, made.normalizer, 40)
    with ball_digits(60):
        assert all((ball - flint.arb(right)).contains(0) for ball, right in zip(balls.flat, exact.flat, strict=True))
    prime = (1 << 61) - 1
    context = flint.fmpz_mod_ctx(prime)

    def residue(entries):
        return np.frompyfunc(lambda x: context(x.numerator) / context(x.denominator), 1, 1)(entries)

    residues = jacobian_in(made.layers, bank, residue, made.normalizer)
    assert all(r == context(int(x.p)) / context(int(x.q)) for r, x in zip(residues.flat, exact.flat, strict=True))


def test_a_series_in_the_scale_sums_to_the_derivatives_at_a_scale():
    rng = np.random.default_rng(20261117)
    made, bank = network(rng, (2, 2, 2), (1, 2)), eighths(rng, (1, 2, 2))
    scale = 1 / 64

    def constant(entries):
        return np.frompyfunc(lambda x: flint.fmpq_series([flint.fmpq(*x.as_integer_ratio())], prec=24), 1, 1)(entries)

    with series_terms(24):
        s = flint.fmpq_series([0, 1], prec=24)
        arguments = made.layers, bank, constant
        series = jacobian_in(*arguments, made.normalizer, scale=s)
        taylor = jacobian_in(*arguments, power_series(NORMALIZERS["softmax"], 24), scale=s)
    assert all(str(one) == str(other) for one, other in zip(series.flat, taylor.flat, strict=True))
    sums = [sum(float(c.p) / float(c.q) * scale**k for k, c in enumerate(entry.coeffs())) for entry in series.flat]
    assert close(sums, made.scaled(scale).jacobian(bank).ravel())


def test_softmax_of_width_one_in_closed_form():
    """C7: singular values 0.1154701 (order 0), 1.3340507 e (order 1) and an exact null."""
    for scale in ("1e-3", "1e-6"):
        e = float(scale)
        made = Network([Layer([["1.1"]], [["0.6"]], [["0.9"]])]).scaled(scale)
        bank = [[["0.7"], ["-1.3"], ["0.4"]]]
        values = np.linalg.svd(made.jacobian(bank), compute_uv=False)
        assert values[0] == pytest.approx(0.1154701, abs=2e-7)
        assert values[1] == pytest.approx(1.3340507 * e, rel=3 * e + 1e-7)
        tangents = made.gauge_tangents(exact=True)
        assert tangents.ravel().tolist() == [made.layers[0].query[0, 0], -made.layers[0].key[0, 0], 0]
        with ball_digits(60):
            product = jacobian_in(made.layers, bank, as_balls, made.normalizer) @ as_balls(tangents)
        assert all(ball.contains(0) and ball.rad() < 1e-55 for ball in product.flat)


def test_digits_are_what_they_say():
    made, bank = matrix_network().scaled("0.06"), matrix_bank(2)
    coarse, fine = made.jacobian(bank, digits=20), made.jacobian(bank, digits=60)
    assert max(abs(entry) for entry in (coarse - fine).flat) <= 1e-20 * max(abs(entry) for entry in fine.flat)
    # All derivatives far below one: the digits are relative to the largest.
    weak = Network([Layer([["1e-40"]], [["1e-40"]], [["1e-40"]])])
    found = weak.jacobian([[[1], [2]]], digits=30, factors=("query",))
    with mpmath.workdps(50):
        right = mpmath.mpf("1e-80") / 4
        assert abs(found[0, 0] - right) < right * mpmath.mpf(10) ** -29


class TestMatrixFixture:
    """4 tokens, width 4, depth 3, rank 2, 48 inputs. The note reports 768 x 96, rank 52, and rank 40 in float64."""

    def test_shape_and_dimensions(self):
        made = matrix_network()
        assert made.jacobian(matrix_bank()).shape == (768, 96)
        assert (made.identifiable_dimension, made.gauge_dimension) == (52, 44)
        assert made.gauge_tangents().shape == (96, 44)
        assert made.exceptional(matrix_bank()) == ()

    def test_float64_rank_at_moderate_and_small_scale(self):
        made, bank = matrix_network(), matrix_bank()
        values = np.linalg.svd(made.jacobian(bank), compute_uv=False)
        assert (values > 1e-10 * values[0]).sum() == 52
        values = np.linalg.svd(made.scaled("0.06").jacobian(bank), compute_uv=False)
        assert (values > 1e-10 * values[0]).sum() == 40

    def test_gauges_move_no_reading(self):
        made, bank = matrix_network(), matrix_bank()
        jacobian, tangents = made.jacobian(bank), made.gauge_tangents()
        assert np.linalg.matrix_rank(tangents) == 44
        assert np.abs(jacobian @ tangents).max() < 1e-13 * np.abs(jacobian).max()
        with ball_digits(120):
            balls = jacobian_in(made.layers, bank[:4], as_balls, made.normalizer)
            product = formula.matmul(balls, tangents_in(made.layers, as_balls))
        assert all(ball.contains(0) and ball.rad() < flint.arb(10) ** -115 for ball in product.flat)

    def test_gauges_move_no_reading_exactly(self):
        made, bank = Network(matrix_network().layers, "quadratic"), matrix_bank(1)
        exact = jacobian_in(made.layers, bank, as_rationals, made.normalizer)
        assert not (formula.matmul(exact, tangents_in(made.layers, as_rationals)) != 0).any()


def test_one_reading_is_one_row():
    """C19: one input, one reading, three parameters."""
    made = Network([Layer([[1]], [[2]], [[3]])])
    assert made.jacobian([[[5]]]).tolist() == [[0, 0, 5]]
    assert made.jacobian([[[5]]], digits=20).tolist() == [[0, 0, 5]]


def test_vectors_that_do_not_fit_are_refused_by_name():
    made = Network([Layer([[1]], [[1]], [[1]])])
    with pytest.raises(ValueError, match=r"`tangent` must have one entry for each parameter, 3; got 2"):
        made.jvp([[[1]]], [1, 2])
    with pytest.raises(ValueError, match=r"`cotangent` must have one entry for each reading, 2; got 1"):
        made.vjp([[[1], [2]]], [1])
    with pytest.raises(ValueError, match=r"`factors` must be one or more of query, key, value, each once; got \(\)"):
        made.jacobian([[[1]]], factors=())
