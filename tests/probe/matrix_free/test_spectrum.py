"""Errors of singular values from two Gram matrices, where rows nearly depend on one another."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from estim.probe.derivatives.rounding import EPS
from estim.probe.matrix_free.spectrum import Gram, preconditioner, spectrum_of


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("apart", [1e-1, 1e-3, 1e-5])
def test_errors_hold_where_rows_nearly_depend(seed, apart):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((4, 200))
    matrix = np.concatenate([rows, rows + apart * rng.standard_normal(rows.shape), rng.standard_normal((4, 200))])
    # Exact enough: of a matrix in whose entries nothing is lost, to rounding of the largest.
    truth = np.linalg.svd(matrix, compute_uv=False)
    first = Gram(matrix @ matrix.T, EPS * 200 * float(np.square(matrix).sum()))
    factor, shift = preconditioner(first)
    nearly = solve_triangular(factor, np.eye(len(matrix)), lower=True) @ matrix
    found = spectrum_of(Gram(nearly @ nearly.T, EPS * 200 * float(np.square(nearly).sum()), factor, shift))
    assert (np.abs(found.values - truth) <= found.slack + 4.0 * EPS * truth[0]).all()
    assert (found.slack <= 1e-10 * truth[0]).all()


@pytest.mark.parametrize("seed", range(20))
def test_values_of_a_part_are_no_less_than_they_seem_but_for_the_smallest_shown(seed):
    """Rows made nearly orthonormal for the whole are so for no part of it: a weak one, where others are strong."""
    rng = np.random.default_rng(seed)
    spectra = [np.logspace(rng.uniform(-3, 3), -rng.uniform(6, 12), 20), np.logspace(0, -rng.uniform(0, 3), 20)]
    weak, strong = (
        (np.linalg.qr(rng.standard_normal((20, 20)))[0] * values) @ np.linalg.qr(rng.standard_normal((50, 20)))[0].T
        for values in spectra
    )
    whole = np.concatenate([weak, strong], axis=1)
    first = Gram(whole @ whole.T, EPS * 100 * float(np.square(whole).sum()))
    factor, shift = preconditioner(first)
    part = solve_triangular(factor, weak, lower=True)
    found = spectrum_of(Gram(part @ part.T, 4.0 * EPS * float(np.square(part).sum()), factor, shift))
    shown = int(np.count_nonzero(found.values > found.smallest))
    assert shown >= 5
    # SVDs of a matrix whose rows are all as strong are right to the rounding of the largest value.
    rounding = 4.0 * EPS * spectra[0].max()
    assert spectra[0][shown - 1] >= found.values[shown - 1] - found.smallest - rounding
    assert (np.abs(found.values - spectra[0]) <= found.slack + rounding)[:shown].all()
