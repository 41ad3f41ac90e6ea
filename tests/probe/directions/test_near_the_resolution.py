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
    change = 0.1 / found.scale
    weak = estim.Sensitivity.from_jacobian(jacobian, 1.0, symmetry=symmetry, smallest_change=change)
    assert weak.counts[Status.WEAK] == 2
    assert "theta[0]" in str(weak.summary()).split("Weak:")[1].split("Directions:")[0]


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


def factor_said(found, start="The weakest directions"):
    """The factor within which a note says that figures are known; 1.01 without a note."""
    said = [note for note in found.notes if note.startswith(start)]
    return float(said[0].split("within a factor of ")[1].split()[0]) if said else 1.01


def test_figures_are_as_near_to_those_of_the_true_jacobian_as_a_note_says():
    notes = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows, columns = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        rows = max(rows, columns)
        true = rng.standard_normal((rows, columns))
        true[:, -1] = true[:, 0] + 10.0 ** rng.uniform(-4, 0) * true[:, -1]
        true *= 10.0 ** rng.uniform(-4, 4, columns)
        error = 10.0 ** rng.uniform(-8, -2) * np.linalg.norm(true, axis=0)
        given = true + error * rng.uniform(-1.0, 1.0, true.shape)
        found = estim.Sensitivity.from_jacobian(given, 1.0, jac_error=np.broadcast_to(error, true.shape))
        if found.resolved < columns:
            continue
        factor = factor_said(found)
        notes += factor > 1.01
        with mp.workdps(60):
            exact = [float(value) for value in mp.svd_r(matrix(true), compute_uv=False)]
            covariance = (matrix(true).T * matrix(true)) ** -1
            bounds = [float(mp.sqrt(covariance[i, i])) for i in range(columns)]
        for got, right in ((found.singular_values, exact), (found.standard_errors, bounds)):
            ratio = got / right
            assert ((ratio <= 1.001 * factor) & (ratio >= 0.999 / factor)).all(), seed
    assert notes > 20


def test_a_group_says_how_roughly_its_worst_floor_is_known():
    eps = np.finfo(np.float64).eps
    jacobian = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0 + 40.0 * eps, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0, groups=["a", "a", "b", "b"])
    # The product of the two singular values is the determinant.
    floor = float(np.linalg.norm(jacobian[:2, :2])) / (40.0 * eps)
    said = next(note for note in found.notes if note.startswith("With the others"))
    factor = float(said.split("of a ")[1].rstrip("."))
    assert 1.01 < factor < 10.0
    assert floor / factor <= found.by_group().loc["a", "worst_floor"] <= floor * factor


def test_values_that_unseen_strong_parameters_may_change_are_not_given():
    """Both Jacobians are within the error of each other, and the second value of one is 141 times that of the other."""
    error = [1e-6, 100.0, 100.0]
    for jacobian in ([[0.0, 1e8, 1e8], [1.0, 0.0, 0.0]], [[0.0, 1e8, 1e8], [1.0, 100.0, -100.0]]):
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0, jac_error=np.broadcast_to(error, (2, 3)))
        assert found.resolved == 2
        assert np.isnan(found.singular_values[1])
        assert any("(NaN)" in note for note in found.notes)
    # A strong parameter alone takes no part in what is not seen.
    found = estim.Sensitivity.from_jacobian([[1e8, 0.5, 0.3], [2e7, 1.0, 0.7]], 1.0, jac_error=[[100.0, 1e-6, 1e-6]])
    with mp.workdps(40):
        exact = mp.svd_r(matrix([[1e8, 0.5, 0.3], [2e7, 1.0, 0.7]]), compute_uv=False)
    assert found.singular_values[1] == pytest.approx(float(exact[1]), rel=1e-5)
