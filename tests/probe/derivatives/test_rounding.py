import numpy as np
import pytest

from estim.attention import Layer, Network
from estim.probe.derivatives.rounding import EPS, error_by_moving
from estim.probe.model.networks import jacobian_with_error


@pytest.mark.parametrize("rows", [8, 9])
def test_columns_of_nothing_but_rounding_leave_the_others_alone(rows):
    rng = np.random.default_rng(4)
    values = np.hstack([1.0 + rng.random((rows, 2)), np.zeros((rows, 1)), 1e-17 * rng.standard_normal((rows, 5))])
    sides = [values + 1e-17 * rng.standard_normal(values.shape) * (np.arange(8) > 2) for _ in range(2)]
    error = error_by_moving(values, *sides)
    np.testing.assert_array_equal(error[:, :2], 8.0 * EPS * values[:, :2])
    assert (error[:, 2] == 0.0).all()
    assert (error[:, 3:] > 1e-18).all()


def test_a_collapsed_layer_of_a_large_network_leaves_the_first_one_resolved(monkeypatch):
    monkeypatch.setattr("estim.probe.model.networks.MOST_BALLS", 0)
    rng = np.random.default_rng(0)
    layers = [Layer(*(rng.standard_normal(shape) for shape in ((3, 2), (3, 2), (3, 3)))) for _ in range(4)]
    network = Network([Layer(1e-3 * np.array(w.query), 1e-3 * np.array(w.key), w.value) for w in layers])
    jacobian, error, how, _ = jacobian_with_error(network, rng.standard_normal((12, 4, 3)))
    assert how == "exact"
    first = slice(0, 12)  # query and key of the first layer; those of the last three are below rounding
    assert np.linalg.norm(error[:, first]) < 1e-8 * np.linalg.norm(jacobian[:, first])
