"""What is resolved, where readings have no noise, units are decades apart, or readings are many."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import estim
from estim import Status
from estim.probe.directions.condensed import condense
from estim.probe.directions.noise import whitening

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(deadline=None, max_examples=60)
@given(rng=generators, correlated=st.booleans())
@example(rng=np.random.default_rng(1000), correlated=False)  # null vectors off by forty roundings
@example(rng=np.random.default_rng(591), correlated=True)  # nothing but noiseless readings
def test_rounding_beside_noiseless_readings_is_not_resolved(rng, correlated):
    """What noiseless readings fix is taken out of the noisy ones; of what they say of it again, rounding is left."""
    readings, rank, parameters = rng.integers(4, 30), rng.integers(1, 5), rng.integers(5, 10)
    jacobian = rng.integers(-4, 5, (readings, rank)) @ rng.integers(-4, 5, (rank, parameters))
    jacobian = jacobian * 10.0 ** rng.uniform(-3, 3, parameters)
    quiet = rng.random(readings) < 0.5
    sigma = np.where(quiet, 0.0, rng.uniform(0.1, 2.0, readings))
    covariance = np.outer(sigma, sigma) * (0.5 * np.eye(readings) + 0.5)
    found = estim.Sensitivity.from_jacobian(jacobian, covariance if correlated else sigma)
    effect = np.linalg.norm(jacobian, axis=0)
    assert found.resolved <= np.linalg.matrix_rank(jacobian / np.where(effect > 0.0, effect, 1.0), tol=1e-9)


@pytest.mark.parametrize("readings", [100, 300_000])
def test_rounding_stays_below_the_resolution_however_many_readings(readings):
    columns = np.random.default_rng(0).normal(size=(readings, 2))
    for jacobian in (
        np.column_stack([columns, columns[:, 0]]),
        np.column_stack([columns, columns.sum(axis=1)]),
    ):
        assert estim.Sensitivity.from_jacobian(jacobian, 1.0).counts[Status.UNRESOLVED] == 1


@settings(deadline=None, max_examples=30)
@given(rng=generators)
def test_unresolved_directions_move_nothing_in_any_units(rng):
    plain = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 6))
    units = 10.0 ** rng.uniform(-15, 15, 6)
    found = estim.Sensitivity.from_jacobian(plain * units, 1.0)
    assert found.resolved == 3
    for direction in found.directions[3:]:
        # In parameters of equal effect, where a step of length one that is seen moves the readings by about one.
        step = direction * found.scale
        assert np.linalg.norm(plain * units @ direction) <= 1e-10 * np.linalg.norm(step)
    np.testing.assert_allclose(found.directions[3:] @ found.directions[3:].T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("readings", "correlated"), [(3, False), (7, False), (40, False), (5000, False), (3, True), (40, True)]
)
def test_the_condensed_jacobian_has_the_gram_matrix_of_the_whitened_one(readings, correlated):
    rng = np.random.default_rng(readings)
    jacobian = rng.normal(size=(readings, 7))
    sigma = 0.5 * np.eye(readings) + 0.5 if correlated else rng.uniform(0.5, 2.0, readings)
    small = condense(jacobian, None, whitening(sigma, readings))
    gram = jacobian.T @ (np.linalg.solve(sigma, jacobian) if correlated else jacobian / sigma[:, None] ** 2)
    np.testing.assert_allclose(small.noisy.T @ small.noisy, gram, rtol=1e-12, atol=1e-12 * np.abs(gram).max())
    assert small.noisy.shape == (min(readings, 7), 7)
    member = np.arange(7) % 2 == 0
    part = small.columns(member)
    np.testing.assert_allclose(part.noisy.T @ part.noisy, gram[member][:, member], atol=1e-12 * np.abs(gram).max())


@pytest.mark.parametrize("decades", [5, 20, 100])
def test_a_direction_has_its_own_floor_and_shift_in_units_decades_apart(decades):
    """Rounding of a unit vector made up to 1e27 times 1 / s of the floor where parameters are 200 decades apart."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        found = estim.Sensitivity.from_jacobian(
            rng.standard_normal((6, 4)) / 10.0 ** rng.uniform(-decades, decades, 4), 0.1
        )
        values = found.singular_values
        assert found.resolved == 4
        np.testing.assert_allclose([found.floor(d) * s for d, s in zip(found.directions, values, strict=True)], 1.0)
        np.testing.assert_allclose([found.shift(d) / s for d, s in zip(found.directions, values, strict=True)], 1.0)
