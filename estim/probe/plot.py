"""The picture of what readings see: spectrum, the weakest directions, power."""

from typing import TYPE_CHECKING, Any

import numpy as np

from estim.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, count_along, figure_for, plain, shorten
from estim.probe.verdict.power_plot import draw_power
from estim.probe.words import told_apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.probe.record import Sensitivity


def plot_sensitivity(result: "Sensitivity", *, figure: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw both spectra with their limits, what the weakest directions are made of, and the power for each group."""
    drawn = figure_for(figure, figsize=(7.0, 10.0))
    above, middle, below = drawn.subplots(3, 1, height_ratios=[1.3, 1.0, 1.0])
    _draw_spectrum(above, result)
    _draw_weakest(middle, result)
    draw_power(below, result)
    return drawn


def _draw_spectrum(axes: Any, result: "Sensitivity") -> None:
    number = np.arange(1, len(result.names) + 1)
    for values, color, marker, label in (
        (result.raw_singular_values, GREY, "x", "in the parameters' units"),
        (result.scaled_singular_values, BLUE, "o", "free of units (columns of norm one)"),
    ):
        shown = (values > 0.0) & np.isfinite(values)
        axes.plot(number[shown], values[shown], marker, ms=4.0, color=color, label=label)
    if 0.0 < result.resolution < np.inf:
        axes.axhspan(0.0, result.resolution, color=BLUE, alpha=0.08, lw=0.0)
        axes.axhline(result.resolution, color=BLUE, lw=1.0, ls=":", label="resolution of the latter")
    axes.axhline(1.0, color=BLACK, lw=0.8, ls="--", label="floor of one unit, for the crosses")
    counts = ", ".join(f"{count} {status}" for status, count in result.counts.items() if count)
    axes.set(yscale="log", xlabel="direction, strongest first", ylabel="singular value")
    count_along(axes.xaxis)
    axes.set_title(f"What is seen: {counts}", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)


def _draw_weakest(axes: Any, result: "Sensitivity") -> None:
    """Draw the squared components of the weakest directions, gauge left out, in parameters of equal effect."""
    axes.set_title("The weakest directions, parameters in units of equal effect", loc="left", fontsize=11.0)
    plain(axes)
    shown = [k for k, status in enumerate(result.status) if status != "gauge"][-3:]
    if not shown:
        axes.text(0.5, 0.5, "every direction is a gauge", transform=axes.transAxes, ha="center", color=GREY)
        return
    rows = np.abs(told_apart(result)[shown])
    weight = rows * np.where(np.isfinite(result.column_norms), result.column_norms, 1.0)
    if not weight.any():
        weight = rows
    largest = weight.max(axis=1, keepdims=True)  # so that no square overflows or vanishes
    share = (weight / np.where(largest > 0.0, largest, 1.0)) ** 2
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    order = np.argsort(-share.max(axis=0), kind="stable")[:12]
    place = np.arange(len(order), dtype=float)
    for row, (k, color) in enumerate(zip(shown, (GREEN, ORANGE, VERMILION), strict=False)):
        offset = (row - 0.5 * (len(shown) - 1)) * 0.25
        axes.bar(place + offset, share[row, order], 0.25, color=color, label=f"direction {k + 1}: {result.status[k]}")
    labels = [shorten(result.names[j]) for j in order]
    # A name is a name: a dollar in it starts no formula.
    axes.set_xticks(place, labels, rotation=30.0, ha="right", fontsize=8.0, parse_math=False)
    axes.set(ylabel="share of the direction", ylim=(0.0, 1.05))
    axes.legend(frameon=False, fontsize=8.0)
