"""Smallest changes of interest: worst cases beside brute force, random ensembles, units and gauges."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize
from scipy.stats import norm

import estim
from estim import AnyChange, Outcome, Sensitivity
from estim.attention import Layer, Network
from estim.attention.gauge import regauged
from estim.probe.verdict.change import change_powers
from estim.probe.verdict.hardest import coordinates, least, modulo
from estim.probe.verdict.margin import margin_of

#: Standard errors allowed between a simulation and the truth: false alarm 6.3e-5.
Z_LIMIT = 4.0
#: A local optimiser ends this close to the least shift, relative.
OPTIMISED = 1e-6


def network():
    rng = np.random.default_rng(5)
    layers = [Layer(*(rng.standard_normal(shape) for shape in ((3, 2), (3, 2), (3, 3)))) for _ in range(2)]
    return Network(layers), rng.standard_normal((15, 4, 3))


def shifts(found, smallest, rng=0):
    return margin_of(found, smallest, np.random.default_rng(rng)).shifts


def brute_force(jacobian, norm, members, starts=12):
    """Minimise ||J d|| / ||N d|| over the members by a local optimiser from many places."""
    rng = np.random.default_rng(0)

    def ratio(free):
        change = np.zeros(jacobian.shape[1])
        change[members] = free
        return float(np.log(np.sum((jacobian @ change) ** 2) / np.sum((norm @ change) ** 2)))

    runs = [
        optimize.minimize(ratio, rng.standard_normal(members.sum()), method="BFGS", options={"gtol": 1e-10})
        for _ in range(starts)
    ]
    return math.exp(0.5 * min(run.fun for run in runs))


class TestWorstCase:
    @pytest.mark.parametrize("group", [None, "two"])
    @pytest.mark.parametrize("relative", [True, False])
    def test_beside_brute_force(self, group, relative):
        rng = np.random.default_rng(1)
        jacobian, point = rng.standard_normal((20, 6)), rng.standard_normal(6)
        groups = ["one"] * 2 + ["two"] * 4
        found = Sensitivity.from_jacobian(jacobian, 0.5, parameters=point, groups=groups)
        members = np.array([group in (None, name) for name in groups])
        sizes = [np.linalg.norm(point[:2])] * 2 + [np.linalg.norm(point[2:])] * 4
        norm = np.diag(1.0 / np.array(sizes)) if relative else np.eye(6)
        expected = 0.01 * brute_force(jacobian / 0.5, norm, members)
        found_shift = shifts(found, AnyChange(0.01, group=group, relative=relative))
        assert found_shift == pytest.approx(expected, rel=OPTIMISED)

    def test_network_in_its_effective_parameters(self):
        net, bank = network()
        found = estim.sensitivity(net, bank, 0.01)
        members = np.array([name.startswith("layer1.query") for name in found.names])
        expected = 0.01 * brute_force(net.jacobian(bank) / 0.01, found.relative_norm, members)
        assert shifts(found, AnyChange(0.01, group="layer1.query")) == pytest.approx(expected, rel=OPTIMISED)

    def test_the_change_it_names_is_of_that_size_and_shift(self):
        net, bank = network()
        found = estim.sensitivity(net, bank, 0.01)
        for group in (None, "layer0", "layer1.value"):
            margin = margin_of(found, AnyChange(0.02, group=group), np.random.default_rng(0))
            assert np.linalg.norm(found.relative_norm @ margin.change) == pytest.approx(0.02, rel=1e-9)
            assert found.shift(margin.change) == pytest.approx(margin.shifts[0], rel=1e-8)

    def test_many_unknowns_and_few_agree(self):
        # Above some size the least singular value comes from an inverse.
        rng = np.random.default_rng(2)
        for spread in (0.0, 4.0, 12.0):
            matrix = rng.standard_normal((150, 120)) * 10.0 ** np.linspace(0.0, -spread, 120)
            value, vector = least(matrix)
            assert np.linalg.norm(matrix @ vector) == pytest.approx(value, rel=1e-9)
            unit, sizes = matrix / np.linalg.norm(matrix, axis=0), np.linalg.norm(matrix, axis=0)
            # Columns of norm one are well conditioned: the inverse is good to ten digits in every unit.
            inverse = np.linalg.pinv(unit) / sizes[:, None]
            assert value == pytest.approx(1.0 / np.linalg.norm(inverse, 2), rel=1e-9)

    def test_record_with_a_smallest_change_of_its_own(self):
        found = Sensitivity.from_jacobian(np.diag([1.0, 4.0]), 1.0, smallest_change=3.0)
        assert shifts(found, None) == pytest.approx(3.0)
        each = Sensitivity.from_jacobian(np.diag([1.0, 4.0]), 1.0, smallest_change=[3.0, 0.5])
        assert shifts(each, None) == pytest.approx(2.0)

    def test_noiseless_readings_bar_what_they_fix(self):
        found = Sensitivity.from_jacobian([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5])
        assert shifts(found, 1.0) == pytest.approx(2.0)
        sure = Sensitivity.from_jacobian(np.eye(2), [0.0, 0.0])
        assert shifts(sure, 1.0) == math.inf

    def test_a_group_seen_whole_beside_one_that_is_not(self):
        jacobian = np.zeros((4, 3))
        jacobian[:, 0] = 1.0
        jacobian[:2, 1] = jacobian[:2, 2] = 1.0
        found = Sensitivity.from_jacobian(jacobian, 1.0, names=list("abc"), groups=["one", "two", "two"])
        assert shifts(found, AnyChange(1.0, group="one", relative=False)) == pytest.approx(2.0)
        verdict = found.judge(np.zeros(4), smallest_change=AnyChange(1.0, group="two", relative=False))
        assert verdict.unseen == ("b - c",)
        # Alone each of the two is seen.
        assert shifts(found, AnyChange(1.0, group="b", relative=False)) == pytest.approx(math.sqrt(2.0))


class TestGauge:
    def test_factors_of_the_same_function_have_the_same_worst_case(self):
        net, bank = network()
        other = Network(regauged(net.layers, np.random.default_rng(3)))
        one, two = (shifts(estim.sensitivity(n, bank, 0.01), AnyChange(0.01)) for n in (net, other))
        assert one == pytest.approx(two, rel=1e-6)

    def test_declared_symmetry_is_taken_out_of_the_norm(self):
        # a b is what is seen; along (a, -b) nothing changes.
        found = Sensitivity.from_jacobian([[3.0, 2.0]], 1.0, symmetry=[2.0, -3.0], parameters=[2.0, 3.0])
        assert shifts(found, AnyChange(1.0, relative=False)) == pytest.approx(math.hypot(3.0, 2.0))
        assert found.judge([0.0], smallest_change=[2.0, -3.0]).reason.endswith("There is nothing to see.")

    def test_the_norm_modulo_gauge_is_the_least_of_all_equal_changes(self):
        rng = np.random.default_rng(4)
        norm, gauge = np.diag(rng.uniform(0.5, 2.0, 5)), rng.standard_normal((2, 5))
        change = rng.standard_normal(5)
        best = np.linalg.lstsq(norm @ gauge.T, norm @ change, rcond=None)[0]
        expected = np.linalg.norm(norm @ (change - best @ gauge))
        assert np.linalg.norm(modulo(np.diag(norm), gauge) @ change) == pytest.approx(expected, rel=1e-12)
        assert coordinates(modulo(np.diag(norm), gauge), np.ones(5, dtype=bool), np.ones(5)).dimension == 3


class TestUnits:
    def test_relative_changes_know_no_units(self):
        rng = np.random.default_rng(6)
        jacobian, point, units = rng.standard_normal((9, 3)), rng.uniform(1.0, 2.0, 3), 10.0 ** np.array([-9, 0, 7])
        names = list("abc")
        one, two = (
            Sensitivity.from_jacobian(jacobian * u, 0.1, parameters=point / u, names=names, groups=names)
            for u in (np.ones(3), units)
        )
        for change in (AnyChange(0.01), AnyChange(0.01, group="b"), AnyChange(0.01, case="typical")):
            np.testing.assert_allclose(shifts(one, change), shifts(two, change), rtol=1e-9)

    def test_one_change_in_other_units(self):
        rng = np.random.default_rng(6)
        jacobian, units = rng.standard_normal((9, 3)), 10.0 ** np.array([-9, 0, 7])
        one, two = (Sensitivity.from_jacobian(jacobian * u, 0.1) for u in (np.ones(3), units))
        delta = np.array([0.1, -0.2, 0.3])
        assert shifts(one, delta) == pytest.approx(shifts(two, delta / units)[0], rel=1e-9)


class TestTypicalCase:
    def test_its_moments_are_those_of_random_directions(self):
        # E ||W d||^2 = size^2 ||W N^-1||_F^2 / dimension, on the sphere.
        jacobian = np.random.default_rng(7).standard_normal((20, 6))
        found = Sensitivity.from_jacobian(jacobian, 1.0)
        drawn = shifts(found, AnyChange(0.5, relative=False, case="typical"))
        squares = drawn**2
        expected = 0.25 * np.linalg.norm(jacobian) ** 2 / 6
        assert abs(squares.mean() - expected) < Z_LIMIT * squares.std() / math.sqrt(len(drawn))

    def test_mean_power_beside_other_draws(self):
        jacobian = np.random.default_rng(7).standard_normal((20, 6))
        found = Sensitivity.from_jacobian(jacobian, 1.0)
        verdict = found.judge(np.zeros(20), smallest_change=AnyChange(0.6, relative=False, case="typical"), rng=1)
        rng = np.random.default_rng(99)
        directions = rng.standard_normal((6, 20_000))
        moved = 0.6 * np.linalg.norm(jacobian @ (directions / np.linalg.norm(directions, axis=0)), axis=0)
        power = change_powers(moved, 6, verdict.level)
        error = math.hypot(verdict.power_se, power.std() / math.sqrt(len(power)))
        assert abs(power.mean() - verdict.power) < Z_LIMIT * error
        assert verdict.worst_change is None

    def test_seeds(self):
        found = Sensitivity.from_jacobian(np.eye(3), 1.0)
        change = AnyChange(1.0, relative=False, case="typical")
        one, two = (found.judge(np.zeros(3), smallest_change=change, rng=r) for r in (0, np.random.default_rng(0)))
        assert one == two

    def test_what_is_not_seen_weakens_it_but_does_not_blind_it(self):
        jacobian = np.diag([10.0, 10.0, 10.0, 0.0])
        found = Sensitivity.from_jacobian(jacobian, 1.0)
        still = np.zeros(4)
        assert found.judge(still, smallest_change=AnyChange(1.0, relative=False)).outcome is Outcome.BLIND
        typical = found.judge(still, smallest_change=AnyChange(1.0, relative=False, case="typical"), rng=0)
        assert typical.outcome is Outcome.EQUIVALENT


def in_other_factors(net, turn):
    """The same function, with other queries and keys in the first layer."""
    first, *others = net.layers
    turned = Layer(first.float64[0] @ turn, first.float64[1] @ np.linalg.inv(turn).T, first.float64[2])
    return Network([turned, *others])


class TestTwoSetsOfParameters:
    def test_nested_parameters(self):
        def model(p, t):
            return p["a"] * np.exp(-p["rate"] * t)

        before, after = {"a": 1.0, "rate": 0.5}, {"a": 1.1, "rate": 0.5}
        found = estim.sensitivity(model, np.linspace(0.0, 2.0, 5), 0.1, params=before)
        assert shifts(found, (before, after)) == pytest.approx(shifts(found, {"a": 0.1})[0])

    def test_networks(self):
        net, bank = network()
        other = net.with_parameters(net.parameters * 1.01)
        found = estim.sensitivity(net, bank, 0.01)
        assert shifts(found, (net, other)) == pytest.approx(found.shift(0.01 * net.parameters))

    def test_networks_that_write_the_same_function_differ_by_nothing(self):
        net, bank = network()
        found = estim.sensitivity(net, bank, 0.01)
        turn = np.array([[2.0, 1.0], [0.0, 1.0]])
        assert found.shift(in_other_factors(net, turn).parameters - net.parameters) > 100.0  # linearised, it is large
        for turned in (turn, turn / 3.0, np.eye(2) * (1.0 + 1e-4)):
            verdict = found.judge(np.zeros(found.readings), smallest_change=(net, in_other_factors(net, turned)))
            assert verdict.outcome is Outcome.BLIND
            assert "the same function on all inputs" in verdict.reason
            assert verdict.power <= verdict.false_alarm_rate

    def test_a_change_written_in_other_factors_is_the_same_change(self):
        net, bank = network()
        found = estim.sensitivity(net, bank, 0.01)
        changed = net.with_parameters(net.parameters * (1.0 + 1e-6 * np.arange(len(net.parameters))))
        turned = in_other_factors(changed, np.array([[2.0, 1.0], [0.0, 1.0]]))
        assert shifts(found, (net, turned)) == pytest.approx(shifts(found, (net, changed)), rel=1e-3)

    def test_two_numbers_are_one_change_of_two_parameters(self):
        found = Sensitivity.from_jacobian(np.eye(2), 1.0)
        assert shifts(found, (3.0, 4.0)) == pytest.approx(5.0)


class TestJacobianKnownRoughly:
    """What the Jacobian's own error may have moved does not count towards a change's shift."""

    def test_the_least_shift_counts_and_the_range_is_said(self):
        found = estim.Sensitivity.from_jacobian(np.diag([10.0, 1.0]), 1.0, jac_error=0.05)
        change = np.array([1.0, 0.0])
        doubt = found.resolution * found.scale[0]
        verdict = found.judge(np.zeros(2), smallest_change=change)
        assert 0.5 < doubt < 1.0
        assert_allclose(verdict.shifts, [10.0 - doubt], rtol=1e-12)
        (note,) = [note for note in verdict.notes if "Within the error of the Jacobian" in note]
        assert f"between {10.0 - doubt:.3g} and {10.0 + doubt:.3g} standard deviations" in note

    def test_no_true_jacobian_within_the_error_moves_less(self):
        rng = np.random.default_rng(0)
        jacobian, error = rng.standard_normal((6, 3)), 0.05
        found = estim.Sensitivity.from_jacobian(jacobian, 0.1, jac_error=error)
        for smallest in (rng.standard_normal(3), 1.0):
            margin = margin_of(found, smallest, rng)
            for _ in range(50):
                true = jacobian + error * rng.uniform(-1.0, 1.0, jacobian.shape)
                moved = np.linalg.norm(true @ smallest) if np.ndim(smallest) else np.linalg.svd(true)[1][-1]
                assert margin.shifts[0] < moved / 0.1

    def test_another_change_may_become_the_hardest(self):
        # a1 - a2 is known to a tenth of what b is: with this error it moves 2.6, not b's 3.3, which alone was counted.
        jacobian = np.array([[1000.0, 1000.0, 0.0], [0.0, 1.7, 0.0], [0.0, 0.0, 1.0]])
        error = 0.3 * np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1e-3]])
        found = estim.Sensitivity.from_jacobian(jacobian, 0.3, jac_error=error, names=["a1", "a2", "b"])
        signs = np.array([[1, 1, 0], [1, -1, 0], [0, 0, 1]])
        possible = np.linalg.svd(jacobian + error * signs)[1][-1] / 0.3
        assert possible < 2.7
        verdict = found.judge(np.zeros(3), smallest_change=1.0)
        assert 1.0 < verdict.smallest_shift < possible
        assert verdict.outcome is Outcome.BLIND

    @pytest.mark.parametrize("names", [["a.x", "a.y", "b"], ["a.x", "b", "a.y"]])
    def test_sets_of_a_group_and_random_ones(self, names):
        rng = np.random.default_rng(1)
        jacobian, error = rng.standard_normal((6, 3)) * [1.0, 10.0, 100.0], 0.05
        found = estim.Sensitivity.from_jacobian(
            jacobian, 0.1, jac_error=error, names=names, groups=[name[0] for name in names]
        )
        members = [name.startswith("a") for name in names]
        worst = margin_of(found, AnyChange(1.0, group="a", relative=False), rng)
        typical = AnyChange(1.0, relative=False, case="typical")
        counted, drawn = (shifts(record, typical, 5) for record in (found, Sensitivity.from_jacobian(jacobian, 0.1)))
        assert (counted < drawn).all()
        for _ in range(50):
            true = jacobian + error * rng.choice([-1.0, 1.0], jacobian.shape)
            assert worst.shifts[0] < np.linalg.svd(true[:, members])[1][-1] / 0.1
            assert (counted < shifts(Sensitivity.from_jacobian(true, 0.1), typical, 5)).all()
        assert any("random changes may move" in note for note in margin_of(found, typical, rng).notes)

    def test_a_rule_counts_the_least_and_says_what_it_simulated(self):
        found = estim.Sensitivity.from_jacobian(np.diag([10.0, 1.0]), 1.0, jac_error=0.05)
        change = np.array([1.0, 0.0])
        doubt = found.resolution * found.scale[0]
        linear = found.judge(np.zeros(2), smallest_change=change, statistic=[1.0, 0.0], threshold=9.0)
        assert_allclose(linear.power, norm.sf(9.0 - (10.0 - doubt)), rtol=1e-9)
        rule = found.judge(np.zeros(2), smallest_change=change, statistic=np.ptp, threshold=9.0, trials=10, rng=0)
        assert any(f"up to {doubt:.3g} standard deviations more or less" in note for note in rule.notes)

    def test_exact_jacobians_need_no_note(self):
        found = estim.Sensitivity.from_jacobian(np.diag([10.0, 1.0]), 1.0)
        assert found.judge(np.zeros(2), smallest_change=[1.0, 0.0]).shifts[0] == pytest.approx(10.0, rel=1e-12)
        assert not any("error of the Jacobian" in note for note in found.judge(np.zeros(2), smallest_change=1.0).notes)


def test_true_is_no_size():
    found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0)
    with pytest.raises(TypeError, match="smallest_change must be a real number; got True"):
        found.judge(np.zeros(2), smallest_change=True)


def test_text_is_no_size():
    with pytest.raises(TypeError, match="size must be a real number; got '1 %'"):
        AnyChange("1 %")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnyChange(0.0), "size must be positive and finite; got 0.0"),
        (lambda: AnyChange(0.1, group=3), "group must be a group's name, or None; got 3"),
        (lambda: AnyChange(0.1, case="mean"), "case must be 'worst' or 'typical'; got 'mean'"),
        (lambda: shifts(Sensitivity.from_jacobian(np.eye(2), 1.0), AnyChange(0.1)), "needs the parameters' values"),
        (
            lambda: shifts(Sensitivity.from_jacobian(np.eye(2), 1.0, parameters=[0, 0]), AnyChange(0.1)),
            "a relative change of 'all' means nothing",
        ),
    ],
)
def test_what_is_no_change_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("size", "percent", "meant"), [(10.0, "1000", "0.1"), (1.0, "100", "0.01"), (5, "500", "0.05")]
)
def test_a_percentage_typed_for_a_fraction_is_pointed_out(size, percent, meant):
    found = Sensitivity.from_jacobian(np.eye(3), 0.1, parameters=[1.0, 2.0, 3.0])
    said = (
        f"The smallest change is {percent} % of what changes, as sizes are fractions: {size:g} % is AnyChange({meant})."
    )
    verdicts = [
        found.judge(np.zeros(3), smallest_change=AnyChange(size)),
        found.judge(np.zeros(3), smallest_change=AnyChange(size), statistic=[1.0, 0.0, 0.0]),
        estim.judge_models(
            {"a": 1.0}, {"a": 1.1}, np.ones(3), 0.1, model=lambda p, b: p["a"] * b, smallest_change=AnyChange(size)
        ).verdict,
    ]
    for verdict in verdicts:
        assert any(note.startswith(said) for note in verdict.notes)


def test_sizes_that_are_fractions_or_in_units_need_no_word():
    found = Sensitivity.from_jacobian(np.eye(3), 0.1, parameters=[1.0, 2.0, 3.0])
    for change in (AnyChange(0.99), AnyChange(10.0, relative=False), 10.0):
        assert not any("fractions" in note for note in found.judge(np.zeros(3), smallest_change=change).notes)
