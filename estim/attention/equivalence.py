"""Whether two networks are the same function, by their effective parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from estim.arithmetic import Array, as_balls, as_rationals
from estim.attention import formula
from estim.attention.effective import effective
from estim.attention.layer import Layer
from estim.attention.network import Network
from estim.precision import ball_digits

# Inputs are drawn, and digits raised, until outputs provably differ: near collapse they may do so by 1e-70.
_TOKENS = (2, 3, 4)
_DIGITS = (30, 120, 480)


@dataclass(frozen=True)
class Equivalence:
    """Whether two networks are the same function on all inputs; as a condition, an error where undecided."""

    outcome: Literal["same", "different", "undecided"]
    reason: str
    """The fact that decides, or what keeps the question open."""

    def __bool__(self) -> bool:
        if self.outcome == "undecided":
            msg = f"whether the networks are the same function is undecided: {self.reason}"
            raise ValueError(msg)
        return self.outcome == "same"


def equivalent(a: Network, b: Network) -> Equivalence:
    """Decide whether two networks are the same function of their inputs, for any number of tokens.

    Parameters
    ----------
    a, b : Network

    Returns
    -------
    Equivalence
        ``outcome`` "same" or "different", each with its proof as ``reason``, or "undecided". "Same" is
        proven by equal effective parameters (each score matrix up to its sign for an even normalizer), or
        by a value map of zero; "different" by a single token, whose output is the token times the value
        map, or by an input at which enclosures of the outputs do not meet. Different effective parameters
        alone prove nothing where parameters are exceptional.

    Raises
    ------
    TypeError
        If an argument is not a Network.

    Examples
    --------
    >>> from estim.attention import Layer, Network, equivalent
    >>> a = Network([Layer([[1]], [["0.2"]], [[3]])])
    >>> equivalent(a, Network([Layer([["0.1"]], [[2]], [[3]])])).outcome
    'same'
    >>> equivalent(a, Network([Layer([[1]], [["0.3"]], [[3]])])).outcome
    'different'
    """
    _check_network(a, "a")
    _check_network(b, "b")
    sizes = [(network.width, network.output_width) for network in (a, b)]
    if sizes[0] != sizes[1]:
        return Equivalence("different", f"widths of inputs and outputs are {sizes[0]} and {sizes[1]}")
    return _compare(a, b)


def _check_network(network: object, name: str) -> None:
    if not isinstance(network, Network):
        msg = f"`{name}` must be a Network; got {network!r}"
        raise TypeError(msg)


def _compare(a: Network, b: Network) -> Equivalence:
    (scores_a, map_a), (scores_b, map_b) = (
        effective([layer.factors_in(as_rationals) for layer in network.layers]) for network in (a, b)
    )
    if (map_a != map_b).any():
        return Equivalence("different", "a single token comes out as itself times the value map, and those differ")
    if not (map_a != 0).any():
        return Equivalence("same", "both value maps are zero, so every output is; the scores are not determined")
    if a.normalizer == b.normalizer and _same_scores(scores_a, scores_b, even=a.normalizer.even):
        return Equivalence("same", "the effective parameters are equal")
    return _search(a, b)


def _same_scores(scores_a: Sequence[Array], scores_b: Sequence[Array], *, even: bool) -> bool:
    lists = [_audible(scores) for scores in (scores_a, scores_b)]
    if len(lists[0]) != len(lists[1]):
        return False
    return all(
        not (one != other).any() or (even and not (one != -other).any()) for one, other in zip(*lists, strict=True)
    )


def _audible(scores: Sequence[Array]) -> list[Array]:
    """Drop the layers after one with zero scores, which leaves all tokens equal for good."""
    kept = []
    for score in scores:
        kept.append(score)
        if not (score != 0).any():
            break
    return kept


def _search(a: Network, b: Network) -> Equivalence:
    """Look for an input at which the outputs provably differ."""
    rng = np.random.default_rng(0)
    for digits in _DIGITS:
        for tokens in _TOKENS:
            x = rng.integers(-8, 9, (1, tokens, a.width)) / 8
            try:
                outputs = [_outputs(network.layers, x, network.normalizer, digits) for network in (a, b)]
            except ValueError as error:
                return Equivalence("undecided", f"the effective parameters differ, but {error}")
            if any(not one.overlaps(other) for one, other in zip(*(output.flat for output in outputs), strict=True)):
                return Equivalence("different", f"the outputs differ on the input {x[0].tolist()}")
    reason = f"the effective parameters differ, but no difference shows in {_DIGITS[-1]} digits on the inputs tried"
    return Equivalence("undecided", reason)


def _outputs(layers: Sequence[Layer], x: Array, normalizer: formula.Weigh, digits: int) -> Array:
    with ball_digits(digits):
        return formula.forward([layer.factors_in(as_balls) for layer in layers], as_balls(x), normalizer)
