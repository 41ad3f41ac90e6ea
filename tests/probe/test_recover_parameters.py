"""Many unknowns: C9 and closed forms, singular values against RMSE, curvature, gauges, bounds, and bad input."""

import copy
import math
import pickle
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import Bounds, least_squares

import tests.tolerances as tol
from estim.attention import Layer, Network
from estim.probe.least_squares import fit
from estim.probe.parameter_recovery import ParameterRecovery
from estim.probe.trials import recover_parameters
from sims.fixtures import matrix_bank, matrix_network, scalar_chain

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
    found = recover_parameters(identity, None, 0.5, params=[0.5 * t], bounds=(0.0, np.inf), trials=20_000, rng=2)
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
    run = _problem(decay, T, sigma, TRUTH, bounds, jac)
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


def _problem(model, bank, sigma, params, bounds, jac):
    from estim.probe import trials

    caught = []
    original = trials._summed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "_summed", lambda run, *rest: caught.append(run.problem) or original(run, *rest))
        recover_parameters(model, bank, sigma, params=params, bounds=bounds, jac=jac, trials=2, rng=0)
    return caught[0]


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
    assert near.failures == 0
    far = recover_parameters(network, bank, 1e-6, trials=64, rng=0)
    np.testing.assert_allclose(far.breakdown[:52], near.breakdown[:52] / 1000.0, rtol=1e-6)
    broken = far.breakdown[:52] < 0.1
    assert broken.any()
    assert np.median((far.rmse / far.linear_rmse)[:52][broken]) > 1.1


def test_no_bit_depends_on_workers_or_on_the_seeds_spelling():
    kwargs = {"params": TRUTH, "trials": 200}
    first = recover_parameters(decay, T, 0.05, rng=3, **kwargs)
    assert recover_parameters(decay, T, 0.05, rng=np.random.default_rng(3), workers=2, **kwargs) == first
    assert recover_parameters(decay, T, 0.05, rng=3, workers=map, **kwargs) == first
    with ProcessPoolExecutor(2) as pool:
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
        ({"trials": 1}, ValueError, "trials must be at least 2, for a standard error; got 1"),
        ({"trials": 2.5}, TypeError, "trials must be an integer; got 2.5"),
        ({"sigma": 0.0}, ValueError, "sigma must be positive; got 0.0"),
        ({"sigma": [0.0, *[1.0] * 6]}, ValueError, "sigma must leave noise in every reading"),
        ({"bounds": 3.0}, TypeError, r"bounds must be a pair \(lower, upper\)"),
        ({"bounds": (0.0, "x")}, TypeError, "bounds must be real; got dtype <U1 for the upper ones"),
        ({"bounds": ([0.0] * 3, 1.0)}, ValueError, r"one entry for each of the 2 parameters; got shape \(3,\)"),
        ({"bounds": (np.nan, 1.0)}, ValueError, "bounds must not be NaN; got one in the lower ones"),
        ({"bounds": (2.0, 2.0)}, ValueError, "lower below upper; got 2 and 2 for a"),
        ({"bounds": (0.6, 2.0)}, ValueError, r"rate = 0.5 is outside \[0.6, 2\]"),
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
