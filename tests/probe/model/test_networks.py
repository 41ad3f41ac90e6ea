import numpy as np
import pytest

import estim
from estim.attention import Layer, Network, Normalizer
from estim.probe.model.probe import probe
from sims.fixtures import matrix_bank, matrix_network

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
    np.testing.assert_allclose(found.jacobian, given.jacobian(BANK), rtol=1e-11, atol=1e-15)
    np.testing.assert_array_equal(found.readings, given(BANK).ravel())
    np.testing.assert_array_equal(found.tangents, given.gauge_tangents())
    assert found.derivative == "arithmetic in balls"
    assert found.inputs.tolist() == np.repeat(np.arange(4), 9).tolist()


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "softplus", "quadratic", "cosh"])
@pytest.mark.parametrize("scale", ["1", "0.01"])
def test_the_error_is_proven(normalizer, scale):
    given = network(scale, depth=3, normalizer=normalizer)
    found = probe(given, BANK)
    # Digits relative to the largest entry; those of the deepest layer are 1e-62 of it.
    truth = given.jacobian(BANK, digits=140)
    off = np.abs(found.jacobian - truth).astype(np.float64)
    # One rounding of the referee's own difference to float64.
    assert (off <= found.error * (1 + 1e-15)).all()
    assert (np.linalg.norm(found.error, axis=0) <= 1.2e-16 * np.linalg.norm(found.jacobian, axis=0)).all()
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


def test_near_collapse_every_identifiable_direction_is_seen_although_float64_alone_would_show_other_ranks():
    # In float64 the columns of the deepest layer are rounding: their scaled spectrum shows neither 52 nor a gap.
    given, bank = matrix_network().scaled("0.06"), matrix_bank()
    found = estim.sensitivity(given, bank, 1e-6)
    assert found.counts[estim.Status.SEEN] == 52
    assert found.counts[estim.Status.GAUGE] == 44
    assert found.rank(1e-10) == 40
    certified = estim.sensitivity(given, bank, 1e-6, digits=60)
    assert certified.status == found.status
    np.testing.assert_allclose(found.singular_values[:52], certified.singular_values[:52], rtol=1e-12)
    proven = estim.spectrum(given, bank, digits=60)
    expected = [float(value) * 1e6 for value in proven.singular_values[:52]]
    np.testing.assert_allclose(certified.singular_values[:52], expected, rtol=1e-13)


def test_a_jacobian_too_large_for_balls_is_estimated_and_says_so(monkeypatch):
    monkeypatch.setattr("estim.probe.model.networks.MOST_BALLS", 10)
    found = probe(network(), BANK)
    assert found.derivative == "exact"
    assert "too large for balls" in found.notes[0]
    truth = network().jacobian(BANK, digits=30)
    assert np.abs(found.jacobian - truth).max() < 1e-14
