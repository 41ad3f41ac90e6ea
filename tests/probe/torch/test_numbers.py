"""Numbers that a user gives beside a module: tensors of torch of every kind, and what is masked."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.masks import unmasked  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402

SIGMA = np.linspace(0.25, 0.5, 8)


@pytest.fixture(params=[3000, 0], ids=["small", "large"])
def probe(request, monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", request.param)
    return lambda sigma=SIGMA, **options: estim.sensitivity(perceptron(), inputs(4, 3), sigma, **options)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.requires_grad_(),
        lambda x: (2.0 * x.requires_grad_()) / 2.0,
        lambda x: torch.stack([x, x], 1)[:, 0],
        torch.nn.Parameter,
        lambda x: torch.complex(x, x).conj().imag.neg(),
    ],
)
def test_tensors_of_every_kind_are_the_numbers_they_hold(probe, made):
    given, found = made(torch.tensor(SIGMA)), probe()
    assert probe(given) == found
    assert probe(smallest_change=made(torch.tensor([1.0]))[0]) == probe(smallest_change=1.0)
    shift = np.arange(8.0)
    for one, other in [(made(torch.tensor(shift)), shift), ((made(torch.tensor(SIGMA)), shift), (SIGMA, shift))]:
        pair = (found.judge(part, smallest_change=estim.AnyChange(1.0, case="typical"), rng=0) for part in (one, other))
        assert next(pair) == next(pair)
    assert estim.judge_models(perceptron(), perceptron(seed=1), inputs(4, 3), given).actual > 0.0


def test_bfloat16_is_read(probe):
    short = torch.tensor(SIGMA).bfloat16()
    assert probe(short) == probe(short.double().numpy())


def test_tensors_without_values_are_refused(probe):
    for given in (torch.ones(8, device="meta"), torch.eye(8).to_sparse()):
        assert unmasked(given) is given
        with pytest.raises(TypeError, match=r"^sigma must be real numbers; got"):
            probe(given)


def test_what_is_masked_is_missing(probe):
    hidden = np.ma.masked_array(SIGMA, np.arange(8) == 3)
    with pytest.raises(ValueError, match=r"^sigma must be finite; got nan at"):
        probe(hidden)
    with pytest.raises(ValueError, match=r"^observed_shift must be finite"):
        probe().judge(hidden, smallest_change=estim.AnyChange(1.0, case="typical"))
    found = probe()
    if isinstance(found, estim.ModelSensitivity):
        with pytest.raises(ValueError, match=r"^readings_shift must be finite"):
            found.shift(hidden)
        with pytest.raises(ValueError, match=r"^smallest_shift must be finite"):
            found.judge(np.zeros(8), smallest_shift=hidden)


def test_flags_are_no_noise(probe):
    with pytest.raises(TypeError, match=r"^sigma must be real numbers; got"):
        probe(torch.ones(8, dtype=torch.bool))
