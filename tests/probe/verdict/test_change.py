"""Power, sample size and equivalence beside closed forms, mpmath and statsmodels."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import FTestPower, NormalIndPower, TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from estim.probe.verdict.change import (
    change_p_value,
    change_power,
    change_powers,
    critical_value,
    detectable_shift,
    first_reaching,
)
from estim.probe.verdict.equivalence import EquivalenceTest
from estim.probe.verdict.noise_interval import probability_below, quantile
from estim.probe.verdict.planning import MOST_REPEATS, Repeats, Situation

#: What is promised of powers, p-values and sample sizes.
PROMISED = 1e-8
SHIFTS = np.array([0.01, 0.5, 1.0, 2.8, 5.0, 12.0])
#: Standard errors allowed between a frequency and its probability: false alarm 6.3e-5.
Z_LIMIT = 4.0


class TestPower:
    def test_one_degree_is_the_two_sided_z_test(self):
        z = stats.norm.isf(0.025)
        expected = stats.norm.sf(z - SHIFTS) + stats.norm.cdf(-z - SHIFTS)
        np.testing.assert_allclose(change_powers(SHIFTS, 1, 0.05), expected, rtol=PROMISED)

    def test_three_degrees_in_closed_form(self):
        c = math.sqrt(critical_value(3, 0.01))
        expected = [float(1 - _ball_probability(c, shift)) for shift in SHIFTS]
        np.testing.assert_allclose(change_powers(SHIFTS, 3, 0.01), expected, rtol=PROMISED)

    def test_estimated_noise_is_the_t_test(self):
        for n in (2, 3, 10, 400):
            expected = [TTestPower().power(shift / math.sqrt(n), n, 0.05) for shift in SHIFTS[:-1]]  # then NaN
            np.testing.assert_allclose(change_powers(SHIFTS[:-1], 1, 0.05, n - 1), expected, atol=PROMISED)

    def test_estimated_noise_in_many_directions_is_the_f_test(self):
        for degrees, noise in ((3, 8), (20, 100)):
            effect = SHIFTS / math.sqrt(degrees + noise + 1)
            # statsmodels names the denominator's degrees df_num.
            expected = [FTestPower().power(size, noise, degrees, 0.05) for size in effect]
            np.testing.assert_allclose(change_powers(SHIFTS, degrees, 0.05, noise), expected, atol=PROMISED)

    def test_a_change_that_moves_nothing_has_the_level(self):
        # The noncentral F gave level - 1 for noncentralities below 1e-200.
        for noise in (1.0, 2.0, math.inf):
            powers = change_powers(np.array([0.0, 1e-160, 1e-100, 1e-15]), 1, 0.1, noise)
            np.testing.assert_allclose(powers, 0.1, rtol=1e-12)

    def test_a_far_shift_beside_noise_from_one_degree(self):
        # The noncentral F gave 0.24 for the last. The normal length over the root of chi-square: P(y < 1e6 / root c).
        shifts = np.array([1e3, 2.9e4, 3.1e4, 1e6])
        critical = critical_value(3, 1e-6, 1.0)
        at, weights = np.polynomial.hermite_e.hermegauss(40)
        lengths = np.abs(shifts[:, None] + 1.0 / shifts[:, None] + at)
        expected = (2.0 * stats.norm.cdf(lengths / math.sqrt(critical)) - 1.0) @ (weights / weights.sum())
        np.testing.assert_allclose(change_powers(shifts, 3, 1e-6, 1.0), expected, rtol=2e-8)

    def test_far_tails_keep_their_digits(self):
        expected = mpmath.gammainc(mpmath.mpf(7) / 2, 300, regularized=True)
        assert change_p_value(600.0, 7) == pytest.approx(float(expected), rel=PROMISED, abs=0.0)
        assert change_power(1e9, 4, 0.95) == 1.0
        assert 1.0 - change_power(9.0, 1, 0.95) == pytest.approx(
            float(stats.norm.cdf(1.959963984540054 - 9.0)), rel=1e-3
        )

    def test_the_detectable_shift_has_the_power_asked_for(self):
        for degrees, noise in ((1, math.inf), (5, math.inf), (500, math.inf), (1, 3.0), (5, 40.0)):
            shift = detectable_shift(degrees, 0.8, 0.95, noise)
            assert change_powers(np.array([shift]), degrees, 0.05, noise)[0] == pytest.approx(0.8, abs=PROMISED)

    def test_a_power_never_reached_is_infinitely_far(self):
        assert first_reaching(lambda place: 0.5 * place / (1.0 + place), 0.8) == math.inf


class TestSampleSize:
    @pytest.mark.parametrize("power", [0.8, 0.95])
    @pytest.mark.parametrize("effect", [0.05, 0.3, 2.0])
    def test_z_test(self, power, effect):
        size = (detectable_shift(1, power, 0.95) / effect) ** 2
        # Its power there, since its own root is good to seven digits.
        assert NormalIndPower(ddof=0).power(effect, size, 0.05, ratio=0) == pytest.approx(power, abs=PROMISED)

    @pytest.mark.parametrize("effect", [0.2, 0.5])
    def test_t_test(self, effect):
        # One reading repeated: as many degrees of freedom as repeats, less one.
        for count in (math.floor(TTestPower().solve_power(effect, None, 0.05, 0.8)) + more for more in (0, 1)):
            situation = Situation(np.array([effect]), 1, 0.05, 0.05, 0, 0.8, count - 1.0)
            power = TTestPower().power(effect, count, 0.05)
            assert situation.detected(math.sqrt(count)) == pytest.approx(power, abs=PROMISED)

    def test_what_is_planned_with_estimated_noise_by_simulation(self):
        # Three repeats of six readings, three directions: the power must suffice by the estimate, too.
        rng, trials, shift = np.random.default_rng(72), 400_000, 4.1
        situation = Situation(np.array([shift]), 3, 0.025, 0.05, 0, 0.8, 12.0)
        variance = rng.chisquare(12, trials) / 12
        still = rng.chisquare(3, trials) / variance
        sizes = np.geomspace(variance.min(), variance.max(), 300)
        tests = [EquivalenceTest(np.array([shift / math.sqrt(v)]), 3, 0.05, 12.0) for v in sizes]
        limits = np.interp(variance, sizes, [test.limit for test in tests])
        enough = np.interp(variance, sizes, change_powers(shift / np.sqrt(sizes), 3, 0.025, 12.0)) >= 0.8
        believed = enough & (still <= np.minimum(limits, critical_value(3, 0.025, 12.0)))
        assert enough.mean() < 0.9
        assert situation.equivalent(1.0) == pytest.approx(believed.mean(), abs=5e-3)

    @pytest.mark.parametrize(
        ("degrees", "rest", "noise", "margin"), [(1, 9, 2, 30.0), (3, 20, 3, 15.0), (1, 9, 1, 60.0)]
    )
    def test_one_estimate_serves_both_tests_by_simulation(self, degrees, rest, noise, margin):
        # A frequency, false alarm 6.3e-5. As a product of what the tests do alone it was 0.0145 too low.
        rng, trials, level = np.random.default_rng(73), 100_000, 0.025
        variance = rng.chisquare(noise, trials) / noise
        still, beside = rng.chisquare(degrees, trials) / variance, rng.chisquare(rest, trials) / variance
        margins = margin / np.sqrt(variance)
        enough = margins >= detectable_shift(degrees, 0.8, 1.0 - level, noise)
        sizes = np.geomspace(margins[enough].min(), margins[enough].max(), 3000)
        limits = np.interp(margins, sizes, EquivalenceTest(sizes, degrees, 0.05, noise)._limits(sizes))
        quiet = (still <= critical_value(degrees, level, noise)) & (beside <= critical_value(rest, level, noise))
        believed = (enough & quiet & (still <= limits)).mean()
        expected = Situation(np.array([margin]), degrees, level, 0.05, rest, 0.8, noise).equivalent(1.0)
        assert abs(believed - expected) < Z_LIMIT * math.sqrt(expected * (1.0 - expected) / trials)

    @pytest.mark.parametrize("effect", [0.05, 0.3, 2.0])
    def test_equivalence_in_closed_form(self, effect):
        # Two one-sided tests accept |z| <= Delta - z(0.95): with probability 0.8 when it is z(0.9).
        expected = math.ceil(((stats.norm.isf(0.05) + stats.norm.isf(0.1)) / effect) ** 2)
        situation = Situation(np.array([effect]), 1, 0.05, 0.05, 0, 0.8)
        assert Repeats(1.0, 1, 0.0).needed(situation) == expected

    @pytest.mark.parametrize("degrees", [1, 6])
    @pytest.mark.parametrize("noise", [0, 9])
    def test_it_suffices_and_one_less_does_not(self, degrees, noise):
        situation = Situation(np.array([0.31]), degrees, 0.025, 0.05, 8, 0.8)
        repeats = Repeats(1.0, 1, 0.0, degrees_each=noise)
        count = repeats.needed(situation)
        assert repeats._suffices(situation, count)
        assert not repeats._suffices(situation, count - 1)

    @pytest.mark.parametrize("level", [0.05, 0.001])
    @pytest.mark.parametrize("degrees", [1, 6])
    def test_an_ensemble_is_planned_for_by_all_its_members(self, degrees, level):
        # Of 500, the one hardest to see is a share of 0.002: by 64 quantiles a promise of 0.9 was 0.88.
        shifts = np.sort(np.abs(np.random.default_rng(6).normal(4.0, 1.0, 500)))
        situation = Situation(shifts, degrees, 0.5 * level, level, 5, 0.9)
        factor = situation.factor_needed
        assert situation.equivalent(factor) == pytest.approx(0.9, abs=PROMISED)
        assert situation.detected(factor) >= 0.9
        assert situation.suffices(factor * (1.0 + 1e-12))
        assert not situation.suffices(factor * (1.0 - 1e-9))

    def test_an_ensemble_by_estimated_noise_by_simulation(self):
        # The power must suffice by the estimate: without that, and as if noise were known, it was 0.95.
        rng, trials, noise = np.random.default_rng(74), 100_000, 4.0
        shifts = np.sort(np.abs(rng.normal(7.0, 1.0, 500)))
        variance = rng.chisquare(noise, trials) / noise
        still = rng.chisquare(1, trials) / variance
        sizes = np.geomspace(variance.min(), variance.max(), 60)
        limits = [EquivalenceTest(shifts / math.sqrt(v), 1, 0.05, noise).limit for v in sizes]
        powers = [change_powers(shifts / math.sqrt(v), 1, 0.05, noise).mean() for v in sizes]
        enough = np.interp(variance, sizes, powers) >= 0.8
        believed = enough & (still <= np.minimum(np.interp(variance, sizes, limits), critical_value(1, 0.05, noise)))
        expected = Situation(shifts, 1, 0.05, 0.05, 0, 0.8, noise).equivalent(1.0)
        assert expected == pytest.approx(believed.mean(), abs=5e-3)

    def test_correlated_repeats_saturate(self):
        situation = Situation(np.array([1.0]), 1, 0.05, 0.05, 0, 0.8)
        factor = situation.factor_needed
        assert Repeats(1.0, 1, 1.001 / factor**2).needed(situation) is None
        count = Repeats(1.0, 1, 0.999 / factor**2).needed(situation)
        assert Repeats(1.0, 1, 0.999 / factor**2).variance_at(count) <= 1.0 / factor**2

    @pytest.mark.parametrize(("degrees", "rest", "level"), [(1, 0, 0.05), (3, 9, 0.025)])
    def test_what_is_planned_for_random_changes_with_estimated_noise_by_simulation(self, degrees, rest, level):
        # Two frequencies, false alarm 1.3e-4. By the equivalence test of known noise a promise of 0.8 was 0.58.
        rng, trials = np.random.default_rng(75), 1000
        shifts = np.sort(np.abs(rng.normal(1.5, 0.2, 60)))
        repeats = Repeats(1.0, 1, 0.0, degrees_each=degrees + rest)
        situation = Situation(shifts, degrees, level, 0.05, rest, 0.8, float(degrees + rest))
        count = repeats.needed(situation)
        for planned, slack in ((count, -1.0), (count - 1, 1.0)):
            noise = (planned - 1.0) * (degrees + rest)
            believed = _believed(rng, math.sqrt(planned) * shifts, degrees, level, rest, noise, trials)
            assert slack * (0.8 - believed) > -Z_LIMIT * math.sqrt(0.16 / trials)

    def test_correlated_repeats_tell_more_of_the_noise_too(self):
        # With the one degree that two repeats give, no number seemed to help: 0.55 / factor^2 is below 0.1.
        situation = Situation(np.array([2.0]), 1, 0.05, 0.05, 0, 0.8, 1.0)
        repeats = Repeats(0.55, 1, 0.1, degrees_each=1)
        assert 0.55 / situation.factor_needed**2 < 0.1
        suffice = [count for count in range(2, 40) if repeats._suffices(situation, count)]
        assert repeats.needed(situation) == suffice[0]
        assert len(suffice) == 40 - suffice[0]

    def test_the_last_number_that_a_negative_correlation_allows(self):
        situation = Situation(np.array([0.5]), 1, 0.05, 0.05, 0, 0.8, 1.0)
        repeats = Repeats(0.95, 1, -0.1, degrees_each=1)
        suffice = [count for count in range(2, 12) if repeats._suffices(situation, count)]
        assert repeats.needed(situation) == suffice[0]

    def test_what_is_impossible_is_no_number(self):
        unseen = Situation(np.array([0.0]), 1, 0.05, 0.05, 0, 0.8)
        assert unseen.factor_needed == math.inf
        too_much = Situation(np.array([1.0]), 1, 0.05, 0.05, 0, 0.96)
        assert too_much.factor_needed == math.inf
        tiny = Situation(np.array([1e-9]), 1, 0.05, 0.05, 0, 0.8)
        assert Repeats(1.0, 1, 0.0).needed(tiny) is None
        assert tiny.factor_needed**2 > MOST_REPEATS


class TestEquivalence:
    def test_one_degree_is_two_one_sided_tests(self):
        z, margin = 0.7, 2.5
        expected = max(stats.norm.sf(z + margin), stats.norm.cdf(z - margin))
        assert EquivalenceTest(np.array([margin]), 1, 0.05).p_value(z**2) == pytest.approx(expected, rel=PROMISED)

    def test_one_degree_with_estimated_noise_is_the_t_version(self):
        sample = np.array([0.3, -0.1, 0.25, 0.4, -0.2, 0.15])
        described = DescrStatsW(sample)
        expected, *_ = described.ttost_mean(-0.5, 0.5)
        test = EquivalenceTest(np.array([0.5 / described.std_mean]), 1, 0.05, len(sample) - 1)
        assert test.p_value((sample.mean() / described.std_mean) ** 2) == pytest.approx(expected, rel=PROMISED)

    def test_three_degrees_in_closed_form(self):
        for length, margin in ((1.0, 2.0), (3.0, 5.0), (20.0, 30.0)):
            expected = float(_ball_probability(length, margin))
            found = EquivalenceTest(np.array([margin]), 3, 0.05).p_value(length**2)
            assert found == pytest.approx(expected, rel=PROMISED, abs=0.0)

    @pytest.mark.parametrize("degrees", [1, 2, 40])
    @pytest.mark.parametrize("noise", [math.inf, 12.0])
    @pytest.mark.parametrize("members", [1, 50])
    def test_the_limit_has_the_level_for_its_p_value(self, degrees, noise, members):
        test = EquivalenceTest(np.linspace(8.0, 15.0, members), degrees, 0.05, noise)
        assert test.p_value(test.limit) == pytest.approx(0.05, abs=1e-9)

    @pytest.mark.parametrize("degrees", [2, 500])
    @pytest.mark.parametrize("margin", [1e4, 1e6, 1e9, 1e100])
    def test_far_from_the_noise_it_is_the_normal_test(self, degrees, margin):
        # The series of the noncentral chi-square took 40 s at a margin of 1e9, and gave NaN from 1e6 on.
        test = EquivalenceTest(np.array([margin]), degrees, 0.05)
        center = margin + (degrees - 1) / (2.0 * margin)
        assert math.sqrt(test.limit) == pytest.approx(center - stats.norm.isf(0.05), abs=1e-4, rel=4e-16)
        for beyond in (-3.0, 0.0, 2.0):
            expected = stats.norm.cdf(beyond) if margin < 1e10 else 0.5
            found = test.p_value(np.square(np.float64(center + beyond)))
            assert found == pytest.approx(expected, rel=2e-4) if margin < 1e8 else 0.0 <= found <= 1.0

    def test_the_normal_test_takes_over_without_a_step(self):
        for degrees in (2, 500):
            at = 1e9 * np.array([1.0 - 1e-12, 1.0 + 1e-12])
            statistic = math.sqrt(1e9) - 2.0
            found = probability_below(statistic**2, degrees, at)
            assert found[1] == pytest.approx(found[0], rel=1e-5)
            limits = np.sqrt(quantile(0.05, degrees, at))
            assert limits[1] - limits[0] == pytest.approx(0.0, abs=1e-5)

    @pytest.mark.parametrize("noise", [3.0, math.inf])
    @pytest.mark.parametrize("degrees", [1, 2])
    def test_a_share_of_infinite_shifts(self, degrees, noise):
        # As large as the confidence level it rejects by itself: the search for a limit did not end.
        for infinite, unlimited in ((474, False), (475, True), (476, True)):
            shifts = np.r_[np.full(500 - infinite, 4.0), np.full(infinite, math.inf)]
            test = EquivalenceTest(shifts, degrees, 1.0 - 0.95, noise)
            assert math.isinf(test.limit) is unlimited
            assert unlimited or test.p_value(test.limit) == pytest.approx(0.05, rel=1e-9)

    @pytest.mark.parametrize("noise", [3.0, math.inf])
    @pytest.mark.parametrize("degrees", [1, 2])
    def test_members_many_decades_apart(self, degrees, noise):
        test = EquivalenceTest(np.array([1e100, 1e120]), degrees, 0.4, noise)
        assert test.limit == pytest.approx(1e200, rel=1e-9)

    def test_no_margin_rejects_nothing(self):
        assert EquivalenceTest(np.array([0.0]), 3, 0.05).p_value(0.0) == 1.0
        assert EquivalenceTest(np.array([1.0]), 1, 0.05).limit == 0.0
        assert EquivalenceTest(np.array([5.0]), 0, 0.05).p_value(0.0) == 1.0

    @pytest.mark.parametrize(
        ("degrees", "noise", "margin", "error"),
        [(1, 3, 4.0, 1e-5), (1, 8, 3.0, 1e-5), (4, 1, 9.0, 1e-4), (4, 8, 6.0, 1e-5), (30, 60, 8.0, 1e-5)],
    )
    def test_probability_with_estimated_noise_beside_a_plain_quadrature(self, degrees, noise, margin, error):
        test, critical = (
            EquivalenceTest(np.array([margin]), degrees, 0.05, noise),
            critical_value(degrees, 0.025, noise),
        )
        at = (np.arange(4000) + 0.5) / 4000
        ratios = stats.chi2.ppf(at, noise) / noise
        limits = np.array([test._limits(np.array([margin / math.sqrt(r)]))[0] for r in ratios[::10]])
        limits = np.interp(ratios, ratios[::10], limits)
        expected = stats.chi2.cdf(np.minimum(critical, limits) * ratios, degrees).mean()
        # The midpoint rule on so many points is itself right to a few parts in 1e-4.
        assert test.probability(critical) == pytest.approx(expected, abs=error + 5e-4)

    @pytest.mark.parametrize(("degrees", "noise", "margin"), [(1, 5, 4.0), (4, 8, 7.0), (30, 60, 10.0)])
    def test_size_and_power_with_estimated_noise_by_simulation(self, degrees, noise, margin):
        # Two frequencies, false alarm 1.3e-4.
        rng, trials = np.random.default_rng(71), 4000
        scale = np.sqrt(rng.chisquare(noise, trials) / noise)
        still = rng.standard_normal((trials, degrees))
        moved = still.copy()
        moved[:, 0] += margin
        critical = critical_value(degrees, 0.05, noise)
        lengths = [(rows**2).sum(axis=1) / scale**2 for rows in (still, moved)]
        tests = [EquivalenceTest(np.array([margin / s]), degrees, 0.05, noise) for s in scale]
        accepted = [np.array([t.p_value(q) <= 0.05 for t, q in zip(tests, length, strict=True)]) for length in lengths]
        assert accepted[1].mean() < 0.05 + Z_LIMIT * math.sqrt(0.05 * 0.95 / trials)
        expected = EquivalenceTest(np.array([margin]), degrees, 0.05, noise).probability(critical)
        observed = (accepted[0] & (lengths[0] <= critical)).mean()
        assert abs(observed - expected) < Z_LIMIT * math.sqrt(expected * (1 - expected) / trials)


def _believed(rng, shifts, degrees, level, rest, noise, trials):
    """How often silence is believed, by the definition of each test, its ensemble's p-value on a grid of noise."""
    variance = rng.chisquare(noise, trials) / noise
    still, beside = rng.chisquare(degrees, trials) / variance, rng.chisquare(max(rest, 1), trials) / variance
    believed = still <= degrees * stats.f.isf(level, degrees, noise)
    believed &= (beside <= rest * stats.f.isf(level, rest, noise)) if rest else True
    noises = noise / stats.chi2.ppf(np.geomspace(0.0005, 0.9995, 12), noise)[:, None]
    for i in np.flatnonzero(believed):
        margins = shifts / math.sqrt(variance[i])
        power = stats.ncf.sf(stats.f.isf(level, degrees, noise), degrees, noise, margins**2).mean()
        if degrees == 1:
            p_value = stats.t.cdf(math.sqrt(still[i]) - margins, noise).mean()
        else:
            p_value = 0.001 + stats.ncx2.cdf(still[i] / noises, degrees, margins**2 / noises).max(axis=0).mean()
        believed[i] = power >= 0.8 and p_value <= 0.05
    return believed.mean()


def _ball_probability(radius, shift):
    """P(|X| <= radius) for a unit normal vector in three dimensions with a mean of that length."""
    with mpmath.workdps(60):
        r, d = mpmath.mpf(radius), mpmath.mpf(shift)
        return mpmath.ncdf(r - d) - mpmath.ncdf(-r - d) - (mpmath.npdf(r - d) - mpmath.npdf(r + d)) / d
