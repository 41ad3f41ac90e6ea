"""The one-unknown response: its excess keeps its digits at every depth, and what cannot be a response is named."""

import pickle

import mpmath
import numpy as np
import pytest

import estim
from estim.attention import Layer, Network, Normalizer
from sims.fixtures import recovery_bank, scalar_chain
from tests.attention import reference
from tests.attention.cases import eighths, network

#: A few roundings of float64, as a response promises.
EXCESS_RTOL = 1e-15


def exact_excess(made, bank, layer, theta, digits):
    """Return the excess and its derivative by mpmath, query and key of one layer multiplied by theta."""
    with mpmath.workdps(digits):
        layers = reference.factors(made)
        query, key, value = layers[layer]

        def mean(t):
            turned = tuple([[t * x for x in row] for row in factor] for factor in (query, key))
            moved = reference.bank_readings(made, [*layers[:layer], (*turned, value), *layers[layer + 1 :]], bank)
            return sum(moved) / len(moved)

        t = mpmath.mpf(theta)
        step = t * mpmath.mpf(10) ** (-digits // 3)
        return mean(t) - mean(mpmath.mpf(0)), (mean(t + step) - mean(t - step)) / (2 * step)


@pytest.mark.parametrize(
    ("depth", "digits", "right"), [(2, 60, 1.566380111027294755726041e-8), (3, 120, 3.8e-24), (4, 280, 5.6e-71)]
)
def test_chains_of_any_depth_lose_nothing(depth, digits, right):
    made, bank = scalar_chain(depth, "0.05", last=1), recovery_bank()
    response = made.mean_response(bank, upper="0.15")
    assert float(response.excess(0.05)) == pytest.approx(right, rel=EXCESS_RTOL if depth == 2 else 0.01)
    for theta in (1e-6, 0.01, 0.05, 0.1234, 0.15):
        excess, slope = exact_excess(made, bank, depth - 1, theta, digits)
        assert float(response.excess(theta)) == pytest.approx(float(excess), rel=EXCESS_RTOL, abs=0)
        assert float(response.slope(theta)) == pytest.approx(float(slope), rel=4 * EXCESS_RTOL, abs=0)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_chains_recover(depth):
    response = scalar_chain(depth, "0.05", last=1).mean_response(recovery_bank(), upper="0.15")
    sigma = 0.01 * float(response.excess(0.05))
    found = estim.recover(response, 0.05, [sigma], method="exact")
    # A hundredth of the excess is half of that in theta, as the excess grows like theta^2.
    assert found.relative_rmse[0] == pytest.approx(0.005, rel=0.01)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "softplus", "quadratic", "cosh"])
@pytest.mark.parametrize("layer", [0, 1])
def test_matrix_networks_along_either_layer(name, layer):
    rng = np.random.default_rng(20261141)
    made, bank = network(rng, (2, 2, 2), (1, 2), name), eighths(rng, (2, 3, 2))
    response = made.mean_response(bank, layer=layer, upper=0.25)
    for theta in (1e-4, 0.1, 0.25):
        excess, slope = exact_excess(made, bank, layer, theta, 80)
        assert float(response.excess(theta)) == pytest.approx(float(excess), rel=EXCESS_RTOL, abs=0)
        assert float(response.slope(theta)) == pytest.approx(float(slope), rel=4 * EXCESS_RTOL, abs=0)


def test_a_wide_domain_takes_several_polynomials():
    made, bank = scalar_chain(2, "0.5", last=1), recovery_bank()
    response = made.mean_response(bank, upper=8)
    for theta in (0.01, 1.0, 3.7, 6.0, 8.0):
        excess, _ = exact_excess(made, bank, 1, theta, 80)
        assert float(response.excess(theta)) == pytest.approx(float(excess), rel=EXCESS_RTOL, abs=0)


def test_excess_is_vectorised_and_pickles():
    response = scalar_chain(3, "0.05", last=1).mean_response(recovery_bank(), upper="0.15")
    theta = np.linspace(0, 0.15, 7)
    values = response.excess(theta)
    assert values.shape == (7,)
    assert values[0] == 0
    assert (pickle.loads(pickle.dumps(response)).excess(theta) == values).all()


def test_a_decreasing_mean_is_a_response_too():
    made = Network([scalar_chain(1, "0.05").layers[0], Layer([[1]], [[1]], [[-1]])])
    response = made.mean_response(recovery_bank(), upper="0.15")
    assert not response.increasing
    assert float(response.excess(0.05)) == pytest.approx(-1.566380111027294755726041e-8, rel=EXCESS_RTOL)


def test_ragged_banks_average_all_readings():
    made = scalar_chain(1, 1)
    response = made.mean_response([[[0], [2]], [[1]], [[0], [1]]], upper=1)
    outputs = Network([made.layers[0].scaled("0.3")])([[[0], [2]], [[1]], [[0], [1]]])
    assert float(response(0.3)) == pytest.approx(np.concatenate(outputs).mean(), rel=1e-14)


def test_what_cannot_be_a_response_is_named():
    made = scalar_chain(2, "0.05", last=1)
    with pytest.raises(ValueError, match=r"`layer` must be an integer from -2 to 1; got 2"):
        made.mean_response(recovery_bank(), layer=2, upper=1)
    with pytest.raises(ValueError, match=r"`upper` must be positive; got -1"):
        made.mean_response(recovery_bank(), upper=-1)
    with pytest.raises(ValueError, match=r"`upper` must be finite; got inf"):
        made.mean_response(recovery_bank(), upper=np.inf)
    with pytest.raises(ValueError, match=r"does not depend on the scale of layer 1.* all tokens equal"):
        made.mean_response([[[1], [1]]], upper=1)
    with pytest.raises(
        ValueError, match=r"does not depend on the scale of layer 1.* stays at 0.0 \(input 0: all tokens"
    ):
        made.mean_response([[[0], [0]]], upper=1)
    with pytest.raises(ValueError, match=r"does not depend on the scale of layer 0.* effective scores are zero"):
        Network([Layer([[0]], [[1]], [[1]])]).mean_response(recovery_bank(), upper=1)
    with pytest.raises(ValueError, match=r"must start with a power of theta\^2; .* lower `upper`"):
        made.mean_response(recovery_bank(), upper="1e30")
    with pytest.raises(ValueError, match=r"moves by .*e-6.. at `upper`, below what float64 holds"):
        scalar_chain(6, "0.05", last=1).mean_response(recovery_bank(), upper="0.15")
    own = Normalizer(np.exp, np.exp, name="own")
    with pytest.raises(ValueError, match=r"'own' has no `high_precision` version"):
        Network(made.layers, own).mean_response(recovery_bank(), upper=1)
