"""Sets of changes of a model too large for single parameters, beside the record of the whole Jacobian."""

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.matrix_free.margin import random_lengths  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from estim.probe.torch.asked import Asked  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron, probe_module  # noqa: E402

DEFAULT = Asked(None, "layers", None, None, None, 0, "raise", False)
SIZES = (3, 8, 2)


def _both(monkeypatch, bank, sigma, **options):
    """Return the two records of one model, large and dense."""
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    large = estim.sensitivity(perceptron(SIZES), bank, sigma, **options)
    monkeypatch.setattr(module_sensitivity, "DENSE", 3000)
    return large, estim.sensitivity(perceptron(SIZES), bank, sigma, **options)


@pytest.fixture
def twins(monkeypatch):
    """Return what makes both records, by number of inputs."""
    return lambda count, **options: _both(monkeypatch, inputs(count, 3), 0.01, **options)


def jacobian_of(dense):
    """Return the whitened Jacobian of a dense record, (readings, parameters)."""
    resolved = dense.resolved
    return (dense.readout * dense.scaled_singular_values[:resolved]) @ (
        dense.scaled_directions[:resolved] * dense.scale
    )


CHANGES = [
    estim.AnyChange(0.02, group="0", case="typical"),
    estim.AnyChange(0.02, group="2", case="typical", relative=False),
    estim.AnyChange(0.02, case="typical"),
    estim.AnyChange(0.02, case="typical", relative=False),
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("count", [5, 40])
def test_random_changes_shift_the_readings_as_by_the_whole_jacobian(twins, change, count):
    large, dense = twins(count)
    one = large.judge(np.zeros(2 * count), smallest_change=change, rng=0)
    two = dense.judge(np.zeros(2 * count), smallest_change=change, rng=1)
    assert one.change == two.change
    assert one.outcome == two.outcome
    # 500 draws each: the median's standard error is 4 % of the spread or less.
    assert one.typical_shift == pytest.approx(two.typical_shift, rel=0.06)
    assert one.power == pytest.approx(two.power, abs=0.03)


def test_random_lengths_have_the_moments_of_directions_drawn_one_by_one():
    rng, values, dimension = np.random.default_rng(3), np.array([3.0, 1.0, 0.2]), 7
    lengths = np.concatenate([random_lengths(values, dimension, rng) for _ in range(40)])
    # |W d|^2 has mean |s|^2 / n, and E d_i^2 d_j^2 = (1 + 2 [i = j]) / (n (n + 2)).
    squares, n = np.square(values), dimension
    mean = squares.sum() / n
    spread = np.sqrt((squares.sum() ** 2 + 2.0 * np.square(squares).sum()) / (n * (n + 2)) - mean**2)
    assert np.square(lengths).mean() == pytest.approx(mean, abs=4.0 * spread / np.sqrt(len(lengths)))
    assert np.square(lengths).std() == pytest.approx(spread, rel=0.03)
    assert lengths.max() <= 3.0


@pytest.mark.parametrize(
    "change", [estim.AnyChange(0.02, group="2"), estim.AnyChange(0.02, group="2", relative=False)], ids=str
)
def test_the_hardest_change_of_a_group_that_is_seen_is_that_of_the_whole_jacobian(twins, change):
    large, dense = twins(40)
    one, two = (found.judge(np.zeros(80), smallest_change=change) for found in (large, dense))
    _require_counted_the_least(one, two, 2.0 * change.size * large.group_norms.max() * large.group_resolution.max())
    assert one.outcome == two.outcome


def test_the_hardest_change_of_all_groups_is_that_of_the_whole_jacobian(twins):
    large, dense = twins(400)
    assert large.resolved == dense.resolved == large.parameters
    for change in (estim.AnyChange(0.02), 0.02):
        one, two = (found.judge(np.zeros(800), smallest_change=change) for found in (large, dense))
        _require_counted_the_least(one, two, 2.0 * 0.02 * large.group_norms.max() * large.resolution)


def _require_counted_the_least(one, two, doubt):
    """Hold the shift of a Gram matrix, which its resolution is taken off, against that of the whole Jacobian."""
    assert two.smallest_shift - doubt <= one.smallest_shift <= two.smallest_shift
    assert doubt < 0.01 * two.smallest_shift


def test_more_parameters_than_readings_hide_some_change_of_any_size(twins):
    large, _ = twins(5, smallest_change=0.1)
    verdict = large.judge(np.zeros(10))
    assert verdict.outcome == "blind"
    assert "40 of the 50 directions of all parameters" in verdict.reason
    assert "So few readings cannot show at least 40 of these" in verdict.reason
    assert "null" not in verdict.reason  # the record calls them unresolved
    assert verdict.prescription == "Other inputs may show it; repeats cannot."
    assert (
        "22 of the 32 directions of group 0"
        in large.judge(np.zeros(10), smallest_change=estim.AnyChange(9, group="0")).reason
    )


def test_a_silence_is_believed_where_random_changes_of_that_size_would_have_been_seen(twins):
    large, _ = twins(40)
    change = estim.AnyChange(0.5, group="2", case="typical")
    assert large.judge(np.zeros(80), smallest_change=change, rng=0).outcome == "equivalent"


@pytest.mark.parametrize("count", [5, 40])
def test_random_changes_of_the_detectable_size_are_detected_four_times_out_of_five(twins, count):
    large, dense = twins(count)
    jacobian, rng = jacobian_of(dense), np.random.default_rng(5)
    frame = large.by_group()
    for group in ("0", "2"):
        members = np.array([name == group for name in dense.groups])
        size = frame.loc[group, "detectable_change"] * np.linalg.norm(dense.parameters[members])
        drawn = rng.standard_normal((int(members.sum()), 40_000))
        drawn *= size / np.linalg.norm(drawn, axis=0)
        shifted = large.readout.T @ (jacobian[:, members] @ drawn)
        noisy = np.square(shifted + rng.standard_normal(shifted.shape)).sum(axis=0)
        detected = (noisy > stats.chi2.isf(0.05, large.resolved)).mean()
        assert detected == pytest.approx(0.8, abs=0.01)


def test_groups_of_zeros_have_no_relative_changes(monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    module = perceptron(SIZES)
    with torch.no_grad():
        for part in module[2].parameters():
            part.zero_()
    found = estim.sensitivity(module, inputs(8, 3), 0.01)
    frame = found.by_group()
    assert frame["detectable_change"].isna().tolist() == [False, True]
    for change in (estim.AnyChange(0.1, case="typical"), estim.AnyChange(0.1, group="2", case="typical")):
        with pytest.raises(ValueError, match=r"^a relative change of '2' means nothing: its parameters are zero"):
            found.judge(np.zeros(16), smallest_change=change)
    assert "Random changes seen:" in str(found.summary())


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("repeats", [1, 4])
def test_a_rule_of_the_users_own_is_judged_as_beside_the_whole_jacobian(monkeypatch, correlated, repeats):
    sigma = 0.01
    if correlated:
        sigma = 1e-4 * 0.6 ** np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
    options = {"repeats": repeats, "repeat_correlation": 0.2}
    large, dense = _both(monkeypatch, inputs(8, 3), sigma, **options)
    delta = 0.02 * np.random.default_rng(0).standard_normal(50)
    shift = probe_module(perceptron(SIZES), inputs(8, 3), DEFAULT).jacobian @ delta
    for rule in ({"statistic": np.ones(16), "threshold": 0.05}, {"statistic": np.ones(16)}):
        one = large.judge(np.zeros(16), smallest_shift=shift, baseline="noisy", **rule)
        two = dense.judge(np.zeros(16), smallest_change=delta, baseline="noisy", **rule)
        assert one.outcome == two.outcome
        np.testing.assert_allclose([one.power, one.false_alarm_rate], [two.power, two.false_alarm_rate], rtol=1e-5)
    rule = {"statistic": lambda moved: float(np.abs(moved).max()), "threshold": 0.04, "rng": 0}
    one = large.judge(np.zeros(16), smallest_shift=shift, **rule)
    two = dense.judge(np.zeros(16), smallest_change=delta, **rule)
    assert one.power == pytest.approx(two.power, abs=4.0 * np.hypot(one.power_se, two.power_se) + 1e-12)
    assert "smallest_shift" in one.reason


def test_a_rule_of_the_users_own_needs_one_change(twins):
    large, _ = twins(5)
    for change in ({}, {"smallest_change": 0.1}, {"smallest_change": 0.1, "smallest_shift": np.ones(10)}):
        with pytest.raises(
            ValueError, match=r"^a statistic or threshold of your own is judged beside one change: give"
        ):
            large.judge(np.zeros(10), statistic=np.ones(10), threshold=1.0, **change)


def test_what_does_not_fit_is_refused(twins):
    large, _ = twins(5)
    silence = np.zeros(10)
    with pytest.raises(ValueError, match=r"^smallest_change or smallest_shift must be given"):
        large.judge(silence)
    with pytest.raises(ValueError, match=r"^smallest_shift and smallest_change are two ways to say one"):
        large.judge(silence, smallest_change=0.1, smallest_shift=silence)
    with pytest.raises(ValueError, match=r"^group must be one of the 2 of the record, 0, 2, as .*; got 'head'"):
        large.judge(silence, smallest_change=estim.AnyChange(0.1, group="head"))
    with pytest.raises(TypeError, match=r"^smallest_change must be a number or an AnyChange for a model this large"):
        large.judge(silence, smallest_change={"0.weight": np.zeros((8, 3))})


def test_the_record_with_these_fields_survives_json(twins):
    large, _ = twins(5)
    again = estim.ModelSensitivity.from_json(large.to_json())
    change = estim.AnyChange(0.02, case="typical")
    one, two = (found.judge(np.zeros(10), smallest_change=change, rng=0) for found in (large, again))
    assert one.power == two.power
