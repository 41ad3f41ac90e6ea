import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from estim.probe.jax.bank import read_parts  # noqa: E402
from estim.probe.jax.parameters import read_tree  # noqa: E402
from estim.probe.jax.products import jacobian_operator  # noqa: E402
from estim.probe.jax.readings import Function  # noqa: E402
from estim.probe.matrix_free.record import ModelSensitivity  # noqa: E402
from tests.probe.jax.functions import (  # noqa: E402
    PERCEPTRON,
    arrays,
    attention,
    attention_weights,
    branching,
    inputs,
    mixed,
    perceptron_weights,
    whole_jacobian,
)


@pytest.fixture
def huge(monkeypatch):
    """Take every function for one whose readings and parameters are both too many."""
    monkeypatch.setattr(large, "DENSE", 0)
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)


@jax.custom_vjp
def pulled_only(x):
    return jnp.tanh(x)


pulled_only.defvjp(lambda x: (jnp.tanh(x), x), lambda x, cotangent: (cotangent * (1.0 - jnp.tanh(x) ** 2),))


def without_forward_mode(params, bank):
    return pulled_only(PERCEPTRON(params, bank))


@pytest.mark.parametrize(
    ("model", "params", "bank"),
    [
        (PERCEPTRON, perceptron_weights(), inputs(40)),
        (mixed, perceptron_weights(), inputs(40)),
        (branching, perceptron_weights(), inputs(40)),
        (without_forward_mode, perceptron_weights(), inputs(40)),
        (attention, attention_weights(), np.random.default_rng(2).standard_normal((5, 4, 3))),
    ],
    ids=["perceptron", "mixed", "not compiled", "no forward mode", "attention"],
)
def test_products_are_those_of_the_whole_jacobian(double, model, params, bank):
    params = arrays(params)
    jacobian = whole_jacobian(model, params, bank)
    rng = np.random.default_rng(0)
    scale, left, right = (rng.uniform(0.5, 2.0, size) for size in (len(jacobian), *jacobian.shape))
    function = Function(model, read_tree(params))
    matrix = jacobian_operator(function, read_parts(function, bank, False).parts, scale)
    np.testing.assert_allclose(matrix.matvec(right), scale * (jacobian @ right), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(matrix.rmatvec(left), jacobian.T @ (scale * left), rtol=1e-10, atol=1e-12)


@jax.custom_vjp
def off(x):
    return 1.0 * x


off.defvjp(lambda x: (x, None), lambda _, cotangent: (jnp.abs(cotangent),))


def test_products_that_contradict_each_other_are_refused(double):
    function = Function(lambda p, x: off(PERCEPTRON(p, x)), read_tree(arrays(perceptron_weights())))
    parts = read_parts(function, inputs(30), False).parts
    with pytest.raises(
        ArithmeticError, match=r"^products with the Jacobian and with its transpose must agree; u . J v"
    ):
        jacobian_operator(function, parts, np.ones(60))


@pytest.mark.parametrize(("inner", "count"), [(40, 30), (4, 60)], ids=["more parameters", "more readings"])
def test_the_strongest_directions_are_those_of_the_whole_jacobian(double, huge, inner, count):
    params, bank = arrays(perceptron_weights(inner)), inputs(count)
    sigma = np.random.default_rng(0).uniform(0.1, 0.4, 2 * count)
    left, values, right = np.linalg.svd(whole_jacobian(PERCEPTRON, params, bank) / sigma[:, None])
    found = estim.sensitivity(PERCEPTRON, bank, sigma, params=params, keep=3, smallest_change=0.1)
    assert isinstance(found, ModelSensitivity)
    assert found.path.startswith("Lanczos iteration on products with the Jacobian and its transpose")
    assert found.resolved == 16
    np.testing.assert_allclose(found.singular_values, values[:16], rtol=1e-8)
    assert (np.abs(found.singular_values - values[:16]) <= found.errors).all()
    assert found.rest.directions == len(values) - 16
    assert values[16] <= found.rest.bound
    assert abs(np.square(values[16:]).sum() - found.rest.information) <= 5.0 * found.rest.information_se
    np.testing.assert_allclose(np.abs(np.sum(found.readout * left[:, :16], axis=0)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.abs(np.sum(found.directions * right[:3], axis=1)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(found.by_input().sum(), 1.0)
    assert ModelSensitivity.from_json(found.to_json()) == found


def test_the_record_and_its_words_are_those_of_the_same_module_in_torch(double, huge, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("estim.probe.torch.sensitivity.DENSE", 0)
    weights, bank = perceptron_weights(40), inputs(30)
    module = torch.nn.Sequential(torch.nn.Linear(3, 40), torch.nn.Tanh(), torch.nn.Linear(40, 2, bias=False)).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.as_tensor(weights["first"]["weight"].T))
        module[0].bias.copy_(torch.as_tensor(weights["first"]["bias"]))
        module[2].weight.copy_(torch.as_tensor(weights["second"]["weight"].T))
    found = estim.sensitivity(PERCEPTRON, bank, 0.1, params=arrays(weights))
    twin = estim.sensitivity(module, torch.as_tensor(bank), 0.1)
    np.testing.assert_allclose(found.singular_values, twin.singular_values, rtol=1e-9)
    np.testing.assert_allclose(found.group_share, twin.group_share, atol=1e-6)
    assert (found.status, found.path) == (twin.status, twin.path)
    for one, two in zip(found.notes, twin.notes, strict=True):
        assert re.sub(r"[0-9.]+ [GM]iB", "", one) == re.sub(r"[0-9.]+ [GM]iB", "", two)


def test_batches_inputs_left_out_and_float32(huge):
    params, bank = arrays(perceptron_weights(40), jnp.float32), inputs(30).astype(np.float32)
    truth = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    with jax.enable_x64(True):
        exact = whole_jacobian(PERCEPTRON, arrays(params, jnp.float64), bank.astype(float)) / 0.1
    values = np.linalg.svd(exact, compute_uv=False)
    assert (np.abs(truth.singular_values - values[:16]) <= truth.errors).all()
    assert 1e-8 < truth.jacobian_error / values[0] < 1e-4
    batches = estim.Batches(lambda: (bank[k : k + 11] for k in (0, 11, 22)))
    found = estim.sensitivity(PERCEPTRON, batches, 0.1, params=params)
    np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-5)
    lost = np.concatenate([bank[:2], bank[:1] * np.nan, bank[2:]])
    found = estim.sensitivity(PERCEPTRON, lost, 0.1, params=params, nan_policy="omit")
    np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-5)
    assert found.left_out.tolist() == [4, 5]


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e30), ("float32", 1e-30), ("float16", 1e3)])
def test_readings_near_the_ends_of_short_floats_are_read(huge, dtype, size):
    def sized(params, bank):
        return jnp.asarray(size, dtype) * PERCEPTRON(params, bank)

    params, bank = arrays(perceptron_weights(), dtype), jnp.asarray(inputs(20), dtype)
    truth = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    found = estim.sensitivity(sized, bank, 0.1, params=params)
    assert found.resolved == truth.resolved == 16
    np.testing.assert_allclose(
        found.singular_values, size * truth.singular_values, rtol=1e-4 if dtype == "float32" else 0.05
    )


def test_a_slope_that_is_infinite_is_named_by_its_input(huge):
    def root(params, bank):
        return jnp.where(bank > 0.0, jnp.sqrt(bank * params["a"]), 0.0) + params["b"] * bank

    params = {"a": jnp.asarray(1.0), "b": jnp.ones(1)}
    bank = np.array([1.0, 2.0, 0.0, 3.0], dtype=np.float32)
    for free in (2.0**33, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("estim.probe.matrix_free.way.available", lambda free=free: free)
            with pytest.raises(
                ValueError,
                match=r"^derivatives must be finite; those of the readings of input 2 are .* a safe argument",
            ):
                estim.sensitivity(root, bank, 0.1, params=params)


def test_what_cannot_be_compiled_is_said(huge):
    params = arrays(perceptron_weights(), jnp.float32)
    found = estim.sensitivity(branching, inputs(20), 0.1, params=params)
    (note,) = [note for note in found.notes if "step by step" in note]
    assert note.startswith(
        "the model was differentiated step by step, as it cannot be compiled: the model needs the value"
    )


def test_a_covariance_is_refused(huge):
    with pytest.raises(ValueError, match=r"^sigma must be a number or one for each reading where the Gram matrix is"):
        estim.sensitivity(PERCEPTRON, inputs(20), np.eye(40), params=arrays(perceptron_weights(), jnp.float32))


def test_the_path_is_chosen_by_the_memory_that_is_free(monkeypatch, capsys):
    monkeypatch.setattr(large, "DENSE", 0)
    params = arrays(perceptron_weights(40), jnp.float32)
    whole = estim.sensitivity(PERCEPTRON, inputs(30), 0.1, params=params)
    assert whole.rest is None
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 2.0**18)
    found = estim.sensitivity(PERCEPTRON, inputs(30), 0.1, params=params, progress=True)
    (note,) = [note for note in found.notes if note.startswith("path: ")]
    assert note.startswith(
        "path: products with the Jacobian for the 16 strongest directions of 60 readings, 240 parameters; "
    )
    assert "0.25 MiB are free, and the Gram matrices of 2 groups would take " in note
    shown = capsys.readouterr().err
    assert note in shown
    assert int(re.findall(r"(\d+)pass \[", shown)[-1]) >= found.rest.sought
