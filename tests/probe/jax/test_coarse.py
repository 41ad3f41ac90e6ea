"""Functions that compute in 16 bits whatever they are given, so that no copy in float64 tells of their derivatives."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from estim.probe.matrix_free.coarse import require_coarse_slopes  # noqa: E402
from tests.probe.jax.functions import PERCEPTRON, arrays, inputs, perceptron_weights  # noqa: E402

NOTE = "derivatives were not held against differences of the readings, which say too little in {}"
WRONG = (
    r"^the derivative that JAX takes must be that of the model; along one direction .* changes by .* \+- .*, JAX says"
)


def short(dtype, wrong=lambda readings, params, bank: readings):
    """Return a perceptron that casts what it is given."""

    def function(params, bank):
        params, bank = arrays(params, dtype), jnp.asarray(bank, dtype)
        return wrong(PERCEPTRON(params, bank), params, bank)

    return function


def stopped(readings, params, bank):
    hidden = jax.tree_util.tree_map(jax.lax.stop_gradient, params["first"])
    return PERCEPTRON({**params, "first": hidden}, bank)


def halved(readings, params, bank):
    return readings / 2 + jax.lax.stop_gradient(readings) / 2


def hidden_in_rounding(readings, params, bank):
    return jnp.asarray(300.0, readings.dtype) + readings / 64


def asked(dtype, wrong, **options):
    params = arrays(perceptron_weights(), dtype)
    return estim.sensitivity(short(dtype, wrong), inputs(20), 0.1, params=params, **options)


@pytest.fixture(params=["dense", "streamed", "large"])
def way(request, monkeypatch):
    monkeypatch.setattr(large, "DENSE", 0 if request.param == "large" else 3000)
    monkeypatch.setattr(large, "ENTRIES", 0 if request.param == "streamed" else 10**9)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_derivative_is_refused_that_is_not_that_of_the_function(way, dtype):
    found = asked(dtype, lambda readings, params, bank: readings)
    assert any("by moving the parameters a little" in note for note in found.notes)
    assert not any(note.startswith(NOTE.format(dtype)) for note in found.notes)
    for wrong in (stopped, halved):
        with pytest.raises(ValueError, match=WRONG):
            asked(dtype, wrong)


def test_it_is_said_where_short_floats_say_too_little(way):
    found = asked("bfloat16", hidden_in_rounding)
    assert sum(note.startswith(NOTE.format("bfloat16")) for note in found.notes) == 1


@pytest.mark.parametrize("dense", [3000, 0])
def test_it_is_said_where_two_models_are_compared(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    before, after = (arrays(perceptron_weights(seed=seed), "bfloat16") for seed in (0, 1))
    given = {"model": short("bfloat16", hidden_in_rounding)}
    found = estim.judge_models(before, after, inputs(20), 0.1, **given)
    assert sum(note.startswith(NOTE.format("bfloat16")) for note in found.notes) == 1


def test_it_is_said_where_readings_are_left_out():
    def root(params, bank):
        return jnp.sqrt(jnp.asarray(bank, "float16")) * params["a"].astype("float16")

    params = {"a": jnp.asarray(2.0, "float16")}
    found = estim.sensitivity(root, np.array([1.0, -1.0, 4.0]), 0.1, params=params, nan_policy="omit")
    assert any(note.startswith(NOTE.format("float16")) for note in found.notes)


def test_readings_in_single_precision_that_are_computed_in_16_bits_are_not_refused(way):
    model = lambda p, x: short("bfloat16")(p, x).astype(jnp.float32)  # noqa: E731
    found = estim.sensitivity(model, inputs(20), 0.1, params=arrays(perceptron_weights(), jnp.float32))
    assert found.resolved


@pytest.mark.parametrize("kink", [0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_bends_and_kinks_are_no_contradiction(kink, noise):
    rng, slopes = np.random.default_rng(0), np.array([1.0, -2.0])

    def changed(step):
        bent = np.array([np.expm1(step), np.sin(-2.0 * step) - max(step - kink, 0.0)])
        return bent + noise * rng.standard_normal(2)

    enough = require_coarse_slopes(changed, lambda step: step * slopes, np.abs(slopes), "JAX (a cause)")
    assert enough == (noise < 5e-3)


@pytest.mark.parametrize("kink", [0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_another_slope_is_a_contradiction_beside_a_kink(kink, factor):
    rng = np.random.default_rng(1)

    def changed(step):
        return np.sin(np.array([step])) + 0.1 * max(step - kink, 0.0) + 1e-3 * rng.standard_normal(1)

    with pytest.raises(ValueError, match=r"a combination of readings changes by .* JAX says .* \(a cause\)$"):
        require_coarse_slopes(changed, lambda step: factor * np.array([step]), np.ones(1), "JAX (a cause)")
