"""A null space proven from exact entries, and words for what is not seen, where parameters are decades apart."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import estim


def exact(matrix: np.ndarray) -> np.ndarray:
    return np.array([[Fraction(entry) for entry in row] for row in matrix.tolist()], dtype=object)


def values_of(matrix: np.ndarray, rank: int) -> list[float]:
    """Return the singular values in 120 digits."""
    with mpmath.workdps(240):
        given = mpmath.matrix(matrix.tolist())
        squares = sorted(mpmath.eigsy(given * given.T, eigvals_only=True), reverse=True)[:rank]
        return [float(mpmath.sqrt(square)) for square in squares]


# Free strong parameters beside the weakest, and the rows of the null space are parallel to rounding: too few were
# NULL, and values up to 1e22 times too large.
@pytest.mark.parametrize("readings", [1, 3, 5])
@pytest.mark.parametrize("decades", [0.0, 10.0, 28.0])
@pytest.mark.parametrize("seed", range(4))
def test_all_of_an_exact_null_space_is_proven_over_decades(readings: int, decades: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    effects = np.exp2(np.round(3.32 * rng.permutation(np.linspace(0.0, decades, 12))))
    matrix = rng.integers(-3, 4, size=(readings, 12)) * (rng.random((readings, 12)) < 0.7) * effects
    matrix[:, seed] = 0.0
    matrix[0, 5] = 3.0 * effects[5]
    rank = np.linalg.matrix_rank(matrix / effects)
    found = estim.Sensitivity.from_jacobian(exact(matrix), 1.0)
    assert (found.resolved, found.counts[estim.Status.NULL]) == (rank, 12 - rank)
    np.testing.assert_allclose(found.singular_values[:rank], values_of(matrix, rank), rtol=1e-9)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(12), atol=1e-9)


def test_values_where_the_null_space_takes_up_two_weak_parameters_beside_each_other() -> None:
    """It is almost in the plane of the first two, whose projections beside it are parallel: the third was 4 % off."""
    effects = np.exp2([-10.0, -13.0, 38.0, 40.0, 38.0])
    rows = [[-2, 1, 16, 28, 3.5], [-26, 44, 64, 128, 60], [13, 14, 0, -80, 8], [15, 6, 7, 4, 0.5]]
    matrix = np.array(rows) * effects
    found = estim.Sensitivity.from_jacobian(exact(matrix), 1.0)
    assert found.counts[estim.Status.NULL] == 1
    np.testing.assert_allclose(found.singular_values[:4], values_of(matrix, 4), rtol=1e-9)


# Independent only in weak parameters, symmetries were taken for one: too few were GAUGE, values were 1e5 times too
# large, and counts depended on units.
@pytest.mark.parametrize("decades", [0.0, 12.0, 28.0])
@pytest.mark.parametrize("seed", range(8))
def test_all_symmetries_count_over_decades_and_twice_declared_once(decades: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    effects = np.exp2(np.round(3.32 * rng.permutation(np.linspace(0.0, decades, 9))))
    mixed = rng.integers(-2, 3, size=(5, 4))
    # The last four parameters make up for the first five.
    symmetry = np.concatenate([np.eye(5), mixed.T]).astype(float) / effects[:, None]
    matrix = rng.normal(size=(6, 4)).round(2) * 64 @ np.concatenate([-mixed, np.eye(4)]).T * effects
    declared = np.concatenate([symmetry, 3.0 * symmetry[:, 1:2]], axis=1)
    found = estim.Sensitivity.from_jacobian(matrix, 1.0, symmetry=declared)
    assert (found.resolved, found.counts[estim.Status.GAUGE]) == (4, 5)
    np.testing.assert_allclose(found.singular_values[:4], values_of(matrix, 4), rtol=1e-8)
    gauge = found.directions[4:]
    np.testing.assert_allclose(gauge @ gauge.T, np.eye(5), atol=1e-14)
    moved = np.linalg.norm(matrix @ gauge.T, axis=0)
    assert (moved < 1e-12 * np.linalg.norm(gauge * found.scale, axis=1)).all()


def test_values_beside_symmetries_that_are_parallel_but_for_weak_parameters() -> None:
    """From unit vectors in the parameters' units, parallel to 3e-13 in equal effect, the second was 0.5 % off."""
    effects = np.exp2([-47.0, 12.0, -38.0, 30.0, 26.0])
    rows = [[8, 0, -4, -12, 36], [19, 9, 4, 12, 0], [-48, -24, -12, -36, 12], [-65, -27, -8, -24, -36]]
    rows.append([-10, -6, -4, -12, 12])
    symmetry = np.array([[2, 1, 2], [-2, 1, -2], [-2, -1, 1], [-1, -2, -2], [-1, -1, -1]]) / effects[:, None]
    matrix = np.array(rows) * effects
    found = estim.Sensitivity.from_jacobian(matrix, 1.0, symmetry=symmetry)
    assert found.counts[estim.Status.GAUGE] == 3
    np.testing.assert_allclose(found.singular_values[:2], values_of(matrix, 2), rtol=1e-12)


def test_beside_symmetries_that_differ_in_strong_parameters_alone_entry_by_entry() -> None:
    """In the parameters' units they are parallel to 4e-19; the hardest change was 11 % off, and its value 1e-5."""
    effects = np.exp2([-34.0, 27.0, 36.0, -17.0])
    rows = [[1, -2, 1, -2], [0, 0, 0, 0], [9, -6, 3, 0], [6, -2, 1, 3], [-4, 4, -2, 2]]
    symmetry = np.array([[1, -1], [2, -1], [1, 1], [-1, 1]]) / effects[:, None]
    matrix = np.array(rows) * effects
    expected = values_of(matrix, 2)
    for entries in (matrix, exact(matrix)):
        found = estim.Sensitivity.from_jacobian(entries, 1.0, symmetry=symmetry)
        assert found.counts[estim.Status.GAUGE] == 2
        np.testing.assert_allclose(found.singular_values[:2], expected, rtol=1e-12)
        np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(4), atol=1e-12)
        verdict = found.judge(np.zeros(5), smallest_change=estim.AnyChange(1.0, relative=False))
        assert verdict.shifts[0] == pytest.approx(expected[1], rel=1e-12)


# In units of the idle parameters that are small beside the effects of the others, two declared were one GAUGE.
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("effect", [1e-15, 1.0, 1e15])
def test_symmetries_that_differ_in_parameters_without_effect_all_count(effect: float, unit: float) -> None:
    jacobian = np.array([[1.0, 1, 1, 0, 0], [1, 2, 3, 0, 0]]) * effect
    idle = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 1.0]]) * unit
    moving = np.array([[1.0, -2.0, 1.0]] * 3 + [[0.0] * 3])
    symmetry = np.concatenate([moving, idle], axis=1).T
    for which, count in (([0], 1), ([0, 1], 1), ([0, 2], 2), ([0, 1, 2], 2), ([0, 3], 2), ([2, 1, 3], 2), ([3], 1)):
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0, symmetry=symmetry[:, which])
        assert (found.resolved, found.counts[estim.Status.GAUGE]) == (2, count), which
        gauge = found.directions[5 - count :]
        np.testing.assert_allclose(gauge @ gauge.T, np.eye(count), atol=1e-14)
        # The declared ones are in it.
        declared = symmetry[:, which] / np.linalg.norm(symmetry[:, which], axis=0)
        np.testing.assert_allclose(gauge.T @ (gauge @ declared), declared, atol=1e-12)


def test_words_for_the_unseen_are_of_no_effect_beside_strong_parameters() -> None:
    """The first two make a weak combination; of unit vectors its parts in strong ones were 0.9 of its effect."""
    jacobian = np.array(
        [
            [3e-17, -1.38e-17, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 8.11e12, 0, 4.51e10, 7.67e12, 3.17e10, -3.46e-6, 0],
            [4.05e-21, -1.09e-20, -5.58e8, 0, -7.66e5, 2.01e7, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 8.95e-4, 0],
        ]
    )
    sigma, names = np.array([2.0**-7, 2.0, 2.0**-16, 64.0]), list("abcdefghi")
    found = estim.Sensitivity.from_jacobian(jacobian, sigma, names=names)
    assert (found.resolved, len(found.unseen)) == (4, 5)
    # Coefficients have three digits.
    assert most_moved(found.unseen, names, jacobian / sigma[:, None], found.scale) < 0.01


# By unit vectors in the parameters' units a third of these null spaces had words for changes that are all effect.
@pytest.mark.parametrize("seed", [0, 1, 5, 16, 24, 29, 37, 58])
def test_words_for_an_exact_null_space_are_of_no_effect_over_decades(seed: int) -> None:
    rng, names = np.random.default_rng(seed), list("abcdefghijkl")
    effects = np.exp2(np.round(3.32 * rng.permutation(np.linspace(0.0, 28.0, 12))))
    readings = np.exp2(np.round(3.32 * rng.permutation(np.linspace(0.0, 28.0, 4))))
    matrix = rng.integers(-3, 4, (4, 12)) * (rng.random((4, 12)) < 0.5) * effects * readings[:, None]
    found = estim.Sensitivity.from_jacobian(exact(matrix), 1.0, names=names)
    assert (found.counts[estim.Status.NULL], len(found.unseen)) == (8, 12 - found.resolved)
    assert most_moved(found.unseen, names, matrix, found.scale) < 0.01


def most_moved(texts: tuple[str, ...], names: list[str], jacobian: np.ndarray, scale: np.ndarray) -> float:
    """Return the largest shift of combinations in words, each beside those of its parameters, each alone."""
    shares = []
    for text in texts:
        change, factor = dict.fromkeys(names, 0.0), 1.0
        for word in text.replace("- ", "-").replace("+ ", "").split():
            if word.lstrip("-") in change:
                change[word.lstrip("-")] = -factor if word[0] == "-" else factor
                factor = 1.0
            else:
                factor = float(word)
        vector = np.array(list(change.values()))
        shares.append(np.linalg.norm(jacobian @ vector) / np.linalg.norm(scale * vector))
    return float(max(shares))
