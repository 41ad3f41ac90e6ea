"""The contact-order study: orders and slopes beside the note's, and orders against the size of the bank."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np

from estim.spectra.contact import ContactSlopes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The note's figures (arXiv:2610.09620, section 6), depth four at scales 0.04 and 0.02.
NOTE = {"orders": (1, 5, 17, 53), "slopes": (0.999994, 5.002211, 17.001118, 53.000562), "weakest": "3.86e-92"}


def table(study: dict[str, Any]) -> str:
    """Return orders and slopes beside the note's, chains of other depths, and the two tables by bank size."""
    slopes = ContactSlopes.from_dict(study["slopes"])
    lines = [
        "Scalar softmax chain of depth four, scales 0.04 and 0.02",
        f"{'':<10}{'order':>7}{'note':>12}{'ours':>16}",
    ]
    for layer, (order, theirs, ours) in enumerate(zip(slopes.orders, NOTE["slopes"], slopes.slopes[0], strict=True), 1):
        lines.append(f"layer {layer:<4}{order:>7}{theirs:>12.6f}{mpmath.nstr(ours, 12):>16}")
    weakest = mpmath.nstr(slopes.singular_values[-1][-1], 12)
    lines += [
        f"largest deviation from an order: note below 0.0023, ours {slopes.deviation:.6f}",
        f"weakest value at scale 0.02: note {NOTE['weakest']}, ours {weakest}",
        "",
        "By theory the orders are the same for every generic chain of depth four. The last digits of slopes and the",
        "values depend on tokens, values and bank, which the note does not disclose.",
        "",
        "Chains, unknown queries and keys:",
        *(
            f"  depth {row['depth']}, {row['inputs']} inputs: {', '.join(map(str, row['orders']))}  [{row['ring']}]"
            for row in study["chains"]
        ),
        "",
        "Orders by the number of inputs, matrix fixture:",
        *(f"  {row['inputs']:>3}  {_counted(row)}" for row in study["matrix_by_inputs"]),
        "Orders by the number of inputs, chain of depth four:",
        *(f"  {row['inputs']:>3}  {_counted(row)}" for row in study["chain_by_inputs"]),
        "",
        study["why"],
    ]
    return "\n".join(lines)


def _counted(row: dict[str, Any]) -> str:
    counts = ", ".join(f"{order} x{count}" for order, count in sorted(Counter(row["orders"]).items()))
    return counts if row["complete"] else f"{counts}; any further one is at least {row['beyond']}"


def draw(study: dict[str, Any]) -> "Figure":
    """Draw the values against the scale with their exact orders, and the orders against the size of the bank."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    _draw_values(left, ContactSlopes.from_dict(study["slopes"]))
    _draw_bank(right, study["matrix_by_inputs"])
    return figure


def _draw_values(axes: "Axes", slopes: ContactSlopes) -> None:
    logs = np.log10([float(scale) for scale in slopes.scales])
    for number, order in enumerate(slopes.orders):
        heights = [float(mpmath.log10(row[number])) for row in slopes.singular_values]
        axes.plot(logs, heights, "o", color=f"C{number}", label=f"singular value {number + 1}")
        ends = np.array([logs.min() - 0.1, logs.max() + 0.1])
        axes.plot(
            ends, heights[0] + order * (ends - logs[0]), "-", lw=0.8, color=f"C{number}", label=f"slope {order}, exact"
        )
    axes.set(xlabel="log10 of the scale", ylabel="log10 of the singular value", title="Chain of depth four")
    axes.legend(fontsize=8)


def _draw_bank(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    orders = sorted({order for row in rows for order in row["orders"]})
    bottom = np.zeros(len(rows))
    for number, order in enumerate(orders):
        heights = np.array([row["orders"].count(order) for row in rows])
        axes.bar(range(len(rows)), heights, bottom=bottom, color=f"C{number}", label=f"order {order}")
        bottom += heights
    axes.set_xticks(range(len(rows)), [str(row["inputs"]) for row in rows])
    axes.set(xlabel="inputs in the bank", ylabel="singular values", title="Matrix fixture")
    axes.legend(fontsize=8, loc="lower right")
