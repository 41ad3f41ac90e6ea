import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import everything, inputs, perceptron  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_stream_of_parts_gives_the_record_of_the_whole_jacobian(monkeypatch, dtype):
    module, bank = perceptron((3, 5, 2), dtype=dtype), inputs(80, 3, dtype=dtype)
    sigma = np.linspace(0.1, 0.4, 160)
    whole = estim.sensitivity(module, bank, sigma, repeats=2, smallest_change=0.5)
    monkeypatch.setattr(module_sensitivity, "ENTRIES", 100)
    before = everything(module)
    found = estim.sensitivity(module, bank, sigma, repeats=2, smallest_change=0.5)
    assert everything(module) == before
    assert any("part by part" in note for note in found.notes)
    assert found.status == whole.status
    assert found.names == whole.names
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-8)
    np.testing.assert_allclose(found.column_norms, whole.column_norms, rtol=1e-12)
    np.testing.assert_allclose(found.group_table, whole.group_table, rtol=1e-8)
    np.testing.assert_allclose(found.input_share, whole.input_share, atol=1e-8)
    np.testing.assert_allclose(found.whitening, whole.whitening)
    np.testing.assert_allclose(np.abs(np.sum(found.readout * whole.readout, axis=0)), 1.0, rtol=1e-8)
    # A bound of norms, not the same number: it may be a little larger, never smaller than half.
    assert 0.5 * whole.resolution <= found.resolution <= 3.0 * whole.resolution
    assert found.readings == 160
    assert (found.repeats, found.noise) == (whole.repeats, whole.noise)
    shift = 0.05 * np.sin(np.arange(160.0))
    one, two = (record.judge(shift, smallest_change={"0.weight[0, 0]": 1.0}) for record in (found, whole))
    assert one.outcome == two.outcome
    np.testing.assert_allclose(one.statistic, two.statistic, rtol=1e-8)


def test_a_covariance_of_a_stream_is_refused(monkeypatch):
    monkeypatch.setattr(module_sensitivity, "ENTRIES", 100)
    with pytest.raises(ValueError, match=r"^sigma must be a number or one for each reading where the Jacobian is too"):
        estim.sensitivity(perceptron((3, 5, 2)), inputs(40, 3), np.eye(80))


def test_inputs_left_out_are_listed(monkeypatch):
    module, bank = perceptron((3, 5, 2)), inputs(40, 3)
    bank[7] = torch.nan
    whole = estim.sensitivity(module, bank, 0.1, nan_policy="omit")
    monkeypatch.setattr(module_sensitivity, "ENTRIES", 100)
    found = estim.sensitivity(module, bank, 0.1, nan_policy="omit")
    assert found.left_out.tolist() == whole.left_out.tolist() == [14, 15]
    assert "2 of 80 readings are not finite and were left out" in found.notes
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-9)


class _WithMean(torch.nn.Module):
    """Adds a mean over the batch, as a normalisation does, with a weight that starts at zero."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.gain = inner, torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, bank):
        return self.inner(bank) + self.gain * bank.mean(dim=0)[:2]


def test_inputs_that_only_derivatives_show_to_depend_on_each_other(monkeypatch):
    module, bank = _WithMean(perceptron((3, 5, 2))), inputs(100, 3)
    given = {name: tensor.detach() for name, tensor in module.named_parameters()}
    found = torch.func.jacrev(lambda some: torch.func.functional_call(module, some, (bank,)).reshape(-1))(given)
    jacobian = torch.cat([part.reshape(200, -1) for part in found.values()], dim=1).numpy()
    truth, before = np.linalg.svd(jacobian / 0.1, compute_uv=False), everything(module)
    for argument, value in (("DENSE", 3000), ("ENTRIES", 100), ("DENSE", 0)):
        monkeypatch.setattr(module_sensitivity, argument, value)
        found = estim.sensitivity(module, bank, 0.1)
        count = found.resolved
        np.testing.assert_allclose(found.singular_values[:count], truth[:count], rtol=1e-8)
    assert everything(module) == before
