import numpy as np
import pytest
from scipy import stats

import estim
from estim.attention import Layer, Network

T = np.linspace(0.0, 3.0, 7)
BEFORE, AFTER = {"a": 2.0, "rate": 0.5}, {"a": 2.0, "rate": 0.6}
SIGMA = 0.05


def decay(p, t):
    return p["a"] * np.exp(-p["rate"] * t)


def judged(after=AFTER, sigma=SIGMA, **options):
    return estim.judge_models(BEFORE, after, T, sigma, model=decay, **options)


def test_shifts_are_those_of_the_formula():
    found = judged()
    slope = -BEFORE["a"] * T * np.exp(-BEFORE["rate"] * T)
    moved = decay(AFTER, T) - decay(BEFORE, T)
    assert found.predicted == pytest.approx(np.linalg.norm(0.1 * slope) / SIGMA, rel=1e-12)
    assert found.actual == pytest.approx(np.linalg.norm(moved) / SIGMA, rel=1e-12)
    assert found.difference == pytest.approx(np.linalg.norm(moved - 0.1 * slope) / SIGMA, rel=1e-9)
    assert found.parameters == 1
    assert found.relative_size == pytest.approx(0.1 / np.hypot(2.0, 0.5), rel=1e-12)


def test_it_agrees_with_linearity():
    found, line = judged(), estim.linearity(decay, T, {"rate": 0.1}, SIGMA, params=BEFORE)
    for name in ("predicted", "actual", "ratio", "difference", "cosine"):
        assert getattr(found, name) == pytest.approx(getattr(line, name), rel=1e-12)


@pytest.mark.parametrize("sides", [1, 2])
def test_the_power_is_that_of_simulated_monitors(sides):
    found = judged({"a": 2.0, "rate": 0.53}, baseline=("known", "noisy")[sides - 1])
    record = estim.sensitivity(decay, T, SIGMA, params=BEFORE)
    moved = decay({"a": 2.0, "rate": 0.53}, T) - decay(BEFORE, T)
    rng, trials = np.random.default_rng(3), 20_000
    noisy = moved + np.sqrt(sides) * SIGMA * rng.standard_normal((trials, len(T)))
    statistic = np.square(noisy / (np.sqrt(sides) * SIGMA) @ record.readout).sum(axis=1)
    alarms = float((statistic > found.verdict.critical_value).mean())
    # Five standard errors: one false failure in two million.
    assert abs(alarms - found.power) < 5.0 * np.sqrt(0.25 / trials)


def test_linearity_ends_where_the_difference_reaches_one():
    found = judged({"a": 2.0, "rate": 1.5})
    slope = -BEFORE["a"] * T * np.exp(-BEFORE["rate"] * T)

    def difference(part):
        moved = decay({"a": 2.0, "rate": 0.5 + part}, T) - decay(BEFORE, T)
        return np.linalg.norm(moved - part * slope) / SIGMA

    assert difference(found.linear_up_to) <= 1.0 < difference(1.02 * found.linear_up_to)
    np.testing.assert_allclose(found.differences, [difference(t) for t in found.fractions], rtol=1e-6)
    frame = found.to_frame()
    assert list(frame.columns) == ["fraction", "difference"]
    assert frame["fraction"].tolist() == found.fractions.tolist()
    assert frame["difference"].tolist() == found.differences.tolist()
    assert judged({"a": 2.0, "rate": 0.501}).linear_up_to == 1.0


def test_a_linear_model_is_linear_all_the_way():
    found = estim.judge_models([1.0, 2.0], [4.0, -9.0], T, 0.1, model=lambda p, t: p[0] + p[1] * t)
    assert found.linear_up_to == 1.0
    assert found.ratio == pytest.approx(1.0, rel=1e-12)
    assert found.cosine == pytest.approx(1.0, rel=1e-12)


def test_without_a_change_of_interest_silence_proves_nothing():
    small = judged({"a": 2.0, "rate": 0.502})
    assert small.outcome is estim.Outcome.BLIND
    assert small.power < 0.1
    assert "the change from before to after" in small.verdict.reason
    assert judged().outcome is estim.Outcome.CHANGED


def test_a_small_change_is_equivalent_beside_one_that_would_be_seen():
    after, third = {"a": 2.0, "rate": 0.5002}, {"a": 2.0, "rate": 0.7}
    found = judged(after, smallest_change=third)
    assert found.outcome is estim.Outcome.EQUIVALENT
    record = estim.sensitivity(decay, T, SIGMA, params=BEFORE)
    shift = record.readout.T @ ((decay(third, T) - decay(BEFORE, T)) / SIGMA)
    critical = stats.chi2.isf(found.verdict.level, 2)
    assert found.verdict.power == pytest.approx(stats.ncx2.sf(critical, 2, shift @ shift), rel=1e-9)
    any_change = judged(after, smallest_change=estim.AnyChange(0.4, group="rate"))
    assert any_change.outcome is estim.Outcome.EQUIVALENT
    assert judged(after, smallest_change=estim.AnyChange(0.004, group="rate")).outcome is estim.Outcome.BLIND


def test_more_noise_makes_the_same_change_invisible():
    assert judged(sigma=50.0 * SIGMA).outcome is estim.Outcome.BLIND


def test_repeats_of_the_same_computation_are_not_prescribed():
    after = {"a": 2.0, "rate": 0.502}
    assert judged(after).verdict.repeats_needed > 1
    found = judged(after, repeat_correlation=1.0)
    assert found.verdict.repeats_needed is None
    assert found.power == judged(after).power
    with pytest.raises(ValueError, match=r"^repeat_correlation must lie between 0 and 1; got 2.0$"):
        judged(after, repeat_correlation=2.0)


def test_networks_are_compared():
    rng = np.random.default_rng(5)
    layers = [Layer(*(rng.standard_normal(shape) for shape in ((3, 2), (3, 2), (3, 3)))) for _ in range(2)]
    network, bank = Network(layers), rng.standard_normal((5, 4, 3))
    other = network.with_parameters(network.parameters + 1e-4 * rng.standard_normal(network.parameters.size))
    found = estim.judge_models(network, other, bank, 1e-4)
    delta = other.parameters - network.parameters
    moved = (other(bank) - network(bank)).ravel()
    assert found.predicted == pytest.approx(np.linalg.norm(network.jacobian(bank) @ delta) / 1e-4, rel=1e-9)
    assert found.actual == pytest.approx(np.linalg.norm(moved) / 1e-4, rel=1e-9)


@pytest.mark.parametrize("ends", [1e-7, 1e-6, 1e-4, 0.01, 0.3])
def test_where_linearity_ends_is_found_however_early(ends):
    # (1 + t)^2 is off its tangent by t^2, one standard deviation at t = ends.
    found = estim.judge_models({"a": 1.0}, {"a": 2.0}, np.zeros(1), ends**2, model=lambda p, bank: p["a"] ** 2 + bank)
    assert ends * (1.0 - 2.0**-6) <= found.linear_up_to <= ends * (1.0 + 1e-6)


def test_a_gauge_is_seen_by_nobody():
    rng = np.random.default_rng(6)
    network = Network([Layer(*(rng.standard_normal((2, 2)) for _ in range(3)))])
    found = estim.judge_models(network, network.regauged(rng=1), rng.standard_normal((4, 3, 2)), 1e-3)
    assert found.actual < 1e-9
    assert found.outcome is estim.Outcome.BLIND


def test_the_record_comes_back_from_json_and_says_its_verdict():
    found = judged()
    assert estim.ModelChange.from_json(found.to_json()) == found
    assert str(found).startswith("CHANGED. On average the readings move")
    assert found.verdict.average  # none was given
    assert "Linear up to:" in str(found.summary())


@pytest.mark.parametrize(
    ("after", "options", "message"),
    [
        ({"a": 2.0}, {}, r"^after must have the 2 parameters of before; got 1: rate is in one of them only$"),
        (dict(BEFORE), {}, r"^after must differ from before; all parameters are the same$"),
        ({"a": 2.0, "rate": -1e6}, {}, r"^readings of after must be finite; reading 1 is not$"),
        ({"a": np.nan, "rate": 1.0}, {}, r"^after must be finite; got nan for a$"),
        (AFTER, {"baseline": "none"}, r"^baseline must be 'known' or 'noisy'; got 'none'$"),
        (AFTER, {"power": 0.01}, r"^power must exceed the false-alarm rate"),
        (AFTER, {"sigma": np.zeros(7)}, r"^sigma must leave noise in every reading"),
        (AFTER, {"smallest_change": {"b": 1.0}}, r"^smallest_change must have the 2 parameters of before; got 1"),
    ],
)
def test_what_does_not_fit_is_refused(after, options, message):
    with pytest.raises(ValueError, match=message):
        judged(after, **options)


def test_two_sets_of_parameters_go_by_their_names():
    turned = dict(reversed(AFTER.items()))
    assert judged(turned).actual == judged(AFTER).actual
    assert judged(BEFORE | {"rate": 0.5001}, smallest_change=turned).outcome is estim.Outcome.EQUIVALENT


def test_a_number_is_no_smallest_change_of_two_models():
    with pytest.raises(
        TypeError, match=r"^smallest_change must be an AnyChange, or a third model like after; got 0.1: "
    ):
        judged(AFTER, smallest_change=0.1)


def test_kinds_that_do_not_go_together_are_refused():
    network = Network([Layer([[1.0]], [[1.0]], [[1.0]])])
    with pytest.raises(TypeError, match=r"^before must be a torch.nn.Module or an attention.Network, or parameters"):
        estim.judge_models(BEFORE, AFTER, T, SIGMA)
    with pytest.raises(ValueError, match=r"^model must be left out: before and after are models themselves"):
        estim.judge_models(network, network, T, SIGMA, model=decay)
    with pytest.raises(TypeError, match=r"^after must be an attention.Network as before is; got dict$"):
        estim.judge_models(network, AFTER, [[[1.0]]], SIGMA)
    with pytest.raises(ValueError, match=r"^readings must be left out with a model that is not a torch.nn.Module"):
        judged(readings=decay)
