import pickle

import numpy as np
import pytest
import statsmodels.api as sm

import estim
from estim.attention import Layer, Network

X = np.array([1.0, 2.0, 3.0])
PARAMS = {"a": 1.0, "b": 0.5}


def decay(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def sine(p, x):
    return np.sin(p[0] * x)


class TestResponseAlong:
    def test_is_the_projected_change_of_the_readings(self):
        response = estim.response_along(decay, X, {"b": 3.0}, params=PARAMS, upper=2.0)
        slope = -X * np.exp(-0.5 * X)
        for theta in (0.0, 1e-6, 0.3, 2.0):
            change = np.exp(-(0.5 + theta) * X) - np.exp(-0.5 * X)
            expected = slope @ change / np.linalg.norm(slope)
            assert response.excess(theta) == pytest.approx(expected, rel=1e-12, abs=4 * response.rounding)
        assert response.slope(0.0) == pytest.approx(np.linalg.norm(slope), rel=1e-7)
        assert response.increasing
        assert response.baseline == 0.0

    def test_is_in_standard_deviations_with_sigma(self):
        sigma = np.array([0.1, 0.2, 0.5])
        slope = X * np.exp(-0.5 * X)
        for noise in (sigma, np.diag(sigma**2)):
            response = estim.response_along(decay, X, [0.0, 1.0], params=PARAMS, upper=1.0, sigma=noise)
            assert response.slope(0.0) == pytest.approx(np.linalg.norm(slope / sigma), rel=1e-7)

    def test_recover_shows_where_the_linear_floor_stops_being_true(self):
        response = estim.response_along(decay, X, {"b": 1.0}, params=PARAMS, upper=3.0, sigma=0.01)
        found = estim.recover(response, 0.5, [0.1, 20.0], method="exact")
        assert found.relative_rmse[0] == pytest.approx(found.linear_rmse[0] / 0.5, rel=1e-2)
        assert found.relative_rmse[1] != pytest.approx(found.linear_rmse[1] / 0.5, rel=0.1)

    def test_may_start_below_zero(self):
        response = estim.response_along(decay, X, {"a": 1.0}, params=PARAMS, lower=-0.5, upper=0.5)
        assert response.excess(-0.5) == 0.0
        assert response.excess(0.5) == pytest.approx(np.linalg.norm(np.exp(-0.5 * X)), rel=1e-12)

    def test_that_turns_says_up_to_where(self):
        with pytest.raises(ValueError, match=r"turns: it rises up to theta = 0\.508752 only; give upper no larger"):
            estim.response_along(sine, X, [1.0], params=[0.1], upper=3.0)
        assert estim.response_along(sine, X, [1.0], params=[0.1], upper=0.5087).upper == 0.5087

    def test_a_direction_without_slope_is_seen_by_its_far_end(self):
        response = estim.response_along(lambda p, x: 1 + p[0] ** 2 * x, X, [1.0], params=[0.0], upper=1.0)
        assert response.excess(0.5) == pytest.approx(0.25 * np.linalg.norm(X), rel=1e-12)

    def test_a_direction_that_nothing_shows_is_refused(self):
        with pytest.raises(ValueError, match="must change along direction; they do not for theta from 0 to 1"):
            estim.response_along(lambda p, x: (p[0] + p[1]) * x, X, [1.0, -1.0], params=[0.5, 0.25], upper=1.0)

    def test_of_a_network_pickles(self):
        rng = np.random.default_rng(0)
        layer = Layer(rng.normal(size=(2, 1)), rng.normal(size=(2, 1)), np.eye(2))
        network, bank = Network([layer, layer]), rng.normal(size=(3, 2, 2))
        direction = np.eye(len(network.parameters))[0]
        response = estim.response_along(network, bank, direction, upper=0.1)
        moved = network.with_parameters(network.parameters + 0.1 * direction)(bank) - network(bank)
        ahead = network.jacobian(bank) @ direction
        assert response.excess(0.1) == pytest.approx(ahead @ moved.ravel() / np.linalg.norm(ahead), rel=1e-9)
        assert pickle.loads(pickle.dumps(response)).excess(0.1) == response.excess(0.1)

    def test_of_batches_and_of_fitted_results(self):
        whole = estim.response_along(decay, X, {"b": 1.0}, params=PARAMS, upper=1.0)
        parts = estim.response_along(
            decay, estim.Batches(lambda: np.split(X, [1])), {"b": 1.0}, params=PARAMS, upper=1.0
        )
        assert parts.excess(0.7) == pytest.approx(whole.excess(0.7), rel=1e-13)
        design = sm.add_constant(X)
        fitted = sm.OLS([1.0, 2.0, 2.5], design).fit()
        response = estim.response_along(fitted, None, {"x1": 1.0}, upper=2.0)
        assert response.excess(2.0) == pytest.approx(2 * np.linalg.norm(X), rel=1e-12)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"direction": [0.0, 0.0]}, "direction must not be 0 in all of its 2 entries"),
            ({"direction": [1.0]}, r"direction must have one entry for each of the 2 parameters; got shape \(1,\)"),
            ({"direction": {"c": 1.0}}, "direction names 'c', which is no parameter; the names are a, b"),
            ({"upper": np.inf}, "lower and upper must be finite, lower below upper; got 0.0 and inf"),
            ({"lower": 2.0}, "lower below upper; got 2.0 and 1.0"),
            ({"sigma": [1.0, 0.0, 1.0]}, "sigma must leave noise in every reading here"),
        ],
    )
    def test_arguments_must_fit(self, changes, message):
        arguments = {"direction": {"b": 1.0}, "upper": 1.0, **changes}
        with pytest.raises(ValueError, match=message):
            estim.response_along(decay, X, params=PARAMS, **arguments)

    def test_a_domain_without_readings_is_named(self):
        with pytest.raises(ValueError, match=r"must be finite along direction; they are not at theta = 0\.9"):
            estim.response_along(lambda p, x: np.sqrt(1.9 - p[0]) * x, X, [1.0], params=[1.0], upper=2.0)

    def test_a_model_that_only_has_a_jacobian_is_refused(self):
        class Held:
            parameters = np.ones(1)

            def jacobian(self, bank):
                return np.ones((3, 1))

        with pytest.raises(TypeError, match=r"model must be a callable .* to be evaluated elsewhere; got Held"):
            estim.response_along(Held(), X, [1.0], upper=1.0)


class TestLinearity:
    def test_compares_predicted_with_actual_shift(self):
        found = estim.linearity(decay, X, {"b": 0.2}, 0.01, params=PARAMS)
        expected = 20 * X * np.exp(-0.5 * X)
        actual = 100 * (np.exp(-0.5 * X) - np.exp(-0.7 * X))
        assert found.predicted == pytest.approx(np.linalg.norm(expected), rel=1e-12)
        assert found.actual == pytest.approx(np.linalg.norm(actual), rel=1e-12)
        assert found.ratio == pytest.approx(np.linalg.norm(actual) / np.linalg.norm(expected), rel=1e-12)
        assert found.difference == pytest.approx(np.linalg.norm(actual - expected), rel=1e-12)
        assert 0.99 < found.cosine < 1.0
        assert estim.probe.along.Linearity.from_json(found.to_json()) == found

    def test_a_linear_model_is_linear_within_the_error(self):
        found = estim.linearity(lambda p, x: p["a"] * x + p["b"], X, {"a": 3.0, "b": 1e6}, 0.5, params=PARAMS)
        assert found.difference <= found.error
        assert found.ratio == pytest.approx(1.0, rel=1e-12)

    def test_a_change_seen_at_second_order_only(self):
        found = estim.linearity(lambda p, x: p[0] ** 2 * x, X, [0.1], 0.01, params=[0.0])
        assert found.ratio == np.inf
        assert np.isnan(found.cosine)
        assert found.actual == pytest.approx(np.linalg.norm(X), rel=1e-12)

    def test_a_change_that_nothing_shows(self):
        found = estim.linearity(lambda p, x: (p[0] + p[1]) * x, X, [0.25, -0.25], 0.01, params=[0.5, 0.25])
        assert np.isnan(found.ratio)
        assert np.isnan(found.cosine)
        assert found.predicted <= found.error
        assert found.actual <= found.error

    def test_a_correlated_noise_whitens_both(self):
        sigma = 0.01 * (np.eye(3) + 0.5)
        found = estim.linearity(decay, X, {"a": 0.1}, sigma, params=PARAMS)
        change = 0.1 * np.exp(-0.5 * X)
        assert found.predicted == pytest.approx(np.sqrt(change @ np.linalg.solve(sigma, change)), rel=1e-12)

    def test_readings_that_end_are_named(self):
        with pytest.raises(ValueError, match="readings must be finite after the change; reading 0 is nan there"):
            estim.linearity(lambda p, x: np.sqrt(p[0]) * x, X, [-2.0], 1.0, params=[1.0])
