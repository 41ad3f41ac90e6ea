"""Few parameters and more readings than a Jacobian could be held for: the record of the whole Jacobian."""

import weakref

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from tests.probe.jax.functions import (  # noqa: E402
    PERCEPTRON,
    arrays,
    branching,
    inputs,
    mixed,
    perceptron_of,
    perceptron_weights,
    whole_jacobian,
)

NOTE = "the Jacobian was gone through part by part: QR of one after the other"


def both(monkeypatch, model, bank, sigma, params, piece=0, **options):
    """Return the record from the whole Jacobian, and that from one part of the bank after the other."""
    whole = estim.sensitivity(model, bank, sigma, params=params, **options)
    monkeypatch.setattr(large, "ENTRIES", 0)
    monkeypatch.setattr("estim.probe.jax.streamed._PIECE", piece)
    found = estim.sensitivity(model, bank, sigma, params=params, **options)
    assert NOTE in found.notes
    assert NOTE not in whole.notes
    return whole, found


def alike(found, whole, rtol=1e-9):
    assert (found.status, found.names, found.groups) == (whole.status, whole.names, whole.groups)
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=rtol)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=10.0 * rtol)
    np.testing.assert_allclose(found.column_norms, whole.column_norms, rtol=rtol)
    np.testing.assert_allclose(found.group_table, whole.group_table, rtol=10.0 * rtol)
    np.testing.assert_allclose(found.by_input(), whole.by_input(), atol=10.0 * rtol)
    np.testing.assert_allclose(found.whitening, whole.whitening)
    np.testing.assert_allclose(np.abs(np.sum(found.readout * whole.readout, axis=0)), 1.0, rtol=10.0 * rtol)
    assert found.readings == whole.readings
    assert found.left_out.tolist() == whole.left_out.tolist()
    assert (found.repeats, found.noise, found.derivative) == (whole.repeats, whole.noise, whole.derivative)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", [PERCEPTRON, mixed, branching], ids=["apart", "mixed", "not compiled"])
def test_the_record_is_that_of_the_whole_jacobian(monkeypatch, dtype, model):
    with jax.enable_x64(True):
        params = arrays(perceptron_weights(), dtype)
    bank, sigma = inputs(70).astype(dtype), np.linspace(0.1, 0.4, 140)
    whole, found = both(monkeypatch, model, bank, sigma, params, repeats=2, smallest_change=0.5)
    alike(found, whole, 1e-9 if dtype == "float64" else 1e-5)
    # A bound of norms, not the same number: it may be a little larger, never smaller than half.
    assert 0.5 * whole.resolution <= found.resolution <= 3.0 * whole.resolution
    assert any("step by step" in note for note in found.notes) == (model is branching)
    shift = 0.05 * np.sin(np.arange(140.0))
    one, two = (record.judge(shift, smallest_change={"first.bias[0]": 1.0}) for record in (found, whole))
    assert one.outcome == two.outcome
    np.testing.assert_allclose(one.statistic, two.statistic, rtol=1e-8 if dtype == "float64" else 1e-4)


def test_its_singular_values_are_those_of_jacrev(double, monkeypatch):
    params, bank = arrays(perceptron_weights()), inputs(200)
    truth = np.linalg.svd(whole_jacobian(PERCEPTRON, params, bank) / 0.1, compute_uv=False)
    _, found = both(monkeypatch, PERCEPTRON, bank, 0.1, params, piece=2**12)
    np.testing.assert_allclose(found.singular_values, truth, rtol=1e-12 * truth[0] / truth[-1])


def test_batches_inputs_left_out_and_complex_readings_keep_to_the_order(double, monkeypatch):
    def of(numbers):
        plain = perceptron_of(numbers)
        return lambda params, bank: plain(params, numbers.log(bank)) * (1.0 + 2.0j) + 1j * plain(params, bank) ** 2

    bank = np.exp(inputs(10))
    bank[2] = np.nan
    batches = estim.Batches(lambda: (bank[k : k + 4] for k in (0, 4, 8)))
    sigma, numbers = np.linspace(0.1, 0.4, 40), np.arange(40) // 10
    options = {"nan_policy": "omit", "inputs": numbers}
    for given in (bank, batches):
        monkeypatch.setattr(large, "ENTRIES", 10**9)
        whole, found = both(monkeypatch, of(jnp), given, sigma, arrays(perceptron_weights()), **options)
        alike(found, whole)
        assert found.left_out.tolist() == [4, 5, 24, 25]
        assert found.inputs.tolist() == whole.inputs.tolist()
        assert found.carriers.tolist() == whole.carriers.tolist()
        assert "4 of 40 readings are not finite and were left out" in found.notes
        assert "complex readings: 20 real parts, then 20 imaginary parts" in found.notes


def test_at_most_one_batch_is_held(monkeypatch):
    class Held(np.ndarray):
        """An array whose end is seen."""

    seen, most = [], []

    def batches():
        for k in range(6):
            batch = inputs(5, seed=k).astype(np.float32).view(Held)
            seen.append(weakref.ref(batch))
            most.append(sum(one() is not None for one in seen))
            yield batch
            del batch

    model = lambda p, x: PERCEPTRON(p, jnp.asarray(x))  # noqa: E731
    params = arrays(perceptron_weights(), jnp.float32)
    whole = np.concatenate([inputs(5, seed=k) for k in range(6)]).astype(np.float32)
    truth = estim.sensitivity(model, whole, 0.1, params=params)
    monkeypatch.setattr(large, "ENTRIES", 0)
    for dense, free in ((3000, 2.0**33), (0, 2.0**33), (0, 0.0)):
        monkeypatch.setattr(large, "DENSE", dense)
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda free=free: free)
        found = estim.sensitivity(model, estim.Batches(batches), 0.1, params=params)
        count = min(found.resolved, 12)
        np.testing.assert_allclose(found.singular_values[:count], truth.singular_values[:count], rtol=1e-4)
    assert max(most) <= 2


def test_a_bank_that_changes_between_passes_is_refused(monkeypatch):
    calls = []

    def batches():
        calls.append(0)
        return iter([inputs(5)] * (3 if len(calls) < 3 else 2))

    monkeypatch.setattr(large, "ENTRIES", 0)
    with pytest.raises(ValueError, match=r"^bank must give the same batches each time; got 3 of them, then 2$"):
        estim.sensitivity(PERCEPTRON, estim.Batches(batches), 0.1, params=arrays(perceptron_weights(), jnp.float32))


def test_a_covariance_is_refused_and_a_derivative_that_is_not_finite_named(double, monkeypatch):
    monkeypatch.setattr(large, "ENTRIES", 0)
    params = {"a": jnp.ones(()), "b": jnp.zeros(1)}
    with pytest.raises(ValueError, match=r"^sigma must be a number or one for each reading where the Jacobian is too"):
        estim.sensitivity(lambda p, x: p["a"] * x + p["b"][0], np.arange(3.0), np.eye(3), params=params)
    root = lambda p, x: p["a"] * x + jnp.sqrt(p["b"][0] * x)  # noqa: E731
    with pytest.raises(ValueError, match=r"^derivatives must be finite; that by a of reading 0 \(input 0\) is"):
        estim.sensitivity(root, np.arange(1.0, 4.0), 0.1, params=params)


def test_tolerances_and_symmetries_are_of_the_readings(double, monkeypatch):
    params = {"s": jnp.asarray(1.7), "w": jnp.asarray([0.3, -0.2, 0.5])}
    model = lambda p, x: jnp.tanh(x @ p["w"] * p["s"])  # noqa: E731
    bank, tangent = inputs(300), np.array([1.7, -0.3, 0.2, -0.5])
    sigma = np.linspace(0.01, 0.02, 300)
    whole, found = both(monkeypatch, model, bank, sigma, params, symmetry=tangent, atol=1e-3, rtol=1e-4)
    assert found.status == whole.status
    assert found.status[-1] is estim.Status.GAUGE
    np.testing.assert_allclose(found.resolution, whole.resolution, rtol=1e-6)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-6)
    for refused in ({"symmetry": [1.0, 0.0, 0.0, 0.0]}, {"symmetry": np.ones(3)}, {"atol": -1.0}):
        said = []
        for entries in (10**9, 0):
            monkeypatch.setattr(large, "ENTRIES", entries)
            with pytest.raises(ValueError, match=r"^(symmetry|atol) ") as error:
                estim.sensitivity(model, bank, sigma, params=params, **refused)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_inputs_that_only_derivatives_show_to_depend_on_each_other(double, monkeypatch):
    # As a normalisation over the batch whose weight starts at zero.
    params = {"gain": jnp.zeros(()), **arrays(perceptron_weights())}
    model = lambda p, x: PERCEPTRON(p, x) + p["gain"] * x.mean(axis=0)[:2]  # noqa: E731
    truth = np.linalg.svd(whole_jacobian(model, params, inputs(200)) / 0.1, compute_uv=False)
    whole, found = both(monkeypatch, model, inputs(200), 0.1, params)
    alike(found, whole)
    monkeypatch.setattr(large, "DENSE", 0)
    np.testing.assert_allclose(
        estim.sensitivity(model, inputs(200), 0.1, params=params).singular_values[:10], truth[:10]
    )


def test_a_bank_whose_batches_change_their_size_is_refused(monkeypatch):
    calls = []

    def batches():
        calls.append(0)
        return iter(np.split(inputs(10), [5 if len(calls) < 3 else 4]))

    monkeypatch.setattr(large, "ENTRIES", 0)
    said = r"^bank must give the same batches each time, in the same order; batch 0 is not what it was"
    with pytest.raises(ValueError, match=said):
        estim.sensitivity(PERCEPTRON, estim.Batches(batches), 0.1, params=arrays(perceptron_weights(), jnp.float32))


@pytest.mark.parametrize("batches", [False, True])
def test_no_batch_is_read_once_more_to_count_its_readings(double, monkeypatch, batches):
    monkeypatch.setattr(large, "ENTRIES", 0)
    called = []

    def counted(params, bank):
        if not isinstance(params["first"]["bias"], jax.core.Tracer):
            called.append(len(bank))
        return PERCEPTRON(params, bank)

    bank = inputs(60)
    given = estim.Batches(lambda: iter([bank[:40], bank[40:]])) if batches else bank
    estim.sensitivity(counted, given, 0.1, params=arrays(perceptron_weights()))
    whole = 40 if batches else 60
    # Once and again, at other parameters, and in halves.
    assert called[:4] == [whole, whole, whole, whole // 2]
