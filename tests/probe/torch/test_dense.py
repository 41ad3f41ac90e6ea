import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.func import functional_call, jacrev  # noqa: E402

import estim  # noqa: E402
from estim.probe.torch.asked import Asked  # noqa: E402
from tests.probe.torch.networks import (  # noqa: E402
    as_network,
    attention_stack,
    encoder,
    inputs,
    perceptron,
    probe_module,
)

DEFAULT = Asked(None, "layers", None, None, None, 0, "raise", False)


def by_jacrev(module, bank, reading=lambda output: output):
    parameters = {name: tensor.detach() for name, tensor in module.named_parameters()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operations that are batched slowly
        found = jacrev(lambda given: reading(functional_call(module, given, (bank,))))(parameters)
    rows = next(iter(found.values()))
    count = rows.numel() // next(iter(parameters.values())).numel()
    return torch.cat([part.reshape(count, -1) for part in found.values()], dim=1).numpy()


@pytest.mark.parametrize("count", [5, 70])  # in one part, and in several
def test_the_jacobian_is_that_of_jacrev(count):
    module, bank = perceptron(), inputs(count, 3)
    found = probe_module(module, bank, DEFAULT)
    truth = by_jacrev(module, bank)
    np.testing.assert_allclose(found.jacobian, truth, rtol=1e-12, atol=1e-14)
    assert (np.abs(found.jacobian - truth) <= found.error + 1e-15).all()
    assert found.names[:3] == ("0.weight[0, 0]", "0.weight[0, 1]", "0.weight[0, 2]")
    assert found.groups[0] == "0"
    assert found.groups[-1] == "2"
    assert found.inputs.tolist() == np.repeat(np.arange(count), 2).tolist()


def test_a_transformer_encoder_of_torch_is_differentiated_as_by_jacrev():
    module, bank = encoder(width=4, inner=5, depth=1), inputs(3, 4, 4)
    module.train()  # with dropout, which the probe must not see
    found = probe_module(module, bank, DEFAULT)
    module.eval()
    np.testing.assert_allclose(found.jacobian, by_jacrev(module, bank), rtol=1e-11, atol=1e-13)


def test_torch_attention_equals_the_network_of_the_family():
    stack, bank = attention_stack(), inputs(6, 4, 3)
    network = as_network(stack)
    found, twin = estim.sensitivity(stack, bank, 0.01), estim.sensitivity(network, bank.numpy(), 0.01)
    resolved = found.resolved
    # The network's gauge is proven; torch's is only unresolved.
    assert resolved == twin.resolved
    assert found.counts[estim.Status.UNRESOLVED] == twin.counts[estim.Status.GAUGE] == network.gauge_dimension
    np.testing.assert_allclose(
        found.scaled_singular_values[:resolved], twin.scaled_singular_values[:resolved], rtol=1e-10
    )
    np.testing.assert_allclose(found.singular_values[:resolved], twin.singular_values[:resolved], rtol=1e-9)
    by_torch = probe_module(stack, bank, DEFAULT).jacobian
    np.testing.assert_allclose(by_torch, network.jacobian(bank.numpy()), rtol=1e-11, atol=1e-14)


def test_the_error_of_float32_is_honest_and_float64_sees_further():
    module, bank = perceptron((3, 6, 6, 2), dtype=torch.float32), inputs(40, 3, dtype=torch.float32)
    single = probe_module(module, bank, DEFAULT)
    double = by_jacrev(perceptron((3, 6, 6, 2)).float().double(), bank.double())
    assert (np.abs(single.jacobian - double) <= single.error).all()
    # Neither idle: some entries are off by more than half a rounding, and the bound is not a thousand roundings.
    assert (np.abs(single.jacobian - double) > 2.0**-25 * np.abs(double)).any()
    assert np.linalg.norm(single.error) < 1e-5 * np.linalg.norm(double)
    assert single.derivative == "autograd in float32"
    found = estim.sensitivity(module, bank, 0.1)
    assert any("dtype=torch.float64 probes a double copy" in note for note in found.notes)
    copied = estim.sensitivity(module, bank, 0.1, dtype=torch.float64)
    assert found.resolution > 1e5 * copied.resolution
    assert next(module.parameters()).dtype == torch.float32


def test_a_model_that_works_in_float32_only_has_its_error_from_moved_parameters():
    class Stubborn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron(dtype=torch.float32)

        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return self.inner(x)

    module, bank = Stubborn(), inputs(10, 3, dtype=torch.float32)
    found = probe_module(module, bank, DEFAULT)
    double = by_jacrev(perceptron().float().double(), bank.double())
    assert (np.abs(found.jacobian - double) <= found.error).all()
    assert any("by moving the parameters" in note for note in estim.sensitivity(module, bank, 0.1).notes)


def test_tied_weights_count_once_and_frozen_ones_are_left_out():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first = torch.nn.Linear(3, 3, bias=False, dtype=torch.float64)
            self.again = torch.nn.Linear(3, 3, bias=False, dtype=torch.float64)
            self.again.weight = self.first.weight
            self.last = torch.nn.Linear(3, 2, dtype=torch.float64)
            self.last.bias.requires_grad_(False)

        def forward(self, x):
            return self.last(torch.tanh(self.again(torch.tanh(self.first(x)))))

    module, bank = Tied(), inputs(12, 3)
    found = probe_module(module, bank, DEFAULT)
    assert len(found.names) == 9 + 6
    assert not any(name.startswith(("again", "last.bias")) for name in found.names)
    assert "again.weight is first.weight again, and counted once" in found.notes
    assert "2 frozen parameters are left out: last.bias" in found.notes
    np.testing.assert_allclose(found.jacobian, by_jacrev(module, bank)[:, :15], rtol=1e-12, atol=1e-14)


def test_groups_by_layer_by_tensor_or_by_a_mapping():
    module, bank = perceptron(), inputs(12, 3)
    assert estim.sensitivity(module, bank, 0.1).group_names == ("0", "2")
    assert estim.sensitivity(module, bank, 0.1, groups=["a", "b", "a", "c"]).group_names == ("a", "b", "c")
    named = estim.sensitivity(module, bank, 0.1, groups={"body": ["0"], "head": "2"})
    assert named.group_names == ("body", "head")
    with pytest.raises(ValueError, match=r"^groups must hold every parameter once; 2\.weight is in none$"):
        estim.sensitivity(module, bank, 0.1, groups={"body": ["0"]})


def test_readings_of_a_hidden_layer_through_a_hook():
    module, bank = perceptron((3, 4, 4, 2)), inputs(12, 3)
    seen = {}

    def probe(model, batch):
        handle = model[2].register_forward_hook(lambda part, given, output: seen.update(hidden=output))
        model(batch)
        handle.remove()
        return seen["hidden"] @ torch.ones(4, dtype=torch.float64)

    found = estim.sensitivity(module, bank, 0.1, readings=probe)
    assert found.readings == 12
    later = [name for name, norm in zip(found.names, found.column_norms, strict=True) if norm == 0.0]
    assert later == [name for name in found.names if name.startswith("4.")]


class _Scored(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = perceptron()

    def forward(self, tokens, mask=None):
        return self.inner(tokens if mask is None else tokens * mask)


def test_banks_of_every_kind_give_the_same():
    module, bank = _Scored(), inputs(12, 3)
    ones = torch.ones_like(bank)
    truth = probe_module(module, bank, DEFAULT).jacobian
    loader = torch.utils.data.DataLoader(list(bank), batch_size=5)
    banks = [
        {"tokens": bank, "mask": ones},
        (bank, ones),
        [bank, ones],
        bank.numpy(),
        loader,
        estim.Batches(lambda: (bank[k : k + 5] for k in (0, 5, 10))),
        estim.Batches(lambda: ({"tokens": bank[k : k + 5], "mask": ones[k : k + 5]} for k in (0, 5, 10))),
    ]
    for given in banks:
        found = probe_module(module, given, DEFAULT)
        np.testing.assert_allclose(found.jacobian, truth, rtol=1e-12, atol=1e-15)
        assert found.inputs.tolist() == np.repeat(np.arange(12), 2).tolist()


def test_readings_of_all_inputs_together_are_one_input():
    module, bank = perceptron(), inputs(50, 3)
    found = probe_module(module, bank, Asked(lambda m, x: m(x).mean(), "layers", None, None, None, 0, "raise", False))
    assert found.jacobian.shape == (1, 26)
    truth = by_jacrev(module, bank, lambda output: output.mean())
    np.testing.assert_allclose(found.jacobian, truth, rtol=1e-11, atol=1e-15)


def test_readings_that_mix_the_inputs_of_a_batch_are_not_taken_apart():
    module, bank = perceptron(), inputs(50, 3)
    centred = lambda model, x: model(x) - model(x).mean(0)  # noqa: E731
    found = probe_module(module, bank, Asked(centred, "layers", None, None, None, 0, "raise", False))
    truth = by_jacrev(module, bank, lambda output: output - output.mean(0))
    np.testing.assert_allclose(found.jacobian, truth, rtol=1e-11, atol=1e-14)


def test_an_operation_that_cannot_be_batched_is_taken_row_by_row():
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(3.0 * g.numpy() * x.numpy() ** 2)  # no tracer gets through NumPy

    module, bank = perceptron(), inputs(6, 3)
    reading = lambda model, x: Cubed.apply(model(x))  # noqa: E731
    found = probe_module(module, bank, Asked(reading, "layers", None, None, None, 0, "raise", False))
    truth = by_jacrev(module, bank, lambda output: output**3)
    np.testing.assert_allclose(found.jacobian, truth, rtol=1e-11, atol=1e-14)


def test_nan_readings_are_refused_or_left_out():
    module, bank = perceptron(), inputs(6, 3)
    bank[2, 0] = np.nan
    with pytest.raises(ValueError, match=r"reading 4 \(input 2\) is nan; nan_policy='omit'"):
        estim.sensitivity(module, bank, 0.1)
    found = estim.sensitivity(module, bank, 0.1, nan_policy="omit")
    assert found.readings == 10
    assert "2 of 12 readings are not finite and were left out" in found.notes


def letters(words):
    return torch.tensor([[ord(letter) - 96 for letter in word] for word in words]).double()


def of_letters(module, words):
    """Return a module's readings of words, read letter by letter."""
    return module(letters(words))


def test_inputs_are_called_what_the_bank_calls_them():
    module, words = perceptron((3, 4, 2)), ["one", "two", "six", "ten"]
    numbers = torch.tensor([0.25, 1.5, 3.0], dtype=torch.float64)
    plain = estim.sensitivity(module, letters(words), 0.1)
    for bank in (words, tuple(words), np.array(words)):
        found = estim.sensitivity(module, bank, 0.1, readings=of_letters)
        assert found.by_input().index.tolist() == words
        np.testing.assert_allclose(found.singular_values, plain.singular_values, rtol=1e-9, atol=1e-12)
    batches = estim.Batches(lambda: [words[:3], words[3:]])
    np.testing.assert_allclose(
        estim.sensitivity(module, batches, 0.1, readings=of_letters).singular_values, plain.singular_values, atol=1e-12
    )
    found = estim.sensitivity(perceptron((1, 4, 2)), numbers, 0.1, readings=lambda m, x: m(x[:, None]))
    assert found.by_input().index.tolist() == ["0.25", "1.5", "3"]
    assert plain.by_input().index.tolist() == [0, 1, 2, 3]
