import numpy as np
import pytest

from estim import Batches, linearity, sensitivity
from estim.attention import Layer, Network
from estim.probe.model.probe import probe

X = np.linspace(0.1, 2.0, 7)
PARAMS = {"a": 1.0, "b": 0.5}


def model(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def stubborn(p, x):
    return [float(p["a"]) * 2.718281828459045 ** (-float(p["b"]) * value) for value in x]


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 6]])
@pytest.mark.parametrize("evaluate", [model, stubborn])
def test_batches_add_up_to_the_whole(cuts, evaluate):
    whole = probe(evaluate, X, params=PARAMS)
    parts = probe(evaluate, Batches(lambda: iter(np.split(X, cuts))), params=PARAMS)
    assert parts.derivative == whole.derivative
    np.testing.assert_array_equal(parts.readings, whole.readings)
    assert (np.abs(parts.jacobian - whole.jacobian) <= parts.error + whole.error).all()
    np.testing.assert_array_equal(parts.inputs, whole.inputs)
    np.testing.assert_array_equal(parts.kept, whole.kept)
    assert parts.total == whole.total == 7


def test_readings_left_out_keep_their_places():
    holes = [np.array([1.0, np.nan]), np.array([np.nan, 2.0, 3.0])]
    found = probe(lambda p, x: p[0] * x, Batches(lambda: holes), params=[1.0], nan_policy="omit")
    assert found.kept.tolist() == [0, 3, 4]
    assert found.total == 5


def waves(p, x):
    return np.exp(1j * p["a"] * x) * p["b"]


def holed(p, x):
    return model(p, x) * np.where(x > 1.0, np.nan, 1.0)


def pairs(p, x):
    return np.stack([model(p, x), np.where(x > 1.5, np.nan, x * p["a"])], axis=1)


@pytest.mark.parametrize("cuts", [[3], [2, 4, 6], [1, 2, 3, 4, 5, 6]])
@pytest.mark.parametrize("evaluate", [waves, holed, pairs, lambda p, x: waves(p, x) * np.where(x > 1.0, np.nan, 1.0)])
def test_batches_change_nothing_that_is_reported(cuts, evaluate):
    sigma = np.linspace(0.1, 0.5, probe(evaluate, X, params=PARAMS, nan_policy="omit").total)
    whole, parts = (
        sensitivity(evaluate, bank, sigma, params=PARAMS, nan_policy="omit")
        for bank in (X, Batches(lambda: np.split(X, cuts)))
    )
    assert parts.notes == whole.notes
    np.testing.assert_allclose(parts.standard_errors, whole.standard_errors, rtol=1e-12)
    np.testing.assert_allclose(parts.input_share, whole.input_share, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(parts.carriers, whole.carriers)


def test_a_change_along_a_direction_takes_complex_batches_in_the_order_of_the_whole():
    sigma = np.linspace(0.1, 0.5, 14)
    whole, parts = (
        linearity(waves, bank, {"a": 1e-3}, sigma, params=PARAMS) for bank in (X, Batches(lambda: np.split(X, [3])))
    )
    assert parts.actual == pytest.approx(whole.actual, rel=1e-12)
    assert parts.difference == pytest.approx(whole.difference, rel=1e-6)


def test_batches_must_agree_on_complex_readings():
    def real_at_first(p, x):
        return waves(p, x) if x[0] > 1.0 else model(p, x)

    with pytest.raises(ValueError, match="for every batch or for none; batch 0 has real ones, batch 1 complex ones"):
        probe(real_at_first, Batches(lambda: np.split(X, [4])), params=PARAMS)


def test_batches_without_any_finite_reading_are_refused():
    with pytest.raises(ValueError, match="readings and derivatives must be finite; none of 7 is"):
        probe(lambda p, x: p["a"] * x * np.nan, Batches(lambda: np.split(X, [4])), params=PARAMS, nan_policy="omit")


def test_digits_decide_over_all_batches_of_a_network():
    rng = np.random.default_rng(3)
    network = Network([Layer(*rng.normal(size=(3, 2, 2)))])
    bank = rng.normal(size=(5, 3, 2))
    whole, parts = (
        sensitivity(network, given, 0.1, digits=30) for given in (bank, Batches(lambda: np.split(bank, [2])))
    )
    assert parts.status == whole.status
    np.testing.assert_allclose(parts.singular_values, whole.singular_values, rtol=1e-12)


def test_digits_for_another_model_are_refused_before_it_is_called():
    with pytest.raises(TypeError, match=r"digits need an attention\.Network, .*; got function"):
        sensitivity(lambda p, x: 1 / 0, Batches(lambda: [X]), 0.1, params=PARAMS, digits=30)


@pytest.mark.parametrize("bank", [iter(X), (x for x in X), zip(X, X, strict=True), Batches(lambda: [iter(X)])])
def test_what_can_be_read_only_once_is_no_bank(bank):
    with pytest.raises(TypeError, match=r"bank must last for more than one call; got the iterator .*estim\.Batches"):
        sensitivity(model, bank, 0.1, params=PARAMS)


def test_inputs_are_given_for_all_batches_together():
    batches = Batches(lambda: np.split(X, [3]))
    found = probe(model, batches, params=PARAMS, inputs=[0, 0, 0, 1, 1, 1, 1])
    assert found.inputs.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_an_error_names_the_batch():
    batches = Batches(lambda: [X, X[:0]])
    with pytest.raises(ValueError, match="batch 1: bank must hold at least one input"):
        probe(model, batches, params=PARAMS)


def test_what_is_no_factory_is_refused():
    with pytest.raises(TypeError, match="factory must be callable and return a fresh iterator over batches; got list"):
        Batches([X])
    with pytest.raises(TypeError, match="factory must return an iterable of batches; got int"):
        iter(Batches(lambda: 3))
    with pytest.raises(ValueError, match=r"bank must hold at least one batch; factory\(\) gave none"):
        probe(model, Batches(list), params=PARAMS)
    once = iter([X])
    exhausted = Batches(lambda: once)
    list(exhausted)
    with pytest.raises(ValueError, match="factory must return a fresh iterator each time; got the same one again"):
        iter(exhausted)
