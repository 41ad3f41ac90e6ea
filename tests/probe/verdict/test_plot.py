"""Pictures of verdicts and of power: what they show, and that every kind can be drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from estim import AnyChange, Sensitivity
from estim.probe.verdict.plot import _far_density
from estim.probe.verdict.power_plot import hardest_shifts

pytest.importorskip("matplotlib")

DESIGN = np.random.default_rng(3).standard_normal((12, 4))


@pytest.fixture
def found():
    return Sensitivity.from_jacobian(DESIGN, 0.5, parameters=[1.0, 2.0, -1.0, 0.5], groups=["one", "one", "two", "$x$"])


@pytest.mark.parametrize(
    "options",
    [
        {"smallest_change": 1.0},
        {"smallest_change": AnyChange(0.5, case="typical"), "rng": 0},
        {"smallest_change": [1.0, 0.0, 0.0, 0.0], "statistic": np.ones(12), "threshold": 3.0},
        {"smallest_change": [1.0, 0.0, 0.0, 0.0], "statistic": np.ones(12)},
    ],
    ids=["any", "random", "rule", "statistic"],
)
def test_every_kind_of_verdict_is_drawn(found, options, tmp_path):
    figure = found.judge(np.full(12, 0.1), **options).plot()
    figure.savefig(tmp_path / "verdict.png")
    assert len(figure.axes) == 1 + ("threshold" not in options)


def test_a_rule_of_the_users_is_drawn_as_its_two_rates(found):
    change = {"smallest_change": [1.0, 0.0, 0.0, 0.0]}
    verdict = found.judge(np.full(12, 0.1), **change, statistic=np.ones(12), threshold=3.0)
    (axes,) = verdict.plot().axes
    rates = [float(container.lines[0].get_ydata()[0]) for container in axes.containers]
    assert rates == [verdict.false_alarm_rate, verdict.power]


def test_names_are_drawn_as_they_are(tmp_path):
    name = r"$\q$"  # no formula that matplotlib knows
    found = Sensitivity.from_jacobian(np.eye(2), 0.5, parameters=[1.0, 2.0], groups=[name, "b"])
    verdict = found.judge(np.zeros(2), smallest_change=AnyChange(0.5, group=name))
    verdict.plot().savefig(tmp_path / "verdict.png")
    verdict.report(tmp_path / "verdict.html")
    found.plot().savefig(tmp_path / "found.png")


def test_where_no_group_has_a_curve_it_is_said(tmp_path):
    figure = Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0]], 0.1, parameters=[1.0, 2.0], groups=["a", "a"]).plot()
    figure.savefig(tmp_path / "hidden.png")
    axes = figure.axes[-1]
    assert len(axes.get_xticks()) == 0
    assert any("some change hides at any size" in text.get_text() for text in axes.texts)
    sure = Sensitivity.from_jacobian(np.eye(2), [0.0, 0.0], parameters=[1.0, 2.0]).plot()
    assert any("for certain" in text.get_text() for text in sure.axes[-1].texts)


def test_blind_and_estimated_verdicts_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    found = Sensitivity.from_jacobian([[1.0, 1.0], [2.0, 2.0]], 0.1)
    found.judge([0.0, 0.0], smallest_change=1.0).plot().savefig(tmp_path / "hidden.png")
    Sensitivity.from_jacobian([[0.0]], 1.0).judge([0.0], smallest_change=1.0).plot().savefig(tmp_path / "none.png")
    pair = tuple(rng.standard_normal((4, 2)) for _ in range(2))
    judged = found.judge(pair, smallest_change={"theta[0]": 1.0}, baseline="noisy", absolute_sigma=False)
    judged.plot().savefig(tmp_path / "estimated.png")
    sure = Sensitivity.from_jacobian(np.eye(2), [0.0, 1.0])
    sure.judge([0.0, 0.1], smallest_change=[1.0, 0.0]).plot().savefig(tmp_path / "sure.png")


@pytest.mark.parametrize(("shift", "size"), [(0.0, 1e200), (1e200, 1.0), (0.0, 1e-200)])
def test_the_ends_of_the_float_range_are_drawn(shift, size, tmp_path):
    figure = Sensitivity.from_jacobian([[1.0]], 1.0).judge([shift], smallest_change=size).plot()
    figure.savefig(tmp_path / "far.png")


def test_the_densities_are_those_of_the_test(found):
    figure = found.judge(np.full(12, 0.1), smallest_change=1.0).plot()
    for line in figure.axes[0].get_lines()[:2]:
        x, y = line.get_data()
        assert np.trapezoid(y, x) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(("degrees", "noise"), [(1, 1.0), (3, 5.0), (50, 100.0)])
def test_far_densities_are_those_of_the_noncentral_f(degrees, noise):
    # At 150 its series is still at hand; at 1000 it took 11 s a curve.
    x = 150.0 * np.linspace(0.3, 2.5, 40)
    expected = stats.ncf.pdf(x**2 / degrees, degrees, noise, 150.0**2) * 2.0 * x / degrees
    found = _far_density(x, 150.0 + 0.5 * (degrees - 1) / 150.0, noise)
    np.testing.assert_allclose(found, expected, atol=1e-4 * expected.max())


def test_an_estimated_verdict_far_from_the_noise_is_drawn(tmp_path):
    found = Sensitivity.from_jacobian([[1.0]], 1.0)
    after = np.array([[0.1], [-0.1], [0.3]])
    figure = found.judge((np.zeros(1), after), smallest_change=500.0, absolute_sigma=False).plot()
    x, y = figure.axes[0].get_lines()[1].get_data()
    assert y.max() > 0.0
    assert np.trapezoid(y, x) < 1.0  # its far tail lies outside
    figure.savefig(tmp_path / "far.png")


def test_the_limit_of_equivalence_says_whether_the_power_was_there(found):
    for size, label in ((0.8, "equivalent below, had it the power"), (3.0, "equivalent below")):
        figure = found.judge(np.full(12, 0.1), smallest_change=size).plot()
        assert label in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_the_power_curves_are_the_hardest_of_each_group(found, tmp_path):
    relative, shifts = hardest_shifts(found)
    assert relative
    assert list(shifts) == ["one", "two", "$x$"]
    values = np.linalg.svd(DESIGN[:, :2] / 0.5, compute_uv=False)
    assert shifts["one"] == pytest.approx(values[-1] * np.hypot(1.0, 2.0))
    found.plot().savefig(tmp_path / "power.png")


def test_unknown_parameters_are_drawn_in_their_units_and_hidden_groups_named(tmp_path):
    jacobian = np.zeros((4, 3))
    jacobian[:, 0] = jacobian[:2, 1] = jacobian[:2, 2] = 1.0
    found = Sensitivity.from_jacobian(jacobian, 1.0, groups=["one", "two", "two"])
    assert hardest_shifts(found) == (False, {"one": pytest.approx(2.0), "two": 0.0})
    figure = found.plot()
    figure.savefig(tmp_path / "hidden.png")
    assert any("can hide at any size: two" in text.get_text() for text in figure.axes[2].texts)


def test_nothing_resolved_is_drawn(tmp_path):
    found = Sensitivity.from_jacobian([[0.0, 0.0]], 1.0, parameters=[1.0, 2.0])
    assert hardest_shifts(found)[1] == {"all": 0.0}
    found.plot().savefig(tmp_path / "nothing.png")
    sure = Sensitivity.from_jacobian(np.eye(2), [0.0, 0.0])
    assert hardest_shifts(sure)[1] == {"all": math.inf}
    sure.plot().savefig(tmp_path / "sure.png")


def test_the_page_of_a_verdict(found, tmp_path):
    verdict = found.judge(np.zeros(12), smallest_change=AnyChange(0.01, group="$x$"))
    verdict.report(tmp_path / "verdict.html")
    page = (tmp_path / "verdict.html").read_text()
    assert "<h1>Verdict: BLIND</h1>" in page
    assert f"{verdict.repeats_needed} repeats" in page
    assert page.count("<svg") == 1
    assert "<script" not in page


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_weakest_directions_are_drawn_in_whatever_units(scale):
    jacobian = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    found, plain = (Sensitivity.from_jacobian(factor * jacobian, 1.0) for factor in (scale, 1.0))
    heights = [[bar.get_height() for bar in one.plot().axes[1].patches] for one in (found, plain)]
    np.testing.assert_allclose(sorted(heights[0]), sorted(heights[1]), atol=1e-12)


def test_a_model_that_is_all_gauge_is_drawn_and_judged(tmp_path):
    found = Sensitivity.from_jacobian(np.zeros((2, 2)), 0.1, symmetry=np.eye(2))
    found.report(tmp_path / "gauge.html")
    verdict = found.judge([0.0, 0.0], smallest_change={"theta[0]": 1.0})
    assert verdict.reason == (
        "A change by theta[0] is a gauge: the same function on all inputs. There is nothing to see."
    )
    assert verdict.prescription == "Ask for a change of the function."
    assert found.judge([5.0, 0.0], smallest_change=1.0).prescription == "Look at what changed: reading 0 moved most."
