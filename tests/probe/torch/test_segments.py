"""Gradients of tensors that come before go on from where they were left: `source` and `segments`."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd.graph import GradientEdge  # noqa: E402

from estim.probe.torch import segments  # noqa: E402
from estim.probe.torch.asked import Asked, opened  # noqa: E402
from estim.probe.torch.gram import combined_rows, grams_of  # noqa: E402
from estim.probe.torch.graph import in_order  # noqa: E402
from estim.probe.torch.layout import layout_of  # noqa: E402
from estim.probe.torch.source import gate_to  # noqa: E402
from estim.probe.torch.survey import survey  # noqa: E402
from tests.probe.torch.networks import encoder, inputs, probe_module  # noqa: E402

ASKED = Asked(lambda module, bank: module(bank).mean(1)[:, :3], "layers", None, None, None, 0, "raise", False)


class Skips(torch.nn.Module):
    """Two blocks; with a skip from the inputs past both, or with the first weight used again at the end."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.first, self.second = (torch.nn.Linear(4, 4, dtype=torch.float64) for _ in range(2))
        self.split = torch.nn.Linear(4, 8, dtype=torch.float64)
        self.last = torch.nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        hidden = hidden + torch.tanh(self.second(hidden))
        one, two = self.split(hidden).chunk(2, dim=-1)
        found = torch.tanh(self.last(torch.tanh(one) * two))
        if self.kind == "tied":
            return found @ self.first.weight
        return found + self.first(x) if self.kind == "past both" else found


def edge(tensor):
    return GradientEdge(tensor.grad_fn, tensor.output_nr)


def test_the_gate_is_the_last_place_that_all_gradients_pass():
    start = torch.ones(3, requires_grad=True)
    first = start * 2.0
    joined = first.sin() + first.cos()
    left, right = joined * 3.0, joined.exp()
    readings = (left * right).sum()[None, None]
    assert gate_to(readings, [edge(first)]).node is first.grad_fn
    assert gate_to(readings, [edge(left), edge(right)]).node.name() == "MulBackward0"
    assert gate_to(readings, [edge(first.sin()), edge(left)]).node.name() == "MulBackward0"  # the sine is of no reading
    assert gate_to(readings, [edge(joined), edge(first)]).node is joined.grad_fn
    assert gate_to(readings, []) is None


def test_a_node_with_several_gradients_is_no_gate():
    first = torch.ones(4, requires_grad=True) * 2.0
    one, two = torch.split(first * 3.0, 2)
    readings = (one * two).sum()[None, None]
    gate = gate_to(readings, [edge(first)])
    assert gate.node is first.grad_fn  # beyond the split
    assert gate_to(readings, [GradientEdge(one.grad_fn, 0)]).node.name() == "MulBackward0"


@pytest.mark.parametrize("seed", range(20))
def test_the_gate_is_the_last_node_without_which_no_gradient_comes(seed):
    rng = np.random.default_rng(seed)
    made = [torch.ones(3, requires_grad=True).sin()]
    for _ in range(14):
        one, two = (made[-1 - int(back)] for back in np.minimum(rng.geometric(0.6, 2), len(made)) - 1)
        made.append(one * two if rng.random() < 0.5 else one.cos())
    readings, targets = made[-1][None], [made[k] for k in rng.choice(12, 2, replace=False)]

    def reached(without):
        stack, seen = [readings.grad_fn], set()
        while stack:
            node = stack.pop()
            if node is not without and node not in seen:
                seen.add(node)
                stack += [source for source, _ in node.next_functions if source is not None]
        return seen

    ends = [edge(tensor) for tensor in targets if tensor.grad_fn in reached(None)]
    gates = [node for node in in_order(readings.grad_fn) if not reached(node) & {end.node for end in ends}]
    found = gate_to(readings, [edge(tensor) for tensor in targets])
    assert found.node is gates[-1] if ends else found is None


class Scaled(torch.nn.Module):
    """Gradients are changed by one hook, and changed back by another on what a layer returns."""

    def __init__(self, there, back):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = (torch.nn.Linear(4, 4, dtype=torch.float64) for _ in range(2))
        self.there, self.back = there, back

    def forward(self, x):
        before = self.first(x)
        after = torch.tanh(before)
        if after.requires_grad:
            before.register_hook(self.back)
            after.register_hook(self.there)
        return self.last(after)


@pytest.mark.parametrize(("there", "back"), [(4.0, 0.25), (-1.0, -1.0)])
def test_a_hook_that_changes_gradients_back_is_gone_through_once(monkeypatch, there, back):
    module, bank = Scaled(lambda grad: there * grad, lambda grad: back * grad), inputs(9, 4)
    asked = replace(ASKED, readings=None)
    with opened(module, bank, asked) as (subject, batches):
        layout = replace(layout_of(subject, batches, survey(subject, batches, False), held=1), held=1e9)
        rows = combined_rows(subject, layout, np.eye(layout.readings))
    probed = probe_module(module, bank, asked)
    np.testing.assert_allclose(rows, probed.jacobian, rtol=0, atol=1e-12)


@pytest.mark.parametrize("part", [segments._PART, 0.0], ids=["kept", "too large to keep"])
@pytest.mark.parametrize(
    ("module", "bank", "goes_on"),
    [
        (encoder(width=4, inner=5, depth=3), inputs(40, 3, 4), True),
        (Skips("plain"), inputs(40, 3, 4), True),
        (Skips("past both"), inputs(40, 3, 4), False),
        (Skips("tied"), inputs(40, 3, 4), True),  # its weight takes a backward pass a reading
    ],
    ids=["encoder", "plain", "skip past both", "tied"],
)
def test_tensors_taken_one_at_a_time_have_the_gradients_of_all(monkeypatch, module, bank, goes_on, part):
    monkeypatch.setattr(segments, "_PART", part)
    ahead = []  # what part of the graph is ahead of where gradients are taken from
    plain = segments.factors_of

    def watched(readings, uses, source, gate):
        start = readings.grad_fn if source.at is readings else source.at.node
        ahead.append(len(in_order(start)) / len(in_order(readings.grad_fn)))
        return plain(readings, uses, source, gate)

    monkeypatch.setattr(segments, "factors_of", watched)
    rng = np.random.default_rng(0)
    with opened(module, bank, ASKED) as (subject, batches):
        layout = layout_of(subject, batches, survey(subject, batches, False), held=1)
        assert len(layout.segments) > 3
        assert layout.count == 2
        layout = replace(layout, held=1e9 if part else layout.held)
        found = grams_of(subject, layout)
        weights = rng.standard_normal((2, layout.readings))
        rows = combined_rows(subject, layout, weights)
    assert (min(ahead) < 0.5) == (goes_on and part > 0.0)
    probed = probe_module(module, bank, ASKED)
    largest = np.abs(probed.jacobian).max()
    np.testing.assert_allclose(rows, weights @ probed.jacobian, rtol=0, atol=1e-12 * largest * layout.readings)
    for name, matrix in found.groups.items():
        block = probed.jacobian[:, [group == name for group in probed.groups]]
        np.testing.assert_allclose(matrix, block @ block.T, rtol=0, atol=1e-12 * np.square(largest) * block.shape[1])
