"""How the singular values of query and key fall as all of them are scaled towards zero, with and without residuals."""

import copy

import numpy as np
import torch
from monitor import LAYERS, group_of, watched

import estim
from estim.attention import Layer, Network

SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)


class WithoutResidual(torch.nn.Module):
    """The end of a block of the encoder, whose input is no longer added to its output."""

    def __init__(self, block):
        super().__init__()
        self.dense, self.LayerNorm = block.dense, block.LayerNorm

    def forward(self, hidden, residual):
        """Leave the residual out."""
        return self.LayerNorm(self.dense(hidden))


def without_residuals(model):
    """Return a copy without the residual stream, neither round attention nor round the feed-forward part."""
    copied = copy.deepcopy(model)
    for layer in copied.encoder.layer:
        layer.attention.output, layer.output = WithoutResidual(layer.attention.output), WithoutResidual(layer.output)
    return copied


def scaled(model, scale):
    """Return a copy in float64 with all query and key weights and biases multiplied by a number."""
    copied = copy.deepcopy(model).double()
    for name, tensor in copied.named_parameters():
        if "query/key" in (group_of(name) or ""):
            tensor.data.mul_(scale)
    return copied


def largest_of_each_layer(monitor, model, sentences, scales=SCALES):
    """Return, for each scale, the largest singular value of each layer's query/key, and what it must exceed."""
    values, resolutions = np.empty((len(scales), LAYERS)), np.empty((len(scales), LAYERS))
    for k, scale in enumerate(scales):
        smaller = scaled(model, scale)
        groups = watched(smaller, ("query/key",))
        found = estim.sensitivity(smaller, monitor.tokens(sentences), 1.0, readings=monitor.scores, groups=groups)
        values[k], resolutions[k] = found.group_singular_values[:, 0], found.group_resolution
    return values, resolutions


def slopes(scales, values, resolutions):
    """Return log-log slopes between consecutive scales; NaN where a value is not resolved."""
    logs = np.log(np.where(values > 10.0 * resolutions, values, np.nan))
    return np.diff(logs, axis=0) / np.diff(np.log(scales))[:, None]


class Attention(torch.nn.Module):
    """One head without residual or normalisation of layers: softmax(X Q (X K)^T) X V."""

    def __init__(self, query, key, value):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Parameter(torch.tensor(w)) for w in (query, key, value))

    def forward(self, x):
        """Return (inputs, tokens, width)."""
        return torch.softmax((x @ self.query) @ (x @ self.key).mT, dim=-1) @ (x @ self.value)


def small_stack(scales=(0.04, 0.02, 0.01), width=3, rank=2, depth=2, inputs=12, tokens=4):
    """Return the slopes of all singular values of a torch stack, those of its twin network, and the exact orders."""
    rng = np.random.default_rng(0)
    weights = [[rng.standard_normal(shape) for shape in ((width, rank),) * 2 + ((width, width),)] for _ in range(depth)]
    bank = rng.standard_normal((inputs, tokens, width))
    torch_values, network_values = [], []
    for scale in scales:
        stack = torch.nn.Sequential(*[Attention(scale * q, scale * k, v) for q, k, v in weights])
        for name, tensor in stack.named_parameters():
            tensor.requires_grad_(not name.endswith("value"))
        readings = estim.sensitivity(stack, torch.tensor(bank), 1.0)
        torch_values.append(readings.raw_singular_values)
        network = Network([Layer(scale * q, scale * k, v) for q, k, v in weights])
        network_values.append(estim.spectrum(network, bank, digits=30, factors=("query", "key")).singular_values)
    exact = estim.contact_orders(Network([Layer(*w) for w in weights]), bank, factors=("query", "key"))
    return scales, np.array(torch_values), np.array(network_values, dtype=float), exact
