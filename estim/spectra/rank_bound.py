"""How large the rank of a Jacobian can be, by proof and before it is computed."""

from collections.abc import Sequence

import numpy as np

from estim.arithmetic import Array, as_fractions, as_rationals
from estim.attention.bank import Bank
from estim.attention.effective import rank
from estim.attention.gauge import tangents_in
from estim.attention.layer import parameter_count
from estim.attention.network import Network


def rank_bound(network: Network, bank: Bank, factors: Sequence[str]) -> tuple[int, str]:
    """Return the least upper bound known of the rank of the Jacobian, and what gives it.

    It holds at these parameters and for every nonzero scale of all queries and keys.
    """
    gauge = tangents_in(network.layers, as_rationals, factors=factors).shape[1]
    bounds = [
        (parameter_count(network.layers, factors) - gauge, "the gauge"),
        (bank.readings(network.output_width), "the number of readings"),
    ]
    if all(_equal_tokens(as_fractions(group.entries)) for group in bank.groups):
        # Tokens stay equal through every layer: a reading is x V_1 ... V_L, whatever queries and keys are.
        seen = rank(np.concatenate([as_rationals(group.entries[:, 0]) for group in bank.groups]))
        bounds.append((seen * network.output_width if "value" in factors else 0, "equal tokens in every input"))
    return min(bounds)


def _equal_tokens(inputs: Array) -> bool:
    return bool((inputs == inputs[:, :1]).all())
