"""Rows of the Jacobian that are read off the graph, beside a backward pass for each reading."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from estim import Batches  # noqa: E402
from estim.probe.torch.asked import Asked, opened  # noqa: E402
from estim.probe.torch.gram import combined_rows, grams_of  # noqa: E402
from estim.probe.torch.layout import layout_of  # noqa: E402
from estim.probe.torch.rows import rows_of  # noqa: E402
from estim.probe.torch.survey import survey  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402

ASKED = Asked(None, "layers", None, None, None, 0, "raise", False)


class Adapted(nn.Module):
    """A layer whose weight, and whose scale, two parameters make together."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = (nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((4, 2), (2, 4)))
        self.one, self.two = (nn.Parameter(torch.tensor(k, dtype=torch.float64)) for k in (0.5, 0.7))
        self.last = perceptron((4, 2))

    def forward(self, x):
        return self.last(torch.tanh(x @ (self.up @ self.down))) * (self.one * self.two)


class Spectral(nn.Module):
    """A filter with real gains and offsets of complex numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = perceptron((4, 4)), perceptron((4, 2))
        self.gain, self.offset = (nn.Parameter(torch.rand(4, dtype=torch.float64)) for _ in range(2))

    def forward(self, x):
        z = torch.fft.fft(torch.tanh(self.first(x)))
        return self.last(torch.fft.ifft(self.gain * z.conj() * z + self.offset * z).real)


class Blocked(torch.autograd.Function):
    """Passes no gradient on to the second of two tensors."""

    @staticmethod
    def forward(context, one, two):
        return one + two

    @staticmethod
    def backward(context, grad):
        return grad, None


class Stopped(nn.Module):
    """A layer used twice, once where no gradient comes; and a layer used only there."""

    def __init__(self):
        super().__init__()
        self.twice, self.never, self.last = perceptron((4, 4)), perceptron((4, 4), seed=1), perceptron((4, 2))

    def forward(self, x):
        hidden = torch.tanh(self.twice(x))
        return self.last(Blocked.apply(hidden, self.twice(x) + self.never(x)))


class Short(nn.Module):
    """A block with fewer digits inside of a model, and a gain for it."""

    def __init__(self, outside, inside):
        super().__init__()
        self.first, self.last = perceptron((4, 4), outside), perceptron((4, 2), outside)
        self.block, self.gain = perceptron((4, 4), inside), nn.Parameter(torch.ones(4, dtype=inside))

    def forward(self, x):
        hidden = self.block(torch.tanh(self.first(x)).to(self.gain.dtype)) * self.gain
        return self.last(torch.tanh(hidden).to(x.dtype))


class Scaled(nn.Module):
    """Hooks change gradients, and others change them back on what each layer returns."""

    def __init__(self, scale):
        super().__init__()
        self.layers, self.scale = nn.ModuleList([perceptron((4, 4), seed=k) for k in range(3)]), scale

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.requires_grad:
                x.register_hook(lambda grad: grad * self.scale)
            x = torch.tanh(x)
            if x.requires_grad:
                x.register_hook(lambda grad: grad / self.scale)
        return x[:, :2]


def hooked(tensor, factor):
    """Have gradients by a tensor multiplied."""
    if tensor.requires_grad:
        tensor.register_hook(lambda grad: factor * grad)
    return tensor


class Loss(nn.Module):
    """What a layer returns has a smaller gradient than it should, and hooks of its parameters mend that."""

    def __init__(self):
        super().__init__()
        self.layer, self.turned = perceptron((4, 3)), nn.Parameter(perceptron((4, 3))[0].weight.detach())
        for tensor in self.layer.parameters():
            hooked(tensor, 4.0)

    def forward(self, x):
        turned = hooked(self.turned.t(), 4.0)
        return hooked(torch.tanh(self.layer(x) * (x @ turned)), 0.25)


class Slope(nn.Module):
    """The derivative of what a layer returns by what it is given."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = perceptron((4, 3)), perceptron((4, 2))

    def forward(self, x):
        return self.last(torch.func.grad(lambda given: torch.tanh(self.layer(given)).sum())(x))


class Turned(nn.Module):
    """A layer that meets inputs in another order; of what it says two readings are the same."""

    def __init__(self):
        super().__init__()
        self.one, self.two = perceptron((4, 4, 1)), perceptron((4, 4, 2), seed=1)
        self.to(torch.bfloat16)

    def forward(self, x):
        one, two = self.one(x.flip(0)).flip(0), self.two(x)
        return torch.cat([one, two[:, :1], one, two[:, 1:]], dim=1)


def centred(module, x):
    return module(x - x.mean(0))


def jacobian(module, bank, reading):
    """Return the rows in float64, from a backward pass for each."""
    rows = []
    batches = bank if isinstance(bank, Batches) else [bank]
    for one in torch.cat([(reading(module, batch) if reading else module(batch)).reshape(-1) for batch in batches]):
        grads = torch.autograd.grad(
            one, list(module.parameters()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        rows.append(torch.cat([grad.reshape(-1).double() for grad in grads]))
    return torch.stack(rows).numpy()


ONE = inputs(1, 4)
KINDS = {
    "three equal inputs": (Adapted(), ONE.expand(3, 4), None, 1e-12),
    "equal inputs among others": (Adapted(), torch.cat([ONE, inputs(3, 4, seed=2), ONE, ONE]), None, 1e-12),
    "one input": (Adapted(), ONE, None, 1e-12),
    "numbers of two digits": (perceptron((4, 5, 2)), inputs(45, 4), centred, 1e-12),
    "complex inside": (Spectral(), inputs(9, 4), None, 1e-12),
    "no gradient on a way": (Stopped(), inputs(9, 4), None, 1e-12),
    "gradients scaled": (Scaled(4.0), inputs(9, 4), None, 1e-12),
    "gradients turned": (Scaled(-1.0), inputs(9, 4), None, 1e-12),
    "gradients watched": (Scaled(1.0), inputs(9, 4), None, 1e-12),
    "gradients of parameters scaled": (Loss(), inputs(9, 4), None, 1e-12),
    "a derivative inside": (Slope(), inputs(9, 4), None, 1e-12),
    "float32 in float64": (Short(torch.float64, torch.float32), inputs(40, 4), None, 1e-6),
    "float64 in float32": (Short(torch.float32, torch.float64), inputs(40, 4).float(), None, 1e-6),
    "bfloat16": (perceptron((*(4,) * 12, 2), torch.bfloat16), inputs(40, 4).bfloat16(), None, 2.0**-6),
    "bfloat16, two readings equal": (Turned(), inputs(32, 4).bfloat16(), None, 2.0**-6),
    "float16": (perceptron((*(4,) * 12, 2), torch.float16), inputs(40, 4).half(), None, 2.0**-9),
}


TOGETHER = {"up", "down", "one", "two"}
HOOKED = {f"layers.{k}.0.{name}" for k in range(3) for name in ("weight", "bias")}
BY_ROWS = {
    "one input": {"up"}, "three equal inputs": TOGETHER, "equal inputs among others": TOGETHER,
    "gradients scaled": HOOKED, "gradients turned": HOOKED,
    # The weights of the two readings of one of the inputs cancel, in the few digits that there are.
    "bfloat16, two readings equal": {f"one.{k}.{name}" for k in (0, 2) for name in ("weight", "bias")},
    "gradients of parameters scaled": {"layer.0.weight", "layer.0.bias", "turned"},
    "a derivative inside": {"layer.0.weight"},
}  # fmt: skip


def assert_equal_to_backward_passes(module, bank, reading=None, close=1e-12, held=10**9):
    """Compare rows and Gram matrices with those of a backward pass for each reading; return what took one here."""
    truth = jacobian(module, bank, reading)
    with opened(module, bank, replace(ASKED, readings=reading)) as (subject, batches):
        layout = layout_of(subject, batches, survey(subject, batches, False), held=held)
        found = grams_of(subject, layout)
        rows = combined_rows(subject, layout, np.eye(len(truth)))
        groups = np.repeat(subject.parameters.groups, [tensor.numel() for tensor in subject.parameters.tensors])
    np.testing.assert_allclose(rows, truth, rtol=0, atol=close * np.abs(truth).max())
    for name, matrix in found.groups.items():
        block = truth[:, groups == name]
        np.testing.assert_allclose(matrix, block @ block.T, rtol=0, atol=close * np.square(block).sum(1).max())
    return set(found.by_rows)


@pytest.mark.parametrize("held", [1, 10**9], ids=["in segments", "at once"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_off_the_graph_are_those_of_backward_passes(kind, held):
    # Nothing else takes a backward pass a reading.
    assert assert_equal_to_backward_passes(*KINDS[kind], held) == BY_ROWS.get(kind, set())


class Sum(nn.Module):
    """Two numbers are added before they meet any input."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.25))

    def forward(self, x):
        return x * (self.one + self.two)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_inputs_mixed_in_one_number_do_not_pass_for_one_of_them_where_digits_are_few(kind):
    module = Sum().to(kind)
    for seed in range(60):
        x = inputs(4, 3, dtype=kind, seed=seed)
        assert assert_equal_to_backward_passes(module, x, close=2.0**-6) == {"one", "two"}
        found = rows_of(module(x), tuple(module.parameters())).double().numpy()
        np.testing.assert_array_equal(found, jacobian(module, x, None))


class Mended(nn.Module):
    """A hook of an operation mends the gradient that a tensor's hook has made smaller."""

    def __init__(self):
        super().__init__()
        self.layer = perceptron((4, 3))[0]

    def forward(self, x):
        hidden = self.layer(x)
        if hidden.requires_grad:
            hidden.grad_fn.register_hook(lambda grads, _: tuple(None if one is None else 4.0 * one for one in grads))
        return hooked(torch.tanh(hidden), 0.25)


def test_rows_that_a_hook_of_an_operation_changes_take_backward_passes():
    module, x = Mended(), inputs(5, 4)
    found = rows_of(module(x), tuple(module.parameters())).numpy()
    truth = jacobian(module, x, None)
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12 * np.abs(truth).max())


class Written(nn.Module):
    """Layers that a hand wrote, whose weights are transposed in one of the ways there are."""

    def __init__(self, transposed):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = (nn.Parameter(torch.randn(4, 4, dtype=torch.float64)) for _ in range(2))
        self.transposed = transposed

    def forward(self, x):
        return torch.tanh(x.unflatten(1, (2, 2)).repeat(1, 1, 2) @ self.transposed(self.first)).sum(1) @ self.last


TRANSPOSED = {
    "t()": (lambda w: w.t(), False),
    "T": (lambda w: w.T, False),
    "mT": (lambda w: w.mT, False),
    "transpose": (lambda w: w.transpose(0, 1), False),
    "transpose from the end": (lambda w: w.transpose(-2, -1), False),
    "permute": (lambda w: w.permute(1, 0), False),
    "permute from the end": (lambda w: w.permute(-1, -2), False),
    "not at all": (lambda w: w.permute(0, 1), True),
    "twice": (lambda w: w.T.T, True),
}


@pytest.mark.parametrize("kind", TRANSPOSED)
def test_transposed_weights_are_read_off_the_graph_however_they_are(kind):
    transposed, by_rows = TRANSPOSED[kind]
    taken = assert_equal_to_backward_passes(Written(transposed), inputs(6, 4))
    assert taken == ({"first"} if by_rows else set())
