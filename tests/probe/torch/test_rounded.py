"""Readings that are rounded on the way: to 16 bits by a cast or an autocast, in products, by a fake quantiser."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402

ROWS = inputs(20, 3, dtype=torch.float32)
PRODUCTS = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
NOTE = "readings are rounded to {}, by a cast or an autocast: derivatives are those before it, and sigma must cover"


@pytest.fixture(params=["dense", "streamed", "large"])
def probe(request, monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0 if request.param == "large" else 3000)
    monkeypatch.setattr(module_sensitivity, "ENTRIES", 0 if request.param == "streamed" else 10**9)
    return lambda module, **options: estim.sensitivity(module, ROWS, 0.1, **options)


def noted(found, kind):
    return sum(note.startswith(NOTE.format(kind)) for note in found.notes)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("back", [False, True])
def test_readings_in_16_bits_have_the_derivative_before_the_cast(probe, kind, back):
    module, dtype = perceptron(dtype=torch.float32), getattr(torch, kind)
    found = probe(module, readings=lambda m, x: m(x).to(dtype).to(torch.float32 if back else dtype))
    whole = probe(module)
    assert noted(found, kind) == 1
    assert not any("were not held against differences" in note for note in found.notes)
    assert not noted(whole, kind)
    np.testing.assert_allclose(found.singular_values[:8], whole.singular_values[:8], rtol=0.02)


@pytest.mark.parametrize("wrong", ["detached layer", "halved"])
def test_another_derivative_shows_behind_the_cast(probe, wrong):
    def read(m, x):
        if wrong == "halved":
            return (m(x) / 2 + m(x).detach() / 2).bfloat16()
        return m[2](torch.tanh(m[0](x)).detach()).bfloat16()

    with pytest.raises(ValueError, match=r"^the derivative that torch takes must be .* changes by \S+ \+- \S+, torch"):
        probe(perceptron(dtype=torch.float32), readings=read)


def test_it_is_said_where_16_bits_say_too_little(probe):
    found = probe(perceptron(dtype=torch.float32), readings=lambda m, x: (300.0 + m(x) / 64).bfloat16())
    assert noted(found, "bfloat16") == 1
    assert sum("which say too little in bfloat16" in note for note in found.notes) == 1


def test_an_autocast_around_the_call_is_one_inside_the_model(probe):
    # What an autocast has cast it keeps: moved weights would be read as they were.
    module = perceptron(dtype=torch.float32)

    def inside(m, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(x)

    within = probe(module, readings=inside)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        around = probe(module)
        assert torch.is_autocast_cache_enabled()
    assert noted(within, "bfloat16") == 1
    assert around.notes == within.notes
    np.testing.assert_array_equal(around.singular_values, within.singular_values)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_a_cast_on_the_way_is_named(probe, kind):
    def read(m, x):
        return m[2](torch.tanh(m[0](x)).to(getattr(torch, kind)).to(x.dtype))

    module, said = (
        perceptron(dtype=torch.float32),
        f"numbers are rounded to {kind} on the way, by a cast or an autocast",
    )
    (note,) = [note for note in probe(module, readings=read).notes if note.startswith(said)]
    assert note.endswith("a derivative that is not the model's, as of a detach, may not show")
    assert not any("on the way" in note for note in probe(module).notes)
    # Of a copy in float64 the rounding is all that differences see.
    with pytest.raises((ValueError, ArithmeticError), match=f"[(;] ?{said}, "):
        probe(module, readings=read, dtype=torch.float64)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_are_those_of_float32(probe, precision):
    module = perceptron((3, 300, 200), dtype=torch.float32)
    seen = []

    def read(m, x):
        seen.append([products.fp32_precision for products in PRODUCTS])
        return m(x)[:, :2]

    plain = probe(module, readings=read)
    torch.set_float32_matmul_precision(precision)
    try:
        again = probe(module, readings=read)
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision("highest")
    assert again == plain
    assert {tuple(each) for each in seen} == {("ieee", "ieee")}


class Quantised(torch.nn.Module):
    """A perceptron whose last weights are rounded as int8 would have them."""

    def __init__(self, width):
        super().__init__()
        self.inner, self.fake_quant_enabled = perceptron((3, width, 2), dtype=torch.float32), True

    def forward(self, x):
        weight = self.inner[2].weight
        if self.fake_quant_enabled:
            weight = torch.fake_quantize_per_tensor_affine(weight, 2.0**-7, 0, -128, 127)
        return torch.nn.functional.linear(torch.tanh(self.inner[0](x)), weight, self.inner[2].bias)


@pytest.mark.parametrize("width", [8, 500])
def test_a_fake_quantiser_is_refused(probe, width):
    # Of many weights some cross a step however short the way is: differences agree with gradients on average.
    module = Quantised(width)
    with pytest.raises(ValueError, match=r"; FakeQuantizePerTensorAffineCachemaskBackward0 rounds, and gradients pass"):
        probe(module)
    module.fake_quant_enabled = False
    assert probe(module).readings == 40


@pytest.mark.filterwarnings("ignore")
def test_a_fused_fake_quantiser_counts_where_it_is_switched_on(probe):
    quantization = pytest.importorskip("torch.ao.quantization")
    module = perceptron(dtype=torch.float32)
    module.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.prepare_qat(module.train(), inplace=True)
    module(ROWS)
    module.apply(quantization.disable_observer)
    with pytest.raises(ValueError, match=r"; FusedMovingAvgObsFqHelperBackward0 rounds, and gradients pass"):
        probe(module)
    module.apply(quantization.disable_fake_quant)
    assert probe(module).readings == 40
