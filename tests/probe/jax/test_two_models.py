"""Two sets of parameters that are too many for a Jacobian: as the same pair of few; and what is no parameter."""

import dataclasses

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from tests.probe.jax.functions import (  # noqa: E402
    PERCEPTRON,
    arrays,
    branching,
    inputs,
    mixed,
    perceptron_weights,
    whole_jacobian,
)


def pair(dtype="float64", size=0.01):
    """Return parameters before and after."""
    before, change = perceptron_weights(), perceptron_weights(seed=1)
    with jax.enable_x64(True):
        after = jax.tree_util.tree_map(lambda one, two: one + size * two, before, change)
        return arrays(before, dtype), arrays(after, dtype)


@pytest.fixture
def huge(monkeypatch):
    """Take every function for one of too many parameters."""
    return lambda: monkeypatch.setattr(large, "DENSE", 0)


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", [PERCEPTRON, mixed, branching], ids=["apart", "mixed", "not compiled"])
def test_the_change_is_that_of_the_dense_way(huge, model, dtype, batches):
    (before, after), bank, sigma = pair(dtype), inputs(6).astype(dtype), np.linspace(0.01, 0.04, 12)
    given = estim.Batches(lambda: iter([bank[:4], bank[4:]])) if batches else bank
    truth = estim.judge_models(before, after, given, sigma, model=model)
    huge()
    found = estim.judge_models(before, after, given, sigma, model=model)
    close = 1e-9 if dtype == "float64" else 1e-3
    assert found.outcome == truth.outcome
    np.testing.assert_allclose([found.predicted, found.actual], [truth.predicted, truth.actual], rtol=close)
    np.testing.assert_allclose(found.differences, truth.differences, atol=100.0 * close)
    np.testing.assert_allclose([found.power, found.relative_size], [truth.power, truth.relative_size], rtol=close)
    assert found.parameters == truth.parameters == 24


def test_float32_carries_its_error(huge):
    (before, after), bank, sigma = pair("float32", 1e-4), inputs(20).astype(np.float32), 1e-4
    with jax.enable_x64(True):
        one, two = (arrays(tree, jnp.float64) for tree in (before, after))
        actual = np.linalg.norm(np.asarray(PERCEPTRON(two, bank) - PERCEPTRON(one, bank)).ravel()) / sigma
        delta = jax.tree_util.tree_map(lambda a, b: b - a, one, two)
        vector = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree_util.tree_leaves(delta)])
        predicted = np.linalg.norm(whole_jacobian(PERCEPTRON, one, bank.astype(float)) @ vector) / sigma
    huge()
    found = estim.judge_models(before, after, bank, sigma, model=PERCEPTRON)
    assert 0.0 < abs(found.actual - actual) <= found.error
    assert abs(found.predicted - predicted) <= found.error < 0.05 * actual


def test_complex_readings_and_changes_of_interest(double, huge):
    def wave(params, bank):
        return jnp.exp(1j * PERCEPTRON(params, bank))

    (before, after), (_, third), bank, sigma = pair(), pair(size=0.1), inputs(5), np.linspace(0.01, 0.04, 20)
    truth = estim.judge_models(before, after, bank, sigma, model=wave, smallest_change=third)
    huge()
    found = estim.judge_models(before, after, bank, sigma, model=wave, smallest_change=third)
    np.testing.assert_allclose([found.predicted, found.actual], [truth.predicted, truth.actual], rtol=1e-9)
    assert found.outcome == truth.outcome
    assert "complex readings: 10 real parts, then 10 imaginary parts" in found.notes
    # What is random is seen as often as its directions say: by the Jacobian, of unit vectors with the groups' norms.
    change = estim.AnyChange(0.5, group="first", case="typical")
    seen = estim.judge_models(before, after, bank, sigma, model=wave, smallest_change=change, rng=0)
    again = estim.judge_models(before, after, bank, sigma, model=wave, smallest_change=change, rng=0)
    assert seen.verdict.power == again.verdict.power
    worst = estim.judge_models(before, after, bank[:1], 0.01, model=wave, smallest_change=estim.AnyChange(0.5))
    assert worst.outcome.name in ("BLIND", "CHANGED")
    with pytest.raises(ValueError, match=r"^smallest_change must have case='typical' for a model this large"):
        estim.judge_models(before, after, inputs(30), 0.01, model=wave, smallest_change=estim.AnyChange(0.5))


def test_a_random_change_has_the_size_that_was_asked_for(double, huge, monkeypatch):
    taken = []
    from estim.probe.jax import two_models

    drawn = two_models._drawn
    monkeypatch.setattr(two_models, "_drawn", lambda *given: taken.append(drawn(*given)) or taken[-1])
    huge()
    before, after = pair()
    estim.judge_models(
        before, after, inputs(5), 0.01, model=PERCEPTRON, smallest_change=estim.AnyChange(0.5, case="typical"), rng=0
    )
    start = [np.asarray(leaf).ravel() for leaf in jax.tree_util.tree_leaves(before)]
    first, second = np.linalg.norm(np.concatenate(start[:2])), np.linalg.norm(start[2])
    assert len(taken) == two_models.DIRECTIONS
    for change in taken:
        relative = np.hypot(np.linalg.norm(change[:16]) / first, np.linalg.norm(change[16:]) / second)
        np.testing.assert_allclose(relative, 0.5, rtol=1e-12)


def test_what_does_not_fit_is_refused(double, huge):
    huge()
    before, after = pair()

    def refused(message, one=before, two=after, **options):
        with pytest.raises(ValueError, match=message):
            estim.judge_models(one, two, inputs(5), 0.01, model=PERCEPTRON, **options)

    refused(r"^after must differ from before; all parameters are the same$", two=before)
    refused(r"^after must have the parameters of before; second.weight has shape \(4, 2\); got none$",
            two={"first": after["first"]})  # fmt: skip
    refused(r"^after must have the parameters of before; it has third besides$", two={**after, "third": jnp.ones(1)})
    wrong = {**after, "second": {"weight": jnp.ones((2, 4))}}
    refused(r"^after must have the parameters of before; second.weight has shape \(4, 2\); got \(2, 4\)$", two=wrong)
    lost = {**after, "second": {"weight": jnp.full((4, 2), jnp.nan)}}
    refused(r"^after must be finite; got nan for second.weight, entry 0$", two=lost)
    with pytest.raises(TypeError, match=r"^after must hold at least one array of floating point; got no leaf$"):
        estim.judge_models(before, None, inputs(5), 0.01, model=PERCEPTRON)
    refused(r"^group must be one of first, second, or the beginning of a parameter's name; got 'third'$",
            smallest_change=estim.AnyChange(0.1, group="third"))  # fmt: skip


def test_a_model_of_many_parameters_is_judged_without_a_jacobian():
    keys = jax.random.split(jax.random.key(0), 2)
    before = {"in": jax.random.normal(keys[0], (200, 400)) / 14.0, "out": jax.random.normal(keys[1], (400, 2)) / 20.0}
    after = {**before, "out": before["out"].astype(jnp.bfloat16).astype(jnp.float32)}
    bank = np.random.default_rng(0).standard_normal((50, 200)).astype(np.float32)
    found = estim.judge_models(before, after, bank, 0.01, model=lambda p, x: jnp.tanh(x @ p["in"]) @ p["out"])
    hidden = np.tanh(bank.astype(float) @ np.asarray(before["in"], dtype=float))
    moved = hidden @ (np.asarray(after["out"], dtype=float) - np.asarray(before["out"], dtype=float))
    np.testing.assert_allclose([found.predicted, found.actual], np.linalg.norm(moved) / 0.01, rtol=1e-3)


def test_inputs_that_depend_on_each_other_only_after_the_change(double, huge):
    model = lambda p, x: PERCEPTRON(p, x) + p["gain"] * x.mean(axis=0)[:2]  # noqa: E731
    one, two = pair()
    before, after, bank = {"gain": jnp.zeros(()), **one}, {"gain": jnp.ones(()), **two}, inputs(100)
    truth = estim.judge_models(before, after, bank, 0.1, model=model)
    huge()
    found = estim.judge_models(before, after, bank, 0.1, model=model)
    np.testing.assert_allclose([found.predicted, found.actual], [truth.predicted, truth.actual], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_derivative_that_is_none_of_the_model_is_refused(huge, dtype):
    stopped = lambda p, x: jax.lax.stop_gradient(jnp.tanh(x @ p["first"]["weight"])) @ p["second"]["weight"]  # noqa: E731
    before, after = pair(dtype)
    huge()
    with pytest.raises(ValueError, match=r"^the derivative that JAX takes must be that of the model; "):
        estim.judge_models(before, after, inputs(20).astype(dtype), 0.1, model=stopped)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scale:
    by: jax.Array
    name: str = dataclasses.field(metadata={"static": True}, default="scale")


MASK = np.array([True, False, True])


def masked(params, bank):
    """Return readings that something of no floating point decides on."""
    rows = jnp.where(params["mask"], bank, 0.0)
    return PERCEPTRON(params, rows - rows.mean(axis=0) * params["centred"]) * params["steps"]


def held(**values):
    return {"mask": jnp.asarray([True, True, True]), "centred": jnp.asarray(0), "steps": 2, **values}


@pytest.mark.parametrize("large_one", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("change", "name"),
    [({"mask": jnp.asarray(MASK)}, "mask"), ({"steps": 3}, "steps"), ({"centred": jnp.asarray(1)}, "centred")],
)
def test_what_has_no_derivative_is_part_of_the_actual_shift_only(huge, large_one, dtype, change, name):
    (one, two), bank, sigma = pair(dtype), inputs(50).astype(dtype), 0.05
    before, after = {**one, **held()}, {**two, **held(**change)}
    if large_one:
        huge()
    found = estim.judge_models(before, after, bank, sigma, model=masked)
    with jax.enable_x64(True):
        actual = np.linalg.norm(np.asarray(masked(after, bank)) - np.asarray(masked(before, bank))) / sigma
    alike = estim.judge_models(before, {**two, **held()}, bank, sigma, model=masked)
    assert abs(found.actual - actual) <= found.error + 1e-9 * actual
    np.testing.assert_allclose(found.predicted, alike.predicted, rtol=1e-12)
    assert found.outcome.name == "CHANGED"
    # Of no fraction of the change is the prediction right.
    assert (found.differences > 5.0).all()
    assert found.linear_up_to < 0.01
    (note,) = [note for note in found.notes if note.startswith("after differs from before in more than numbers of")]
    assert f"floating point: {name}; the actual shift has that in it" in note
    assert not any(note.startswith("after differs") for note in alike.notes)


@pytest.mark.parametrize("large_one", [False, True])
def test_a_change_of_nothing_but_what_has_no_derivative_is_judged(double, huge, large_one):
    one, bank = {**pair()[0], **held()}, inputs(5)
    if large_one:
        huge()
    found = estim.judge_models(one, {**one, "steps": 3}, bank, 0.1, model=masked)
    assert (found.predicted, found.parameters, found.relative_size) == (0.0, 0, 0.0)
    np.testing.assert_allclose(found.actual, np.linalg.norm(PERCEPTRON(one, bank)) / 0.1, rtol=1e-12)
    as_much = estim.judge_models(one, pair()[1] | held(), bank, 0.1, model=masked, smallest_change={**one, "steps": 3})
    np.testing.assert_allclose(as_much.verdict.shifts, found.actual, rtol=1e-9)
    with pytest.raises(ValueError, match=r"^after must differ from before; all parameters are the same$"):
        estim.judge_models(one, {**one, **held()}, bank, 0.1, model=masked)


@pytest.mark.parametrize("large_one", [False, True])
def test_fields_that_are_static_are_part_of_the_actual_shift(double, huge, large_one):
    bank = inputs(5)
    if large_one:
        huge()
    model = lambda p, x: PERCEPTRON(p["net"], x) * len(p["scale"].name)  # noqa: E731
    before, after = (
        {"net": net, "scale": Scale(jnp.ones(1), name)} for net, name in zip(pair(), ("a", "bb"), strict=True)
    )
    found = estim.judge_models(before, after, bank, 0.1, model=model)
    np.testing.assert_allclose(found.actual, np.linalg.norm(model(after, bank) - model(before, bank)) / 0.1, rtol=1e-9)
    assert any("floating point: what the pytree itself is made of" in note for note in found.notes)


@pytest.mark.parametrize("large_one", [False, True])
def test_what_the_model_does_not_take_is_said(double, huge, large_one):
    one, two = ({**tree, **held()} for tree in pair())
    if large_one:
        huge()

    def refused(message, **change):
        with pytest.raises(ValueError, match=message):
            estim.judge_models(one, {**two, **change}, inputs(5), 0.1, model=masked)

    refused(r"^the model must take after as it takes before; it raised ", mask=jnp.ones(7, dtype=bool))
    refused(r"^the model must take after as it takes before; it raised ValueError\('the model must always return the s",
            steps=jnp.ones((2, 1, 1), dtype=int))  # fmt: skip
    refused(r"^after must have the parameters of before; second.weight has shape \(4, 2\); got int64, no floating po",
            second={"weight": jnp.ones((4, 2), dtype=int)})  # fmt: skip
    lost = {**one, "first": {**one["first"], "bias": jnp.full(4, jnp.nan)}}
    with pytest.raises(ValueError, match=r"^before must be finite; got nan for first.bias, entry 0$"):
        estim.judge_models(lost, two, inputs(5), 0.1, model=masked)
