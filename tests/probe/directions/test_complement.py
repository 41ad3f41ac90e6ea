"""What is left of parameter space, where that is most of it and parameters are decades apart."""

import itertools
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

import estim
from estim.probe.directions.graded_svd import complement, orthonormal
from estim.probe.directions.proven import inside, without
from estim.probe.words import combinations


def graded(rows: int, columns: int, decades: float) -> np.ndarray:
    rng = np.random.default_rng(rows)
    return rng.normal(size=(rows, columns)) * 10.0 ** -rng.permutation(np.linspace(0.0, decades, columns))


def uncancelled(rows: np.ndarray, others: np.ndarray) -> float:
    """Return the largest inner product of two rows beside that of their absolute values, in 60 digits."""
    with mpmath.workdps(60):
        return max(
            float(abs(mpmath.fdot(a.tolist(), b.tolist())) / mpmath.fdot(np.abs(a).tolist(), np.abs(b).tolist()))
            for a in rows
            for b in others
        )


# Without pivots that are the largest entry left the third is off by 1e-11.
@pytest.mark.parametrize(("rank", "decades"), [(6, 0.0), (6, 20.0), (16, 20.0), (12, 30.0)])
def test_small_entries_of_a_complement_are_right(rank: int, decades: float) -> None:
    jacobian = graded(rank, 24, decades)
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0)
    assert np.count_nonzero(found.singular_values) == rank
    rest = complement(found.directions[:rank])
    np.testing.assert_allclose(rest @ rest.T, np.eye(24 - rank), atol=1e-15)
    assert uncancelled(jacobian, rest) < 1e-14
    assert uncancelled(jacobian, found.directions[rank:]) < 1e-14


@pytest.mark.parametrize(("rank", "decades"), [(4, 8.0), (10, 20.0), (12, 30.0)])
def test_small_entries_of_an_orthonormal_basis_are_right(rank: int, decades: float) -> None:
    rows = graded(rank, 16, decades)
    basis = orthonormal(rows)
    np.testing.assert_allclose(basis @ basis.T, np.eye(rank), atol=1e-15)
    # What is orthogonal to the rows, by the test above, is to the basis.
    assert uncancelled(basis, complement(rows)) < 1e-13


def test_without_a_part_of_a_subspace_the_rest_is_left() -> None:
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 6)))[0].T
    removed = np.linalg.qr((np.random.default_rng(1).normal(size=(2, 6)) @ rows).T)[0].T
    left = without(rows, removed)
    np.testing.assert_allclose(left @ left.T, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(left @ removed.T, 0.0, atol=1e-15)
    np.testing.assert_allclose(left @ rows.T @ rows, left, atol=1e-14)


@pytest.mark.parametrize("both", [0, 1, 3])
def test_what_touches_a_group_alone_is_the_same_by_the_complement(both: int) -> None:
    """Seen are one direction of the others alone, and some of all: these hide from five members all but 5 - both."""
    members = np.arange(12) < 5
    seen = np.random.default_rng(both).normal(size=(1 + both, 12))
    seen[0, members] = 0.0
    seen = orthonormal(seen)
    rest = complement(seen)
    plain, found = inside(rest, members, 1e-9), inside(rest, members, 1e-9, seen)
    assert len(found) == len(plain) == 5 - both
    np.testing.assert_allclose(found.T @ found, plain.T @ plain, atol=1e-13)
    np.testing.assert_allclose(found[:, ~members], 0.0, atol=1e-14)


def test_nothing_and_everything_have_complements() -> None:
    np.testing.assert_array_equal(complement(np.zeros((0, 3))), np.eye(3))
    assert complement(np.eye(3)).shape == (0, 3)


@pytest.mark.parametrize("basis_of", [complement, orthonormal])
def test_rows_that_are_not_independent_have_no_basis(basis_of: Callable[[np.ndarray], np.ndarray]) -> None:
    with pytest.raises(ArithmeticError, match=r"not found \(LAPACK dgetrf: the columns are not independent\)"):
        basis_of(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]))


@pytest.mark.parametrize("seen", [1, 2, 3, 4])
def test_a_subspace_has_the_same_words_by_its_complement(seen: int) -> None:
    basis = np.linalg.qr(np.random.default_rng(seen).normal(size=(5, 5)))[0].T
    scale = np.array([1.0, 1e3, 1e-4, 1.0, 10.0])
    arguments = basis[seen:], tuple("abcde"), scale, 5
    assert combinations(*arguments) == combinations(*arguments, basis[:seen])


def test_of_parameters_that_matter_alike_the_first_leads() -> None:
    found = estim.Sensitivity.from_jacobian([[1.0, -1.0, 0.0]], 1.0, names=["a", "b", "c"])
    assert found.unseen == ("a + b", "c")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_beside_a_symmetry_of_parameters_decades_apart_no_order_matters(order: tuple[int, ...]) -> None:
    """The weakest value was 1e10 times too small, its direction that of the symmetry, where parameter 0 came first."""
    places = list(order)
    design = np.random.default_rng(26).normal(size=(8, 3)) * [1e-4, 1e16, 1e6]
    jacobian = np.column_stack([design, 1e-10 * design[:, 0] - 2e-30 * design[:, 1]])
    symmetry = np.array([-1e-10, 2e-30, 0.0, 1.0])
    found = estim.Sensitivity.from_jacobian(jacobian[:, places], 1.0, symmetry=symmetry[places])
    assert found.counts["gauge"] == 1
    np.testing.assert_allclose(found.singular_values[:3], modulo_symmetry(jacobian, symmetry), rtol=1e-10)


def modulo_symmetry(jacobian: np.ndarray, symmetry: np.ndarray) -> list[float]:
    """Return the singular values on what is orthogonal to the symmetry, in 120 digits."""
    with mpmath.workdps(120):
        away = mpmath.matrix(symmetry.tolist())
        basis = mpmath.qr(away, mode="full")[0][:, 1:]
        moved = mpmath.matrix(jacobian.tolist()) * basis
        squares = mpmath.eigsy(moved.T * moved, eigvals_only=True)
        return sorted((float(mpmath.sqrt(square)) for square in squares), reverse=True)
