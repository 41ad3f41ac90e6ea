"""Modules of kinds that people use, each on every way there is, beside a backward pass for each reading."""

import dataclasses
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations, prune  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import everything, inputs  # noqa: E402

SIGMA = 0.1


class Two(nn.Module):
    """Two linear layers, the first one wrapped."""

    def __init__(self, wrap=lambda layer: layer):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces the end of its older weight_norm
            self.first, self.second = wrap(nn.Linear(4, 6)), nn.Linear(6, 2)

    def hidden(self, x):
        return torch.tanh(self.first(x))

    def forward(self, x):
        return self.second(self.hidden(x))


class Plain(nn.Module):
    """What TorchScript can compile."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def quietly(build, *given):
    """Call what torch has announced the end of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(*given)


class Merged(Two):
    """A frozen layer with an adapter of low rank merged on its way."""

    def __init__(self):
        super().__init__(lambda layer: layer.requires_grad_(False))
        self.down, self.up = (nn.Parameter(0.5 * torch.randn(shape)) for shape in ((2, 4), (6, 2)))

    def hidden(self, x):
        return torch.tanh(nn.functional.linear(x, self.first.weight + self.up @ self.down, self.first.bias))


class Tied(nn.Module):
    """A language model of one layer, its words read out by what they are read in by."""

    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(11, 4, padding_idx=0), nn.Linear(4, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.layer(self.words(ids)))).mean(1)[:, :3]


class Convolved(nn.Module):
    """Convolutions of one and two dimensions, in groups and transposed, with two kinds of normalisation."""

    def __init__(self):
        super().__init__()
        self.one, self.norm = nn.Conv1d(2, 4, 3, padding=1, groups=2), nn.GroupNorm(2, 4)
        self.two, self.batch = nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3)
        self.back, self.head = nn.ConvTranspose2d(3, 2, 2), nn.Linear(6, 2)

    def forward(self, x):
        line = torch.relu(self.norm(self.one(x.reshape(-1, 2, 8)))).mean(-1)
        image = nn.functional.gelu(self.back(self.batch(self.two(x.reshape(-1, 1, 4, 4)))))
        return self.head(torch.cat([line, image.amax((-1, -2))], dim=1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Attending(nn.Module):
    """Attention with padding, by torch's own layer and its encoder."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True)
        layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(4, 2)

    def forward(self, x, padding):
        x = self.encoder(x + self.attention(x, x, x, key_padding_mask=padding)[0], src_key_padding_mask=padding)
        kept = (~padding)[..., None]
        return self.head((x * kept).sum(1) / kept.sum(1))


class Checkpointed(Two):
    def hidden(self, x):
        return checkpoint(super().hidden, x, use_reentrant=False)


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: torch.Tensor


class Writing(Two):
    """Returns an object, writes into buffers, and keeps what it computed in attributes of all kinds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(6))
        self.history, self.cache, self.last = [], {}, None

    def forward(self, x):
        hidden = self.hidden(x)
        self.seen += 1
        self.mean.mul_(0.9).add_(0.1 * hidden.detach().mean(0))
        self.history.append(hidden)
        self.cache[len(self.history)] = hidden
        self.last = (hidden, x)
        return Output(self.second(hidden), hidden)


class Odd(nn.Module):
    """Parameters in lists and dicts, a scalar one, one that no reading uses, and a layer used three times."""

    def __init__(self):
        super().__init__()
        self.listed = nn.ParameterList([nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3, 2))])
        self.named = nn.ParameterDict({"gain": nn.Parameter(torch.ones(3))})
        self.scale, self.unused, self.layer = nn.Parameter(torch.tensor(0.7)), nn.Linear(2, 2), nn.Linear(4, 4)
        self.pairs, self.slope = nn.Bilinear(4, 4, 2), nn.PReLU(2)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.layer(x)) + x
        product = torch.einsum("bi,ij,j,jk->bk", x, self.listed[0], self.named["gain"], self.listed[1])
        return self.scale * torch.sin(product) + self.slope(self.pairs(x, x))


PADDING = torch.zeros(7, 5, dtype=torch.bool)
PADDING[1, 3:], PADDING[4, 2:] = True, True
IDS = torch.tensor(
    [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [1, 3, 5, 0, 0], [2, 4, 6, 8, 10], [7, 1, 4, 10, 0], [9, 9, 9, 1, 2]]
)
ROWS = inputs(7, 4)
KINDS = {
    "weight norm": (lambda: Two(parametrizations.weight_norm), ROWS),
    "older weight norm": (lambda: Two(nn.utils.weight_norm), ROWS),
    "spectral norm": (lambda: Two(parametrizations.spectral_norm), ROWS),
    "older spectral norm": (lambda: Two(nn.utils.spectral_norm), ROWS),
    "pruned": (lambda: Two(lambda layer: prune.random_unstructured(layer, "weight", 0.5)), ROWS),
    "merged": (Merged, ROWS),
    "tied": (Tied, IDS),
    "convolved": (Convolved, inputs(7, 16)),
    "recurrent": (Recurrent, inputs(7, 5, 3)),
    "attending": (Attending, (inputs(7, 5, 4), PADDING)),
    "checkpointed": (Checkpointed, ROWS),
    "writing": (Writing, ROWS),
    "odd": (Odd, ROWS),
    "scripted": (lambda: quietly(torch.jit.script, Plain()), ROWS),
    "traced": (lambda: quietly(torch.jit.trace, Plain(), ROWS.float()), ROWS),
    "compiled": (lambda: torch.compile(Two(), backend="eager"), ROWS),
    "in parallel": (lambda: nn.DataParallel(Two()), ROWS),
}  # fmt: skip
WAYS = {"whole": (3000, 10**9, 2.0**33), "stream": (3000, 0, 2.0**33), "gram": (0, 0, 2.0**33), "top": (0, 0, 0.0)}


def in_dtype(bank, dtype):
    if isinstance(bank, tuple):
        return tuple(in_dtype(part, dtype) for part in bank)
    return bank.to(dtype) if bank.is_floating_point() else bank


def readings(module, bank):
    given = module(*bank) if isinstance(bank, tuple) else module(bank)
    return given if isinstance(given, torch.Tensor) else given.logits


def made(kind, dtype):
    """Return a module that has been used, and its bank."""
    torch.manual_seed(1)
    build, bank = KINDS[kind]
    module, bank = build().to(dtype), in_dtype(bank, dtype)
    readings(module, bank)
    return module, bank


def twin(kind, dtype, state):
    module = KINDS[kind][0]().to(dtype).eval()
    module.load_state_dict(state)
    return module


def singular_values(kind, module):
    """Return those of the whitened Jacobian in float64, from a backward pass for each reading."""
    double, bank = twin(kind, torch.float64, module.state_dict()), in_dtype(KINDS[kind][1], torch.float64)
    flat = readings(double, bank).reshape(-1)
    tensors, rows = [tensor for tensor in double.parameters() if tensor.requires_grad], []
    for reading in flat:
        grads = torch.autograd.grad(reading, tensors, retain_graph=True, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([grad.reshape(-1) for grad in grads]))
    return np.linalg.svd(torch.stack(rows).numpy() / SIGMA, compute_uv=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_of_every_kind_is_read_right_and_left_alone(monkeypatch, kind, way, dtype):
    dense, entries, free = WAYS[way]
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    monkeypatch.setattr(module_sensitivity, "ENTRIES", entries)
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: free)
    module, bank = made(kind, dtype)
    truth, before = singular_values(kind, module), everything(module)
    kept = [list(part.__dict__.values()) for part in module.modules()], len(getattr(module, "history", ()))
    found = estim.sensitivity(module, bank, SIGMA, readings=readings)
    count = min(found.resolved, len(truth))
    close = 1e-9 if dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(found.singular_values[:count], truth[:count], atol=close * truth[0])
    assert count <= np.count_nonzero(truth > 1e-12 * truth[0])
    assert everything(module) == before
    now = [list(part.__dict__.values()) for part in module.modules()], len(getattr(module, "history", ()))
    assert all(a is b for old, new in zip(kept[0], now[0], strict=True) for a, b in zip(old, new, strict=True))
    assert now[1] == kept[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_a_module_of_every_kind_is_judged_right(kind, own, dtype):
    module, bank = made(kind, dtype)
    other = twin(kind, dtype, module.state_dict())
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for tensor in other.parameters():
            tensor.add_(1e-4 * torch.randn(tensor.shape, generator=generator).to(dtype))
        pair = (readings(twin(kind, dtype, part.state_dict()), bank).double() for part in (other, module))
        actual = float((next(pair) - next(pair)).norm()) / SIGMA
    found = estim.judge_models(module, other if own else other.state_dict(), bank, SIGMA, readings=readings)
    assert found.actual == pytest.approx(actual, rel=1e-6, abs=found.error)
    assert found.predicted == pytest.approx(actual, rel=0.05, abs=found.error)
    assert found.error < 0.05 * actual


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_reentrant_checkpoint_whose_inputs_need_no_gradient_is_refused():
    class Reentrant(Two):
        def hidden(self, x):
            return checkpoint(super().hidden, x, use_reentrant=True)

    module = Reentrant().double()
    with pytest.raises(ValueError, match=r"a checkpoint with use_reentrant=True"):
        estim.sensitivity(module, ROWS, SIGMA)


@pytest.mark.parametrize("way", WAYS)
def test_a_short_module_that_has_no_copy_says_how_its_error_is_known(monkeypatch, way):
    dense, entries, free = WAYS[way]
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    monkeypatch.setattr(module_sensitivity, "ENTRIES", entries)
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: free)
    module, bank = made("weight norm", torch.float32)
    truth = singular_values("weight norm", module)
    module.handle = (k for k in range(3))  # generators cannot be copied
    found = estim.sensitivity(module, bank, SIGMA)
    assert any("by moving the parameters a little, as float64 is out of reach" in note for note in found.notes)
    np.testing.assert_allclose(found.singular_values[: found.resolved], truth[: found.resolved], atol=1e-4 * truth[0])
