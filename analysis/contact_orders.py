"""The contact-order study: orders and slopes beside the note's, and orders against the size of the bank."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np

from estim import ContactSlopes

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
    from estim.plotting import new_figure

    figure = new_figure(figsize=(11.0, 4.6))
    left, right = figure.subplots(1, 2)
    _draw_values(left, ContactSlopes.from_dict(study["slopes"]))
    _draw_bank(right, study["matrix_by_inputs"])
    for place in (left, right):
        place.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_values(axes: "Axes", slopes: ContactSlopes) -> None:
    from estim.plotting import BLUE, GREEN, ORANGE, VERMILION

    logs = np.log10([float(scale) for scale in slopes.scales])
    ends = np.array([logs.min() - 0.1, logs.max() + 0.1])
    styles = zip((BLUE, ORANGE, GREEN, VERMILION), "os^D", strict=True)
    for number, (order, (color, marker)) in enumerate(zip(slopes.orders, styles, strict=False)):
        heights = [float(mpmath.log10(row[number])) for row in slopes.singular_values]
        line = heights[0] + order * (ends - logs[0])
        axes.plot(ends, line, "-", lw=1.0, color=color)
        axes.plot(logs, heights, marker, color=color)
        axes.annotate(f"order {order}", (ends[1], line[1]), xytext=(4, 0), textcoords="offset points", va="center",
                      color=color)  # fmt: skip
    axes.grid(color="0.9")
    axes.set(xlabel="log10 of the scale", ylabel="log10 of the singular value", xlim=(None, ends[1] + 0.12),
             title="Chain of depth four: values (dots) fall as\nthe exact orders (lines) say")  # fmt: skip


def _draw_bank(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    from matplotlib import colormaps

    orders = sorted({order for row in rows for order in row["orders"]})
    colors = colormaps["viridis"](np.linspace(0.0, 1.0, len(orders)))
    bottom = np.zeros(len(rows))
    for color, order in zip(colors, orders, strict=True):
        heights = np.array([row["orders"].count(order) for row in rows])
        axes.bar(range(len(rows)), heights, bottom=bottom, color=color, edgecolor="white", label=f"order {order}")
        bottom += heights
    axes.set_xticks(range(len(rows)), [str(row["inputs"]) for row in rows])
    axes.set(
        xlabel="inputs in the bank", ylabel="singular values", title="Matrix fixture: more inputs lower the orders"
    )
    axes.legend(frameon=False, reverse=True, loc="center left", bbox_to_anchor=(1.0, 0.5))
