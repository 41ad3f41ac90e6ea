"""Loops that end by a condition, which other parameters, or other floats, may never meet."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from estim.probe.jax.loops import Ends  # noqa: E402

BANK = np.linspace(0.5, 2.0, 6, dtype=np.float32)


def newton(square, tolerance=1e-5):
    """Return roots by Newton's method, up to an absolute tolerance."""
    return jax.lax.while_loop(
        lambda y: (jnp.abs(y**2 - square) > tolerance).any(), lambda y: (y + square / y) / 2, jnp.ones_like(square)
    )


def steps(square):
    """Return Newton's steps, in NumPy."""
    y, count = np.ones_like(square), 0
    while (np.abs(y**2 - square) > 1e-5).any():
        y, count = (y + square / y) / 2, count + 1
    return count


@pytest.mark.parametrize(
    ("model", "loops"),
    [
        (lambda p, x: newton(p[0] * x), True),
        (lambda p, x: jax.jit(newton)(p[0] * x), True),
        (lambda p, x: jax.vmap(lambda one: newton(p[0] * one))(x), True),
        (lambda p, x: jax.checkpoint(newton)(p[0] * x), True),
        (lambda p, x: jax.lax.cond(p[0] > 1.0, newton, lambda y: y, p[0] * x), True),
        (lambda p, x: jax.lax.scan(lambda total, one: (total + newton(p[0] * one), one), 0.0, x)[0], True),
        (lambda p, x: jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (newton(p[0] * x), s[1] + 1), (x, 0))[0], True),
        (lambda p, x: jax.lax.fori_loop(0, 5, lambda i, y: y * p[0], x), False),
        (lambda p, x: p[0] * x if p[0] > 0 else newton(x), False),
    ],
    ids=["plain", "compiled", "side by side", "again", "branch", "in a scan", "in a loop", "of a length", "not traced"],
)
def test_steps_are_counted_wherever_a_loop_is(model, loops):
    bank, leaves = jnp.asarray(BANK), [jnp.float32(2.0)]
    ends = Ends(model)
    assert ends.limited(leaves, bank) == (2**12 if loops else 0)
    if loops:
        count = steps(2.0 * BANK)
        assert ends._count(leaves, bank, 1000) == count
        assert ends._count(leaves, bank, count - 2) == count - 2
        np.testing.assert_array_equal(model(leaves, bank), model(leaves, bank))


solved = jax.custom_jvp(lambda square: newton(square, 0.0 if square.dtype == jnp.float64 else 2e-6))
solved.defjvp(lambda given, moved: (solved(given[0]), moved[0] / (2.0 * solved(given[0]))))


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_tolerance_that_is_met_at_the_parameters_in_their_floats_alone_does_not_hang(monkeypatch, dense):
    monkeypatch.setattr(large, "DENSE", dense)
    model = lambda p, x: solved(p["a"] * jnp.asarray(x, p["a"].dtype)) + p["b"].sum() * x  # noqa: E731
    params = {"a": jnp.float32(2.0), "b": jnp.ones(2)}
    found = estim.sensitivity(model, BANK, 0.1, params=params)
    truth = np.stack([np.sqrt(2.0 * BANK) / 4.0, BANK, BANK], axis=1) / 0.1
    np.testing.assert_allclose(found.singular_values[:2], np.linalg.svd(truth, compute_uv=False)[:2], rtol=1e-5)
    assert found.resolved == 2
    assert any("as float64 is out of reach" in note for note in found.notes)


def test_a_loop_that_goes_on_at_other_parameters_is_named():
    ends = Ends(lambda p, x: jax.lax.while_loop(lambda y: (y < p[0]).any(), lambda y: y + 1.0, x))
    bank = jnp.asarray(BANK)
    assert ends.limited([jnp.float32(3.0)], bank) == 2**12
    ends.require([jnp.float32(100.0)], bank)
    with pytest.raises(ValueError, match=r"^a loop of the model must end; it goes on after 4096 steps in other fl"):
        ends.require([jnp.float32(1e9)], bank)
