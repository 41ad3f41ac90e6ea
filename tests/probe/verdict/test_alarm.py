"""A user's own statistic and alarm rule."""

import math

import numpy as np
import pytest
from scipy import stats

import estim
from estim import Outcome, Sensitivity

#: Standard errors allowed between a simulation and the truth: false alarm 6.3e-5.
Z_LIMIT = 4.0

DESIGN = np.random.default_rng(3).standard_normal((8, 3))


@pytest.fixture
def found():
    return Sensitivity.from_jacobian(DESIGN, 0.5, names=list("abc"))


class TestLinearRule:
    def test_rates_are_exact(self, found):
        weights = np.linspace(-1.0, 1.0, 8)
        deviation = 0.5 * np.linalg.norm(weights)
        for statistic in (weights, lambda shift: float(weights @ shift)):
            verdict = found.judge(0.1, smallest_change={"a": 2.0}, statistic=statistic, threshold=1.0)
            moved = float(weights @ DESIGN @ [2.0, 0.0, 0.0])
            assert verdict.false_alarm_rate == pytest.approx(stats.norm.sf(1.0 / deviation), rel=1e-10)
            assert verdict.power == pytest.approx(stats.norm.sf((1.0 - moved) / deviation), rel=1e-10)
            assert verdict.power_se == 0.0

    def test_the_statistic_of_a_shift_or_its_value(self, found):
        weights, shift = np.ones(8), np.linspace(0.0, 1.0, 8)
        options = {"smallest_change": {"a": 1.0}, "statistic": weights, "threshold": 2.0}
        assert found.judge(shift, **options) == found.judge(float(weights @ shift), **options)

    def test_a_noisy_baseline_has_both_noises(self, found):
        weights = np.ones(8)
        verdict = found.judge(0.0, smallest_change={"a": 1.0}, statistic=weights, threshold=2.0, baseline="noisy")
        assert verdict.false_alarm_rate == pytest.approx(stats.norm.sf(2.0 / (0.5 * math.sqrt(16.0))), rel=1e-10)

    def test_correlated_noise(self):
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
        found = Sensitivity.from_jacobian(DESIGN, covariance)
        weights = np.arange(8.0)
        verdict = found.judge(0.0, smallest_change=[1.0, 0.0, 0.0], statistic=weights, threshold=3.0)
        deviation = math.sqrt(weights @ covariance @ weights)
        assert verdict.false_alarm_rate == pytest.approx(stats.norm.sf(3.0 / deviation), rel=1e-10)
        assert verdict.power == pytest.approx(stats.norm.sf((3.0 - weights @ DESIGN[:, 0]) / deviation), rel=1e-10)

    def test_outcomes(self, found):
        weights = DESIGN[:, 0] / np.linalg.norm(DESIGN[:, 0])
        options = {"statistic": weights, "threshold": 1.0}
        assert found.judge(1.1, smallest_change={"a": 1.0}, **options).outcome is Outcome.CHANGED
        assert found.judge(0.1, smallest_change={"a": 1.0}, **options).outcome is Outcome.EQUIVALENT
        blind = found.judge(0.1, smallest_change={"a": 0.1}, **options)
        assert blind.outcome is Outcome.BLIND
        assert "Lower the threshold" in blind.prescription
        assert "statistic > threshold" in str(blind.summary())
        assert "your rule" in str(blind.summary())
        assert "degrees" not in str(blind.summary())
        assert np.isnan(blind.power_at([0.5, 1.0])).all()
        # Power enough, but a statistic that this change could well give.
        size = 1.55 / np.linalg.norm(DESIGN[:, 0])
        between = found.judge(0.99, smallest_change={"a": size}, **options)
        assert between.power > 0.8
        assert between.outcome is Outcome.BLIND


class TestLinearStatistic:
    def test_without_a_threshold_it_is_the_z_test(self, found):
        weights = np.ones(8)
        deviation = 0.5 * math.sqrt(8.0)
        verdict = found.judge(2.0, smallest_change={"a": 1.0}, statistic=weights)
        assert verdict.p_value == pytest.approx(2.0 * stats.norm.sf(2.0 / deviation), rel=1e-10)
        assert verdict.smallest_shift == pytest.approx(abs(DESIGN[:, 0].sum()) / deviation, rel=1e-10)

    def test_one_number_sees_one_direction(self, found):
        verdict = found.judge(0.0, smallest_change=1.0, statistic=np.ones(8))
        assert verdict.outcome is Outcome.BLIND
        assert len(verdict.unseen) == 2

    def test_estimated_noise_is_the_t_test(self, found):
        rng = np.random.default_rng(6)
        before, after = rng.standard_normal((6, 8)), rng.standard_normal((4, 8))
        weights = np.arange(8.0)
        verdict = found.judge(
            (before, after), smallest_change={"a": 1.0}, statistic=weights, baseline="noisy", absolute_sigma=False
        )
        assert verdict.p_value == pytest.approx(stats.ttest_ind(before @ weights, after @ weights).pvalue, rel=1e-9)


class TestAnyRule:
    def test_rates_by_simulation(self, found):
        delta = [0.6, 0.0, 0.0]
        verdict = found.judge(
            np.zeros(8), smallest_change=delta, statistic=lambda d: np.abs(d).max(), threshold=1.2, rng=1
        )
        none = 1.0 - (1.0 - 2.0 * stats.norm.sf(1.2 / 0.5)) ** 8
        moved = DESIGN @ delta
        inside = stats.norm.cdf((1.2 - moved) / 0.5) - stats.norm.cdf((-1.2 - moved) / 0.5)
        assert abs(verdict.false_alarm_rate - none) < Z_LIMIT * verdict.false_alarm_se
        assert abs(verdict.power - (1.0 - inside.prod())) < Z_LIMIT * verdict.power_se
        assert "exceeds the 0.05 asked for" in verdict.notes[1]

    def test_seeds(self, found):
        options = {
            "smallest_change": {"a": 1.0},
            "statistic": lambda d: np.abs(d).max(),
            "threshold": 1.2,
            "trials": 50,
        }
        one, two = (found.judge(np.zeros(8), rng=r, **options) for r in (0, np.random.default_rng(0)))
        assert one == two

    def test_a_rule_that_never_alarms_has_an_error_all_the_same(self, found):
        verdict = found.judge(
            np.zeros(8), smallest_change={"a": 1.0}, statistic=lambda d: (d**2).sum(), threshold=1e9, trials=100, rng=0
        )
        assert (verdict.power, verdict.outcome) == (0.0, Outcome.BLIND)
        assert 0.005 < verdict.power_se < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": np.ones(3)}, "statistic must be callable, or 8 finite weights"),
        ({"statistic": lambda d: (d**2).sum()}, "threshold must be given for a statistic that is not linear"),
        ({"statistic": lambda d: math.nan, "threshold": 1.0}, "statistic must return a finite number; got nan"),
        ({"statistic": np.ones(8), "threshold": math.nan}, "threshold must be finite; got nan"),
        ({"statistic": np.ones(8), "threshold": 1.0, "smallest_change": 0.3}, "smallest_change must be one change"),
        ({"statistic": lambda d: (d**2).sum(), "threshold": 1.0, "trials": 0}, "trials must be a positive integer"),
    ],
)
def test_bad_rules_are_refused(found, options, message):
    with pytest.raises(ValueError, match=message):
        found.judge(np.zeros(8), **{"smallest_change": {"a": 1.0}, **options})


@pytest.mark.parametrize("statistic", [[1.0, 1.0, 1.0], lambda shift: float(np.abs(shift).max())])
@pytest.mark.parametrize("size", [0.5, 1e16])
def test_a_change_that_is_not_seen_moves_no_rule_by_its_rounding(statistic, size):
    found = estim.sensitivity(
        lambda p, x: (p["a"] + p["b"]) * x, np.array([1.0, 2.0, 3.0]), 0.1, params={"a": 1.0, "b": 2.0}
    )
    verdict = found.judge(
        [0.05, 0.0, 0.0], smallest_change={"a": size, "b": -size}, statistic=statistic, threshold=0.3, rng=0
    )
    assert verdict.outcome is Outcome.BLIND
    assert verdict.power == verdict.false_alarm_rate
    assert verdict.prescription == "More digits, better derivatives or other inputs may show it; repeats cannot."


def test_a_statistic_of_readings_without_noise_is_refused():
    found = Sensitivity.from_jacobian(np.eye(2), [0.0, 1.0])
    with pytest.raises(ValueError, match="statistic weighs readings without noise"):
        found.judge(0.1, smallest_change=[0.0, 1.0], statistic=[1.0, 1.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_of_a_statistic_that_is_none_is_refused(found, value):
    # NaN exceeds no threshold: it was silence.
    with pytest.raises(ValueError, match="observed_shift must be finite; got"):
        found.judge(value, smallest_change={"a": 1.0}, statistic=np.ones(8), threshold=1.0)
