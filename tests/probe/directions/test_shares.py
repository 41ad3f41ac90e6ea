"""Shares of inputs, held against high precision where strong columns cancel in weak directions."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import estim
from estim.attention import Layer, Network


def network(seed, depth=3):
    """Return a network whose gauge mixes the strong columns of the value maps with the weak ones of deep scores."""
    rng = np.random.default_rng(seed)
    return Network(
        [
            Layer(0.05 * rng.normal(size=(2, 1)), 0.05 * rng.normal(size=(2, 1)), rng.normal(size=(2, 2)))
            for _ in range(depth)
        ]
    )


def bank(seed, inputs=30):
    return np.random.default_rng(100 + seed).normal(size=(inputs, 3, 2))


def referee(jacobian, rank, inputs, digits=60):
    """Return the shares of inputs, (inputs, rank), from left singular vectors of so many digits."""
    with mpmath.workdps(digits):
        left = mpmath.svd_r(mpmath.matrix(np.asarray(jacobian).tolist()))[0]
        squares = np.square(np.array(left.tolist(), dtype=object)).astype(float)[:, :rank]
    return np.array([squares[inputs == i].sum(axis=0) for i in range(inputs.max() + 1)])


@pytest.mark.parametrize("seed", range(3))
def test_permuting_inputs_permutes_the_shares_of_a_network(seed):
    given, inputs = network(seed), bank(seed)
    order = np.random.default_rng(1).permutation(len(inputs))
    found, again = (estim.sensitivity(given, part, 1e-6) for part in (inputs, inputs[order]))
    assert (found.resolved, found.counts[estim.Status.GAUGE]) == (13, 11)
    # The weakest scaled singular value is about 1e-6, and rounding 1e-16.
    np.testing.assert_allclose(again.input_share, found.input_share[order], atol=1e-9)


@pytest.mark.parametrize("sigma", [1e-6, "correlated"])
@pytest.mark.parametrize("digits", [None, 60])
def test_shares_of_a_network_beside_sixty_digits(digits, sigma):
    given, inputs = network(1), bank(1, inputs=10)
    owner = np.repeat(np.arange(10), 6)
    if sigma == "correlated":
        # Correlated inside an input only, so that the shares of inputs are those of the whitened readings.
        sigma = np.kron(np.eye(10), 1e-12 * (0.5 * np.eye(6) + 0.5))
        white = np.kron(np.eye(10), np.linalg.inv(np.linalg.cholesky(sigma[:6, :6])))
    else:
        white = np.eye(60) / sigma
    with mpmath.workdps(60):
        whitened = white.astype(object) @ given.jacobian(inputs, digits=60)
    truth = referee(whitened, 13, owner)
    found = estim.sensitivity(given, inputs, sigma, digits=digits)
    assert found.resolved == 13
    np.testing.assert_allclose(found.by_input(), truth, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_shares_of_columns_thirty_decades_apart(seed):
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(12, 6)) * 10.0 ** rng.permutation([15, 14.5, 3, 0, -8, -15])
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0, inputs=np.arange(12) // 2)
    np.testing.assert_allclose(found.by_input(), referee(jacobian, 6, np.arange(12) // 2, 100), atol=1e-12)


@pytest.mark.parametrize("exact", [False, True])
def test_shares_where_a_symmetry_mixes_columns_thirty_decades_apart(exact):
    """The last column is the sum of the others: declared, or proven from exact entries."""
    rng = np.random.default_rng(7)
    # Whole numbers times powers of two, so that the sum is exact in float64's range of 53 bits for those nearby.
    columns = rng.integers(-8, 9, size=(10, 3)).astype(object)
    matrix = columns * np.array([Fraction(2) ** k for k in (50, 0, -50)])
    matrix = np.column_stack([matrix, matrix[:, 0] + matrix[:, 1]])
    null = [1.0, 1.0, 0.0, -1.0]
    if exact:
        found = estim.Sensitivity.from_jacobian(matrix, 1.0)
    else:
        found = estim.Sensitivity.from_jacobian(matrix.astype(float), 1.0, symmetry=null)
    assert found.resolved == 3
    with mpmath.workdps(100):
        numbers = [[mpmath.mpf(entry.numerator) / entry.denominator for entry in row] for row in matrix]
    np.testing.assert_allclose(found.by_input(), referee(numbers, 3, np.arange(10), 100), atol=1e-12)


def test_certified_shares_of_the_hilbert_matrix():
    hilbert = [[Fraction(1, i + j + 1) for j in range(12)] for i in range(12)]
    found = estim.Sensitivity.from_jacobian(hilbert, 1.0, digits=60)
    with mpmath.workdps(60):
        truth = referee([[mpmath.mpf(1) / (i + j + 1) for j in range(12)] for i in range(12)], 12, np.arange(12))
    np.testing.assert_allclose(found.by_input(), truth, atol=1e-14)


def test_shares_that_the_error_of_the_jacobian_hides_are_left_out_and_noted():
    jacobian = np.array([[1.0, 1.0], [1.0, 1.01], [1.0, 1.0]])
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0, jac_error=1e-3)
    assert found.resolved == 2
    np.testing.assert_allclose(found.input_share[:, 0], [1 / 3] * 3, atol=0.01)
    assert np.isnan(found.input_share[:, 1]).all()
    assert found.carriers[1].tolist() == [-1, -1, -1]
    assert "shares of inputs" in found.notes[0]
    assert estim.Sensitivity.from_json(found.to_json()) == found
    assert "nan" in str(found.by_input()).lower()


def test_shares_with_noiseless_readings_of_columns_decades_apart():
    """Two noiseless readings fix two combinations; what moves them is their own singular value decomposition."""
    rng = np.random.default_rng(3)
    jacobian = rng.normal(size=(8, 4)) * 10.0 ** np.array([12, 4, -4, -12])
    sigma = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found = estim.Sensitivity.from_jacobian(jacobian, sigma)
    assert np.isinf(found.scaled_singular_values).tolist() == [True, True, False, False]
    truth = referee(jacobian[:2], 2, np.arange(2), 100)
    np.testing.assert_allclose(found.input_share[:2, :2], truth, atol=1e-12)
    assert (found.input_share[2:, :2] == 0.0).all()
    # What is fixed is known to rounding of the strongest column; the weak directions in the rest are below that.
    order = [1, 0, *rng.permutation(np.arange(2, 8))]
    again = estim.Sensitivity.from_jacobian(jacobian[order], sigma)
    np.testing.assert_allclose(again.input_share, found.input_share[order], atol=1e-6)


def test_shares_beside_a_combination_that_correlated_noise_leaves_alone():
    """Each reading moves by no more than the noise can, and its part is that movement times its weight."""
    rng = np.random.default_rng(5)
    units = 10.0 ** np.array([3.0, -3.0, 0.0, 1.0, -2.0, 0.0])
    root = units[:, None] * rng.normal(size=(6, 5))  # one combination of the six readings has no noise
    jacobian = units[:, None] * rng.normal(size=(6, 3))
    found = estim.Sensitivity.from_jacobian(jacobian, root @ root.T)
    assert np.isinf(found.scaled_singular_values).tolist() == [True, False, False]
    weights = found.whitening.T @ found.readout
    parts = (root @ (root.T @ weights)) * weights  # the covariance makes movements of the weights
    np.testing.assert_allclose(found.input_share[:, 1:], parts, atol=1e-9)
    np.testing.assert_allclose(found.input_share.sum(axis=0), 1.0, rtol=1e-12)
    again = estim.Sensitivity.from_json(found.to_json())
    np.testing.assert_array_equal(again.input_share, found.input_share)


def test_the_record_holds_no_share_of_every_reading():
    """With an input for each reading the shares are as large as the Jacobian, and follow from the readout."""
    found = estim.Sensitivity.from_jacobian(np.random.default_rng(0).normal(size=(50, 7)), 0.1)
    held = sum(value.size for value in vars(found).values() if isinstance(value, np.ndarray))
    assert "input_share" not in found.to_dict()
    assert held < 2 * 50 * 7
    np.testing.assert_allclose(found.input_share, np.square(found.readout), rtol=1e-12)


@pytest.mark.parametrize("sigma", [0.1, [0.0, 0.1, 0.2, 0.1, 0.3, 0.0]])
def test_a_group_of_one_parameter_is_what_its_column_alone_is(sigma):
    """Columns in order: seen, known without noise if a reading is, within its error, zero."""
    jacobian = np.random.default_rng(3).normal(size=(6, 4)) * [1.0, 1e12, 1.0, 0.0]
    jacobian[[0, 5], 0] = 0.0
    error = 1e-9 * np.abs(jacobian)
    error[:, 2] = 10.0 * np.abs(jacobian[:, 2])
    columns = list("abcd")
    found = estim.Sensitivity.from_jacobian(jacobian, sigma, jac_error=error, names=columns, groups=columns)
    for j, name in enumerate(columns):
        alone = estim.Sensitivity.from_jacobian(jacobian[:, [j]], sigma, jac_error=error[:, [j]])
        assert found.by_group()["seen"][name] == alone.resolved == (j < 2)
        np.testing.assert_allclose(found.by_group()["best_floor"][name], alone.standard_errors[0], rtol=1e-14)
