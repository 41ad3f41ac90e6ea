import numpy as np
import pytest

torch = pytest.importorskip("torch")

from estim.probe.torch import paired  # noqa: E402
from estim.probe.torch.capture import Factors  # noqa: E402
from estim.probe.torch.paired import paired_strips, takes_less  # noqa: E402


def factors(count, tokens, *, readings=3, outs=5, width=7, kind="linear", dtype=torch.float64):
    draw = torch.Generator().manual_seed(count)
    left = torch.randn(count, readings, tokens, outs, generator=draw, dtype=dtype)
    return Factors(kind, left.unbind(1), torch.randn(count, tokens, width, generator=draw, dtype=dtype))


def rows(part):
    return torch.einsum("nato,nti->naoi", torch.stack(part.left, 1), part.right).flatten(0, 1).flatten(1)


@pytest.mark.parametrize("room", [0, 40, 10**4])
def test_products_in_pairs_are_those_of_the_rows(room, monkeypatch):
    monkeypatch.setattr(paired, "_ROOM", room)
    parts = [factors(4, 2), factors(3, 6), factors(1, 1)]  # batches of sentences differ in length
    found = torch.full((24, 24), torch.nan, dtype=torch.float64)
    for start, strip in paired_strips(parts):
        found[start : start + len(strip), start:] = strip
    whole = torch.cat([rows(part) for part in parts])
    np.testing.assert_allclose(found.triu(), (whole @ whole.T).triu(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("tokens", "outs", "width", "kind", "less"),
    [
        (64, 256, 1024, "linear", True),
        (64, 1024, 256, "linear", False),
        (1, 256, 256, "transposed", True),
        (1, 256, 256, "embedding", False),
    ],
)
def test_few_tokens_and_wide_inputs_take_less_in_pairs(tokens, outs, width, kind, less):
    part = factors(1, tokens, readings=16, outs=outs, width=width, kind=kind)
    assert takes_less([part]) is less
