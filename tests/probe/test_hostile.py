"""Faults that a reviewer found: records that follow the caller's arrays, drowned shares, names that start formulas."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import stats

import estim
from estim import Sensitivity
from estim.cli import main


def test_a_record_does_not_follow_the_arrays_it_was_made_from():
    point, smallest = np.array([1.0, 2.0]), np.array([0.1, 0.2])
    found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0, parameters=point, smallest_change=smallest)
    point[:], smallest[:] = 9.0, 9.0
    assert found.parameters.tolist() == [1.0, 2.0]
    assert found.smallest_change.tolist() == [0.1, 0.2]


def test_noiseless_readings_are_no_degrees_of_freedom_of_the_test():
    found = estim.Sensitivity.from_jacobian(np.eye(2), [1.0, 0.0])
    assert found.power([1.0, 0.0]) == pytest.approx(stats.ncx2.sf(stats.chi2.isf(0.05, 1), 1, 1.0), rel=1e-12)
    assert found.minimum_detectable([1.0, 0.0]) == pytest.approx(2.8015817870, rel=1e-9)
    assert found.power([0.0, 1.0]) == 1.0
    assert found.minimum_detectable([0.0, 1.0]) == 0.0
    assert estim.Sensitivity.from_jacobian(np.eye(2), [0.0, 0.0]).power([1.0, 0.0]) == 1.0


@pytest.mark.parametrize("correlated", [False, True])
def test_inputs_of_weak_directions_are_not_drowned_by_strong_ones(correlated):
    units = 10.0 ** np.array([7, 7, 3, 0, -8, -14])
    jacobian = np.random.default_rng(2).normal(size=(12, 6)) * units
    found = estim.Sensitivity.from_jacobian(jacobian, np.eye(12) if correlated else 1.0)
    with mpmath.workdps(60):
        left = np.array(mpmath.svd_r(mpmath.matrix(jacobian.tolist()))[0].tolist(), dtype=float)
    np.testing.assert_allclose(found.by_input(), left**2, atol=1e-12)
    np.testing.assert_array_equal(found.carriers, np.argsort(-(left.T**2), axis=1)[:, :3])


@pytest.mark.parametrize("name", ["$\\frac{a}$", "$x^{", "x" * 300])
def test_names_are_no_formulas_and_do_not_push_the_plot_away(name, tmp_path):
    found = estim.Sensitivity.from_jacobian([[1.0, 1.0], [1.0, 1.0]], 0.1, names=[name, "q"])
    found.report(tmp_path / "page.html")
    assert name[:15] in (tmp_path / "page.html").read_text()


def test_a_name_with_a_space_is_no_combination():
    found = estim.Sensitivity.from_jacobian([[1.0, 0, 0], [0, 1, 1]], 0.1, names=["Group Var", "a", "b"])
    assert found.identifiable == ("a + b",)


def test_the_command_takes_parameters_from_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile_model.py").write_text("def line(p, x):\n    return p['a'] * x + p['b']\n")
    (tmp_path / "params.csv").write_text("a,b\n1.0,0.5\n")
    np.save("bank.npy", np.arange(3.0))
    assert main(["sensitivity", "hostile_model:line", "bank.npy", "--sigma", "0.1", "--params", "params.csv"]) == 0
    assert "2 seen" in capsys.readouterr().out


def test_the_command_explains_a_module_that_does_not_import(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile_broken.py").write_text("from numpy import no_such_name\n")
    np.save("bank.npy", np.arange(3.0))
    assert main(["sensitivity", "hostile_broken:line", "bank.npy", "--sigma", "0.1"]) == 2
    assert "no_such_name" in capsys.readouterr().err


@pytest.mark.parametrize("units", [[1e-200, 1.0], [1e200, 1.0], [1e-300, 1e300], [1e-200, 1e-200]])
def test_units_at_the_ends_of_the_floats_lose_nothing(units):
    plain = np.random.default_rng(3).normal(size=(6, 2))
    expected, found = (estim.Sensitivity.from_jacobian(plain * unit, 1.0) for unit in (1.0, np.array(units)))
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors / units, rtol=1e-12)
    assert found.singular_values[0] > 0.0
    assert not (found.singular_values == 0.0).any()  # NaN where floats cannot hold the value beside the first
    assert found.minimum_detectable([1.0, 0.0]) * units[0] == pytest.approx(expected.minimum_detectable([1.0, 0.0]))
    assert found.shift([2.0, 0.0]) == pytest.approx(2.0 * units[0] * expected.shift([1.0, 0.0]), rel=1e-12, abs=0.0)
    found.summary()


def graded(seed, exponents, *, idle=False):
    """Return a Jacobian with columns decades apart, a symmetry that mixes them, and their scales."""
    rng = np.random.default_rng(seed)
    mixing = np.array([-1.0, 2.0, 0.0, 1.0] if idle else [-1.0, 2.0, 1.0])
    free = rng.standard_normal((8, len(mixing)))
    free[:, -1] = free[:, 0] - 2.0 * free[:, 1]
    if idle:
        free[:, 2] = 0.0
    scale = 10.0 ** rng.permutation(exponents)
    return free * scale, (mixing / scale)[:, None], scale


class TestSymmetriesOfGradedColumns:
    def test_the_strongest_singular_value_is_that_of_the_jacobian(self):
        jacobian, symmetry, _ = graded(2, [-8.0, 0.0, 8.0])
        found = Sensitivity.from_jacobian(jacobian, 1.0, symmetry=symmetry)
        assert [str(status) for status in found.status] == ["seen", "seen", "gauge"]
        np.testing.assert_allclose(found.singular_values[0], np.linalg.svd(jacobian)[1][0], rtol=1e-6)

    @pytest.mark.parametrize("seed", range(8))
    def test_it_is_so_in_any_order_beside_a_parameter_without_effect(self, seed):
        jacobian, symmetry, _ = graded(seed, np.linspace(-15.0, 15.0, 4), idle=True)
        strongest = np.linalg.svd(jacobian)[1][0]
        for order in itertools.permutations(range(4)):
            found = Sensitivity.from_jacobian(jacobian[:, order], 1.0, symmetry=symmetry[list(order)], groups=[*"xyxy"])
            np.testing.assert_allclose(found.singular_values[0], strongest, rtol=1e-6)

    def test_units_do_not_make_a_parameter_of_a_group_gauge(self):
        jacobian, symmetry, _ = graded(4, np.linspace(-10.0, 10.0, 4), idle=True)
        found = Sensitivity.from_jacobian(jacobian, 1.0, symmetry=symmetry, groups=["x", "y", "x", "y"])
        assert found.by_group()["gauge"].tolist() == [0, 0]
        assert found.by_group()["seen"].tolist() == [1, 2]

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("declared", [False, True])
    def test_the_hardest_change_depends_on_no_order_of_the_parameters(self, seed, declared):
        jacobian, symmetry, scale = graded(seed, [-9.0, 1.0, 10.0])
        if not declared:
            jacobian, symmetry = np.random.default_rng(seed).standard_normal((8, 3)) * scale, None
        shifts = []
        for order in itertools.permutations(range(3)):
            mixed = None if symmetry is None else symmetry[list(order)]
            found = Sensitivity.from_jacobian(jacobian[:, order], 0.1, symmetry=mixed)
            shifts.append(found.judge(np.zeros(8), smallest_change=estim.AnyChange(0.01, relative=False)).shifts[0])
        np.testing.assert_allclose(shifts, shifts[0], rtol=1e-8)


@pytest.mark.parametrize("noiseless", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_record_read_back_answers_to_the_same_bits(seed, noiseless):
    rng = np.random.default_rng(seed)
    sigma = np.full(12, 0.1)
    sigma[0] = 0.0 if noiseless else 0.1
    found = Sensitivity.from_jacobian(rng.standard_normal((12, 5)), sigma)
    again, change, shift = Sensitivity.from_json(found.to_json()), rng.standard_normal(5), rng.standard_normal(12)
    assert again.shift(change) == found.shift(change)
    assert again.floor(change) == found.floor(change)
    assert again.judge(shift, smallest_change=1.0) == found.judge(shift, smallest_change=1.0)


class TestUnitsFarFromOne:
    """Numbers near the ends of the float range are judged or refused, and none ends in an overflow."""

    @pytest.mark.parametrize("size", [1e-305, 1e-200, 1e-160, 1e-100, 1e100, 1e160, 1e200, 1e305])
    @pytest.mark.parametrize(
        "smallest", [0.1, estim.AnyChange(0.1), estim.AnyChange(0.1, case="typical"), {"a": 0.1}], ids=str
    )
    def test_a_jacobian_of_any_size_is_judged(self, size, smallest):
        found = Sensitivity.from_jacobian(size * np.eye(2), 1.0, parameters=[1.0, 2.0], names=["a", "b"])
        verdict = found.judge(np.zeros(2), smallest_change=smallest, rng=0)
        assert verdict.outcome == ("equivalent" if size > 1.0 else "blind")
        assert verdict.power == pytest.approx(1.0 if size > 1.0 else 0.05)
        assert verdict.repeats_needed == (1 if size > 1.0 else None)

    @pytest.mark.parametrize("sigma", [1e-200, 1e200])
    @pytest.mark.parametrize(
        "ask",
        [
            lambda f, t, p, s: estim.sensitivity(f, t, s, params=p),
            lambda f, t, p, s: estim.judge_models(p, {"a": 1.1}, t, s, model=f),
            lambda f, t, p, s: estim.linearity(f, t, {"a": 0.1}, s, params=p),
            lambda f, t, p, s: estim.recover_parameters(f, t, s, params=p, trials=2),
        ],
        ids=["sensitivity", "judge_models", "linearity", "recover_parameters"],
    )
    def test_noise_whose_square_no_float_holds_is_refused(self, ask, sigma):
        with pytest.raises(ValueError, match=r"sigma must lie between 1e-150 and 1e150 \(choose other units\); got"):
            ask(lambda p, t: p["a"] * t, np.array([1.0, 2.0]), {"a": 1.0}, sigma)
