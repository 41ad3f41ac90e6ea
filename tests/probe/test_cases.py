"""Hard cases with known right answers, taken from faults that users of other tools reported."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import Covariance

import estim
from estim import Status

X = np.array([0.1, 0.4, 0.7, 0.9, 0.2, 0.5])
TENTHS = [Fraction(round(10 * x), 10) for x in X]


def same_line(row, expected, atol=1e-7):
    """Whether a unit vector spans the line of another."""
    expected = np.asarray(expected) / np.linalg.norm(expected)
    np.testing.assert_allclose(np.abs(row @ expected), 1.0, atol=atol)


class TestC1RedundantParameters:
    @staticmethod
    def model(p, x):
        return (p["a"] + p["b"]) * x

    def test_as_a_float_callable_the_difference_is_unresolved(self):
        found = estim.sensitivity(self.model, np.array([1.0, 2.0, 3.0]), 0.1, params={"a": 1.0, "b": 0.5})
        assert found.status == (Status.SEEN, Status.UNRESOLVED)
        same_line(found.directions[1], [1.0, -1.0])
        assert found.floor({"a": 1}) == found.floor({"b": 1}) == np.inf
        assert list(found.standard_errors) == [np.inf, np.inf]
        assert found.floor({"a": 1, "b": 1}) == pytest.approx(0.1 / np.sqrt(14), rel=1e-9)
        assert found.unseen == ("a - b",)
        assert found.identifiable == ("a + b",)
        assert found.shift({"a": 1}) == pytest.approx(10 * np.sqrt(14), rel=1e-9)
        assert found.power({"a": 1}) == pytest.approx(1.0)

    def test_with_fractions_it_is_null(self):
        exact = [[Fraction(1), Fraction(1)], [2, 2], [3, 3]]
        found = estim.Sensitivity.from_jacobian(exact, 0.1, names=["a", "b"])
        assert found.status == (Status.SEEN, Status.NULL)
        assert found.floor([1, 1]) == pytest.approx(0.0267261, abs=5e-8)

    def test_with_a_declared_symmetry_it_is_gauge(self):
        found = estim.Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], 0.1, symmetry=[1.0, -1.0])
        assert found.status == (Status.SEEN, Status.GAUGE)
        assert found.unseen == ()
        assert found.floor([1, 0]) == np.inf

    def test_a_symmetry_that_moves_a_reading_is_refused(self):
        with pytest.raises(ValueError, match="symmetry 0 is none: a unit step along it moves reading 0 by 3"):
            estim.Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0]], 0.1, symmetry=[1.0, 2.0])


def test_c2_finite_differences_do_not_hide_an_exact_null():
    def model(t, x):
        return np.exp(float(t[0]) * float(t[1]) * x)  # refuses complex steps

    found = estim.sensitivity(model, np.array([1.0, 2.0, 3.0]), 1.0, params=np.array([2.0, 0.35]))
    assert found.derivative == "differences"
    assert found.status == (Status.SEEN, Status.UNRESOLVED)
    assert found.singular_values[0] == pytest.approx(52.5558692, abs=5e-7)
    same_line(found.directions[1], [2.0, -0.35])


class TestC3UnitsDoNotDecide:
    def test_floors_span_nine_decades(self):
        found = estim.Sensitivity.from_jacobian(np.diag([1e-9, 1.0]), 1.0)
        assert found.status == (Status.SEEN, Status.SEEN)
        np.testing.assert_allclose(found.standard_errors, [1e9, 1.0], rtol=1e-14)

    @pytest.mark.parametrize("decades", [-40, -9, 9, 40])
    def test_statuses_and_floors_follow_a_change_of_units(self, decades):
        plain = np.column_stack([np.ones(6), X, X**2, X**3, 1 - X])
        units = 10.0 ** np.array([0, decades, -decades / 2, 3, decades])
        before = estim.Sensitivity.from_jacobian(plain, 0.1)
        after = estim.Sensitivity.from_jacobian(plain * units, 0.1)
        assert after.status == before.status
        np.testing.assert_allclose(after.standard_errors * units, before.standard_errors, rtol=1e-9)
        np.testing.assert_allclose(after.scaled_singular_values[:4], before.scaled_singular_values[:4], rtol=1e-12)


def test_singular_values_that_float64_does_not_know_are_left_out_and_noted():
    plain = np.column_stack([np.ones(6), X, X**2, X**3, 1 - X]) * 10.0 ** np.array([0, 40, -20, 3, 40])
    found = estim.Sensitivity.from_jacobian(plain, 0.1)
    assert np.isnan(found.singular_values).any()
    assert "NaN" in found.notes[0]
    with pytest.raises(
        ValueError, match=r"smallest_change, one number for all, cannot be compared with \d of the floors"
    ):
        estim.Sensitivity.from_jacobian(plain, 0.1, smallest_change=1.0)
    units = [
        [Fraction(v) * 10**k for v, k in zip(row, (0, 40, -20 + 40, 3, 40), strict=True)] for row in _exact_design()
    ]
    exact = estim.Sensitivity.from_jacobian(units, 0.1)
    assert exact.counts[Status.NULL] == 1
    certified = estim.Sensitivity.from_jacobian(units, 0.1, digits=100)
    np.testing.assert_allclose(exact.singular_values, certified.singular_values, rtol=1e-11)


def _exact_design():
    return [[Fraction(1), x, x**2, x**3, 1 - x] for x in TENTHS]


class TestC4CollinearDesign:
    def check(self, found):
        assert [status in (Status.SEEN, Status.WEAK) for status in found.status] == [True, True, False]
        same_line(found.directions[2], [1.0, -1.0, -1.0])
        assert list(found.standard_errors) == [np.inf] * 3
        assert np.isfinite(found.floor([1, 0, 1]))
        assert np.isfinite(found.floor([0, 1, -1]))
        assert found.floor([0, 1, 1]) == np.inf

    def test_floats(self):
        found = estim.Sensitivity.from_jacobian(np.column_stack([np.ones(6), X, 1 - X]), 1.0)
        self.check(found)
        assert found.status[2] is Status.UNRESOLVED

    def test_fractions(self):
        found = estim.Sensitivity.from_jacobian([[1, x, 1 - x] for x in TENTHS], 1.0)
        self.check(found)
        assert found.status[2] is Status.NULL


HILBERT = [[Fraction(1, i + j + 1) for j in range(12)] for i in range(12)]


class TestC5WeakNotNull:
    def test_in_float64_the_last_direction_is_unresolved(self):
        found = estim.Sensitivity.from_jacobian(np.array(HILBERT, dtype=float), 1.0)
        assert found.status[-1] is Status.UNRESOLVED
        assert found.counts[Status.NULL] == 0

    def test_exact_entries_alone_make_it_neither_null_nor_seen(self):
        assert estim.Sensitivity.from_jacobian(HILBERT, 1.0).status[-1] is Status.UNRESOLVED

    def test_sixty_digits_resolve_it_as_weak(self):
        found = estim.Sensitivity.from_jacobian(HILBERT, 1.0, digits=60, smallest_change=1.0)
        assert found.status[-1] is Status.WEAK
        assert found.singular_values[-1] == pytest.approx(1.04794639796223e-16, rel=2e-14)
        assert found.counts[Status.UNRESOLVED] == 0


class TestC8ConstantReadings:
    @pytest.mark.parametrize("value", [5.0, 0.1])
    def test_nothing_is_seen_and_nothing_is_nan(self, value):
        found = estim.sensitivity(lambda p, x: np.full(3, value), None, 1.0, params=np.array([1.0, 2.0]))
        assert found.rank() == 0
        assert found.status == (Status.UNRESOLVED, Status.UNRESOLVED)
        assert list(found.standard_errors) == [np.inf, np.inf]
        assert found.minimum_detectable([1.0, 0.0]) == np.inf
        assert found.power([1.0, 0.0]) == 0.0
        assert found.shift([1.0, 1.0]) == 0.0
        assert not np.isnan(found.singular_values).any()
        assert "nan" not in found.to_json().replace('"nan"', "")


class TestNoise:
    def test_c13_an_indefinite_covariance_is_refused_with_its_eigenvalue(self):
        with pytest.raises(ValueError, match="positive semidefinite; it has the eigenvalue -1"):
            estim.Sensitivity.from_jacobian([[1.0], [1.0]], [[1.0, 2.0], [2.0, 1.0]])

    @pytest.mark.parametrize("sigma", [[1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]]])
    @pytest.mark.parametrize(("column", "floor"), [([1.0, 1.0], 0.0), ([1.0, 0.0], 1.0)])
    def test_c14_a_noiseless_reading(self, sigma, column, floor):
        found = estim.Sensitivity.from_jacobian(np.array([column]).T, sigma)
        assert found.floor([1.0]) == pytest.approx(floor, abs=1e-12)

    def test_noiseless_readings_leave_the_rest_to_the_noisy_ones(self):
        found = estim.Sensitivity.from_jacobian([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.5])
        assert found.floor([1, 1]) == 0.0
        assert found.floor([1, -1]) == pytest.approx(0.5)
        assert found.floor([1, 0]) == pytest.approx(0.25)
        assert found.shift([1, 0]) == np.inf
        assert found.minimum_detectable([1, 0]) == 0.0

    @pytest.mark.parametrize(("correlation", "floor"), [(0.2, 0.45607), (0.0, 0.1)])
    def test_c15_repeats(self, correlation, floor):
        found = estim.Sensitivity.from_jacobian([[1.0]], 1.0, repeats=100, repeat_correlation=correlation)
        assert found.floor([1]) == pytest.approx(floor, abs=5e-6)

    @pytest.mark.parametrize(("column", "floor"), [([1.0, 1.0], 0.974679), ([1.0, -1.0], 0.223607)])
    @pytest.mark.parametrize("wrap", [np.array, Covariance.from_precision])
    def test_c15_correlated_readings(self, column, floor, wrap):
        covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
        sigma = wrap(covariance) if wrap is np.array else wrap(np.linalg.inv(covariance))
        assert estim.Sensitivity.from_jacobian(np.array([column]).T, sigma).floor([1]) == pytest.approx(floor, abs=5e-7)


class TestPlumbing:
    @pytest.mark.parametrize(
        "theta", [np.array([1, 2]), np.array([1.0, 2.0]), np.array([1, 2], dtype=np.float32), [1, 2]]
    )
    def test_c16_integers_are_raised_first(self, theta):
        def model(t, x):
            return t[0] * np.exp(t[1] * x)

        found = estim.sensitivity(model, np.array([0.0, 0.5, 1.0]), 1.0, params=theta)
        jacobian = np.array([[1, 0], [2.718282, 1.359141], [7.389056, 7.389056]])
        np.testing.assert_allclose(found.column_norms, np.linalg.norm(jacobian, axis=0), rtol=1e-6)

    def test_c17_nan(self):
        rows = [[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]]
        with pytest.raises(ValueError, match="NaN in row 1"):
            estim.Sensitivity.from_jacobian(rows, 1.0)
        assert estim.Sensitivity.from_jacobian(rows, 1.0, nan_policy="omit").rank() == 2
        weighted = estim.Sensitivity.from_jacobian(rows, [1.0, 5.0, 2.0], nan_policy="omit")
        np.testing.assert_allclose(weighted.standard_errors, [1.0, 2.0])

    @pytest.mark.parametrize(
        ("sigma", "message"),
        [
            (0.0, "sigma must be positive; got 0.0"),
            (-1.0, "sigma must be positive; got -1.0"),
            ([1.0, -0.5], "sigma must not be negative; got -0.5 for reading 1"),
            ([1.0, np.nan], "sigma must be finite; got nan"),
            ([1.0, 1.0, 1.0], r"one entry for each of the 2 readings; got shape \(3,\)"),
            (np.eye(3), r"must have shape \(2, 2\); got \(3, 3\)"),
            ([[1.0, 0.5], [0.0, 1.0]], "must be symmetric; got 0.5 at"),
            (1e-200, r"between 1e-150 and 1e150 \(choose other units\); got a standard deviation of 1e-200"),
            (1e200, "got a standard deviation of 1e\\+200"),
            (1e-320, "got a standard deviation of 1e-320"),
            ([0.0, 1e-151], "got a standard deviation of 1e-151"),
            (np.diag([1.0, 1e302]), "got a standard deviation of 1e\\+151"),
        ],
    )
    def test_c17_sigma_that_does_not_fit(self, sigma, message):
        with pytest.raises(ValueError, match=message):
            estim.Sensitivity.from_jacobian(np.eye(2), sigma)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_parameters_that_are_not_known_are_left_out(self, value):
        with pytest.raises(ValueError, match=r"parameters must be finite, or left out .*; got (nan|inf) at 1"):
            estim.Sensitivity.from_jacobian(np.eye(2), 1.0, parameters=[1.0, value])

    @pytest.mark.parametrize("shape", [(3, 2), (2, 3), (1, 6), (6, 1), (3, 2, 1)])
    def test_noise_in_the_shape_of_the_readings_is_flattened_by_the_user(self, shape):
        # (inputs, outputs) may be equal numbers: whether it is then the covariance of the outputs is not for us to say.
        def model(p, x):
            return np.outer(x, p)

        sigma, bank = np.arange(1.0, 7.0).reshape(shape), np.array([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r": one standard deviation for each reading has one axis, numpy.ravel\("):
            estim.sensitivity(model, bank, sigma, params=[1.0, 2.0])
        found = estim.sensitivity(model, bank, np.ravel(sigma), params=[1.0, 2.0])
        alone = 1.0 / np.sqrt([np.square([1 / 1, 2 / 3, 3 / 5]).sum(), np.square([1 / 2, 2 / 4, 3 / 6]).sum()])
        np.testing.assert_allclose(found.standard_errors, alone, rtol=1e-12)

    def test_a_covariance_of_another_shape_is_no_list(self):
        with pytest.raises(ValueError, match=r"must have shape \(6, 6\); got \(3, 3\)$"):
            estim.Sensitivity.from_jacobian(np.ones((6, 1)), np.eye(3))

    def test_sigma_is_required(self):
        with pytest.raises(TypeError, match="sigma"):
            estim.sensitivity(lambda p, x: p, None, params=[1.0])

    def test_c19_one_reading_of_three_parameters(self):
        found = estim.sensitivity(lambda p, x: p @ x, np.array([1.0, 2.0, 3.0]), 1.0, params=np.ones(3))
        assert found.directions.shape == (3, 3)
        assert found.counts[Status.SEEN] == 1
        assert found.singular_values[0] == pytest.approx(np.sqrt(14))

    @pytest.mark.parametrize("order", [np.asfortranarray, lambda j: j[::-1, ::2][::-1], lambda j: np.array(j)])
    def test_c19_layout_does_not_matter(self, order):
        rng = np.random.default_rng(20260101)
        full = rng.standard_normal((7, 6))
        view = order(full)
        view.flags.writeable = False
        expected = estim.Sensitivity.from_jacobian(np.ascontiguousarray(view), 0.3)
        assert estim.Sensitivity.from_jacobian(view, 0.3) == expected

    @pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
    def test_c19_empty(self, shape):
        with pytest.raises(ValueError, match="at least one of each"):
            estim.Sensitivity.from_jacobian(np.zeros(shape), 1.0)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_units_beyond_the_root_of_the_float_range(unit):
    found = estim.Sensitivity.from_jacobian([[unit, 0.0], [0.0, 1.0]], 1.0)
    np.testing.assert_allclose(found.standard_errors, [1 / unit, 1.0], rtol=1e-14)
    np.testing.assert_allclose(found.column_norms, [unit, 1.0], rtol=1e-14)
    assert found.counts[Status.SEEN] == 2
