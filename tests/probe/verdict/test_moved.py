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
    with mpmath.workdps(150):
        # What the noiseless readings leave, then the smallest shift over length: a generalised eigenvalue.
        full = mpmath.svd_r(mpmath.matrix(fixed.tolist()), full_matrices=True)[2]
        left = full[rank:, :].T
        for i in range(5):
            left[i, :] /= effects[i]
        moved = mpmath.matrix((noisy * effects).tolist()) * left
        to_unit = mpmath.inverse(mpmath.cholesky(left.T * left))
        squares = mpmath.eigsy(to_unit * (moved.T * moved) * to_unit.T, eigvals_only=True)
        np.testing.assert_allclose(shift, float(mpmath.sqrt(min(squares))), rtol=1e-8)


def test_noiseless_readings_that_fix_parallel_combinations_leave_nothing() -> None:
    effects = np.exp2([-20.0, -37.0, 32.0])
    jacobian = np.array([[1, 1, 1.5], [-1, 0.5, 0], [6, -1.5, 1.5], [-2, 0.5, -0.5], [0, 1, 0]]) * effects
    found = estim.Sensitivity.from_jacobian(jacobian, [0.0, 0.0, 1.0, 0.0, 0.0])
    verdict = found.judge(np.zeros(5), smallest_change=estim.AnyChange(1.0, relative=False))
    assert np.isinf(verdict.shifts).all()
