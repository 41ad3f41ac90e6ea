import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import gram, large  # noqa: E402
from estim.probe.jax.bank import read_parts  # noqa: E402
from estim.probe.jax.gram import JaxPasses  # noqa: E402
from estim.probe.jax.parameters import read_tree  # noqa: E402
from estim.probe.jax.readings import Function  # noqa: E402
from tests.probe.jax.functions import (  # noqa: E402
    PERCEPTRON,
    arrays,
    attention,
    attention_weights,
    branching,
    inputs,
    mixed,
    perceptron_of,
    perceptron_weights,
    whole_jacobian,
)


def both(monkeypatch, model, bank, sigma, params, **options):
    """Return the record of a function, and that of the same taken for a large one."""
    dense = estim.sensitivity(model, bank, sigma, params=params, **options)
    monkeypatch.setattr(large, "DENSE", 0)
    return dense, estim.sensitivity(model, bank, sigma, params=params, **options)


def passes(model, bank, params, block):
    function = Function(model, read_tree(params))
    parts = read_parts(function, bank, False).parts
    return JaxPasses(function, parts, "float64", block), parts


def by_numpy(params, bank):
    """Return readings of a bank that NumPy works on."""
    return PERCEPTRON(params, np.tanh(np.asarray(bank)))


@pytest.mark.parametrize("block", [12 * 8 * 7, 2**20], ids=["pieces of leaves", "whole"])
@pytest.mark.parametrize(
    "model", [PERCEPTRON, mixed, branching, by_numpy], ids=["apart", "mixed", "not compiled", "by NumPy"]
)
def test_gram_matrices_and_rows_are_those_of_the_whole_jacobian(double, model, block):
    params, bank = arrays(perceptron_weights()), inputs(6)
    found, parts = passes(model, bank, params, block)
    assert [part.apart for part in parts] == [0 if model is mixed else 6]
    jacobian = whole_jacobian(model, params, bank)
    grams = found.grams()
    for name, columns in (("first", slice(0, 16)), ("second", slice(16, 24))):
        part = jacobian[:, columns]
        np.testing.assert_allclose(grams.groups[name], part @ part.T, rtol=1e-10, atol=1e-13)
    combinations = np.random.default_rng(0).standard_normal((2, 12))
    np.testing.assert_allclose(found.combined_rows(combinations), combinations @ jacobian, rtol=1e-11, atol=1e-13)
    assert any("step by step, as it cannot be compiled" in note for note in found.notes) == (model is branching)


@pytest.mark.parametrize("sigma", [0.1, "each", "covariance"])
def test_the_record_is_that_of_the_dense_way(double, monkeypatch, sigma):
    rng = np.random.default_rng(5)
    sigma = {"each": rng.uniform(0.1, 0.3, 12), "covariance": 0.01 * (np.eye(12) + 0.5)}.get(sigma, sigma)
    dense, found = both(monkeypatch, PERCEPTRON, inputs(6), sigma, arrays(perceptron_weights()))
    np.testing.assert_allclose(found.singular_values, dense.singular_values[:12], rtol=1e-9)
    assert found.counts == dense.counts
    np.testing.assert_allclose(found.input_share.sum(axis=0), 1.0)
    np.testing.assert_allclose(found.by_group()["best_floor"], dense.by_group()["best_floor"], rtol=1e-9)
    assert found.names == ("first.bias", "first.weight", "second.weight")
    assert found.sizes.tolist() == [4, 12, 8]


def test_directions_are_kept_as_asked(double, monkeypatch):
    dense, _ = both(monkeypatch, PERCEPTRON, inputs(6), 0.1, arrays(perceptron_weights()))
    found = estim.sensitivity(PERCEPTRON, inputs(6), 0.1, params=arrays(perceptron_weights()), keep=2)
    assert found.kept.tolist() == [0, 1, 10, 11]
    overlap = np.abs(np.einsum("ij,ij->i", found.directions, dense.directions[found.kept]))
    np.testing.assert_allclose(overlap, 1.0, rtol=1e-7)


def test_batches_and_inputs_left_out_read_as_in_the_dense_way(double, monkeypatch):
    def logarithm(params, bank):
        return PERCEPTRON(params, jnp.log(bank))

    bank = np.exp(inputs(7))
    bank[2] = -1.0, 0.0, 1.0
    batches = estim.Batches(lambda: iter([bank[:4], bank[4:]]))
    dense, found = both(monkeypatch, logarithm, batches, 0.1, arrays(perceptron_weights()), nan_policy="omit")
    np.testing.assert_allclose(found.singular_values, dense.singular_values[:12], rtol=1e-9)
    assert found.readings == 12
    assert not found.input_share[2].any()


def test_a_function_that_float64_breaks_is_compiled_all_the_same(monkeypatch):
    def single(params, bank):
        if params["first"]["weight"].dtype != jnp.float32:
            raise TypeError("float32 only")
        return PERCEPTRON(params, bank)

    monkeypatch.setattr(large, "DENSE", 0)
    params = arrays(perceptron_weights(), jnp.float32)
    for free in (2.0**33, 0.0):
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda free=free: free)
        found = estim.sensitivity(single, inputs(10).astype(np.float32), 0.1, params=params)
        assert any("by moving the parameters a little" in note for note in found.notes)
        assert not any("step by step" in note for note in found.notes)


def test_float32_gets_a_second_pass_where_its_rounding_hides_what_its_derivatives_do_not(monkeypatch):
    def graded(params, bank):
        return (params["w"] * 10.0 ** (-0.25 * jnp.arange(20)) * bank).reshape(len(bank), -1)

    bank = np.eye(20, dtype=np.float32)[:, :] + 0.0
    params = {"w": jnp.ones(20, dtype=jnp.float32)}
    summed = lambda p, x: graded(p, x).sum(axis=1)  # noqa: E731
    monkeypatch.setattr("estim.probe.matrix_free.sums._NARROW", 0)
    dense, found = both(monkeypatch, summed, bank, 0.1, params)
    assert "a second pass for all groups" in found.path
    assert "multiplied in float64" in found.path
    resolved = found.resolved
    np.testing.assert_allclose(found.singular_values[:resolved], dense.singular_values[:resolved], rtol=1e-5)
    assert found.derivative == "automatic differentiation in float32"


def test_float64_gets_shifted_cholesky_where_squares_hide_what_is_seen(double, monkeypatch):
    layers = attention_weights(depth=2)
    bank = 0.2 * np.random.default_rng(2).standard_normal((3, 4, 3))
    dense, found = both(monkeypatch, attention, bank, 0.01, arrays(layers))
    assert found.path.endswith("shifted Cholesky QR")
    known = np.isfinite(dense.singular_values[: found.resolved])
    assert known.sum() >= 8
    np.testing.assert_allclose(
        found.singular_values[: len(known)][known], dense.singular_values[: len(known)][known],
        atol=1e-12 * dense.singular_values[0],
    )  # fmt: skip


@pytest.mark.parametrize("way", ["Gram", "strongest"])
def test_a_function_is_compiled_once_for_all_batches_passes_and_pieces_of_a_leaf(double, monkeypatch, way):
    traced = []

    def counted(params, bank):
        if isinstance(bank, jax.core.Tracer):
            traced.append(bank.shape)
        return PERCEPTRON(params, bank)

    monkeypatch.setattr(large, "DENSE", 0)
    monkeypatch.setattr(gram, "BLOCK", 44 * 8 * 15)  # the largest leaf, of 120, in eight pieces, the rest in two more
    if way == "strongest":
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)
    params, bank = arrays(perceptron_weights(40)), inputs(22)
    batches = estim.Batches(lambda: (bank[k : k + 5] for k in range(0, 22, 5)))
    truth = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    found = estim.sensitivity(counted, batches, 0.1, params=params, keep=2)
    np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-9)
    # Products of a batch of five; rows of one input, for each of the three leaves.
    assert sorted(set(traced)) == ([(1, 3), (5, 3)] if way == "Gram" else [(5, 3)])
    assert traced.count((1, 3)) == (3 if way == "Gram" else 0)
    assert traced.count((5, 3)) == (1 if way == "Gram" else 2)  # back, and forth


def test_complex_readings_are_in_the_order_of_the_same_model_in_numpy(double, monkeypatch):
    def of(numbers):
        plain = perceptron_of(numbers)
        return lambda params, bank: plain(params, bank) * (1.0 + 2.0j) + 1j * plain(params, bank) ** 2

    monkeypatch.setattr(large, "DENSE", 0)
    weights, bank, sigma = perceptron_weights(), inputs(10), np.linspace(0.1, 0.4, 40)
    truth = estim.sensitivity(of(np), bank, sigma, params=weights)
    batches = estim.Batches(lambda: (bank[k : k + 4] for k in (0, 4, 8)))
    for free in (2.0**33, 0.0):
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda free=free: free)
        for given in (bank, batches):
            found = estim.sensitivity(of(jnp), given, sigma, params=arrays(weights))
            count = min(found.resolved, 10)
            np.testing.assert_allclose(found.singular_values[:count], truth.singular_values[:count], rtol=1e-7)
            np.testing.assert_allclose(found.whitening, truth.whitening)
            alike = np.sum(found.readout[:, :count] * truth.readout[:, :count], axis=0)
            np.testing.assert_allclose(np.abs(alike), 1.0, rtol=1e-6)
            np.testing.assert_allclose(found.by_input().iloc[:, :count], truth.by_input().iloc[:, :count], atol=1e-6)
            assert "complex readings: 20 real parts, then 20 imaginary parts" in found.notes


def test_complex_readings_are_taken_input_by_input(double):
    def wave(params, bank):
        return jnp.exp(1j * PERCEPTRON(params, bank))

    params, bank = arrays(perceptron_weights()), inputs(6)
    function = Function(wave, read_tree(params), by_input=True)
    parts = read_parts(function, bank, False).parts
    assert [part.apart for part in parts] == [6]
    whole = whole_jacobian(lambda p, x: jnp.stack([wave(p, x).real, wave(p, x).imag], axis=1), params, bank)
    gram = JaxPasses(function, parts, "float64").grams().groups["second"]
    np.testing.assert_allclose(gram, whole[:, 16:] @ whole[:, 16:].T, rtol=1e-10, atol=1e-13)


def test_inputs_whose_random_numbers_go_by_their_place_are_not_taken_apart(monkeypatch):
    def dropped(params, bank):
        kept = jax.random.bernoulli(params["key"], 0.5, (len(bank), 2))
        return jnp.where(kept, PERCEPTRON(params, bank), 0.0)

    # Of this key the last rows are the first ones again.
    params, bank = {**arrays(perceptron_weights(), jnp.float32), "key": jax.random.key(1)}, inputs(7)
    mask = np.asarray(jax.random.bernoulli(params["key"], 0.5, (7, 2)))
    assert (mask[4:] == mask[:3]).all()
    weights = {name: params[name] for name in ("first", "second")}
    truth = np.linalg.svd(mask.ravel()[:, None] * whole_jacobian(PERCEPTRON, weights, bank) / 0.1, compute_uv=False)
    monkeypatch.setattr(large, "DENSE", 0)
    found = estim.sensitivity(dropped, bank, 0.1, params=params)
    assert found.resolved == mask.sum()
    np.testing.assert_allclose(found.singular_values[: mask.sum()], truth[: mask.sum()], rtol=1e-4)


def test_leaves_without_entries_are_no_hindrance(double, monkeypatch):
    params = {**arrays(perceptron_weights()), "empty": jnp.zeros((0, 3))}
    dense, found = both(monkeypatch, PERCEPTRON, inputs(6), 0.1, params)
    np.testing.assert_allclose(found.singular_values, dense.singular_values[:12], rtol=1e-9)
    assert found.by_group().loc["empty"].to_list()[:2] == [0, 0]


def test_a_million_parameters_are_never_held_times_the_readings(monkeypatch):
    params = {
        "in": jax.random.normal(jax.random.key(0), (300, 1500)) / 300**0.5,
        "out": jax.random.normal(jax.random.key(1), (1500, 2)) / 1500**0.5,
    }
    bank = np.random.default_rng(0).standard_normal((10, 300)).astype(np.float32)
    monkeypatch.setattr(gram, "BLOCK", 2**20)
    found = estim.sensitivity(lambda p, x: jnp.tanh(x @ p["in"]) @ p["out"], bank, 0.1, params=params)
    # The Jacobian in NumPy: a hidden unit's slope times its input.
    hidden = np.tanh(bank.astype(float) @ np.asarray(params["in"], dtype=float))
    slope = (1.0 - hidden**2)[:, :, None] * np.asarray(params["out"], dtype=float)
    inner = (slope.transpose(0, 2, 1).reshape(20, -1)) @ (slope.transpose(0, 2, 1).reshape(20, -1)).T
    alike = np.repeat(np.repeat(bank.astype(float) @ bank.T.astype(float), 2, axis=0), 2, axis=1)
    outer = np.kron(hidden @ hidden.T, np.eye(2))
    truth = np.sqrt(np.linalg.eigvalsh(inner * alike + outer))[::-1] / 0.1
    np.testing.assert_allclose(found.singular_values, truth, rtol=1e-5)
    assert found.parameters == 453_000
    assert found.resolved == 20


def test_inputs_are_called_what_the_bank_calls_them(monkeypatch, double):
    times = jnp.array([0.5, 1.0, 2.0])
    params = {"rate": jnp.array([0.3, 0.7])}
    found = both(monkeypatch, lambda p, t: jnp.exp(-t[:, None] * p["rate"]), times, 0.1, params)
    for record in found:
        assert record.by_input().index.tolist() == ["0.5", "1", "2"]
