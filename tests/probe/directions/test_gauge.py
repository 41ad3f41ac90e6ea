"""Gauge means the same function on all inputs: of a whole family of factors, not to first order only."""

import numpy as np
import pytest

import estim
from estim.attention import Layer, Network
from estim.probe.directions.gauge import proven_tangents

RNG = np.random.default_rng(0)
ZERO, ONE = np.zeros((2, 2)), np.eye(2)
BANK = RNG.normal(size=(6, 3, 2))
GENERIC = RNG.normal(size=(3, 2, 2))


def test_what_moves_in_second_order_only_is_not_gauge():
    network = Network([Layer(ZERO, ZERO, ONE)])
    found = estim.sensitivity(network, BANK, 0.1)
    assert found.counts["gauge"] == 0
    assert found.counts["unresolved"] == 8
    assert any("8 directions change nothing on any input to first order only" in note for note in found.notes)
    # Query and key moved together do change the outputs.
    moved = Network([Layer(0.5 * ONE, 0.5 * ONE, ONE)])
    assert np.abs(moved(BANK) - network(BANK)).max() > 0.01


@pytest.mark.parametrize("layers", [
    [Layer(ZERO, GENERIC[0], ONE)],
    [Layer(GENERIC[0], ZERO, ONE)],
    [Layer(*GENERIC)],
    [Layer(*GENERIC), Layer(ZERO, GENERIC[1], ONE)],
    [Layer(GENERIC[0], GENERIC[1], np.diag([1.0, 0.0])), Layer(*GENERIC)],
])  # fmt: skip
def test_no_gauge_direction_moves_the_outputs_to_first_order(layers):
    network = Network(layers)
    tangents, _ = proven_tangents(network)
    assert tangents.shape[1] >= 4
    for tangent in (tangents / np.linalg.norm(tangents, axis=0)).T:
        first, second = (
            np.abs(network.with_parameters(network.parameters + h * tangent)(BANK) - network(BANK)).max()
            for h in (1e-3, 1e-4)
        )
        assert second < 1e-13 or first / second == pytest.approx(100.0, rel=0.1)


def test_a_key_beside_a_zero_query_is_gauge():
    network = Network([Layer(ZERO, GENERIC[0], ONE)])
    assert estim.sensitivity(network, BANK, 0.1).counts["gauge"] == 4
    np.testing.assert_array_equal(Network([Layer(ZERO, GENERIC[1], ONE)])(BANK), network(BANK))


def test_symmetries_of_parameters_without_effect_are_counted_in_any_units():
    """Nothing says how the units of these compare, but the symmetries themselves."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        parameters = int(rng.integers(2, 10))
        plain = rng.integers(-2, 3, (parameters, int(rng.integers(1, parameters))))
        units = 2.0 ** rng.integers(-60, 60, parameters)
        found = estim.Sensitivity.from_jacobian(np.zeros((1, parameters)), 1.0, symmetry=plain / units[:, None])
        assert found.counts["gauge"] == np.linalg.matrix_rank(plain), seed
