import dataclasses
import itertools

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from estim.probe.model.probe import probe  # noqa: E402
from tests.probe.jax.functions import (  # noqa: E402
    arrays,
    as_network,
    attention,
    attention_weights,
    inputs,
    perceptron_of,
    perceptron_weights,
    whole_jacobian,
)

PERCEPTRON = perceptron_of(jnp)


@pytest.mark.parametrize("count", [3, 12, 90])  # backwards in one block; forwards; with a last block that is shorter
def test_the_jacobian_is_that_of_jacrev(double, count):
    params, bank = arrays(perceptron_weights()), inputs(count)
    found = probe(PERCEPTRON, bank, params=params)
    truth = whole_jacobian(PERCEPTRON, params, bank)
    np.testing.assert_allclose(found.jacobian, truth, rtol=1e-12, atol=1e-14)
    assert (np.abs(found.jacobian - truth) <= found.error + 1e-15).all()
    assert found.inputs.tolist() == np.repeat(np.arange(count), 2).tolist()
    assert found.derivative == "automatic differentiation in float64"


def test_many_rows_are_taken_back_in_blocks(double):
    params, bank = arrays(perceptron_weights(inner=40)), inputs(45)
    found = probe(PERCEPTRON, bank, params=params)
    assert 64 < len(found.jacobian) < found.jacobian.shape[1]
    np.testing.assert_allclose(found.jacobian, whole_jacobian(PERCEPTRON, params, bank), rtol=1e-12, atol=1e-14)


def test_the_record_is_that_of_the_same_model_in_numpy(double):
    weights, bank = perceptron_weights(), inputs(7)
    found = estim.sensitivity(PERCEPTRON, bank, 0.1, params=arrays(weights))
    twin = estim.sensitivity(perceptron_of(np), bank, 0.1, params=weights)
    assert (found.names, found.groups, found.status) == (twin.names, twin.groups, twin.status)
    resolved = found.resolved
    np.testing.assert_allclose(found.singular_values[:resolved], twin.singular_values[:resolved], rtol=1e-11)
    np.testing.assert_allclose(found.standard_errors, twin.standard_errors, rtol=1e-8)
    assert found.unseen == twin.unseen


def test_an_attention_stack_equals_the_network_of_the_family(double):
    layers = attention_weights()
    bank = np.random.default_rng(2).standard_normal((8, 4, 3))
    found = estim.sensitivity(attention, bank, 0.01, params=arrays(layers))
    twin = estim.sensitivity(as_network(layers), bank, 0.01)
    # The network's gauge is proven; that of the function is only unresolved.
    assert found.resolved == twin.resolved < len(found.names)
    np.testing.assert_allclose(
        found.singular_values[: found.resolved], twin.singular_values[: twin.resolved], rtol=1e-9
    )


def test_float32_is_honest_about_its_precision():
    weights, bank = perceptron_weights(), inputs(12).astype(np.float32)
    single = arrays(weights, jnp.float32)
    found = probe(PERCEPTRON, bank, params=single)
    exact = {k: {n: np.asarray(a).astype(float) for n, a in part.items()} for k, part in single.items()}
    truth = probe(perceptron_of(np), bank.astype(float), params=exact)
    off = np.abs(found.jacobian - truth.jacobian)
    assert (off <= found.error + truth.error).all()
    assert off.max() > 1e-9  # so that the error has something to cover
    assert np.median(found.error[found.jacobian != 0.0]) < 1e-6
    assert found.derivative == "automatic differentiation in float32"
    assert "beside a copy in float64" in found.notes[-1]


def test_float32_does_not_resolve_what_only_float64_can():
    def pair(params, bank):
        return jnp.stack(
            [(params["a"] + params["b"]) * bank, (params["a"] + (1.0 + 1e-8) * params["b"]) * bank], axis=1
        )

    bank = np.array([1.0, 2.0])
    params = {"a": jnp.float32(1.0), "b": jnp.float32(2.0)}
    with jax.enable_x64(True):
        doubled = {"a": jnp.float64(1.0), "b": jnp.float64(2.0)}
    assert estim.sensitivity(pair, bank, 0.1, params=params).resolved == 1
    assert estim.sensitivity(pair, bank, 0.1, params=doubled).resolved == 2


def test_arrays_in_float64_are_probed_in_float64_with_the_switch_off():
    with jax.enable_x64(True):
        params = arrays(perceptron_weights(), jnp.float64)
    found = estim.sensitivity(PERCEPTRON, inputs(), 0.1, params=params)
    assert not jax.config.jax_enable_x64
    assert found.derivative == "automatic differentiation in float64"
    assert found.resolution < 1e-11


def test_a_function_that_casts_to_float32_is_measured_by_moving():
    def short(params, bank):
        return PERCEPTRON(arrays(params, jnp.float32), jnp.asarray(bank, jnp.float32))

    params = arrays(perceptron_weights(), jnp.float32)
    found, twin = (probe(f, inputs(), params=params) for f in (short, PERCEPTRON))
    assert "by moving the parameters a little" in found.notes[-1]
    assert (np.abs(found.jacobian - twin.jacobian) <= found.error + twin.error).all()
    assert 1e-8 < np.median(found.error[found.jacobian != 0.0]) < 1e-4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_shorter_floats_are_read_and_known_for_what_they_are(dtype):
    params = arrays(perceptron_weights(), dtype)
    found = probe(PERCEPTRON, jnp.asarray(inputs(), dtype), params=params)
    assert found.derivative == f"automatic differentiation in {dtype}"
    assert np.median(found.error[found.jacobian != 0.0]) > 1e-4


def test_a_branch_on_a_value_is_differentiated_step_by_step(double):
    def branch(params, bank):
        return params["a"] * bank if params["a"] > 0 else params["a"] ** 2 * bank

    found = probe(branch, np.array([1.0, 2.0, 3.0]), params={"a": jnp.asarray(2.0)})
    assert found.jacobian.ravel().tolist() == [1.0, 2.0, 3.0]
    assert any(
        "step by step, as it cannot be compiled: the model needs the value of an array" in n for n in found.notes
    )


def test_a_loop_that_cannot_go_backwards_goes_forwards(double):
    def newton(params, bank):
        return jax.lax.while_loop(
            lambda x: jnp.abs(x**2 - params[0]).max() > 1e-14, lambda x: (x + params[0] / x) / 2, bank
        )

    wide = jnp.asarray([2.0, 1.0, 1.0])
    found = probe(newton, np.array([1.0]), params=wide)
    np.testing.assert_allclose(found.jacobian, [[0.5 / 2.0**0.5, 0.0, 0.0]], rtol=1e-12, atol=1e-15)
    assert any("not differentiated the cheaper way" in note for note in found.notes)


def test_a_compiled_function_gives_the_same(double):
    params, bank = arrays(perceptron_weights()), inputs()
    found, plain = (probe(f, bank, params=params) for f in (jax.jit(PERCEPTRON), PERCEPTRON))
    np.testing.assert_allclose(found.jacobian, plain.jacobian, rtol=1e-13, atol=1e-15)
    assert not found.notes


def test_complex_readings_are_two(double):
    def wave(params, bank):
        return jnp.exp(1j * params["rate"] * bank)

    bank = np.array([0.3, 0.7])
    found = probe(wave, bank, params={"rate": jnp.asarray(2.0)})
    derivative = 1j * bank * np.exp(2j * bank)
    np.testing.assert_allclose(found.jacobian[:, 0], np.concatenate([derivative.real, derivative.imag]), rtol=1e-14)
    assert found.complex


def test_nested_readings_come_in_their_own_order(double):
    def nested(params, bank):
        return {"b": params * bank, "a": (params**2, bank * 3.0 * params)}

    found = probe(nested, np.array([1.0, 2.0]), params=jnp.asarray(2.0))
    assert found.readings.tolist() == [2.0, 4.0, 4.0, 6.0, 12.0]
    assert found.jacobian.ravel().tolist() == [1.0, 2.0, 4.0, 3.0, 6.0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Output:
    """What a model may return."""

    logits: jax.Array
    state: jax.Array | None = None


@pytest.mark.parametrize("dense", [3000, 0])
def test_readings_may_be_in_any_pytree(double, monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    params, bank = arrays(perceptron_weights()), inputs(6)
    whole = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    for wrap in (Output, lambda out: (out, None), lambda out: {"out": Output(out)}):
        found = estim.sensitivity(lambda p, x, wrap=wrap: wrap(PERCEPTRON(p, x)), bank, 0.1, params=params)
        np.testing.assert_allclose(found.singular_values[:12], whole.singular_values[:12], rtol=1e-12)
        np.testing.assert_allclose(found.by_input(), whole.by_input(), atol=1e-8)


def test_leaves_of_several_precisions_are_probed(monkeypatch):
    weights = perceptron_weights()
    with jax.enable_x64(True):
        params = {
            "first": {
                "bias": jnp.asarray(weights["first"]["bias"], "bfloat16"),
                "weight": jnp.asarray(weights["first"]["weight"]),
            },
            "second": {"weight": jnp.asarray(weights["second"]["weight"], "float32")},
        }
        truth = whole_jacobian(PERCEPTRON, arrays(params, jnp.float64), inputs(6))
    found = probe(PERCEPTRON, inputs(6), params=params)
    assert found.derivative == "automatic differentiation in bfloat16"
    assert (np.abs(found.jacobian - truth) <= found.error + 1e-12).all()
    monkeypatch.setattr(large, "DENSE", 0)
    assert estim.sensitivity(PERCEPTRON, inputs(6), 0.1, params=params).resolved == 12


@pytest.mark.parametrize("dense", [3000, 0])
def test_random_numbers_that_float64_would_draw_anew_are_no_error(monkeypatch, dense):
    def noisy(params, keys):
        return PERCEPTRON(params, jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys))

    monkeypatch.setattr(large, "DENSE", dense)
    params, keys = arrays(perceptron_weights(), jnp.float32), jax.random.split(jax.random.key(0), 6)
    drawn = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys)).astype(float)
    truth = np.linalg.svd(whole_jacobian(PERCEPTRON, params, drawn) / 0.1, compute_uv=False)
    found = estim.sensitivity(noisy, keys, 0.1, params=params)
    assert found.resolved == 12
    np.testing.assert_allclose(found.singular_values[:12], truth, rtol=1e-4)
    assert any("by moving the parameters a little" in note for note in found.notes)


def test_batches_read_as_the_whole(double):
    params, bank = arrays(perceptron_weights()), inputs(10)
    whole = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    batches = estim.Batches(lambda: (bank[i : i + 4] for i in range(0, 10, 4)))
    found = estim.sensitivity(PERCEPTRON, batches, 0.1, params=params)
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-12)
    assert found.inputs.tolist() == whole.inputs.tolist()


def test_batches_of_one_shape_are_compiled_once(double):
    traced = []

    def counted(params, bank):
        if isinstance(bank, jax.core.Tracer):
            traced.append(bank.shape)
        return PERCEPTRON(params, bank)

    params, bank = arrays(perceptron_weights()), inputs(22)
    batches = estim.Batches(lambda: (bank[i : i + 4] for i in range(0, 22, 4)))
    found = estim.sensitivity(counted, batches, 0.1, params=params)
    whole = estim.sensitivity(PERCEPTRON, bank, 0.1, params=params)
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-12)
    assert sorted(traced) == [(2, 3), (4, 3)]


def test_numpy_may_work_on_the_bank(double):
    def scaled(params, bank):
        return PERCEPTRON(params, np.log(np.abs(np.asarray(bank))))

    params, bank = arrays(perceptron_weights()), inputs(10)
    found = probe(scaled, bank, params=params)
    np.testing.assert_allclose(found.jacobian, whole_jacobian(scaled, params, bank), rtol=1e-12, atol=1e-14)
    assert not found.notes


def test_readings_that_are_nan_are_left_out_with_their_rows_only(double):
    def root(params, bank):
        return jnp.sqrt(bank) * params["a"] + params["b"] * bank**2

    bank = np.array([1.0, -1.0, 4.0])
    params = {"a": jnp.asarray(1.0), "b": jnp.asarray([2.0])}
    with pytest.raises(
        ValueError, match=r"readings and derivatives must be finite; the reading in row 1 \(input 1\) is"
    ):
        estim.sensitivity(root, bank, 0.1, params=params)
    found = probe(root, bank, params=params, nan_policy="omit")
    np.testing.assert_allclose(found.jacobian, [[1.0, 1.0], [2.0, 16.0]])
    assert found.kept.tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_ways_to_ask_take_the_function_as_a_callable(dtype):
    def decay(params, bank):
        return params["a"] * jnp.exp(-params["rate"] * bank)

    def plain(params, bank):
        return params["a"] * np.exp(-params["rate"] * bank)

    bank, start = np.linspace(0.0, 3.0, 7), {"a": 2.0, "rate": 0.5}
    with jax.enable_x64(dtype == np.float64):
        params = arrays(start, dtype)
        moved = arrays({"a": 2.0, "rate": 0.625}, dtype)
    close = {"rtol": 1e-9 if dtype == np.float64 else 2e-5}

    found, twin = (
        estim.linearity(f, bank, {"rate": 0.1}, 0.05, params=p) for f, p in ((decay, params), (plain, start))
    )
    np.testing.assert_allclose([found.predicted, found.actual], [twin.predicted, twin.actual], **close)
    assert abs(found.actual - twin.actual) <= found.error + twin.error
    along, other = (
        estim.response_along(f, bank, {"rate": 1.0}, params=p, upper=0.3) for f, p in ((decay, params), (plain, start))
    )
    np.testing.assert_allclose(along.excess(0.2), other.excess(0.2), **close)
    recovered, known = (
        estim.recover_parameters(f, bank, 0.01, params=p, trials=50, rng=0)
        for f, p in ((decay, params), (plain, start))
    )
    np.testing.assert_allclose(recovered.rmse, known.rmse, rtol=1e-5 if dtype == np.float64 else 1e-2)
    verdict, same = (
        estim.judge_models(a, b, bank, 0.05, model=f)
        for f, a, b in ((decay, params, moved), (plain, start, {"a": 2.0, "rate": 0.625}))
    )
    assert verdict.outcome == same.outcome
    np.testing.assert_allclose(verdict.actual, same.actual, **close)


def test_every_pair_of_precisions_leaves_the_switch_as_it_was():
    for on, dtype in itertools.product((False, True), (jnp.float32, jnp.float64)):
        with jax.enable_x64(True):
            params = arrays(perceptron_weights(), dtype)
        with jax.enable_x64(on):
            estim.sensitivity(PERCEPTRON, inputs(), 0.1, params=params)
            assert jax.config.jax_enable_x64 == on


def rooted(params, bank):
    """Return readings whose slope backwards is 0 times infinity where a bank is 0."""
    return jnp.where(bank > 0.0, jnp.sqrt(bank * params["a"]), 0.0) + bank * params["b"].sum()


@pytest.mark.parametrize("entries", [10**9, 0])
def test_a_branch_that_where_leaves_out_is_no_derivative(double, monkeypatch, entries):
    monkeypatch.setattr(large, "ENTRIES", entries)
    params, bank = {"a": jnp.asarray(1.0), "b": jnp.ones(5)}, np.array([1.0, 4.0, 0.0])
    assert np.isnan(whole_jacobian(rooted, params, bank)).any()
    found = estim.sensitivity(rooted, bank, 0.1, params=params)
    truth = np.array([[0.5, *[1.0] * 5], [1.0, *[4.0] * 5], [0.0] * 6])
    values = np.linalg.svd(truth / 0.1, compute_uv=False)
    assert found.resolved == 2
    np.testing.assert_allclose(found.singular_values[:2], values[:2], rtol=1e-12)
    assert sum("differentiated forwards, as more of its derivatives are finite that way" in n for n in found.notes) == 1


@pytest.mark.parametrize("entries", [10**9, 0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_slope_that_is_infinite_is_named_with_what_to_do(monkeypatch, dtype, entries):
    monkeypatch.setattr(large, "ENTRIES", entries)
    with jax.enable_x64(dtype == "float64"):
        params = {"a": jnp.asarray(1.0, dtype), "b": jnp.ones(5, dtype)}
    model = lambda p, x: jnp.sqrt(x * p["a"]) + x * p["b"].sum()  # noqa: E731
    message = (
        r"^derivatives must be finite; that by a of reading 2 \(input 2\) is (nan|inf): a slope that is infinite .* in "
        r"a branch that jax.numpy.where leaves out, .*: give that branch a safe argument, as in where\(x > 0, "
    )
    with pytest.raises(ValueError, match=message):
        estim.sensitivity(model, np.array([1.0, 4.0, 0.0]), 0.1, params=params)
    if entries:
        found = estim.sensitivity(model, np.array([1.0, 4.0, 0.0]), 0.1, params=params, nan_policy="omit")
        assert found.left_out.tolist() == [2]
