"""The forward map: against mpmath, in every number system, and on banks of every shape."""

import copy
import pickle
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings

from estim.arithmetic import as_rationals
from estim.attention import Layer, Network, Normalizer, formula
from tests.attention import reference
from tests.attention.cases import NAMES, close, eighths, network, networks


@pytest.mark.parametrize("name", NAMES)
def test_readings_agree_with_the_plain_mpmath_twin(name):
    rng = np.random.default_rng(20261101)
    made, bank = network(rng, (3, 2, 4), (2, 3), name), eighths(rng, (3, 4, 3))
    with mpmath.workdps(80):
        right = reference.bank_readings(made, reference.factors(made), bank)
        balls = made(bank, digits=60).ravel()
        assert max(abs(one - other) for one, other in zip(balls, right, strict=True)) < mpmath.mpf(10) ** -58
    assert close(made(bank).ravel(), right)


@given(networks())
@settings(max_examples=60, deadline=None)
def test_permuted_tokens_come_out_permuted(case):
    made, bank, rng = case
    order = rng.permutation(bank.shape[1])
    assert close(made(bank[:, order]), made(bank)[:, order])


@given(networks())
@settings(max_examples=40, deadline=None)
def test_a_gauge_changes_no_reading(case):
    made, bank, rng = case
    other = made.regauged(rng=rng)
    # Both are enclosed in 40 digits, so the tolerance does not depend on how large the other factors became.
    difference = (made(bank, digits=40) - other(bank, digits=40)).ravel()
    assert max(abs(entry) for entry in difference) < 1e-30


def test_gauges_are_exact_in_exact_arithmetic():
    rng = np.random.default_rng(20261102)
    made, bank = network(rng, (2, 3, 2), (1, 3), "quadratic"), eighths(rng, (2, 3, 2))
    outputs = [
        formula.forward([layer.factors_in(as_rationals) for layer in one.layers], as_rationals(bank), one.normalizer)
        for one in (made, made.regauged(rng=1), Network(made.effective(exact=True).layers(), "quadratic"))
    ]
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] == outputs[2]).all()


def test_the_effective_form_is_the_same_function():
    rng = np.random.default_rng(20261103)
    made, bank = network(rng, (3, 2, 4), (2, 3)), eighths(rng, (3, 4, 3))
    assert close(Network(made.effective().layers())(bank), made(bank))
    assert close(made.canonical()(bank), made(bank))


def test_a_ragged_bank_is_read_input_by_input():
    rng = np.random.default_rng(20261104)
    made = network(rng, (2, 3), (2,))
    bank = [eighths(rng, (tokens, 2)) for tokens in (3, 1, 3, 2)]
    outputs = made(bank)
    assert [output.shape for output in outputs] == [(3, 3), (1, 3), (3, 3), (2, 3)]
    for item, output in zip(bank, outputs, strict=True):
        assert close(output, made([item])[0])
    assert isinstance(made(bank[:1] + bank[2:3]), np.ndarray)
    assert [len(output) for output in made(bank, digits=20)] == [3, 1, 3, 2]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores_of_a_row_stay_finite(name, size):
    made = Network([Layer([[1.0]], [[size]], [[1.0]])], name)
    bank = [[[1.0], [0.5], [0.25]]]
    # log(1 + exp(-1e4)) is 1e-4343.
    with mpmath.workdps(4400):
        right = reference.bank_readings(made, reference.factors(made), np.array(bank))
    # A score of 1e4 carries a rounding of 1e-12 into its exponential.
    assert close(made(bank).ravel(), right, rtol=1e-11)
    assert np.isfinite(made.jacobian(bank)).all()


def test_mixed_entries_keep_their_exact_values():
    layer = Layer([["0.1", 0.1]], [[1, Fraction(1, 3)]], [[2]])
    assert layer.query.tolist() == [[Fraction(1, 10), Fraction(0.1)]]
    assert layer.float64[1].tolist() == [[1.0, 1 / 3]]
    assert Layer([[0.1]], [[1.0]], [[1.0]]).query.dtype == np.float64
    assert Network([layer]).scaled("0.1").layers[0].query[0, 0] == Fraction(1, 100)
    assert Network([layer]).scaled(0.1).layers[0].query[0, 0] == Fraction(1, 10) * Fraction(0.1)


def test_arrays_in_any_layout_and_read_only_give_the_same(read_only):
    rng = np.random.default_rng(20261105)
    made, bank = network(rng, (3, 2), (2,)), rng.normal(size=(4, 5, 3))
    right = made(bank)
    assert (made(read_only(bank)) == right).all()
    assert (made(np.asfortranarray(bank)) == right).all()
    assert (made(bank[::-1])[::-1] == right).all()
    assert (made(bank.tolist()) == right).all()
    assert (made(list(bank)) == right).all()
    factors = [read_only(factor) for factor in made.layers[0].float64]
    assert (Network([Layer(*factors)])(bank) == right).all()


def test_networks_copy_pickle_and_compare_by_their_exact_entries():
    made = network(np.random.default_rng(1), (2, 2), (2,))
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other == made
        assert hash(other) == hash(made)
    assert made != made.scaled(2)
    assert made != "a network"
    assert Network([Layer([["0.5"]], [[1]], [[1]])]) == Network([Layer([[0.5]], [[1.0]], [[1.0]])])
    assert repr(made) == "Network(widths=[2, 2], ranks=[2], normalizer='softmax')"


def test_digits_hold_whatever_the_scores_cost():
    # Scores of 1e30 take thirty digits more: the largest token wins, and all others vanish.
    steep = Layer([["1e15"]], [["1e15"]], [[1]])
    assert [float(y) for y in Network([steep])([[[1], ["1.1"], ["-2"]]], digits=15).flat] == [1.1, 1.1, -2.0]


def test_precision_is_restored_also_after_an_error():
    def broken(score):
        raise RuntimeError("no value")

    made = Network([Layer([[1]], [[1]], [[1]])], Normalizer(np.exp, np.exp, high_precision=broken))
    before = flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec
    with pytest.raises(RuntimeError, match="no value"):
        made([[[1], [2]]], digits=200)
    with pytest.raises(RuntimeError, match="no value"):
        made.mean_response([[[1], [2]]], upper=1)
    Network([Layer([[1]], [[1]], [[1]])]).jacobian([[[1], [2]]], digits=200)
    assert (flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec) == before


def test_what_float64_does_not_hold_is_refused_and_digits_hold_it():
    beyond = Network([Layer([["1e400"]], [["1e-400"]], [[1]])])
    bank = [[[1], [2]]]
    for call in (lambda: beyond(bank), lambda: beyond.jacobian(bank), lambda: beyond.parameters):
        with pytest.raises(OverflowError, match=r"an entry lies beyond float64, .*; give `digits`"):
            call()
    assert mpmath.almosteq(beyond(bank, digits=20)[0, 0, 0], (1 + 2 * mpmath.e) / (1 + mpmath.e), 1e-15)
    flat = Layer([[0.0]], [[1.0]], [[1.0]])
    large = Network([flat, Layer([[0.0]], [[1.0]], [[1e200]])])
    bank = [[[1e200], [1.0]]]
    calls = (
        large,
        large.jacobian,
        Network([flat, Layer([[0.0]], [[1e100]], [[1e100]])]).jacobian,
        lambda bank: large.vjp(bank, [0, 1]),
        lambda bank: Network([flat]).jvp(bank, [0, 0, 1e200]),
    )
    for call in calls:
        with pytest.raises(OverflowError, match=r"float64 does not hold the numbers of this network on this bank"):
            call(bank)
    with pytest.raises(ValueError, match=r"sums to nan on a row of scores: input 0, token 0, layer 0; lower"):
        Network([Layer([[1.0]], [[1.0]], [[1.0]])])(bank)


def test_bad_networks_and_banks_are_refused_by_name():
    one = Layer([[1]], [[1]], [[1]])
    wide = Layer(np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`query` and `key` must have one shape .* \(1, 1\) and \(1, 2\)"):
        Layer([[1]], [[1, 2]], [[1]])
    with pytest.raises(ValueError, match=r"`value` must have as many rows as `query`.* \(2, 1\) and \(1, 1\)"):
        Layer([[1]], [[1]], [[1], [2]])
    with pytest.raises(ValueError, match=r"`query` must have 2 axes; got shape \(1,\)"):
        Layer([1], [[1]], [[1]])
    with pytest.raises(ValueError, match=r"`layers` must hold at least one Layer; got none"):
        Network([])
    with pytest.raises(TypeError, match=r"`layers\[1\]` must be a Layer; got 3"):
        Network([one, 3])
    with pytest.raises(ValueError, match=r"`layers\[1\]` must have the width 1 that layer 0 puts out; got width 2"):
        Network([one, wide])
    with pytest.raises(ValueError, match=r"`normalizer` must be one of softmax, .* or a Normalizer; got 'relu'"):
        Network([one], "relu")
    made = Network([one])
    with pytest.raises(ValueError, match=r"`bank` must have width 1, that of the first layer; got .* \(3, 2\)"):
        made(np.ones((1, 3, 2)))
    with pytest.raises(ValueError, match=r"`bank` must have 3 axes; got shape \(3, 1\)"):
        made(np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"`bank\[0\]` must have 2 axes; got shape \(1,\)"):
        made([[1], [2]])
    with pytest.raises(ValueError, match=r"`bank` must hold at least one input; got none"):
        made([])
    with pytest.raises(ValueError, match=r"`bank` must have inputs of one width; got widths \[1, 2\]"):
        made([[[1]], [[1, 2]]])
    with pytest.raises(TypeError, match=r"`bank` must be an array .* got 3"):
        made(3)
    with pytest.raises(ValueError, match=r"`bank` must be finite; got nan at index \(0, 1, 0\)"):
        made(np.array([[[1.0], [np.nan]]]))
    with pytest.raises(ValueError, match=r"`digits` must be a positive integer; got 0"):
        made([[[1]]], digits=0)
    for method in (made, made.jacobian):
        with pytest.raises(ValueError, match=r"`digits` must be at most 10000; got 1000000000"):
            method([[[1]]], digits=10**9)
    for digits in (True, 1.5, "x", -3):
        with pytest.raises(ValueError, match=rf"`digits` must be a positive integer; got {digits!r}"):
            made.jacobian([[[1]]], digits=digits)
    for factors in (None, 5, ("key", "key")):
        with pytest.raises(ValueError, match=r"`factors` must be one or more of query, key, value, each once; got"):
            made.jacobian([[[1]]], factors=factors)
    for layers in (one, None):
        with pytest.raises(TypeError, match=r"`layers` must be a sequence of Layer; got"):
            Network(layers)
    with pytest.raises(ValueError, match=r"`parameters` must have one entry for each parameter, 3; got 2"):
        made.with_parameters([1, 2])
    with pytest.raises(
        ValueError, match=r"`factors` must be one or more of query, key, value, each once; got \('q',\)"
    ):
        made.jacobian([[[1]]], factors=("q",))


@pytest.mark.parametrize("entry", [0.5, "1/2"], ids=["float", "fraction"])
def test_what_a_network_holds_cannot_be_written_to(entry):
    made = Network([Layer([[entry]], [[entry]], [[entry]])] * 2)
    made([[[0], [1]]])  # which keeps float64 factors
    for one in (made, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        held = [one.parameters, *(factor for layer in one.layers for factor in layer.float64)]
        held += [getattr(layer, name) for layer in one.layers for name in ("query", "key", "value")]
        for array in held:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 9
        with pytest.raises(ValueError, match="read-only"):
            one.parameters.__iadd__(0.1)


@pytest.mark.parametrize("rng", ["a", -1, 1.5])
def test_a_gauge_is_drawn_from_a_generator_or_a_seed(rng):
    with pytest.raises(
        (TypeError, ValueError), match=r"^rng must be None, a nonnegative seed or a numpy.random.Generat"
    ):
        Network([Layer([[1]], [[1]], [[1]])]).regauged(rng=rng)
