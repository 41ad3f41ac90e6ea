"""Many unknowns: C9 and closed forms, singular values against RMSE, curvature, gauges, bounds, and bad input."""

import copy
import math
import pickle
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import Bounds, least_squares, nnls
from scipy.stats import norm

import tests.tolerances as tol
from estim import ParameterRecovery, recover_parameters
from estim.attention import Layer, Network
from estim.probe.many_unknowns.least_squares import fit
from estim.probe.many_unknowns.set_up import set_up
from sims.fixtures import matrix_bank, matrix_network, scalar_chain
from sims.growth import DECAY_BOUNDS, DECAYS, TIMES, decays, decays_jacobian

T = np.linspace(0.0, 3.0, 7)
TRUTH = {"a": 1.0, "rate": 0.5}


def decay(p, t):
    return p["a"] * np.exp(-p["rate"] * t)


def decay_jac(p, t):
    fall = np.exp(-p["rate"] * t)
    return np.column_stack([fall, -p["a"] * t * fall])


def identity(p, bank):
    return np.asarray(p)


def two_tokens():
    return np.array([[[Fraction(0)], [Fraction(k)]] for k in (1, 2, 3)], dtype=object)


@pytest.fixture(scope="module")
def small():
    return recover_parameters(decay, T, 0.01, params=TRUTH, trials=4000, rng=0)


def test_rmse_is_one_over_the_singular_value_where_noise_is_small(small):
    assert small.linear.all()
    assert (np.abs(small.z_scores) < tol.Z_LIMIT).all()
    assert small.failures == 0


def test_curvature_biases_as_box_says():
    found = recover_parameters(decay, T, 0.2, params=TRUTH, jac=decay_jac, trials=6000, rng=1)
    se = found.rmse / math.sqrt(found.trials)
    assert (np.abs(found.bias - found.predicted_bias) < tol.Z_LIMIT * se).all()
    assert abs(found.predicted_bias[1]) > tol.Z_LIMIT * se[1]  # the test could tell it from none


@pytest.mark.parametrize(
    ("t", "bias", "rmse"), [(0.0, 0.398942, 0.707107), (1.0, 0.083315, 0.870649), (2.0, 0.008491, 0.979933)]
)
def test_c9_clipped_mean(t, bias, rmse):
    """An estimate that is not clipped has no clipped share: 71, 31 and 11 standard errors off."""
    found = recover_parameters(identity, None, 0.5, params=[0.5 * t], bounds=(0.0, np.inf), trials=5000, rng=2)
    spread = math.sqrt(rmse**2 - bias**2) / math.sqrt(found.trials)
    assert abs(found.bias[0] / 0.5 - bias) < tol.Z_LIMIT * spread
    assert abs(found.rmse[0] / 0.5 - rmse) < tol.Z_LIMIT * found.rmse_se[0] / 0.5
    share = 0.5 * math.erfc(t / math.sqrt(2.0))
    assert abs(found.clipped_low[0] - share) < tol.Z_LIMIT * math.sqrt(share * (1.0 - share) / found.trials)
    assert found.clipped_high[0] == 0.0
    assert not found.linear[0]


def test_the_breakdown_of_a_clipped_mean_is_where_ten_per_cent_are_lost():
    at = recover_parameters(identity, None, 1.0, params=[3.0], bounds=(0.0, np.inf), trials=2, rng=0).breakdown[0]
    t = 3.0 / at
    upper = 0.5 * math.erfc(t / math.sqrt(2.0))
    density = math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
    assert math.sqrt(1.0 - upper - t * density + t * t * upper) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("jac", [None, decay_jac])
@pytest.mark.parametrize("bounds", [None, ([0.0, 0.0], [1.3, 0.6])])
def test_each_estimate_is_the_one_scipy_finds(jac, bounds):
    """The same trials, one by one, against scipy.optimize.least_squares at tight tolerances."""
    sigma, theta = 0.2, np.array([1.0, 0.5])
    run = set_up(decay, T, sigma, params=TRUTH, jac=jac, bounds=bounds, names=None).problem
    for seed in range(20):
        z = np.random.default_rng(seed).standard_normal(len(T))
        ours = run.theta(fit(run, z).c)
        y = decay(TRUTH, T) + sigma * z
        peer = least_squares(
            lambda p, y=y: (decay({"a": p[0], "rate": p[1]}, T) - y) / sigma,
            theta,
            bounds=(-np.inf, np.inf) if bounds is None else bounds,
            xtol=1e-14, ftol=1e-14, gtol=1e-12,
        )  # fmt: skip
        cost = 0.5 * np.sum(((decay({"a": ours[0], "rate": ours[1]}, T) - y) / sigma) ** 2)
        assert cost <= peer.cost * (1.0 + 1e-9)
        # SciPy stays strictly inside the box: at a bound it stops short of the minimum.
        np.testing.assert_allclose(ours, peer.x, rtol=0.0, atol=1e-6 if bounds is None else 1e-4)


def test_a_linear_model_is_exact_at_any_noise():
    design = np.random.default_rng(0).standard_normal((9, 3))
    covariance = 0.5 * np.eye(9) + 0.5
    found = recover_parameters(lambda p, x: x @ np.asarray(p), design, covariance, params=[1.0, 2.0, 3.0],
                               trials=4000, rng=0)  # fmt: skip
    assert (found.breakdown > 1e6).all()
    assert (np.abs(found.z_scores) < tol.Z_LIMIT).all()
    floors = np.sqrt(np.diagonal(np.linalg.inv(design.T @ np.linalg.solve(covariance, design))))
    np.testing.assert_allclose(found.coordinate_linear_rmse, floors, rtol=1e-10)
    assert (np.abs(found.coordinate_rmse - floors) < tol.Z_LIMIT * found.coordinate_rmse_se).all()


def test_what_is_not_seen_has_no_error_and_says_so():
    found = recover_parameters(lambda p, x: (p["a"] + p["b"]) * x, np.array([1.0, 2.0, 3.0]), 0.1,
                               params={"a": 1.0, "b": 2.0}, trials=2000, rng=0)  # fmt: skip
    assert np.isnan(found.rmse[1])
    assert found.linear_rmse[1] == np.inf
    assert np.isnan(found.coordinate_rmse).all()
    assert abs(found.z_scores[0]) < tol.Z_LIMIT
    assert any("do not resolve are held" in note for note in found.notes)


def test_a_fitted_result_is_recovered_with_its_own_derivatives():
    x = sm.add_constant(np.linspace(0.0, 1.0, 12))
    result = sm.GLM(np.round(np.exp(x @ [2.0, 1.0])), x, family=sm.families.Poisson()).fit()
    found = recover_parameters(result, None, 0.02, trials=2000, rng=0)
    assert found.linear.all()
    assert (np.abs(found.z_scores) < tol.Z_LIMIT).all()


def test_a_chain_modulo_its_gauge():
    """Two layers of width one: query times key, twice, and the product of the values are what can be known."""
    network = scalar_chain(2, Fraction(1, 2))
    found = recover_parameters(network, two_tokens(), 1e-5, trials=1000, rng=0)
    assert [str(s) for s in found.status] == ["seen"] * 3 + ["gauge"] * 3
    assert found.linear[:3].all()
    assert (np.abs(found.z_scores[:3]) < tol.Z_LIMIT).all()
    assert found.coordinate_names == ("score0[0, 0]", "score1[0, 0]", "value_map[0, 0]")
    np.testing.assert_allclose(found.coordinate_values, [0.25, 0.25, 1.0])
    off = np.abs(found.coordinate_rmse - found.coordinate_linear_rmse)
    assert (off < tol.Z_LIMIT * found.coordinate_rmse_se).all()


def test_the_matrix_fixture_shows_its_spectrum_and_departs_where_theory_says():
    network, bank = matrix_network(), matrix_bank()
    near = recover_parameters(network, bank, 1e-9, trials=160, rng=0)
    assert near.linear[:52].all()
    assert (np.abs(near.z_scores[:52]) < tol.Z_LIMIT).all()
    far = recover_parameters(network, bank, 6e-7, trials=120, rng=0)
    assert near.failures == far.failures == 0
    np.testing.assert_allclose(far.breakdown[:52], near.breakdown[:52] / 600.0, rtol=1e-5)
    linear, broken = far.linear[:52], far.breakdown[:52] < 0.7
    assert (np.abs(far.z_scores[:52][linear]) < tol.Z_LIMIT).all()
    assert broken.any()
    assert (far.z_scores[:52][broken] > tol.Z_LIMIT).any()
    # Both biases are of the effective parameters; that of the factors, a hundred times larger, would be seen.
    se = far.rmse[:52] / math.sqrt(far.trials)
    assert (np.abs(far.bias - far.predicted_bias)[:52] < tol.Z_LIMIT * se).all()


def test_curvature_is_that_of_a_cubic():
    """For one reading theta + a theta^2 + b theta^3 at 0: q = 3 a^2, and the mean square is 1 + (15 a^2 - 6 b) s^2."""
    a, b, s = 0.3, -0.2, 0.01
    start = set_up(lambda p, _: p + a * p**2 + b * p**3, None, s, params=0.0, jac=None, bounds=None, names=None)
    np.testing.assert_allclose(start.curved.bias, -a * s, rtol=1e-5)
    np.testing.assert_allclose(start.curved.squared, 3.0 * a**2 * s**2, rtol=1e-5)
    np.testing.assert_allclose(start.curved.mean_square, (15.0 * a**2 - 6.0 * b) * s**2, rtol=1e-3)
    np.testing.assert_allclose(start.breakdown, math.sqrt(0.21 / (15.0 * a**2 - 6.0 * b)) / s, rtol=1e-3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_curvature_across_the_tangent_is_that_of_a_circle(sign):
    """The angle of a point of the plane at distance 1: its error is z1 - z1 z2 + z1 z2^2 - z1^3 / 3."""
    start = set_up(lambda p, _: np.array([np.cos(sign * p), np.sin(sign * p)]), None, 0.01, params=0.4, jac=None,
                   bounds=None, names=None)  # fmt: skip
    np.testing.assert_allclose(start.curved.bias, 0.0, atol=1e-9)
    np.testing.assert_allclose([start.curved.squared, start.curved.mean_square], 1e-4, rtol=1e-3)


def test_third_order_shows_in_the_rmse():
    """theta + theta^3 at 0 has no bias and no second order, and its mean square is 1 - 6 s^2 + 105 s^4 - 3150 s^6."""
    found = recover_parameters(lambda p, _: p + p**3, None, 0.1, params=0.0, trials=20_000, rng=0)
    expected = -0.06 + 0.0105 - 0.00315
    assert found.rmse[0] ** 2 / 0.01 - 1.0 == pytest.approx(expected, abs=tol.Z_LIMIT * 20.0 * found.rmse_se[0])
    assert found.breakdown[0] == pytest.approx(math.sqrt(0.19 / 6.0) / 0.1, rel=1e-3)


def concentration(p, t):
    if min(p) < 0.0:
        raise ValueError("negative concentration")
    return p[0] * np.exp(-t) + p[1] * np.exp(-2.0 * t)


def test_a_model_is_not_called_outside_its_bounds():
    """Differences at a bound look inside: else every estimate there would be a failure."""
    found = recover_parameters(
        lambda p, t: concentration([float(x) for x in p], t), T, 0.2, params=[0.2, 0.3], bounds=(0.0, np.inf),
        trials=300, rng=0,
    )  # fmt: skip
    assert (found.clipped_low > 0.05).all()
    assert found.failures == 0


@pytest.mark.parametrize("sigma", [0.05, 0.5])
def test_nonnegative_least_squares_is_that_of_scipy(sigma):
    """A linear model in a nonnegative box: the same RMSE as scipy.optimize.nnls on the same noise."""
    design = np.random.default_rng(3).standard_normal((8, 3))
    truth = np.array([0.1, 0.0, 1.0])
    start = set_up(lambda p, x: x @ p, design, sigma, params=truth, jac=None, bounds=(0.0, np.inf), names=None)
    for seed in range(50):
        z = np.random.default_rng(seed).standard_normal(8)
        found = fit(start.problem, z)
        assert found.settled
        np.testing.assert_allclose(
            start.problem.theta(found.c), nnls(design, design @ truth + sigma * z)[0], rtol=0.0, atol=1e-9
        )


def test_orthogonal_nonnegative_parameters_are_clipped_means():
    """With an orthogonal design each parameter is a clipped mean of its own: closed forms for all of them at once.

    Without the bounds the bias of the first is 48 standard errors off.
    """
    t = np.array([0.0, 0.5, 1.0, 2.0])
    found = recover_parameters(lambda p, x: x @ p, np.eye(4), 0.3, params=0.3 * t, bounds=(0.0, np.inf),
                               trials=5000, rng=4)  # fmt: skip
    density, above = norm.pdf(t), norm.cdf(t)
    bias, square = density - t * norm.sf(t), above - t * density + t**2 * norm.sf(t)
    se = 0.3 * np.sqrt((square - bias**2) / found.trials)
    assert (np.abs(found.coordinate_bias - 0.3 * bias) < tol.Z_LIMIT * se).all()
    assert (np.abs(found.coordinate_rmse - 0.3 * np.sqrt(square)) < tol.Z_LIMIT * found.coordinate_rmse_se).all()


@pytest.mark.parametrize("sigma", [1e-3, 1e-2])
def test_narrow_valleys_of_a_sloppy_model_are_followed_to_their_end(sigma):
    """Sums of exponentials, far beyond the linear regime: no sum of squares above SciPy's, and every fit settles."""
    start = set_up(
        decays, TIMES, sigma, params=DECAYS, jac=decays_jacobian, bounds=DECAY_BOUNDS, names=None
    ).problem  # fmt: skip
    for seed in range(15):
        z = np.random.default_rng(seed).standard_normal(len(TIMES))
        found = fit(start, z)
        assert found.settled
        peer = least_squares(
            lambda c, z=z: start.residual(c, z), np.clip(np.zeros(6), start.lower, start.upper),
            jac=start.jacobian, bounds=(start.lower, start.upper), xtol=1e-12, ftol=1e-12, gtol=1e-10, max_nfev=2000,
        )  # fmt: skip
        assert np.sum(start.residual(found.c, z) ** 2) <= 2.0 * peer.cost + 1e-4


def test_bounds_by_name():
    box = ({"a": 0.5}, {"rate": 0.6})
    found = recover_parameters(decay, T, 0.1, params=TRUTH, bounds=box, trials=50, rng=0)
    np.testing.assert_array_equal(found.lower, [0.5, -np.inf])
    assert found == recover_parameters(
        decay, T, 0.1, params=TRUTH, bounds=([0.5, -np.inf], [np.inf, 0.6]), trials=50, rng=0
    )


def test_tiny_units_change_nothing():
    """Errors of 1e-90 and their fourth powers: the same ratios as in units of one."""

    def tiny(p, t):
        return decay({"a": 1e90 * p["a"], "rate": 1e90 * p["rate"]}, t)

    kwargs = {"trials": 100, "rng": 0}
    one = recover_parameters(decay, T, 0.01, params=TRUTH, **kwargs)
    other = recover_parameters(tiny, T, 0.01, params={"a": 1e-90, "rate": 0.5e-90}, **kwargs)
    np.testing.assert_allclose(other.z_scores, one.z_scores, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("bounds", [None, (0.0, 5.0)])
@pytest.mark.parametrize(("sigma", "rtol"), [(0.1, 1e-5), (1e-4, 1e-3), (1e-6, 0.1)])
def test_a_model_in_float32_is_fitted_to_its_own_rounding(sigma, rtol, bounds):
    """By steps and to a gradient that are float64's no fit settled."""

    def short(p, t):
        p = np.asarray(p).astype(np.float32)
        return p[0] * np.exp(-p[1] * t.astype(np.float32))

    kwargs = {"params": [1.0, 0.5], "trials": 64, "rng": 0, "bounds": bounds}
    found = recover_parameters(short, T, sigma, **kwargs)
    exact = recover_parameters(lambda p, t: p[0] * np.exp(-p[1] * t), T, sigma, **kwargs)
    assert found.failures == 0
    np.testing.assert_allclose(found.rmse, exact.rmse, rtol=rtol)
    np.testing.assert_allclose(found.breakdown, exact.breakdown, rtol=0.02)
    assert any("Readings are rounded" in note for note in found.notes) == (sigma < 0.1)
    with pytest.raises(ValueError, match="sigma must stay above the rounding of the readings"):
        recover_parameters(short, T, 1e-8, **kwargs)


@pytest.mark.parametrize("bounds", [None, ([-1e300, 0.0, -np.inf], np.inf)])
@pytest.mark.parametrize("decades", [(-20, 3, 15), (69, -94, 54)])
def test_units_decades_apart_change_no_estimate(decades, bounds):
    """The same noise, the same estimates in other units; a basis of rounded directions lost the weakest altogether."""
    unit, truth = 10.0 ** np.array(decades, dtype=float), np.array([1.0, 0.5, 0.3])

    def model(p, t):
        return p[0] * np.exp(-p[1] * t) + p[2]

    kwargs = {"trials": 200, "rng": 0, "bounds": bounds}
    one = recover_parameters(model, T, 0.003, params=truth, **kwargs)
    other = recover_parameters(lambda p, t: model(p / unit, t), T, 0.003, params=unit * truth, **kwargs)
    for name in ("linear_rmse", "bias", "rmse", "rmse_se"):
        ours, same = (getattr(found, f"coordinate_{name}") for found in (other, one))
        np.testing.assert_allclose(ours / unit, same, rtol=1e-5, err_msg=name)
    assert (np.abs(other.rmse / other.linear_rmse - 1.0) < 0.5).all()  # 1e22 by the rounding of directions
    np.testing.assert_allclose(other.clipped_low, one.clipped_low)


def test_an_estimate_without_a_finite_rmse_says_so():
    found = recover_parameters(lambda p, t: p[0] * np.exp(-p[1] * t), T, 0.6, params=[1.0, 2.0], trials=400, rng=0,
                               bounds=(0.0, np.inf))  # fmt: skip
    assert any("A few trials far off decide the RMSE" in note for note in found.notes)


def test_a_jacobian_that_raises_at_a_trial_point_is_a_failure():
    def jac(p, t):
        if p["rate"] > 0.55:
            raise RuntimeError("too fast")
        return decay_jac(p, t)

    found = recover_parameters(decay, T, 0.1, params=TRUTH, jac=jac, trials=50, rng=0)
    assert 0 < found.failures < 50


def test_noise_that_overflows_the_model_is_survived():
    found = recover_parameters(decay, T, 1e6, params=TRUTH, trials=20, rng=0)
    assert np.isfinite(found.rmse).all()


def test_no_bit_depends_on_workers_or_on_the_seeds_spelling():
    kwargs = {"params": TRUTH, "trials": 200}
    first = recover_parameters(decay, T, 0.05, rng=3, **kwargs)
    assert recover_parameters(decay, T, 0.05, rng=np.random.default_rng(3), workers=2, **kwargs) == first
    assert recover_parameters(decay, T, 0.05, rng=3, workers=map, **kwargs) == first
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:  # a fork would take other tests' threads
        assert recover_parameters(decay, T, 0.05, rng=3, workers=pool.map, **kwargs) == first


def test_the_record_pickles_copies_and_round_trips(small):
    for other in (pickle.loads(pickle.dumps(small)), copy.copy(small), ParameterRecovery.from_json(small.to_json())):
        assert other == small
    assert not small.rmse.flags.writeable


def test_tables_and_picture(small):
    text = str(small.summary())
    assert "Recovery of many parameters under noise" in text
    assert "4000, 0 did not settle" in text
    assert list(small.to_frame()["status"]) == ["seen", "seen"]
    above, below = small.plot().axes
    assert above.get_ylabel() == "RMSE along the direction"
    assert [t.get_text() for t in below.get_legend().get_texts()] == [
        "theory: linear",
        "theory: close to breakdown or beyond",
    ]


def test_failures_count_in_every_figure():
    """A model that fails everywhere but at the truth: no step is accepted, nothing is dropped."""

    def brittle(p, x):
        return p[0] * x if abs(p[0] - 1.0) < 0.02 else np.full(3, np.nan)

    found = recover_parameters(brittle, np.array([1.0, 2.0, 3.0]), 10.0, params=[1.0], trials=50, rng=0)
    assert found.failures == 50
    assert found.trials == 50
    assert np.isfinite(found.rmse).all()
    assert any("50 of 50 fits did not settle" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"trials": 1}, ValueError, r"trials must be at least 2, .* below 2\^63; got 1"),
        ({"trials": 2.5}, TypeError, "trials must be an integer; got 2.5"),
        ({"sigma": 0.0}, ValueError, "sigma must be positive; got 0.0"),
        ({"sigma": [0.0, *[1.0] * 6]}, ValueError, "sigma must leave noise in every reading"),
        ({"bounds": 3.0}, TypeError, r"bounds must be a pair \(lower, upper\)"),
        ({"bounds": {"a": (0.0, 1.0)}}, TypeError, "by name: a mapping of lower ends, and one of upper ends"),
        ({"bounds": (False, [2.0, 2.0])}, TypeError, "bounds, the lower ones, must be real numbers; got False"),
        ({"bounds": (0.0, "x")}, TypeError, "bounds, the upper ones, must be real numbers; got 'x'"),
        ({"bounds": ([0.0] * 3, 1.0)}, ValueError, r"one entry for each of the 2 parameters; got shape \(3,\)"),
        (
            {"bounds": (np.nan, 1.0)},
            ValueError,
            r"bounds, the lower ones, must not be NaN \(infinite where there is none\)",
        ),
        ({"bounds": (2.0, 2.0)}, ValueError, "lower below upper, each for all parameters; got 2 and 2 for a"),
        ({"bounds": (0.6, 2.0)}, ValueError, r"rate = 0.5 is outside \[0.6, 2\]"),
        ({"bounds": ({"b": 0.0}, 2.0)}, ValueError, "must name parameters; got 'b', and the names are a, rate"),
        ({"sigma": 1e-17}, ValueError, r"sigma must stay above the rounding of the readings, which is about \d"),
        ({"workers": lambda f, items: "x"}, TypeError, "must yield what the function it is given returns; got 'x'"),
        ({"workers": lambda f, items: [*map(f, items)] * 2}, ValueError, "for each of 1 calls; it yielded 2"),
        ({"workers": 0}, ValueError, "workers must be a positive integer"),
        ({"rng": -1}, ValueError, "rng must be None, a nonnegative seed"),
        ({"params": None}, TypeError, "params must be given with a callable model; got None"),
        ({"model": 3.0}, TypeError, "model must be a callable"),
        ({"model": lambda p, x: p["a"] * 0.0 * x}, ValueError, "must resolve a direction at params"),
        ({"workers": lambda f, items: []}, ValueError, "must yield one result for each of 1 calls; it yielded 0"),
    ],
)
def test_bad_input(change, error, text):
    given = {"model": decay, "bank": T, "sigma": 0.1, "params": TRUTH, "trials": 10, "rng": 0, **change}
    model, bank, sigma = (given.pop(name) for name in ("model", "bank", "sigma"))
    with pytest.raises(error, match=text):
        recover_parameters(model, bank, sigma, **given)


def test_a_box_of_a_networks_factors_is_refused():
    network = Network([Layer([["1/2"]], [[1]], [[1]])])
    with pytest.raises(ValueError, match=r"bounds must be left out with an attention.Network"):
        recover_parameters(network, two_tokens(), 0.1, bounds=(0.0, 1.0))


def test_scipys_bounds_are_bounds():
    box = Bounds([0.0, 0.0], [2.0, 2.0])
    found = recover_parameters(decay, T, 0.1, params=TRUTH, bounds=box, trials=50, rng=0)
    assert found == recover_parameters(decay, T, 0.1, params=TRUTH, bounds=(0.0, 2.0), trials=50, rng=0)


@pytest.mark.parametrize("upper", [np.inf, 1e9])
def test_curvature_where_a_model_has_one_side_only_is_not_known_and_says_so(upper):
    def decay(p, t):
        if p["rate"] < 0.0:
            raise ValueError("no negative rates")
        return p["a"] * np.exp(-p["rate"] * t)

    t = np.linspace(0.0, 3.0, 7)
    given = {"params": {"a": 1.0, "rate": 0.0}, "trials": 10, "rng": 0}
    found = recover_parameters(decay, t, 0.01, bounds=({"rate": 0.0}, {"rate": upper}), **given)
    assert np.isnan(found.predicted_bias).all()
    assert (found.breakdown == 0.0).all()
    assert "the model cannot be evaluated on both sides of it" in found.notes[-1]
    free = recover_parameters(decay, t, 0.01, **given)
    assert np.isnan(free.breakdown).all()
    assert not free.linear.any()


@pytest.mark.parametrize("bounds", [None, (0.0, np.inf)])
def test_units_in_which_float64_knows_no_linear_error_are_refused(bounds):
    """The rates' effect is 1e400 times that of the amplitudes."""
    with pytest.raises(ValueError, match=r"float64 knows every singular value; 1 of 2 resolved directions"):
        recover_parameters(
            lambda p, t: p["a"] / 1e200 * np.exp(-p["rate"] * 1e200 * t), np.linspace(0.1, 2.0, 9), 0.1,
            params={"a": 1e200, "rate": 0.5e-200}, bounds=bounds, trials=4, rng=0,
        )  # fmt: skip


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("small", [1e-3, 1e-30, 1e-60])
def test_curvature_at_a_parameter_next_to_nothing_is_that_at_zero(small, real):
    def model(p, x):
        p = [float(entry) for entry in p] if real else p
        return p[0] * x + np.sin(p[1]) * x**2

    x = np.linspace(0.1, 2.0, 9)
    near, zero = (recover_parameters(model, x, 0.1, params=[1.0, at], trials=20, rng=0) for at in (small, 0.0))
    np.testing.assert_allclose(near.breakdown, zero.breakdown, rtol=1e-3)
    np.testing.assert_allclose(near.rmse, zero.rmse, rtol=1e-3)
