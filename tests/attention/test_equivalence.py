"""The same function or not: decided with a proof, or said to be undecided."""

import numpy as np
import pytest
from hypothesis import given, settings

from estim.attention import Layer, Network, Normalizer, equivalent
from tests.attention.cases import eighths, network, networks


@given(networks())
@settings(max_examples=25, deadline=None)
def test_gauges_are_the_same_function(case):
    made, _, rng = case
    found = equivalent(made, made.regauged(rng=rng))
    assert found
    assert "equal" in found.reason or "zero" in found.reason


@pytest.mark.parametrize("changed", [0, 1])
def test_a_changed_score_is_another_function(changed):
    made = network(np.random.default_rng(20261131), (2, 2, 2), (1, 1))
    layers = list(made.layers)
    layers[changed] = layers[changed].scaled("1.001")
    found = equivalent(made, Network(layers))
    assert (found.outcome, bool(found)) == ("different", False)
    assert "outputs differ on the input" in found.reason


def test_a_difference_far_below_float64_is_proven():
    chain = [Layer([["0.001"]], [["0.001"]], [[1]])] * 3
    last = Layer([["0.002"]], [["0.001"]], [[1]])
    # The last scores act on token differences of 1e-48.
    assert equivalent(Network([*chain, chain[0]]), Network([*chain, last])).outcome == "different"


def test_values_and_widths_decide_at_once():
    one = Layer([[1]], [[1]], [[1]])
    assert "widths" in equivalent(Network([one]), Network([Layer([[1]], [[1]], [[1, 2]])])).reason
    assert "single token" in equivalent(Network([one]), Network([Layer([[1]], [[1]], [[2]])])).reason


def test_even_normalizers_do_not_see_the_sign_of_the_scores():
    layer, turned = Layer([[1]], [[2]], [[1]]), Layer([[1]], [[-2]], [[1]])
    assert equivalent(Network([layer], "cosh"), Network([turned], "cosh")).outcome == "same"
    assert equivalent(Network([layer]), Network([turned])).outcome == "different"
    # Each layer has its own sign.
    both = [Network([one, other], "quadratic") for one, other in ((layer, turned), (turned, layer))]
    assert equivalent(*both).outcome == "same"


def test_zero_value_maps_hide_all_scores():
    rng = np.random.default_rng(20261132)
    made = [Network([Layer(eighths(rng, (2, 1)), eighths(rng, (2, 1)), np.zeros((2, 2)))]) for _ in range(2)]
    found = equivalent(*made)
    assert found.outcome == "same"
    assert "scores are not determined" in found.reason


def test_zero_scores_hide_all_later_scores():
    flat = Layer([[0]], [[1]], [[1]])
    one, other = (Network([flat, Layer([[s]], [[1]], [[1]])]) for s in (1, 2))
    assert equivalent(one, other).outcome == "same"


def test_other_normalizers_are_other_functions_unless_they_cannot_be_told():
    layer = Layer([[1]], [[1]], [[1]])
    assert equivalent(Network([layer]), Network([layer], "sigmoid")).outcome == "different"
    own = Normalizer(np.exp, np.exp, name="own")
    found = equivalent(Network([layer]), Network([layer], own))
    assert found.outcome == "undecided"
    with pytest.raises(ValueError, match=r"undecided: the effective parameters differ, but normalizer 'own' has no"):
        bool(found)


def test_only_networks_are_compared():
    with pytest.raises(TypeError, match=r"`b` must be a Network; got 3"):
        equivalent(Network([Layer([[1]], [[1]], [[1]])]), 3)
