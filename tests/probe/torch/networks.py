"""Small torch models for the tests, and what must not change in them."""

import itertools
import random

import numpy as np
import torch

import estim.attention
from estim.probe.torch.asked import in_double, opened
from estim.probe.torch.dense import probed
from estim.probe.torch.survey import survey


class Attention(torch.nn.Module):
    """A layer of the attention family: softmax(X Q K^T X^T) X V."""

    def __init__(self, width, rank, generator):
        super().__init__()
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
        self.query = torch.nn.Parameter(0.5 * draw(width, rank))
        self.key = torch.nn.Parameter(0.5 * draw(width, rank))
        self.value = torch.nn.Parameter(draw(width, width) / width**0.5)

    def forward(self, x):
        scores = (x @ self.query) @ (x @ self.key).mT
        return torch.softmax(scores, dim=-1) @ (x @ self.value)


def attention_stack(depth=2, width=3, rank=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.Sequential(*[Attention(width, rank, generator) for _ in range(depth)])


def as_network(stack):
    layers = [
        estim.attention.Layer(*(getattr(part, name).detach().numpy() for name in ("query", "key", "value")))
        for part in stack
    ]
    return estim.attention.Network(layers)


def perceptron(sizes=(3, 4, 2), dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    parts = []
    for inner, outer in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(inner, outer), torch.nn.Tanh()]
    return torch.nn.Sequential(*parts[:-1]).to(dtype)


def encoder(width=8, heads=2, inner=16, depth=2, dtype=torch.float64, seed=0):
    """Return a torch encoder with a readout of two numbers of the mean token."""
    torch.manual_seed(seed)
    layer = torch.nn.TransformerEncoderLayer(width, heads, inner, batch_first=True)
    stack = torch.nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    for tensor in stack.parameters():
        torch.nn.init.normal_(tensor, std=0.3)
    return stack.to(dtype)


def inputs(count, *shape, dtype=torch.float64, seed=1):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def everything(module):
    """Return all that a probe could change in a module and around it, comparable."""
    state = {name: tensor.detach().clone().numpy().tobytes() for name, tensor in module.state_dict().items()}
    state |= {f"grad {name}": (p.requires_grad, id(p), id(p.grad)) for name, p in module.named_parameters()}
    for path, part in module.named_modules():
        state[f"module {path}"] = (part.training, len(part._forward_hooks), sorted(part.__dict__), id(part))
    state["random"] = (torch.get_rng_state().numpy().tobytes(), random.getstate())
    state["numpy"] = np.random.get_state()[1].tobytes()  # noqa: NPY002
    return state


def with_gradient(pull):
    """Return the identity, with another gradient than it has."""

    class Other(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return 1.0 * x

        @staticmethod
        def backward(context, grad):
            return pull(grad)

    return Other.apply


doubled = with_gradient(lambda grad: 2.0 * grad)


def probe_module(module, bank, asked):
    """Return a module's readings with their whole Jacobian, however large it is."""
    with opened(module, bank, asked) as (subject, batches):
        seen = survey(subject, batches, asked.nan_policy == "omit")
        with in_double(subject, module, bank, asked, seen, True) as double:
            return probed(subject, batches, seen, double, asked)
