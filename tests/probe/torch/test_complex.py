"""Complex readings of a module: in the order of the same model in NumPy, whatever the way."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402


def reading(model, x):
    return torch.view_as_complex(model(x).reshape(len(x), 2, 2))


def twin(params, bank):
    """Return the same readings in NumPy, (inputs, 2)."""
    hidden = np.tanh(bank @ params["0.weight"].T + params["0.bias"])
    parts = (hidden @ params["2.weight"].T + params["2.bias"]).reshape(len(bank), 2, 2)
    return parts[..., 0] + 1j * parts[..., 1]


def batches(bank):
    return estim.Batches(lambda: (bank[k : k + 4] for k in (0, 4, 8)))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "batches"])
@pytest.mark.parametrize("way", ["whole Jacobian", "streamed", "Gram", "strongest"])
def test_the_order_is_that_of_the_same_model_in_numpy(monkeypatch, way, whole):
    module, bank = perceptron((3, 4, 4)), inputs(10, 3)
    if way == "streamed":
        monkeypatch.setattr(module_sensitivity, "ENTRIES", 0)
    elif way != "whole Jacobian":
        monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    if way == "strongest":
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)
    sigma = np.linspace(0.1, 0.4, 40)
    params = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    truth = estim.sensitivity(twin, bank.numpy(), sigma, params=params)
    found = estim.sensitivity(module, bank if whole else batches(bank), sigma, readings=reading)
    count = min(found.resolved, 12)
    np.testing.assert_allclose(found.singular_values[:count], truth.singular_values[:count], rtol=1e-7)
    np.testing.assert_allclose(found.whitening, truth.whitening)
    alike = np.sum(found.readout * truth.readout[:, : found.resolved], axis=0)
    np.testing.assert_allclose(np.abs(alike[:count]), 1.0, rtol=1e-6)
    np.testing.assert_allclose(found.by_input().iloc[:, :count], truth.by_input().iloc[:, :count], atol=1e-6)
    assert "complex readings: 20 real parts, then 20 imaginary parts" in found.notes
    if way in ("whole Jacobian", "streamed"):
        assert found.inputs.tolist() == truth.inputs.tolist()
        assert found.carriers[0].tolist() == truth.carriers[0].tolist()


@pytest.mark.parametrize("dense", [3000, 0])
def test_inputs_left_out_and_inputs_given_keep_to_the_order(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    module, bank = perceptron((3, 4, 4)), inputs(10, 3)
    bank[2] = torch.nan
    sigma, numbers = np.linspace(0.1, 0.4, 40), np.arange(40) // 10
    params = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    truth = estim.sensitivity(twin, bank.numpy(), sigma, params=params, nan_policy="omit", inputs=numbers)
    found = estim.sensitivity(module, bank, sigma, readings=reading, nan_policy="omit", inputs=numbers)
    np.testing.assert_allclose(found.whitening, truth.whitening)
    np.testing.assert_allclose(found.singular_values[:8], truth.singular_values[:8], rtol=1e-7)
    np.testing.assert_allclose(found.by_input().iloc[:, :8], truth.by_input().iloc[:, :8], atol=1e-6)
    if not dense:
        assert found.left_out.tolist() == [4, 5, 24, 25]


def test_a_covariance_is_read_in_that_order(monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    module, bank = perceptron((3, 4, 4)), inputs(4, 3)
    root = np.random.default_rng(0).standard_normal((16, 16))
    covariance = root @ root.T + np.eye(16)
    params = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    truth = estim.sensitivity(twin, bank.numpy(), covariance, params=params)
    found = estim.sensitivity(module, bank, covariance, readings=reading)
    np.testing.assert_allclose(found.singular_values, truth.singular_values[:16], rtol=1e-7)
    shift = np.random.default_rng(1).standard_normal(16)
    white = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(covariance), shift))
    np.testing.assert_allclose(found.shift(shift), white, rtol=1e-9)  # all 16 directions are seen


def test_a_change_of_a_module_is_read_in_that_order():
    module, after, bank = perceptron((3, 4, 4)), perceptron((3, 4, 4), seed=1), inputs(10, 3)
    before, changed = (
        {name: tensor.detach().numpy() for name, tensor in one.named_parameters()} for one in (module, after)
    )
    changed = {name: before[name] + 0.01 * changed[name] for name in before}
    state = {name: torch.as_tensor(value) for name, value in changed.items()}
    sigma = np.linspace(0.1, 0.4, 40)
    truth = estim.judge_models(before, changed, bank.numpy(), sigma, model=twin)
    for given in (bank, batches(bank)):
        found = estim.judge_models(module, state, given, sigma, readings=reading)
        np.testing.assert_allclose([found.predicted, found.actual], [truth.predicted, truth.actual], rtol=1e-6)


def test_batches_of_both_kinds_are_refused():
    module, bank = perceptron((3, 4, 4)), inputs(10, 3)
    with pytest.raises(ValueError, match=r"for every batch or for none; batch 0 has complex ones, batch 2 real ones$"):
        estim.sensitivity(
            module, batches(bank), 0.1, readings=lambda model, x: reading(model, x) if len(x) == 4 else model(x)
        )
