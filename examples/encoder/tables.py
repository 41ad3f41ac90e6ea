"""The results in tables and sentences."""

from itertools import pairwise

import numpy as np
import scaling
from monitor import LAYERS
from pandas import DataFrame, Index, MultiIndex

NOISE, SEEN, INPUTS = "1. The noise of a reading", "2. What the bank sees", "3. Which sentences carry it"
JUDGED, ADDED, AGAIN = "4. Quantised layers", "5. Sentences to add", "6. The same, with these sentences"
SCALED, STACK = "7. Query and key scaled towards zero", "8. A stack without residuals, exactly"


def tables(results):
    """Return the tables, by title."""
    return {
        NOISE: results["noise"],
        SEEN: results["seen"],
        INPUTS: results["inputs"].head(8),
        JUDGED: results["judged"],
        ADDED: DataFrame(
            {"squared shift": [gain for _, gain in results["extra"][:12]]},
            index=Index([sentence for sentence, _ in results["extra"][:12]], name="candidate"),
        ),
        AGAIN: _before_and_after(results),
        SCALED: _slopes(results),
        STACK: _stack(results["stack"]),
    }


def _before_and_after(results):
    before, after = results["seen"], results["seen after"]
    return DataFrame(
        {
            "shift": before["shift"], "shift after": after["shift"],
            "power": before["power"], "power after": after["power"],
        }
    )  # fmt: skip


def _slopes(results):
    scales = results["scales"]
    rows = {}
    for name, key in (("with residuals", "with"), ("without", "without")):
        found = scaling.slopes(scales, *results[key])
        for k in range(LAYERS):
            rows[name, k] = found[:, k]
    columns = [f"{high:g} to {low:g}" for high, low in pairwise(scales)]
    index = MultiIndex.from_tuples(rows, names=["encoder", "layer"])
    return DataFrame(list(rows.values()), index=index, columns=columns)


def _stack(stack):
    scales, found, twin, exact = stack
    count = len(exact.orders)
    slopes = np.log(found[-2, :count] / found[-1, :count]) / np.log(scales[-2] / scales[-1])
    off = np.abs(found[-1, :count] / twin[-1, :count] - 1.0)
    return DataFrame(
        {"slope, torch": slopes, "order, exact": exact.orders, "torch / exact - 1": off},
        index=Index(range(1, count + 1), name="singular value"),
    )
