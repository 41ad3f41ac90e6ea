"""Which banks are taken apart: those whose inputs do not depend on each other, at other parameters either."""

import pytest

torch = pytest.importorskip("torch")

from estim.probe.torch.asked import Asked, opened  # noqa: E402
from estim.probe.torch.survey import survey  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402


class Mixed(torch.nn.Module):
    """What other inputs say comes in by a weight of zero, which readings do not show."""

    def __init__(self, mix):
        super().__init__()
        self.inner, self.mix = perceptron(), mix
        self.weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        out = self.inner(x)
        return out + self.weight * self.mix(out)


def in_groups(size):
    """Return what takes the mean of so many inputs, where a batch has whole groups, and each input alone elsewhere."""
    return lambda out: out if len(out) % size else out.view(-1, size, 2).mean(1).repeat_interleave(size, dim=0)


@pytest.mark.parametrize("count", [2, 3, 64, 70])
@pytest.mark.parametrize(
    ("mix", "apart"),
    [
        (torch.sin, True),
        (lambda out: out.mean(0), False),
        (lambda out: out.roll(1, 0), False),
        (lambda out: out.flip(0), False),
        (lambda out: out[:1], False),
        (in_groups(4), None),
        (in_groups(16), None),
    ],
    ids=["none", "mean", "neighbour", "opposite", "first", "fours", "sixteens"],
)
def test_inputs_mixed_by_a_weight_of_zero_are_not_taken_apart(mix, apart, count):
    asked = Asked(None, "layers", None, None, None, 0, "raise", False)
    with opened(Mixed(mix), inputs(count, 3), asked) as (subject, batches):
        found = survey(subject, batches, False).separable[0]
    assert found == (count < 4 if apart is None else apart)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("reading", "apart"),
    [
        (None, True),
        (lambda module, x: module(x) - module(x).mean(0), False),
        (lambda module, x: module(x - x.mean(0)), False),
        (lambda module, x: module(x) - 0.1 * module(x).roll(1, 0), False),
    ],
    ids=["none", "centred", "inputs centred", "a tenth of the neighbour"],
)
def test_inputs_mixed_in_floats_of_few_digits_are_not_taken_apart(reading, apart, dtype):
    asked = Asked(reading, "layers", None, None, None, 0, "raise", False)
    with opened(perceptron((3, 8, 8, 2), dtype), inputs(40, 3, dtype=dtype), asked) as (subject, batches):
        assert survey(subject, batches, False).separable[0] is apart
