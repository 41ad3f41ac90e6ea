"""The hardest change where some readings have no noise and parameters are decades apart."""

import mpmath
import numpy as np
import pytest

import estim


# Known readings may be parallel in the parameters' units: shifts were up to 1e9 times too large, infinite or not the
# wrong way round, and judge failed where nothing was left.
@pytest.mark.parametrize("known", [2, 4])
@pytest.mark.parametrize("decades", [0.0, 15.0, 28.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_hardest_change_beside_noiseless_readings_over_decades(known: int, decades: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    effects = np.exp2(np.round(3.32 * rng.permutation(np.linspace(0.0, decades, 5))))
    fixed, noisy = (rng.integers(-3, 4, size=(rows, 5)).astype(float) for rows in (known, 6))
    rank = np.linalg.matrix_rank(fixed)
    sigma = np.repeat([0.0, 1.0], [known, 6])
    found = estim.Sensitivity.from_jacobian(np.concatenate([fixed, noisy]) * effects, sigma)
    shift = found.judge(np.zeros(known + 6), smallest_change=estim.AnyChange(1.0, relative=False)).shifts[0]
    np.testing.assert_allclose(shift, least_shift(fixed, noisy, effects, rank), rtol=1e-8)


def least_shift(fixed: np.ndarray, noisy: np.ndarray, effects: np.ndarray, rank: int) -> float:
    """Return the smallest shift over length of what the noiseless readings leave, in 150 digits."""
    with mpmath.workdps(150):
        full = mpmath.svd_r(mpmath.matrix(fixed.tolist()), full_matrices=True)[2]
        left = full[rank:, :].T
        for i in range(len(effects)):
            left[i, :] /= effects[i]
        moved = mpmath.matrix((noisy * effects).tolist()) * left
        to_unit = mpmath.inverse(mpmath.cholesky(left.T * left))
        squares = mpmath.eigsy(to_unit * (moved.T * moved) * to_unit.T, eigvals_only=True)
        return float(mpmath.sqrt(min(squares)))


def test_strong_parameters_that_no_noiseless_reading_moves_are_left_as_they_are() -> None:
    """Rounding in them, decades above the others, counted as fixed: the shift was 1e11 times too small."""
    effects = np.exp2([-42.0, 49.0, -5.0, -46.0, 5.0])
    fixed = np.array([[1.0, 0, -1, -3, 3], [-1, 0, 2, 3, -1], [2, 0, 1, -3, 1]])
    noisy = np.array([[0.0, -3, 0, 1, 3], [0, 0, 0, -3, -1]])
    found = estim.Sensitivity.from_jacobian(
        np.concatenate([fixed, noisy]) * effects, [0.0] * 3 + [1.0] * 2, groups=["one", "one", "two", "two", "one"]
    )
    verdict = found.judge(np.zeros(5), smallest_change=estim.AnyChange(1.0, group="one", relative=False))
    member = [0, 1, 4]
    expected = least_shift(fixed[:, member], noisy[:, member], effects[member], 2)
    np.testing.assert_allclose(verdict.shifts, expected, rtol=1e-8)


def test_weak_parameters_that_noiseless_readings_fix_are_no_part_of_what_is_left() -> None:
    """Rounding in the weak one, large in its units, was all of the hardest change: the shift was 1e8 too small."""
    effects = np.exp2([31.0, -34.0, 44.0, 43.0, 39.0])
    fixed = np.array([[-1.0, -1, -1, 2, -3], [-1, 2, 0, 0, 0], [-3, 1, -1, 2, 2]])
    noisy = np.array([[2.0, 0, -2, 0, -2], [-1, 0, 0, 0, 3], [-1, 2, 0, -1, 0], [0, -3, 2, -1, -1], [3, 0, 0, 1, 0]])
    found = estim.Sensitivity.from_jacobian(
        np.concatenate([fixed, noisy]) * effects, [0.0] * 3 + [1.0] * 5, groups=["one"] * 4 + ["two"]
    )
    verdict = found.judge(np.zeros(8), smallest_change=estim.AnyChange(1.0, group="one", relative=False))
    expected = least_shift(fixed[:, :4], noisy[:, :4], effects[:4], 3)
    np.testing.assert_allclose(verdict.shifts, expected, rtol=1e-8)


def test_noiseless_readings_that_fix_parallel_combinations_leave_nothing() -> None:
    effects = np.exp2([-20.0, -37.0, 32.0])
    jacobian = np.array([[1, 1, 1.5], [-1, 0.5, 0], [6, -1.5, 1.5], [-2, 0.5, -0.5], [0, 1, 0]]) * effects
    found = estim.Sensitivity.from_jacobian(jacobian, [0.0, 0.0, 1.0, 0.0, 0.0])
    verdict = found.judge(np.zeros(5), smallest_change=estim.AnyChange(1.0, relative=False))
    assert np.isinf(verdict.shifts).all()
