"""Errors of singular values from two Gram matrices, where rows nearly depend on one another."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from estim.probe.matrix_free.spectrum import EPS, Gram, preconditioner, spectrum_of


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
