import numpy as np
import pytest

from estim.attention import Layer, Network, Normalizer
from estim.probe.models import probe

RNG = np.random.default_rng(3)


def network(scale="0.5", depth=2, normalizer="softmax"):
    rng = np.random.default_rng(1)
    layers = [Layer(rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 3))) for _ in range(depth)]
    return Network(layers, normalizer).scaled(scale)


BANK = RNG.normal(size=(4, 3, 3))


def test_names_groups_and_tangents():
    given = network()
    found = probe(given, BANK)
    assert found.names[:3] == ("layer0.query[0, 0]", "layer0.query[0, 1]", "layer0.query[1, 0]")
    assert found.names[-1] == "layer1.value[2, 2]"
    assert found.groups == ("layer0",) * 21 + ("layer1",) * 21
    np.testing.assert_array_equal(found.parameters, given.parameters)
    np.testing.assert_array_equal(found.jacobian, given.jacobian(BANK))
    np.testing.assert_array_equal(found.readings, given(BANK).ravel())
    np.testing.assert_array_equal(found.tangents, given.gauge_tangents())
    assert found.derivative == "exact"
    assert found.inputs.tolist() == np.repeat(np.arange(4), 9).tolist()


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "softplus", "quadratic", "cosh"])
@pytest.mark.parametrize("scale", ["1", "0.01"])
def test_the_error_is_proven(normalizer, scale):
    given = network(scale, depth=3, normalizer=normalizer)
    found = probe(given, BANK)
    truth = given.jacobian(BANK, digits=60)
    off = np.abs(found.jacobian - truth).astype(np.float64)
    # One rounding of the referee's own difference, sixty digits to float64.
    assert (off <= found.error * (1 + 1e-15)).all()
    # Proven, and not much wider than the error.
    assert np.linalg.norm(found.error) <= 2 * np.linalg.norm(off)


def test_ragged_inputs_and_one_layer_twice():
    layer = network().layers[0]
    found = probe(Network([layer, layer]), [BANK[0][:2], BANK[1], BANK[2][:1]])
    assert found.inputs.tolist() == [0] * 6 + [1] * 9 + [2] * 3
    assert found.jacobian.shape == (18, 42)


def test_a_normalizer_without_balls_has_an_estimate_and_says_so():
    plain = Normalizer(lambda s: 2 + np.tanh(s), lambda s: 1 - np.tanh(s) ** 2, name="two plus tanh")
    found = probe(network(normalizer=plain), BANK)
    assert found.notes[0].startswith("the error of the Jacobian is an estimate: normalizer 'two plus tanh' has no")
    assert 0 < found.error.max() < 1e-12


def test_a_network_takes_no_parameters():
    with pytest.raises(ValueError, match="params must be left out: Network has its own; got list"):
        probe(network(), BANK, params=[1.0])
