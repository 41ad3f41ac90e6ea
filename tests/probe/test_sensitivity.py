import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import normal_power

import estim
from estim import Status


@pytest.fixture
def design():
    return np.random.default_rng(20260204).standard_normal((40, 5))


class TestStandardErrorsOfLinearModels:
    def test_ols(self, design):
        fit = sm.OLS(design @ np.arange(5.0) + 0.1, design).fit()
        found = estim.Sensitivity.from_jacobian(design, np.sqrt(fit.scale))
        np.testing.assert_allclose(found.standard_errors, fit.bse, rtol=1e-10)

    def test_wls(self, design):
        sd = np.random.default_rng(5).uniform(0.5, 2.0, 40)
        expected = np.sqrt(np.diag(sm.WLS(np.zeros(40), design, weights=1 / sd**2).fit().normalized_cov_params))
        np.testing.assert_allclose(estim.Sensitivity.from_jacobian(design, sd).standard_errors, expected, rtol=1e-10)

    def test_gls(self, design):
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
        expected = np.sqrt(np.diag(sm.GLS(np.zeros(40), design, sigma=covariance).fit().normalized_cov_params))
        found = estim.Sensitivity.from_jacobian(design, covariance)
        np.testing.assert_allclose(found.standard_errors, expected, rtol=1e-10)


class TestChange:
    def test_one_direction_is_the_two_sided_z_test(self):
        found = estim.Sensitivity.from_jacobian([[2.0]], 0.5)
        size = found.minimum_detectable([1.0])
        assert normal_power(4.0 * size, 1, 0.05, alternative="two-sided") == pytest.approx(0.8, abs=1e-10)
        assert found.power([size]) == pytest.approx(0.8, abs=1e-10)

    @pytest.mark.parametrize("degrees", [1, 4])
    def test_power_by_simulation(self, degrees):
        # False-alarm rate of this test: 4 standard errors of a proportion, 6e-5.
        rng = np.random.default_rng(11)
        jacobian = rng.standard_normal((6, degrees))
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0)
        delta = np.full(degrees, 0.6)
        q, _ = np.linalg.qr(jacobian)
        projected = (rng.standard_normal((40_000, 6)) + jacobian @ delta) @ q
        rejected = (projected**2).sum(axis=1) > stats.chi2.isf(0.1, degrees)
        power = found.power(delta, confidence_level=0.9)
        assert abs(rejected.mean() - power) < 4 * np.sqrt(power * (1 - power) / 40_000)

    def test_without_a_change_the_power_is_the_false_alarm_rate(self):
        assert estim.Sensitivity.from_jacobian(np.eye(2), 1.0).power([0, 0], confidence_level=0.99) == pytest.approx(
            0.01
        )

    def test_impossible_power_is_refused(self):
        found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0)
        with pytest.raises(ValueError, match=r"power must exceed the false-alarm rate 0\.05"):
            found.minimum_detectable([1, 0], power=0.04)
        with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1; got 95"):
            found.power([1, 0], confidence_level=95)


class TestWeak:
    def test_a_floor_above_the_change_of_interest_is_weak(self):
        found = estim.Sensitivity.from_jacobian(np.diag([100.0, 2.0]), 1.0, smallest_change=0.1)
        assert found.status == (Status.SEEN, Status.WEAK)

    def test_a_change_for_each_parameter(self):
        found = estim.Sensitivity.from_jacobian(np.diag([100.0, 2.0]), 1.0, smallest_change=[0.001, 1.0])
        assert (found.counts[Status.WEAK], found.counts[Status.SEEN]) == (1, 1)

    @settings(deadline=None, max_examples=30)
    @given(rng=st.integers(0, 2**32 - 1).map(np.random.default_rng))
    def test_how_many_are_weak_does_not_depend_on_units(self, rng):
        jacobian, units = rng.standard_normal((6, 3)), 10.0 ** rng.uniform(-3, 3, 3)
        change = rng.uniform(0.2, 2.0, 3)
        before = estim.Sensitivity.from_jacobian(jacobian, 1.0, smallest_change=change)
        after = estim.Sensitivity.from_jacobian(jacobian * units, 1.0, smallest_change=change / units)
        assert before.counts == after.counts

    @pytest.mark.parametrize("change", [0.0, -1.0, np.inf, [1.0, 2.0, 3.0]])
    def test_a_change_that_is_none_is_refused(self, change):
        with pytest.raises(ValueError, match="smallest_change must"):
            estim.Sensitivity.from_jacobian(np.eye(2), 1.0, smallest_change=change)


class TestGroupsAndInputs:
    def test_groups_are_probed_with_the_others_fixed(self, design):
        jacobian = np.column_stack([design, design[:, 0] + design[:, 1]])
        found = estim.Sensitivity.from_jacobian(jacobian, 0.1, groups=["a", "a", "a", "b", "b", "c"])
        frame = found.by_group()
        assert list(frame.index) == ["a", "b", "c"]
        assert list(frame["seen"]) == [3, 2, 1]
        values = np.linalg.svd(design[:, :3] / 0.1, compute_uv=False)
        assert frame.loc["a", "best_floor"] == pytest.approx(1 / values[0])
        assert frame.loc["a", "worst_floor"] == pytest.approx(1 / values[-1])
        assert frame["information_share"].sum() == pytest.approx(1.0)
        assert found.counts[Status.UNRESOLVED] == 1

    def test_shares_of_inputs_sum_to_one_and_name_the_carrier(self):
        jacobian = np.zeros((6, 2))
        jacobian[1, 0] = 3.0
        jacobian[4, 1] = 1.0
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0, inputs=[0, 0, 1, 1, 2, 2])
        np.testing.assert_allclose(found.by_input(), [[1, 0], [0, 0], [0, 1]])
        assert list(found.carriers[:, 0]) == [1, 4]

    @pytest.mark.parametrize(
        ("bank", "names"),
        [
            (np.array([0.0, 0.5, 1.0 / 3.0]), ["0", "0.5", "0.333333"]),
            ([1, 2, 3], ["1", "2", "3"]),
            (pd.Series([0.0, 1.0, 2.0], index=["left", "middle", "right"]), ["left", "middle", "right"]),
            (pd.Series([0.0, 1.0, 2.5]), ["0", "1", "2.5"]),
            (pd.DataFrame({"x": [0.0, 1.0, 2.0]}, index=[7, 8, 9]), ["7", "8", "9"]),
            (pd.DataFrame({"x": [0.0, 1.0, 2.0]}), [0, 1, 2]),
            (np.array([0.0, 0.5, 0.5]), [0, 1, 2]),  # no name tells two of them apart
            (np.array([[0.0], [0.5], [0.7]]), [0, 1, 2]),
        ],
    )
    def test_inputs_have_the_names_that_the_bank_has_for_them(self, bank, names):
        def line(p, x):
            return p[0] + p[1] * np.asarray(x, dtype=float).ravel() ** 2

        found = estim.sensitivity(line, bank, 0.1, params=[1.0, 2.0])
        assert list(found.by_input().index) == names
        assert estim.Sensitivity.from_json(found.to_json()).input_names == found.input_names
        given = estim.sensitivity(line, bank, 0.1, params=[1.0, 2.0], inputs=[0, 0, 1])
        assert list(given.by_input().index) == [0, 1]

    def test_shares_with_correlated_noise_sum_to_one(self, design):
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
        found = estim.Sensitivity.from_jacobian(design, covariance)
        np.testing.assert_allclose(found.by_input().sum(), 1.0, rtol=1e-12)


class TestRecord:
    @pytest.fixture
    def found(self, design):
        return estim.Sensitivity.from_jacobian(np.column_stack([design, design[:, 0]]), 0.1, smallest_change=0.01)

    def test_it_pickles_copies_and_goes_through_json(self, found):
        for again in (
            pickle.loads(pickle.dumps(found)),
            copy.deepcopy(found),
            estim.Sensitivity.from_json(found.to_json()),
            estim.Sensitivity.from_dict(found.to_dict()),
        ):
            assert again == found
            assert all(isinstance(status, Status) for status in again.status)
            assert again.floor([0, 1, 0, 0, 0, 0]) == found.floor([0, 1, 0, 0, 0, 0])
            assert again.carriers.dtype == np.int64

    def test_it_is_frozen(self, found):
        with pytest.raises(AttributeError):
            found.resolution = 0.0

    def test_the_summary_says_first_what_is_not_seen(self, found):
        text = str(found.summary())
        assert text.index("theta[0] - theta[5]") < text.index("std. error")
        assert "unresolved: hidden by the Jacobian's own error" in text

    def test_more_digits_are_no_advice_beyond_the_number_of_readings(self):
        text = " ".join(str(estim.Sensitivity.from_jacobian([[1.0, 1.0, 0.0]], 0.1).summary()).split())
        assert "whatever the digits" in text
        assert "more digits or better derivatives" not in text

    def test_the_frame_has_a_row_a_parameter(self, found):
        frame = found.to_frame()
        assert list(frame.index) == [f"theta[{j}]" for j in range(6)]
        assert np.isinf(frame.loc["theta[0]", "standard_error"])
        assert np.isfinite(frame.loc["theta[1]", "standard_error"])

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda s: s.floor([1, 2]),
                r"functional must have one entry for each of the 6 parameters; got shape \(2,\)",
            ),
            (lambda s: s.floor({"z": 1}), "functional names 'z', which is no parameter"),
            (lambda s: s.shift([0, 0, np.inf, 0, 0, 0]), r"delta must be finite; got inf for theta\[2\]"),
            (lambda s: s.rank(2.0), r"rtol must lie in \[0, 1\); got 2.0"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, found, call, message):
        with pytest.raises(ValueError, match=message):
            call(found)

    def test_a_name_alone_is_refused_with_the_mapping_to_give(self, found):
        with pytest.raises(TypeError, match=r"a mapping such as \{'theta\[0\]': 1.0\}; got 'theta\[1\]'"):
            found.floor("theta[1]")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jac_error": -1.0}, r"jac_error must not be negative or NaN; got -1.0 in row 0, column 0"),
        ({"names": ["a"]}, "names must be a list of one word for each of the 2 parameters"),
        ({"names": ["a", "a"]}, "names must differ; got 'a' twice"),
        ({"inputs": [0]}, "inputs must be whole numbers, one for each of the 2 readings"),
        ({"repeats": 0}, "repeats must be a positive integer; got 0"),
        ({"repeats": 3, "repeat_correlation": -0.6}, "repeat_correlation must lie between"),
        ({"rtol": -1.0}, "rtol must be finite and not negative; got -1.0"),
        ({"digits": 60}, "digits need exact entries"),
        ({"nan_policy": "propagate"}, "nan_policy must be 'raise' or 'omit'; got 'propagate'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        estim.Sensitivity.from_jacobian(np.eye(2), 1.0, **options)


def test_a_known_error_of_the_jacobian_raises_the_resolution():
    jacobian = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6]])
    assert estim.Sensitivity.from_jacobian(jacobian, 1.0).counts[Status.SEEN] == 2
    for options in ({"jac_error": 1e-5}, {"rtol": 1e-5}, {"atol": 1e-5}):
        found = estim.Sensitivity.from_jacobian(jacobian, 1.0, **options)
        assert found.counts[Status.UNRESOLVED] == 1
        assert found.resolution > 1e-6


well_conditioned = st.integers(0, 2**32 - 1).map(np.random.default_rng)


class TestReparametrisation:
    @settings(deadline=None, max_examples=40)
    @given(rng=well_conditioned)
    def test_unseen_spaces_and_floors_map_as_they_must(self, rng):
        # theta = A phi: J becomes J A, a functional u becomes A^T u, an unseen direction v becomes A^-1 v.
        jacobian = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 5))
        q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
        mix = q * rng.uniform(0.5, 2.0, 5)
        before = estim.Sensitivity.from_jacobian(jacobian, 0.7)
        after = estim.Sensitivity.from_jacobian(jacobian @ mix, 0.7, jac_error=1e-14 * np.abs(jacobian).max())
        assert before.status == after.status
        unseen = np.linalg.solve(mix, before.directions[3:].T)
        outside = unseen - after.directions[3:].T @ (after.directions[3:] @ unseen)
        np.testing.assert_allclose(outside, 0.0, atol=1e-9)
        seen = jacobian.T @ rng.standard_normal(8)
        assert after.floor(mix.T @ seen) == pytest.approx(before.floor(seen), rel=1e-8)

    @settings(deadline=None, max_examples=40)
    @given(rng=well_conditioned)
    def test_a_permutation_of_readings_or_parameters_permutes_the_report(self, rng):
        jacobian, sd = rng.standard_normal((9, 4)), rng.uniform(0.1, 2.0, 9)
        rows, columns = rng.permutation(9), rng.permutation(4)
        before = estim.Sensitivity.from_jacobian(jacobian, sd, names=list("abcd"))
        after = estim.Sensitivity.from_jacobian(
            jacobian[rows][:, columns], sd[rows], names=[before.names[j] for j in columns], inputs=rows
        )
        np.testing.assert_allclose(after.singular_values, before.singular_values, rtol=1e-12)
        np.testing.assert_allclose(after.standard_errors, before.standard_errors[columns], rtol=1e-10)
        np.testing.assert_allclose(after.input_share, before.input_share, atol=1e-10)


def test_a_model_that_ignores_its_parameters_is_asked_about():
    def ignores(params, bank):
        return bank * 2.0

    question = "No reading shows any parameter beyond the error of the derivatives: does the model use them"
    asked = estim.sensitivity(ignores, np.arange(4.0), 0.1, params={"a": 1.0, "b": 2.0})
    assert any(question in note for note in asked.notes)
    assert question in str(asked.summary()).replace("\n    ", " ")
    seen = estim.sensitivity(lambda p, x: ignores(p, x) + p["a"], np.arange(4.0), 0.1, params={"a": 1.0, "b": 2.0})
    assert not any(question in note for note in seen.notes)
