"""Weak directions, units decades apart, readings without noise: figures beside those of exact arithmetic."""

import mpmath as mp
import numpy as np
import pytest

import estim
from estim import Status

DIGITS = 250


def matrix(entries):
    return mp.matrix([[mp.mpf(float(x)) for x in row] for row in entries])


def exact_values(entries, sigma):
    """Singular values of the whitened Jacobian; noiseless readings are given a noise of 1e-100."""
    with mp.workdps(DIGITS):
        noise = [mp.mpf(float(s)) if s > 0.0 else mp.mpf("1e-100") for s in sigma]
        whitened = mp.diag([1 / s for s in noise]) * matrix(entries)
        return [+value for value in mp.svd_r(whitened, compute_uv=False)]


def graded(rng):
    """Rows decades apart, columns too: every second draw has a direction within a few digits of the resolution."""
    rows, columns = int(rng.integers(2, 8)), int(rng.integers(2, 8))
    units = 2.0 ** rng.integers(-40, 40, columns)
    return rng.standard_normal((rows, columns)) * 10.0 ** rng.uniform(-14, 0, rows)[:, None] * units


def test_a_change_moves_the_readings_as_far_as_is_said_but_for_its_doubt():
    for seed in range(150):
        rng = np.random.default_rng(seed)
        jacobian = graded(rng)
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0)
        change = rng.standard_normal(jacobian.shape[1]) / found.scale
        with mp.workdps(40):
            exact = float(mp.norm(matrix(jacobian) * matrix(change[:, None])))
        assert abs(found.shift(change) - exact) <= found.resolution * np.linalg.norm(found.scale * change), seed


def test_what_is_seen_is_at_right_angles_to_what_is_proven_however_weak():
    weak = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        rank, parameters = int(rng.integers(2, 6)), int(rng.integers(6, 9))
        entries = rng.integers(-4, 5, (rank, 3)) @ rng.integers(-4, 5, (3, parameters))
        entries[-1] = rng.integers(-4, 5, parameters)
        exact = entries.astype(object) * np.array([2 ** int(k) for k in rng.integers(0, 49, rank)], object)[:, None]
        found = estim.Sensitivity.from_jacobian(exact, 1.0)
        if found.counts[Status.UNRESOLVED] or not found.counts[Status.NULL]:
            continue
        weak += bool(found.scaled_singular_values[found.resolved - 1] < 1e4 * found.resolution)
        for rows in (found.scaled_directions, found.directions):
            np.testing.assert_allclose(rows @ rows.T, np.eye(parameters), atol=1e-9, err_msg=str(seed))
    assert weak > 5


def test_directions_of_values_that_are_not_known_span_what_the_others_leave():
    jacobian = [[-4.5e-13, 2.5e7, -6.0, 4e8, 256.0], [4.5e-13, 0.0, 0.0, 0.0, 0.0]]
    symmetry = np.array([[0.0, 0.0, 4e8, 6.0, 0.0], [0.0, 4e8, 0.0, -2.5e7, 0.0]]).T
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0, symmetry=symmetry)
    assert found.counts[Status.GAUGE] == 2
    assert np.isnan(found.singular_values).sum() == 1
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("decades", [0, 3, 8])
def test_singular_values_beside_noiseless_readings_are_the_limit_of_little_noise(decades):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        readings, parameters = int(rng.integers(3, 7)), int(rng.integers(2, 5))
        jacobian = rng.integers(-3, 4, (readings, parameters)) * 2.0 ** rng.integers(
            -3 * decades, 3 * decades + 1, parameters
        )
        sigma = np.ones(readings)
        sigma[: int(rng.integers(1, parameters))] = 0.0
        found = estim.Sensitivity.from_jacobian(jacobian, sigma)
        fixed = int(np.isinf(found.singular_values).sum())
        exact = exact_values(jacobian, sigma)[fixed : found.resolved]
        got = found.singular_values[fixed : found.resolved]
        known = np.isfinite(got)
        np.testing.assert_allclose(got[known], np.array(exact, float)[known], rtol=1e-9, err_msg=str(seed))
        assert known.all() or decades == 8
        seen = found.directions[: found.resolved]
        np.testing.assert_allclose(seen @ seen.T, np.eye(found.resolved), atol=1e-9)


def test_the_hardest_change_moves_no_noiseless_reading_where_units_are_decades_apart():
    entries = np.array([[0, 3, -1], [-3, 1, -1], [0, -1, 3], [3, 0, 0], [3, -2, 0], [0, -3, 0], [1, -1, 1], [2, -1, 2]])
    jacobian = entries * 2.0 ** np.array([-30, 31, 29])
    found = estim.Sensitivity.from_jacobian(jacobian, [1, 1, 0, 0, 1, 1, 1, 1])
    verdict = found.judge(np.zeros(8), smallest_change=estim.AnyChange(1.0, relative=False))
    # The two say that a is 0 and that 2^31 b is 3 2^29 c: of size 1 that leaves (0, 3/5, 4/5) alone.
    step = np.array([0.0, 0.6, 0.8])
    noisy = jacobian[[0, 1, 4, 5, 6, 7]]
    assert verdict.shifts[0] == pytest.approx(np.linalg.norm(noisy @ step), rel=1e-12)
