import dataclasses
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402

BANK = np.array([1.0, 2.0, 3.0])
PARAMS = {"a": jnp.float32(2.0), "b": jnp.ones(2)}


def line(params, bank):
    return params["a"] * jnp.asarray(bank) + params["b"].sum()


def refused(model, message, error=ValueError, params=PARAMS, bank=BANK, **options):
    with pytest.raises(error, match=message):
        estim.sensitivity(model, bank, 0.1, params=params, **options)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n": jnp.arange(3)}, r"params must hold at least one array of floating point; got 1 leaves of int32"),
        ({"n": jnp.ones(2) > 0}, r"at least one array of floating point; got 1 leaves of bool"),
        ({"q": jnp.ones(2, "float8_e4m3fn")}, r"params must be in floats of 16 bits at least; got float8_e4m3fn for q"),
        ({"z": jnp.ones(2) * 1j}, r"params must be real; got complex64 for z: hold its real and imaginary parts"),
    ],
)
def test_parameters_that_have_no_derivative_are_refused(params, message):
    refused(line, message, TypeError, params)


def test_parameters_that_are_not_finite_are_refused_by_name(monkeypatch):
    params = {"a": jnp.float32(1.0), "b": jnp.array([1.0, jnp.nan])}
    refused(line, r"params must be finite; got nan for b\[1\]", params=params)
    masked = {"a": jnp.float32(1.0), "b": np.ma.masked_array([1.0, 9.0], [False, True])}
    refused(line, r"params must be finite; got nan for b\[1\]", params=masked)
    monkeypatch.setattr(large, "DENSE", 0)
    refused(line, r"params must be finite; got nan for b, entry 1", params=params)


def test_tracers_are_refused():
    with pytest.raises(TypeError, match=r"params must hold values; a is a tracer: call estim outside of functions"):
        jax.jit(lambda p: estim.sensitivity(line, BANK, 0.1, params=p))(PARAMS)


def test_empty_parameters_are_those_of_no_jax_function():
    refused(line, r"params must hold at least one parameter; got none", params={})
    refused(line, r"params must hold at least one parameter; got none", params={"a": jnp.ones(0)})


def test_a_dataclass_that_is_no_pytree_is_named():
    @dataclasses.dataclass
    class Weights:
        a: Any
        b: Any

    weights = Weights(**PARAMS)
    refused(lambda p, x: line(vars(p), x), "got the dataclass Weights for theta: vars", TypeError, params=weights)
    jax.tree_util.register_dataclass(Weights)
    plain = estim.sensitivity(line, BANK, 0.1, params=PARAMS)
    assert estim.sensitivity(lambda p, x: line(vars(p), x), BANK, 0.1, params=weights) == plain


@pytest.mark.parametrize("guard", ["disallow", "disallow_explicit"])
def test_transfers_must_be_allowed(guard):
    with jax.transfer_guard(guard):
        refused(
            line,
            r"JAX may move numbers .*; got jax.transfer_guard\('disallow.*'\): with .*'allow'\) around",
            RuntimeError,
        )
        with jax.transfer_guard("allow"):
            assert estim.sensitivity(line, BANK, 0.1, params=PARAMS).readings


def test_parameters_without_a_name_are_refused():
    message = "params must have a name for every entry; got an empty key"
    refused(line, f"{message}$", params={"": jnp.ones(2)})
    refused(line, f"{message} in a$", params={"a": {"": jnp.ones(2)}})


def test_deleted_parameters_are_refused():
    gone = jnp.ones(2)
    gone.delete()
    refused(line, r"params must hold values; b was deleted", TypeError, {"a": jnp.float32(1.0), "b": gone})


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda p, x: "high", r"the model must return readings that are numbers; got 'high'"),
        (lambda p, x: None, r"the model must return readings that are numbers; got None"),
        (lambda p, x: [], r"the model must return at least one reading; got \[\]"),
        (
            lambda p, x: jnp.argmax(p["b"] * 1.0) + jnp.arange(3),
            r"readings must be of floating point, and change smoothly with the parameters; got int32 \(an argmax",
        ),
        (lambda p, x: p["c"] * x, r"the model raised KeyError\('c'\) for this bank"),
        (
            lambda p, x: jnp.sqrt(-p["a"]) * x,
            r"readings( and derivatives)? must be finite; .*(reading 0|the reading in row 0) \(input 0\) is nan",
        ),
        (
            lambda p, x: p["a"] * x + np.sin(np.asarray(p["b"])).sum(),
            r"the model makes a NumPy array of one of JAX on the way \(numpy in place of jax.numpy, or .item\(\)\)",
        ),
        (
            lambda p, x: float(p["a"]) * p["b"].sum() * jnp.asarray(x),
            r"the model needs the value of an array that depends on the parameters \(an if or while, float\(\)",
        ),
        (
            lambda p, x: p["b"][p["b"] > 0.5].sum() * float(p["a"]) * x,
            r"the model needs the value of an array|the model takes entries by a mask",
        ),
    ],
    ids=["word", "none", "nothing", "whole numbers", "raises", "nan", "numpy", "float", "mask"],
)
def test_what_is_no_reading_is_explained(monkeypatch, dense, model, message):
    monkeypatch.setattr(large, "DENSE", dense)
    refused(model, message, (TypeError, ValueError))


@pytest.mark.parametrize("dense", [3000, 0])
def test_what_is_no_function_and_names_that_clash_are_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    refused(3, r"model must be a callable model\(params, bank\), .* got int", TypeError)
    clash = {"a.b": jnp.float32(1.0), "a": {"b": jnp.float32(1.0)}}
    refused(line, r"params must have a name for each leaf; two are called a.b, as by a key with a dot", params=clash)


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_function_that_is_not_deterministic_is_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    rng = np.random.default_rng(0)
    refused(
        lambda p, x: line(p, x) + rng.standard_normal(), r"the model must be deterministic; two calls with the same"
    )


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_function_that_keeps_an_intermediate_array_is_explained(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    kept = []

    @jax.jit
    def compiled(params, bank):
        kept.append(params["a"])
        return params["a"] * bank

    refused(lambda p, x: compiled(p, x) + kept[-1], r"the model keeps an intermediate array from one call to the next")


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize("place", [0, 1])
def test_a_function_that_donates_its_arguments_is_refused_and_they_are_left(monkeypatch, dense, place):
    monkeypatch.setattr(large, "DENSE", dense)
    bank = jnp.asarray(BANK)
    donating = jax.jit(lambda p, x: jnp.sin(x) * p["a"] + p["b"].sum() + 0.0 * x, donate_argnums=place)
    if place == 0:
        donating = jax.jit(lambda p, x: (p["b"] * p["a"]) * x[:2], donate_argnums=0)
    refused(donating, r"the model must not donate its arguments: it deleted a copy of (params|bank)", bank=bank)
    assert not bank.is_deleted()
    assert not PARAMS["b"].is_deleted()


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_derivative_that_is_not_that_of_the_function_is_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    stopped = lambda p, x: jax.lax.stop_gradient(p["a"]) * jnp.asarray(x) + p["b"].sum()  # noqa: E731
    refused(stopped, r"the derivative that JAX takes must be that of the model; along one direction .* JAX says")


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize("factor", [0.0, 1.01, 1.05, 2.0])
def test_a_custom_derivative_that_is_a_little_off_is_refused(monkeypatch, dense, factor):
    monkeypatch.setattr(large, "DENSE", dense)
    off = jax.custom_vjp(jnp.tanh)
    off.defvjp(lambda x: (jnp.tanh(x), x), lambda x, cotangent: (factor * cotangent * (1.0 - jnp.tanh(x) ** 2),))
    refused(lambda p, x: off(line(p, x) / 4.0), r"the derivative that JAX takes must be that of the model")


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_rounding_that_derivatives_pass_through_is_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)

    def quantised(params, bank):
        readings = line(params, bank)
        return readings + jax.lax.stop_gradient(jnp.round(readings, 1) - readings)

    refused(quantised, r"the derivative that JAX takes must be that of the model", bank=np.linspace(0.0, 3.0, 20))


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_is_refused_where_only_some_inputs_far_from_the_first_have_it(monkeypatch, batches, dtype):
    def stopped(params, bank):
        far = jnp.arange(300) > 260 if len(bank) == 300 else bank[:, 0] > 260
        readings = jnp.tanh(bank[:, :1] * params["a"] / 300.0) * params["b"]
        return jnp.where(far[:, None], jax.lax.stop_gradient(readings), readings)

    monkeypatch.setattr(large, "DENSE", 0)
    bank = np.arange(300.0, dtype=np.float32)[:, None]
    given = estim.Batches(lambda: (bank[k : k + 20] for k in range(0, 300, 20))) if batches else bank
    params = {"a": jnp.asarray(2.0, dtype), "b": jnp.asarray([1.0, 0.5], dtype)}
    refused(stopped, r"the derivative that JAX takes must be that of the model", bank=given, params=params)


@pytest.mark.parametrize("seed", range(4))
def test_kinks_do_not_make_a_derivative_another(monkeypatch, seed):
    monkeypatch.setattr(large, "DENSE", 0)
    draw = np.random.default_rng(seed).standard_normal
    params = {"in": jnp.asarray(draw((3, 40)), jnp.float32), "bias": jnp.zeros(40), "out": jnp.asarray(draw((40, 2)))}
    bank = draw((10, 3)).astype(np.float32)
    bank[0] = 0.0  # where every unit stands at its kink
    model = lambda p, x: jax.nn.relu(x @ p["in"] + p["bias"]) @ p["out"]  # noqa: E731
    assert estim.sensitivity(model, bank, 0.1, params=params).resolved


@pytest.mark.parametrize("dense", [3000, 0])
def test_what_only_other_models_take_is_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    refused(line, r"jac must be left out: JAX differentiates a model whose params are its arrays", jac=lambda p, x: 1.0)
    refused(line, r"readings must be left out with a model that is not a torch.nn.Module", readings=lambda m, x: x)
    refused(line, r"digits need an attention.Network", TypeError, digits=50)
    refused(line, r"bank must hold at least one input", bank=BANK[:0])


def test_what_needs_single_parameters_is_refused_for_a_large_function(monkeypatch):
    monkeypatch.setattr(large, "DENSE", 0)
    refused(line, r"names must be left out: the model is too large for single parameters", names=["x", "y", "z"])
    refused(line, r"smallest_change must be one positive number for a model this large", smallest_change=[1.0, 1.0])
    refused(line, r"groups must have one entry for each of the 2 leaves of a model this large; got 3", groups=[*"xyz"])
    refused(line, r"keep must be a whole number, at least 0; got -1", keep=-1)
    refused(line, r"rtol must be finite and not negative; got -0.1", rtol=-0.1)
    refused(line, r"rtol must be a real number; got 'a'", TypeError, rtol="a")
    with pytest.raises(ValueError, match=r"sigma must be positive for every reading of a model this large"):
        estim.sensitivity(line, BANK, [0.1, 0.0, 0.1], params=PARAMS)


@pytest.mark.parametrize("dense", [3000, 0])
def test_the_input_that_a_function_refuses_is_named(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)

    def picky(params, bank):
        if not isinstance(bank, jax.core.Tracer) and (np.asarray(bank) > 90.0).any():
            raise RuntimeError("too large")
        return line(params, bank)

    bank = np.array([1.0, 2.0, 99.0, 4.0, 5.0, 6.0])
    message = r"the model raised RuntimeError\('too large'\) for this bank; input {} is the first that it also"
    refused(picky, message.format(2), bank=bank)
    refused(picky, "batch 1: " + message.format(0), bank=estim.Batches(lambda: iter([bank[:2], bank[2:]])))


@pytest.mark.parametrize("dense", [3000, 0])
def test_banks_and_parameters_without_values_are_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    gone = jnp.ones(3)
    gone.delete()
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    refused(line, r"bank must hold values; got an array that was deleted", TypeError, bank=gone)
    refused(line, r"bank must hold values; got ShapeDtypeStruct\(shape=\(3,\), dtype=float32\)", TypeError, bank=shape)
    refused(line, r"params must hold values; b is a ShapeDtypeStruct", TypeError, {"a": jnp.float32(1.0), "b": shape})


@pytest.mark.parametrize("dense", [3000, 0])
def test_options_that_are_none_are_refused(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    refused(line, r"^nan_policy must be 'raise' or 'omit'; got 'drop'$", nan_policy="drop")
    refused(line, r"^keep must be a whole number, at least 0; got '3'$", keep="3")
    lost = lambda p, x: line(p, x) * jnp.nan  # noqa: E731
    refused(lost, r"readings (and derivatives )?must be finite; none of 3 is", nan_policy="omit")


def test_the_batch_that_a_function_refuses_is_named(monkeypatch):
    batches = estim.Batches(lambda: iter([BANK, np.ones((2, 2, 2))]))
    only_vectors = lambda p, x: line(p, x) if x.ndim == 1 else x.nothing  # noqa: E731
    refused(only_vectors, r"batch 1: the model raised AttributeError", bank=batches)
    monkeypatch.setattr(large, "DENSE", 0)
    refused(only_vectors, r"batch 1: the model raised AttributeError", bank=batches)


def test_the_switch_is_put_back_after_an_error():
    with jax.enable_x64(True):
        params = {"a": jnp.float64(2.0), "b": jnp.ones(2, dtype=jnp.float64)}
    refused(lambda p, x: p["a"] / 0, r"the model raised|must be finite", params=params)
    assert not jax.config.jax_enable_x64
