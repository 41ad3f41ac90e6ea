"""Contact orders of declared fixtures: exact integers, the slopes that approach them, and what the bank does to them.

Scalar softmax chains with all values 1 and query = key = scale in every layer, unknown the queries and keys; and the
matrix fixture, unknown all 96 factors' entries. Entries and inputs are small exact rationals, ours; the note's own are
not disclosed.
"""

import sys
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

import estim
from sims.fixtures import chain_bank, matrix_bank, matrix_network, scalar_chain

SCALES = ("0.04", "0.02")
CHAIN_FACTORS = ("query", "key")
CHAINS = ((4, 4), (5, 8), (6, 8), (5, 4))
MATRIX_INPUTS = (8, 10, 12, 14, 16, 20, 24, 30, 48)
CHAIN_INPUTS = (1, 2, 3, 4, 5, 6)
WHY = (
    "Each layer must be told from the others by readings that are not yet used. The outputs of an input differ from "
    "their mean only at order s^(3^depth - 1), so a bank offers its means first: one direction for each input and "
    "channel. Where the means do not suffice, a direction is seen through higher terms of the means, and at last only "
    "through the differences of the output tokens: order 3^depth - 2, which is 241 at depth five and 25 at depth three."
)


def token_pairs(inputs: int) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return a bank of token pairs (0, 1), (0, 2), ..., (inputs, 2 tokens, 1 channel)."""
    return np.array([[[Fraction(0)], [Fraction(k)]] for k in range(1, inputs + 1)], dtype=object)


def chain_orders(depth: int, bank: Any) -> estim.ContactOrders:
    """Return the orders of a scalar chain with unknown queries and keys."""
    return estim.contact_orders(scalar_chain(depth, 1), bank, factors=CHAIN_FACTORS)


def run(*, progress: bool = False) -> dict[str, Any]:
    """Compute orders, slopes and the tables against the size of the bank; return the study, ready for JSON."""

    def say(what: str) -> None:
        if progress:
            print(f"contact orders: {what}", file=sys.stderr)

    say("slopes of the chain of depth four")
    slopes = estim.contact_slopes(scalar_chain(4, 1), chain_bank(), SCALES, factors=CHAIN_FACTORS)
    chains = []
    for depth, inputs in CHAINS:
        say(f"chain of depth {depth}, {inputs} inputs")
        bank = chain_bank() if inputs == 4 else token_pairs(inputs)
        chains.append({"depth": depth, "inputs": inputs, **chain_orders(depth, bank).to_dict()})
    network, matrices = matrix_network(), []
    for inputs in MATRIX_INPUTS:
        say(f"matrix fixture, {inputs} inputs")
        matrices.append({"inputs": inputs, **estim.contact_orders(network, matrix_bank(inputs)).to_dict()})
    table = [{"inputs": inputs, **chain_orders(4, token_pairs(inputs)).to_dict()} for inputs in CHAIN_INPUTS]
    return {
        "fixture": {
            "what": (__doc__ or "").split("\n\n")[1].replace("\n", " "),
            "scales": list(SCALES),
            "chain_bank": "depth four, and depth five with four inputs: (0, 1/2), (0, 1), (0, 3/2), (0, 2); "
            "others (0, 1), (0, 2), ...",
            "rng": "entries drawn with the seeds written in sims/fixtures.py",
        },
        "slopes": slopes.to_dict(),
        "values": [[mpmath.nstr(value, 30) for value in row] for row in slopes.singular_values],
        "slope_values": [mpmath.nstr(value, 15) for value in slopes.slopes[0]],
        "chains": chains,
        "matrix_by_inputs": matrices,
        "chain_by_inputs": table,
        "why": WHY,
    }
