"""What surrounds a call: defaults of torch, readings of another module than the given one, names of groups."""

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402

NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
ROWS = inputs(4, 3, dtype=torch.float32)


@pytest.fixture(params=[3000, 0], ids=["small", "large"])
def probe(request, monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", request.param)

    def call(module=None, bank=ROWS, **options):
        return estim.sensitivity(module or perceptron(dtype=torch.float32), bank, 0.1, **options)

    return call


def of_groups(found):
    return dict(zip(found.group_names, found.group_table[:, 0].astype(int).tolist(), strict=True))


@pytest.mark.parametrize("set_default", [torch.set_default_device, torch.set_default_dtype])
def test_defaults_of_torch_change_nothing(probe, set_default):
    module, other = perceptron(dtype=torch.float32), perceptron(dtype=torch.float32, seed=1)
    random = estim.AnyChange(0.1, case="typical")

    def made():
        change = estim.judge_models(module, other, ROWS, 0.1, smallest_change=random, rng=0)
        return probe(module, keep=1) if not isinstance(plain, estim.Sensitivity) else probe(module), change.predicted

    plain = probe(module)
    before = made()
    # On a device without values: whatever is made where the default says fails.
    set_default("meta" if set_default is torch.set_default_device else torch.float64)
    try:
        after = made()
    finally:
        set_default("cpu" if set_default is torch.set_default_device else torch.float32)
    assert after == before


def even(m, x):
    return m(x.reshape(-1, 2, 3)).reshape(-1, 2)


def many(m, x):
    assert len(x) == 40
    return m(x)


@pytest.mark.parametrize("entries", [20_000_000, 0])
@pytest.mark.parametrize("readings", [even, many])
def test_a_model_of_whole_batches_is_not_read_in_parts(probe, monkeypatch, readings, entries):
    monkeypatch.setattr(module_sensitivity, "ENTRIES", entries)
    module, other, bank = perceptron(), perceptron(seed=1), inputs(40, 3)
    found = probe(module, bank, readings=readings)
    np.testing.assert_allclose(found.singular_values, probe(module, bank).singular_values, rtol=1e-9)
    changes = [estim.judge_models(module, other, bank, 0.1, readings=read) for read in (readings, None)]
    assert changes[0].actual == pytest.approx(changes[1].actual)
    with pytest.raises(ValueError, match=r"^the model raised .* for this bank"):
        probe(module, bank[:39], readings=readings)


def test_readings_of_another_module_are_refused(probe):
    module, other = perceptron(dtype=torch.float32), perceptron(dtype=torch.float32, seed=1)
    with pytest.raises(ValueError, match=r"^readings must depend on the model's trainable parameters; these do not"):
        probe(module, readings=lambda m, x: other(x))


def test_readings_of_the_module_itself_are_not_taken_for_those_of_its_copy(probe):
    module = perceptron(dtype=torch.float32)
    found = probe(module, readings=lambda m, x: module(x.float()))
    assert found.resolved == probe(module).resolved == 8
    assert any("float64 is out of reach" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"^readings must depend on the model's trainable parameters; these do not"):
        probe(module, readings=lambda m, x: module(x.float()), dtype=torch.float64)


def test_sparse_readings_and_a_masked_bank_are_refused(probe):
    with pytest.raises(TypeError, match=r"^readings must be a dense tensor; got one of layout torch.sparse_coo"):
        probe(readings=lambda m, x: m(x).to_sparse())
    hidden = np.ma.masked_array(ROWS.numpy(), np.eye(4, 3))
    with pytest.raises(ValueError, match=r"^readings must be finite; reading 0 \(input 0\) is nan"):
        probe(bank=hidden)
    np.testing.assert_array_equal(probe(bank=hidden, nan_policy="omit").left_out, np.arange(6))


def test_parameters_made_in_inference_mode_are_refused(probe):
    with torch.inference_mode():
        module = perceptron(dtype=torch.float32)
    with pytest.raises(ValueError, match=r"^parameters must be able to take gradients; 0.weight was made in torch.inf"):
        probe(module)


@pytest.mark.parametrize(
    "groups",
    [
        np.array(["a", "a", "b", "b"]),
        pd.Series(["a", "a", "b", "b"]),
        pd.Series(["b", "a", "b", "a"], index=[NAMES[k] for k in (3, 0, 2, 1)]),
        {"a": "0", "b": ["2.weight", "2.bias"]},
    ],
)
def test_groups_are_read_by_place_or_by_label(probe, groups):
    assert of_groups(probe(groups=groups)) == {"a": 16, "b": 10}


def test_groups_of_tensors_that_are_not_there_are_refused(probe):
    said = r"^groups names '7' for 'b', which is no tensor; there are 0.weight, 0.bias, 2.weight, 2.bias$"
    with pytest.raises(ValueError, match=said):
        probe(groups={"a": "0", "b": ["2", "7"]})
    with pytest.raises(ValueError, match=r"^groups must have an entry for every parameter; missing or unknown: 3.bias"):
        probe(groups=pd.Series(list("aabbb"), index=[*NAMES, "3.bias"]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_readings_may_be_parameters_themselves(probe, dtype):
    module = perceptron(dtype=dtype)
    found = probe(module, ROWS.to(dtype), readings=lambda model, x: model[0].weight)  # (4, 3), four inputs
    np.testing.assert_allclose(found.singular_values[:12], 10.0, rtol=1e-6)


class Recurrent(torch.nn.Module):
    """A recurrent layer whose last state is read."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.last = kind(3, 6, 2, batch_first=True), torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.layers(x)[0][:, -1])


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_rows_of_recurrent_layers_are_read_off_the_graph(monkeypatch, kind):
    module, bank = Recurrent(kind), inputs(5, 7, 3, dtype=torch.float32)
    held = estim.sensitivity(module, bank, 0.1, groups="layers")
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    found = estim.sensitivity(module, bank, 0.1, groups="layers")
    assert found.singular_values == pytest.approx(held.singular_values[:10], rel=1e-4)
    assert not any("backward pass" in note for note in found.notes)
    assert torch.backends.mkldnn.enabled


def test_a_module_is_no_model_to_be_evaluated_elsewhere():
    calls = [
        lambda module: estim.linearity(module, ROWS, np.ones(26), 0.1),
        lambda module: estim.response_along(module, ROWS, np.ones(26), upper=1.0),
        lambda module: estim.recover_parameters(module, ROWS, 0.1),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"^model must be a callable .*; got the torch.nn.Module Sequential"):
            call(perceptron(dtype=torch.float32))
