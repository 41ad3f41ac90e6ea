import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from tests.probe.torch.networks import everything, inputs, perceptron  # noqa: E402


def hostile():
    """Return a module in training mode with everything that a probe could disturb."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    ).double()
    module[2].eval()
    module[0].bias.requires_grad_(False)
    module(inputs(8, 3)).sum().backward()
    module[4].register_forward_hook(lambda part, given, output: None)
    return module


def test_a_module_is_left_bit_identical():
    module, bank = hostile(), inputs(20, 3)
    before, gradients = everything(module), [p.grad for p in module.parameters()]
    copies = [None if grad is None else grad.clone() for grad in gradients]
    given = bank.clone()
    estim.sensitivity(module, bank, 0.1)
    estim.sensitivity(module, bank, 0.1, dtype=torch.float32)
    assert everything(module) == before
    assert all(p.grad is grad for p, grad in zip(module.parameters(), gradients, strict=True))
    assert all(a is b or torch.equal(a, b) for a, b in zip(gradients, copies, strict=True))
    assert torch.equal(bank, given)


class Interrupted(torch.nn.Module):
    """Fails at the call of that number, having changed all it can reach."""

    def __init__(self, failure, call):
        super().__init__()
        self.inner = hostile()
        self.failure, self.call, self.calls = failure, call, 0

    def forward(self, x):
        self.calls += 1
        self.last = self.inner(x)
        if self.calls >= self.call:
            random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
            with torch.no_grad():
                self.inner[4].weight.data.mul_(2.0)
                self.inner[1].running_mean.add_(1.0)
            self.inner[4].weight.requires_grad_(False)
            self.inner.train()
            self.inner[0].register_forward_hook(lambda *given: None)
            self.inner[0].weight.grad.zero_()
            raise self.failure
        return self.last


@pytest.mark.parametrize("call", [1, 2, 3, 5])
@pytest.mark.parametrize("failure", [RuntimeError("no more"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_module_is_left_bit_identical_by_a_failure_too(failure, call):
    module = Interrupted(failure, call)
    before, grad = everything(module), module.inner[0].weight.grad.clone()
    with pytest.raises((ValueError, KeyboardInterrupt)) as caught:
        estim.sensitivity(module, inputs(6, 3), 0.1)
    assert isinstance(caught.value, KeyboardInterrupt) == isinstance(failure, KeyboardInterrupt)
    assert everything(module) == before
    assert module.calls == 0
    assert torch.equal(module.inner[0].weight.grad, grad)


def test_buffers_written_in_eval_mode_are_put_back_each_time_and_said():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()
            self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

        def forward(self, x):
            self.calls += 1.0
            return self.inner(x) * self.calls

    module, bank = Counting(), inputs(40, 3)
    found = estim.sensitivity(module, bank, 0.1)
    assert float(module.calls) == 0.0
    np.testing.assert_allclose(found.singular_values, estim.sensitivity(module.inner, bank, 0.1).singular_values)
    assert "the model writes into its buffers in eval mode, too (calls): put back every time" in found.notes


def test_a_module_that_writes_into_its_inputs_gets_copies():
    class Writing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            return self.inner(x.mul_(2.0))

    bank = inputs(12, 3)
    found = estim.sensitivity(Writing(), bank, 0.1)
    twin = estim.sensitivity(perceptron(), 2.0 * bank, 0.1)
    np.testing.assert_allclose(found.singular_values, twin.singular_values, rtol=1e-12)


def test_no_grad_around_the_call_and_inference_mode_do_not_matter():
    module, bank = perceptron(), inputs(12, 3)
    truth = estim.sensitivity(module, bank, 0.1)
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            np.testing.assert_allclose(estim.sensitivity(module, bank, 0.1).singular_values, truth.singular_values)


@pytest.mark.parametrize("call", [1, 4, 6, 8])
@pytest.mark.parametrize("failure", [RuntimeError("no more"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_large_module_is_left_bit_identical_by_a_failure_too(monkeypatch, failure, call):
    monkeypatch.setattr("estim.probe.torch.sensitivity.DENSE", 0)
    module = Interrupted(failure, call)
    before = everything(module)
    with pytest.raises((ValueError, KeyboardInterrupt)) as caught:
        estim.sensitivity(module, inputs(6, 3), 0.1)
    assert isinstance(caught.value, KeyboardInterrupt) == isinstance(failure, KeyboardInterrupt)
    assert everything(module) == before
