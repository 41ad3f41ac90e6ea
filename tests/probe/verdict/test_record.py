"""Verdicts: what decides them, their rates by simulation, and what they say."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import estim
from estim import AnyChange, Outcome, Sensitivity
from estim.attention import Layer, Network
from estim.probe.verdict.change import detectable_shift
from estim.probe.verdict.observed import observe

#: Standard errors allowed between a frequency and its probability: false alarm 6.3e-5 a comparison.
Z_LIMIT = 4.0
TRIALS = 40_000


@pytest.fixture
def linear():
    design = np.random.default_rng(3).standard_normal((12, 4))
    return Sensitivity.from_jacobian(design, 0.5, parameters=[1.0, 2.0, -1.0, 0.5], names=list("abcd"))


def network(seed=5):
    rng = np.random.default_rng(seed)
    layers = [Layer(*(rng.standard_normal(shape) for shape in ((3, 2), (3, 2), (3, 3)))) for _ in range(2)]
    return Network(layers), rng.standard_normal((15, 4, 3))


class TestOutcome:
    def test_changed_equivalent_and_blind(self, linear):
        still = np.zeros(12)
        assert linear.judge(still, smallest_change=5.0).outcome is Outcome.EQUIVALENT
        assert linear.judge(still, smallest_change=0.1).outcome is Outcome.BLIND
        moved = linear.judge(still + 2.0, smallest_change=5.0)
        assert moved.outcome is Outcome.CHANGED

    def test_no_power_is_never_equivalent_however_still_the_readings(self, linear):
        verdict = linear.judge(np.zeros(12), smallest_change=0.1)
        assert verdict.power < 0.1
        assert "the silence proves nothing" in verdict.reason
        assert "hardest to see along" in verdict.reason
        assert f"{verdict.repeats_needed} repeats in place of 1" in verdict.prescription

    def test_between_the_two_it_is_blind_though_the_power_suffices(self):
        found = Sensitivity.from_jacobian([[1.0]], 1.0)
        verdict = found.judge([1.9], smallest_change=3.0)
        assert verdict.power > 0.8
        assert verdict.outcome is Outcome.BLIND
        assert "too small for a change" in verdict.reason

    def test_a_small_but_certain_change_is_changed_and_said_to_be_small(self):
        verdict = Sensitivity.from_jacobian([[1.0]], 1.0).judge([5.0], smallest_change=10.0)
        assert verdict.outcome is Outcome.CHANGED
        assert "smaller than that of" in verdict.reason

    def test_a_change_the_model_cannot_make_is_a_change(self):
        found = Sensitivity.from_jacobian([[1.0], [1.0]], 1.0)
        verdict = found.judge([5.0, -5.0], smallest_change=10.0)
        assert verdict.outcome is Outcome.CHANGED
        # Rounding: 5 u - 5 u with one product fused is not exactly zero.
        assert (verdict.p_value, verdict.statistic) == (pytest.approx(1.0, abs=1e-15), pytest.approx(0.0, abs=1e-25))
        assert verdict.residual_statistic == pytest.approx(50.0)
        assert "no small change of the parameters can" in verdict.reason

    def test_constant_readings_are_blind_with_no_warning(self):
        for readings in (5.0, 0.1):
            found = estim.sensitivity(
                lambda p, x, r=readings: np.full(3, r) + 0.0 * p[0], np.arange(3.0), 0.1, params=[1.0]
            )
            verdict = found.judge(np.zeros(3), smallest_change=0.5)
            assert verdict.outcome is Outcome.BLIND
            assert "Nothing is resolved" in verdict.reason
            assert verdict.repeats_needed is None
            assert found.judge([0.0, 2.0, 0.0], smallest_change=0.5).outcome is Outcome.CHANGED

    def test_a_reading_without_noise_that_moves_is_certain(self):
        found = Sensitivity.from_jacobian(np.eye(2), [0.0, 1.0])
        verdict = found.judge([1e-12, 0.0], smallest_change=[1.0, 0.0])
        assert verdict.outcome is Outcome.CHANGED
        assert "certain" in verdict.reason
        still = found.judge(([1.0, 0.0], [1.0 + 2**-52, 0.0]), smallest_change=[1.0, 0.0])
        assert still.outcome is Outcome.EQUIVALENT

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("degrees", [1, 3])
    def test_sizes_at_the_ends_of_the_float_range(self, degrees):
        found, still = Sensitivity.from_jacobian(np.eye(degrees), 1.0), np.zeros(degrees)
        for size, outcome in ((1e-300, Outcome.BLIND), (1e-9, Outcome.BLIND), (1e200, Outcome.EQUIVALENT)):
            for options in ({}, {"baseline": "noisy"}):
                assert found.judge(still, smallest_change=size, **options).outcome is outcome
        repeats = np.array([[-1.0] * degrees, [1.0] * degrees])
        assert found.judge((still, repeats), smallest_change=1e200, absolute_sigma=False).outcome is Outcome.EQUIVALENT
        assert found.judge(still + 1e200, smallest_change=1e200).outcome is Outcome.CHANGED
        assert "hardly moves" in found.judge(still, smallest_change=1e-300).prescription

    def test_what_only_readings_without_noise_see_is_believed_when_they_stand_still(self):
        found = Sensitivity.from_jacobian([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0], names=["a", "b"])
        verdict = found.judge([0.0, 0.3], smallest_change={"a": 0.1})
        assert verdict.outcome is Outcome.EQUIVALENT
        assert (verdict.power, verdict.equivalence_p_value, verdict.repeats_needed) == (1.0, 0.0, 1)
        assert (verdict.sigma_factor, verdict.detectable_factor) == (math.inf, 0.0)
        assert verdict.equivalence_probability == pytest.approx(0.95)
        assert list(verdict.power_at([0.0, 0.5])) == [0.0, 1.0]
        assert "any is low enough" in str(verdict.summary())
        assert found.judge([1e-9, 0.3], smallest_change={"a": 0.1}).outcome is Outcome.CHANGED
        hidden = found.judge([0.0, 0.3], smallest_change={"b": 0.1})
        assert hidden.outcome is Outcome.BLIND
        assert "can hide where these readings see nothing" in hidden.reason
        assert (hidden.repeats_needed, hidden.detectable_factor) == (None, math.inf)

    def test_rounding_of_readings_without_noise_is_said(self):
        found = Sensitivity.from_jacobian([[1.0]], [0.0])
        large, small = (found.judge((np.array([y]), np.array([y])), smallest_change=0.1) for y in (1e16, 1.0))
        assert any("rounding" in note and "8.88" in note for note in large.notes)
        assert any("rounding" in note and "8.88e-16" in note for note in small.notes)
        assert not found.judge([0.0], smallest_change=0.1).notes

    def test_rounding_beyond_the_noise_is_said(self):
        found = Sensitivity.from_jacobian([[1.0]], 1e-3)
        for before, said in ((1e14, True), (1.0, False)):
            verdict = found.judge((np.array([before]), np.array([before])), smallest_change=0.1)
            assert any("rounding" in note for note in verdict.notes) is said

    @pytest.mark.parametrize("size", [1e-140, 1e-20, 1e20, 1e140])
    def test_factors_are_no_bracket_s_last_value(self, size):
        found = Sensitivity.from_jacobian([[1.0]], 1.0)
        one, other = (found.judge([0.0], smallest_change=[part]) for part in (1.0, size))
        assert other.detectable_factor * size == pytest.approx(one.detectable_factor, rel=1e-12)
        assert other.sigma_factor / size == pytest.approx(one.sigma_factor, rel=1e-12)

    def test_noiseless_combinations_of_correlated_readings(self):
        found = Sensitivity.from_jacobian(np.eye(2), [[1.0, 1.0], [1.0, 1.0]])
        assert found.judge([0.3, 0.3], smallest_change=[5.0, 5.0]).outcome is Outcome.EQUIVALENT
        assert found.judge([0.3, 0.4], smallest_change=[5.0, 5.0]).outcome is Outcome.CHANGED

    def test_random_changes_seen_without_noise(self):
        # Between infinite shifts there is nothing to interpolate: no number of repeats was said to help.
        found = Sensitivity.from_jacobian(np.eye(3), [0.0, 1.0, 1.0])
        verdict = found.judge([0.0, 0.1, 0.2], smallest_change=AnyChange(0.1, relative=False, case="typical"), rng=0)
        assert verdict.outcome is Outcome.EQUIVALENT
        assert (verdict.repeats_needed, verdict.sigma_factor, verdict.detectable_factor) == (1, math.inf, 0.0)
        assert "nan" not in verdict.summary().as_text()

    def test_a_confidence_level_of_one_half(self):
        # There the t quantile of the equivalence test is 0.
        after = np.array([[0.3], [-0.2], [0.1]])
        found = Sensitivity.from_jacobian([[1.0]], 1.0)
        verdict = found.judge(
            (np.zeros(1), after), smallest_change=3.0, absolute_sigma=False, confidence_level=0.5, power=0.6
        )
        rng = np.random.default_rng(11)
        variance = rng.chisquare(2, 100_000) / 2
        length, margins = (
            np.abs(rng.standard_normal(100_000)) / np.sqrt(variance),
            verdict.shifts[0] / np.sqrt(variance),
        )
        enough = margins >= detectable_shift(1, 0.6, 0.5, 2.0)
        believed = (enough & (length <= margins) & (length**2 <= verdict.critical_value)).mean()
        assert abs(verdict.equivalence_probability - believed) < Z_LIMIT * math.sqrt(0.25 / 100_000)


class TestWhatIsNotSeen:
    def test_null_says_that_inputs_may_help_and_repeats_cannot(self):
        found = Sensitivity.from_jacobian(np.array([[1, 1], [2, 2], [3, 3]], object), 0.1, names=["a", "b"])
        verdict = found.judge(np.zeros(3), smallest_change=1.0)
        assert (verdict.outcome, verdict.unseen, verdict.needs_inputs) == (Outcome.BLIND, ("a - b",), True)
        assert "null" in verdict.reason
        assert verdict.prescription == "Other inputs may show it; repeats cannot."
        np.testing.assert_allclose(np.abs(verdict.worst_change), math.sqrt(0.5))

    def test_unresolved_says_that_digits_may_help(self):
        found = Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0]], 0.1, names=["a", "b"])
        for change in (1.0, {"a": 1.0, "b": -1.0}):
            verdict = found.judge(np.zeros(2), smallest_change=change)
            assert verdict.outcome is Outcome.BLIND
            assert "unresolved" in verdict.reason
            assert "digits" in verdict.prescription
        # One of them alone is seen to change.
        assert found.judge(np.zeros(2), smallest_change={"a": 1.0}).outcome is Outcome.EQUIVALENT

    def test_fewer_readings_than_parameters_need_inputs_whatever_the_digits(self):
        found = Sensitivity.from_jacobian(np.random.default_rng(0).standard_normal((2, 5)), 0.1)
        verdict = found.judge(np.zeros(2), smallest_change=1.0)
        assert verdict.needs_inputs
        assert "cannot show at least 3 of these" in verdict.reason
        assert "digits" not in verdict.prescription

    def test_gauge_is_left_out(self):
        found = Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0]], 0.1, symmetry=[1.0, -1.0], names=["a", "b"])
        verdict = found.judge(np.zeros(2), smallest_change=1.0)
        # Modulo gauge the change of size 1 is along a + b: sqrt(2) a reading.
        assert verdict.smallest_shift == pytest.approx(math.sqrt(2.0 * 5.0) / 0.1)
        assert verdict.outcome is Outcome.EQUIVALENT
        none = found.judge(np.zeros(2), smallest_change={"a": 1.0, "b": -1.0})
        assert "the same function on all inputs" in none.reason


class TestCertified:
    """Directions that float64 does not resolve, read out all the same."""

    def test_hilbert_matrix(self):
        # Its weakest singular value is 1.04794639796223e-16: at a noise far below, its direction is seen to move.
        entries = [[Fraction(1, i + j + 1) for j in range(12)] for i in range(12)]
        found = Sensitivity.from_jacobian(entries, 1e-18, digits=60)
        assert found.resolved == 12
        np.testing.assert_allclose(found.readout.T @ found.readout, np.eye(12), atol=1e-11)
        weakest = [Fraction(x) for x in found.directions[-1]]
        moved = [float(sum(a * x for a, x in zip(row, weakest, strict=True))) for row in entries]
        along = found.readout.T @ (np.array(moved) / 1e-18)
        # The vector is rounded to float64, so that a trace of the strong directions moves, too.
        assert abs(along[-1]) == pytest.approx(104.794639796223, rel=1e-6)

    def test_network_near_collapse(self):
        net, bank = network()
        small = net.scaled(0.02)
        found = estim.sensitivity(small, bank, 1e-9, digits=60)
        np.testing.assert_allclose(found.readout.T @ found.readout, np.eye(found.resolved), atol=1e-11)
        verdict = found.judge(np.zeros(found.readings), smallest_change=AnyChange(0.1))
        assert found.shift(verdict.worst_change) == pytest.approx(verdict.smallest_shift, rel=1e-5)


class TestRates:
    """Frequencies of verdicts beside the probabilities they state; every decision follows from two statistics."""

    def outcomes(self, found, verdict, shifts):
        """Decide many shifts (trials, readings) by a verdict's own limits."""
        whitened = shifts * found.whitening
        along = whitened @ found.readout
        statistic = (along**2).sum(axis=1)
        residual = (whitened**2).sum(axis=1) - statistic
        changed = statistic > verdict.critical_value
        if verdict.residual_degrees:
            changed |= residual > stats.chi2.isf(verdict.level, verdict.residual_degrees)
        enough = verdict.power >= verdict.wanted_power
        equivalent = ~changed & enough & (statistic <= verdict.equivalence_limit)
        return np.where(changed, "changed", np.where(equivalent, "equivalent", "blind")), statistic

    def check(self, frequency, probability, trials=TRIALS):
        error = math.sqrt(max(probability * (1 - probability), 1.0 / trials) / trials)
        assert abs(frequency - probability) < Z_LIMIT * error

    def compare(self, found, change, moved, sigma, seed):
        rng = np.random.default_rng(seed)
        noise = sigma * rng.standard_normal((TRIALS, found.readings))
        verdict = found.judge(np.zeros(found.readings), smallest_change=change)
        still, _ = self.outcomes(found, verdict, noise)
        self.check((still == "changed").mean(), verdict.false_alarm_rate)
        self.check((still == "equivalent").mean(), verdict.equivalence_probability)
        there, statistic = self.outcomes(found, verdict, noise + moved)
        self.check((statistic > verdict.critical_value).mean(), verdict.power)
        # Wrongly equivalent: at most the level, by the equivalence test.
        assert (there == "equivalent").mean() < 0.05 + Z_LIMIT * math.sqrt(0.05 / TRIALS)
        for row, outcome in zip((noise + moved)[:30], there, strict=False):
            assert found.judge(row, smallest_change=change).outcome == outcome
        return verdict

    @pytest.mark.parametrize("size", [0.6, 1.1, 2.0])
    def test_linear(self, linear, size):
        design = np.random.default_rng(3).standard_normal((12, 4))
        verdict = linear.judge(np.zeros(12), smallest_change=size)
        self.compare(linear, size, design @ verdict.worst_change, 0.5, seed=round(10 * size))

    @pytest.mark.parametrize("size", [1e-5, 2e-5])
    def test_network_really_changed(self, size):
        # So small that the network is linear to a part in a thousand of the noise: it is evaluated, all the same.
        net, bank = network()
        found = estim.sensitivity(net, bank, 3e-6)
        change = AnyChange(size, group="layer1")
        verdict = found.judge(np.zeros(found.readings), smallest_change=change)
        moved = net.with_parameters(net.parameters + verdict.worst_change)
        shift = np.ravel(moved(bank) - net(bank))
        self.compare(found, change, shift, 3e-6, seed=9)

    @pytest.mark.parametrize("baseline", ["known", "noisy"])
    def test_repeats_and_baseline(self, linear, baseline):
        # The mean of 9 repeats after, and of 4 before; every 50th trial is judged as a whole.
        rng, trials = np.random.default_rng(17), 4000
        after = 0.5 * rng.standard_normal((trials, 9, 12))
        before = 0.5 * rng.standard_normal((trials, 4, 12)) if baseline == "noisy" else np.zeros((trials, 1, 12))
        deviation = 0.5 * math.sqrt(1 / 9 + (1 / 4 if baseline == "noisy" else 0.0))
        shifts = (after.mean(axis=1) - before.mean(axis=1)) * (0.5 / deviation)
        verdict = linear.judge(
            (before[0] if baseline == "noisy" else before[0, 0], after[0]), smallest_change=1.0, baseline=baseline
        )
        limits = linear.judge(np.zeros(12), smallest_change=1.0)
        assert verdict.smallest_shift == pytest.approx(limits.smallest_shift * 0.5 / deviation)
        expected, _ = self.outcomes(linear, verdict, shifts)
        for k in range(0, trials, 50):
            pair = (before[k] if baseline == "noisy" else before[k, 0], after[k])
            assert linear.judge(pair, smallest_change=1.0, baseline=baseline).outcome == expected[k]
        self.check((expected == "changed").mean(), 0.05, trials)

    def test_estimated_noise(self, linear):
        # Three repeats before and after, of a noise 1.8 times what sigma says.
        rng, trials = np.random.default_rng(23), 20_000
        before, after = (0.9 * rng.standard_normal((trials, 3, 12)) for _ in range(2))
        options = {"smallest_change": 1.0, "baseline": "noisy", "absolute_sigma": False}
        verdict = linear.judge((before[0], after[0]), **options)
        scatter = sum(np.square(x - x.mean(axis=1, keepdims=True)).sum(axis=(1, 2)) for x in (before, after)) / 48
        shifts = (after.mean(axis=1) - before.mean(axis=1)) * 0.5 / np.sqrt(scatter * 2.0 / 3.0)[:, None]
        along = shifts * linear.whitening @ linear.readout
        statistic = np.square(along).sum(axis=1)
        residual = np.square(shifts * linear.whitening).sum(axis=1) - statistic
        over = residual / verdict.residual_degrees > stats.f.isf(verdict.level, verdict.residual_degrees, 48)
        changed = (statistic > verdict.critical_value) | over
        for k in range(20):
            assert (linear.judge((before[k], after[k]), **options).outcome is Outcome.CHANGED) == changed[k]
        self.check((statistic > verdict.critical_value).mean(), verdict.level, trials)
        # Two F's of one variance estimate: at most the rate asked for (Kimball), and not much less.
        assert 0.04 < changed.mean() < 0.05 + Z_LIMIT * math.sqrt(0.05 * 0.95 / trials)


class TestNoise:
    def test_noise_far_beyond_sigma_is_estimated(self):
        # Its square is beyond the float range.
        found = Sensitivity.from_jacobian([[1.0], [0.0]], 1e-150)
        after = 1e50 * np.array([[1.0, 2.0], [3.0, 0.0]])
        verdict = found.judge((np.zeros(2), after), smallest_change=1e52, absolute_sigma=False)
        assert verdict.noise_scale == pytest.approx(math.sqrt(2.0) * 1e200)
        assert verdict.statistic == pytest.approx(4.0)  # 2, over a variance of 2 / 2 repeats

    def test_one_reading_with_repeats_is_the_two_sample_t_test(self):
        rng = np.random.default_rng(2)
        before, after = rng.normal(0.0, 1.0, (7, 1)), rng.normal(0.8, 1.0, (5, 1))
        found = Sensitivity.from_jacobian([[1.0]], 123.0)
        verdict = found.judge((before, after), smallest_change=1.0, baseline="noisy", absolute_sigma=False)
        expected = stats.ttest_ind(before[:, 0], after[:, 0])
        assert verdict.p_value == pytest.approx(expected.pvalue, rel=1e-10)
        assert verdict.noise_degrees == 10

    def test_wrong_sigma_is_mentioned(self, linear):
        rng = np.random.default_rng(4)
        pair = tuple(3.0 * rng.standard_normal((4, 12)) for _ in range(2))
        verdict = linear.judge(pair, smallest_change=1.0, baseline="noisy")
        assert "times as much as sigma says" in verdict.notes[0]

    def test_correlated_repeats(self):
        # Exchangeable repeats: a common part of variance rho, which within-repeats scatter does not show.
        rng, rho = np.random.default_rng(8), 0.4
        found = Sensitivity.from_jacobian([[1.0]], 1.0, repeat_correlation=rho)
        scales = []
        for _ in range(400):
            after = math.sqrt(rho) * rng.standard_normal() + math.sqrt(1 - rho) * rng.standard_normal((6, 1))
            scales.append(observe(found, (np.zeros(1), after), "known", False).noise_scale)
        mean, error = np.mean(np.square(scales)), np.std(np.square(scales)) / 20
        assert abs(mean - 1.0) < Z_LIMIT * error
        verdict = found.judge([0.0], smallest_change=1.0)
        assert verdict.repeats_needed is None
        assert "common correlation of 0.4 leaves noise" in verdict.prescription

    def test_units_of_readings_do_not_matter(self, linear):
        design = np.random.default_rng(3).standard_normal((12, 4))
        units = 10.0 ** np.arange(-6, 6)
        other = Sensitivity.from_jacobian(design * units[:, None], 0.5 * units)
        shift = np.linspace(-1.0, 1.0, 12)
        one, two = (f.judge(d, smallest_change=1.0) for f, d in ((linear, shift), (other, shift * units)))
        for name in ("statistic", "residual_statistic", "power", "equivalence_p_value"):
            assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-9)

    def test_correlated_noise(self):
        design = np.random.default_rng(3).standard_normal((6, 2))
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
        found = Sensitivity.from_jacobian(design, covariance)
        shift = np.linspace(-1.0, 1.0, 6)
        inverse = np.linalg.inv(covariance)
        best = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ shift)
        rest = shift - design @ best
        verdict = found.judge(shift, smallest_change=1.0)
        assert verdict.statistic == pytest.approx((design @ best) @ inverse @ (design @ best), rel=1e-10)
        assert verdict.residual_statistic == pytest.approx(rest @ inverse @ rest, rel=1e-10)


class TestRecord:
    def test_it_pickles_copies_and_goes_through_json(self, linear):
        for change in (0.1, 5.0, AnyChange(0.3, case="typical"), {"a": 0.2}):
            verdict = linear.judge(np.zeros(12), smallest_change=change, rng=0)
            for again in (
                pickle.loads(pickle.dumps(verdict)),
                copy.deepcopy(verdict),
                estim.Verdict.from_json(verdict.to_json()),
            ):
                assert again == verdict
                assert isinstance(again.outcome, Outcome)
                np.testing.assert_array_equal(again.power_at([0.5, 1.0]), verdict.power_at([0.5, 1.0]))

    def test_a_record_from_json_judges_alike(self, linear):
        again = Sensitivity.from_json(linear.to_json())
        shift = np.linspace(0.0, 1.0, 12)
        assert again.judge(shift, smallest_change=1.0) == linear.judge(shift, smallest_change=1.0)

    def test_its_words(self, linear):
        verdict = linear.judge(np.zeros(12), smallest_change=0.1)
        assert str(verdict).startswith("BLIND. No change was detected")
        text = str(verdict.summary())
        assert "Verdict: BLIND" in text
        assert str(verdict.repeats_needed) in text

    def test_the_table_of_estimated_noise_holds_f_and_not_its_multiple(self, linear):
        rng = np.random.default_rng(2)
        pair = tuple(rng.standard_normal((5, 12)) for _ in range(2))
        verdict = linear.judge(pair, smallest_change=1.0, baseline="noisy", absolute_sigma=False)
        (row,) = (line for line in str(verdict.summary()).splitlines() if line.startswith("shift parameters can make"))
        shown, degrees, p_value, _ = (float(cell) for cell in row.split()[-4:])
        assert degrees == verdict.degrees > 1
        assert shown == pytest.approx(verdict.statistic / verdict.degrees, rel=1e-3)
        assert p_value == pytest.approx(stats.f.sf(shown, degrees, verdict.noise_degrees), rel=1e-2)

    def test_a_shift_smaller_than_noise_makes_it_is_noted(self, linear):
        still = linear.judge(np.zeros(12), smallest_change=1.0)
        assert "less than their noise alone makes them" in still.notes[0]
        drawn = 0.5 * np.random.default_rng(0).standard_normal((200, 12))
        assert not any("noise alone" in str(linear.judge(shift, smallest_change=1.0).notes) for shift in drawn)
        # Once in 10,000, and not far below: the total is chi-square of all readings.
        for share, noted in ((0.9e-4, True), (1.1e-4, False)):
            shift = 0.5 * np.sqrt(stats.chi2.ppf(share, 12) / 12) * np.ones(12)
            assert ("noise alone" in str(linear.judge(shift, smallest_change=1.0).notes)) is noted

    def test_of_many_parameters_few_unseen_combinations_are_named(self):
        found = Sensitivity.from_jacobian(np.random.default_rng(0).standard_normal((3, 50)), 0.1)
        verdict = found.judge(np.zeros(3), smallest_change=1.0)
        assert len(verdict.unseen) == 3
        assert verdict.unseen[-1] == "... and 45 more combinations"
        assert "unresolved" not in verdict.reason  # all are beyond three readings
        assert "at least 47 of these" in verdict.reason

    def test_a_group_that_is_a_number_is_called_a_group(self):
        assert str(AnyChange(0.05, group="3")) == "any 5 % change of group 3"
        assert str(AnyChange(0.05, group="gain")) == "any 5 % change of gain"

    def test_power_at_one_is_the_power(self, linear):
        verdict = linear.judge(np.zeros(12), smallest_change=1.0)
        assert verdict.power_at(1.0) == pytest.approx(verdict.power, rel=1e-12)
        assert verdict.power_at(verdict.detectable_factor) == pytest.approx(0.8, abs=1e-10)

    @pytest.mark.parametrize("factor", [-1.0, np.nan, [1.0, np.nan]])
    def test_power_at_what_is_no_size_is_refused(self, linear, factor):
        verdict = linear.judge(np.zeros(12), smallest_change=1.0)
        with pytest.raises(ValueError, match=r"factor must be at least 0; got (-1\.0|nan)"):
            verdict.power_at(factor)

    @pytest.mark.parametrize("factor", ["x", None, True, [1.0, "2"], 1j])
    def test_power_at_what_is_no_number_is_refused(self, linear, factor):
        verdict = linear.judge(np.zeros(12), smallest_change=1.0)
        with pytest.raises(TypeError, match="factor must be real numbers"):
            verdict.power_at(factor)

    def test_repeats_needed_do_what_is_promised(self, linear):
        verdict = linear.judge(np.zeros(12), smallest_change=0.3)
        design = np.random.default_rng(3).standard_normal((12, 4))
        for count, enough in ((verdict.repeats_needed, True), (verdict.repeats_needed - 1, False)):
            again = Sensitivity.from_jacobian(design, 0.5, repeats=count)
            judged = again.judge(np.zeros(12), smallest_change=0.3)
            assert (judged.power >= 0.8 and judged.equivalence_probability >= 0.8) is enough
        quiet = Sensitivity.from_jacobian(design, 0.5 * verdict.sigma_factor * (1 - 1e-9))
        assert quiet.judge(np.zeros(12), smallest_change=0.3).outcome is Outcome.EQUIVALENT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smallest_change": None}, "smallest_change must be given"),
        ({"smallest_change": [1.0]}, "smallest_change must have one entry for each of the 4 parameters"),
        ({"smallest_change": np.zeros(4)}, "smallest_change must change something"),
        ({"smallest_change": -1.0}, "^smallest_change must be positive and finite; got -1.0"),
        ({"smallest_change": 0}, "^smallest_change must be positive and finite; got 0.0"),
        ({"smallest_change": AnyChange(0.1, group="z")}, "group must be one of all"),
        ({"smallest_change": ([1.0], [1.0, 2.0])}, "two sets of parameters, must be alike; got 1 and 2"),
        ({"baseline": "exact"}, "baseline must be 'known' or 'noisy'; got 'exact'"),
        ({"confidence_level": 95}, "confidence_level must lie between 0 and 1; got 95"),
        ({"power": 0.01}, r"power must exceed the false-alarm rate 0\.05"),
        ({"absolute_sigma": False}, "absolute_sigma=False estimates the noise from repeats"),
        ({"threshold": 1.0}, "threshold needs the statistic"),
    ],
)
def test_bad_arguments_are_refused(linear, options, message):
    with pytest.raises(ValueError, match=message):
        linear.judge(np.zeros(12), **{"smallest_change": 1.0, **options})


@pytest.mark.parametrize("rule", [{}, {"statistic": np.ones(12), "threshold": 1.0}])
def test_words_are_not_taken_for_true(linear, rule):
    with pytest.raises(TypeError, match=r"^absolute_sigma must be True or False; got 'no'$"):
        linear.judge(np.zeros(12), smallest_change=[1.0, 0.0, 0.0, 0.0], absolute_sigma="no", **rule)


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (np.zeros(3), r"observed_shift must have one entry for each of the 12 readings.*got shape \(3,\)"),
        (np.full(12, np.nan), "observed_shift must be finite"),
        (np.zeros((3, 12)), "or be a tuple"),
        ((np.zeros((3, 12)), np.zeros(12)), "pass baseline='noisy'"),
    ],
)
def test_bad_shifts_are_refused(linear, shift, message):
    with pytest.raises(ValueError, match=message):
        linear.judge(shift, smallest_change=1.0)


@pytest.mark.parametrize("pair", [(np.zeros((1, 3)), np.zeros(3)), (np.zeros(3), np.zeros((1, 3)))])
def test_one_row_may_be_a_repeat_or_an_average(pair):
    message = r"one row, of shape \(1, 3\): averaged over the record's 10 repeats it must have shape \(readings,\)"
    with pytest.raises(ValueError, match=message):
        Sensitivity.from_jacobian(np.eye(3), 1.0, repeats=10).judge(pair, smallest_change=1.0)
    alone = Sensitivity.from_jacobian(np.eye(3), 1.0).judge(pair, smallest_change=1.0)
    assert alone.smallest_shift == pytest.approx(1.0)


@pytest.mark.parametrize("shift", [np.zeros(12, dtype=bool), (np.zeros(12), np.ones((2, 12), dtype=bool))])
def test_flags_are_no_shift(linear, shift):
    with pytest.raises(TypeError, match=r"^observed_shift must be numbers; got dtype bool$"):
        linear.judge(shift, smallest_change=1.0)


def test_text_is_no_power(linear):
    with pytest.raises(TypeError, match="power must be a real number; got 'high'"):
        linear.judge(np.zeros(12), smallest_change=1.0, power="high")
