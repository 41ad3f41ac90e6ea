"""The picture of what is seen of a model too large for single parameters."""

from typing import TYPE_CHECKING, Any

import numpy as np

from estim.plotting import BLACK, BLUE, GREY, ORANGE, count_along, figure_for, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.probe.matrix_free.record import ModelSensitivity
    from estim.probe.matrix_free.rest import Rest

#: Largest over smallest beyond which an axis is logarithmic.
_WIDE = 30.0


def plot_model(result: "ModelSensitivity", *, figure: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw the spectrum with its resolution, and of the groups their shares and which random changes show."""
    drawn = figure_for(figure, figsize=(7.0, 8.0))
    grid = drawn.add_gridspec(2, 2, height_ratios=[1.2, 1.0])
    above, below = drawn.add_subplot(grid[0, :]), drawn.add_subplot(grid[1, 0])
    beside = drawn.add_subplot(grid[1, 1], sharey=below)
    for values in result.group_singular_values:
        shown = values > 0.0
        above.plot(np.flatnonzero(shown) + 1, values[shown], "-", lw=0.6, color=GREY)
    shown = result.singular_values > 0.0
    above.plot(
        np.flatnonzero(shown) + 1, result.singular_values[shown], "o", ms=3.0, color=BLUE, label="all parameters"
    )
    if result.rest is None:
        above.plot([], [], "-", lw=0.6, color=GREY, label="each group alone")
    above.axhspan(0.0, result.resolution, color=BLUE, alpha=0.08, lw=0.0)
    above.axhline(result.resolution, color=BLUE, lw=1.0, ls=":", label="resolution")
    if result.rest is not None:
        _draw_rest(above, len(result.singular_values), result.rest, result.resolution)
    if result.smallest_change is not None:
        change = f"floor of the smallest change, {result.smallest_change:g}"
        above.axhline(1.0 / result.smallest_change, color=BLACK, lw=0.8, ls="--", label=change)
    positive = bool((result.singular_values > 0.0).any())  # where none is, a logarithmic axis has nothing to show
    above.set(yscale="log" if positive else "linear", xlabel="direction", ylabel="singular value")
    count_along(above.xaxis)
    above.legend(frameon=result.rest is not None, edgecolor="none", fontsize=8.0)  # over the hatching
    shares = result.group_table[:, 4]
    order = np.argsort(-shares, kind="stable")[:20][::-1]
    names = [shorten(result.group_names[k]) for k in order]
    below.barh(range(len(order)), shares[order], color=BLUE)
    below.set_yticks(range(len(order)), names, fontsize=7.0, parse_math=False)
    below.set(xlabel="share of the directions seen", ylabel="group of parameters")
    _draw_detectable(beside, 100.0 * result.detectable_changes[order], result.rest is not None)
    for axes in (above, below, beside):
        axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _draw_detectable(axes: Any, sizes: Any, at_most: bool) -> None:
    """Mark, beside the bars of the groups, the sizes in per cent; in words where random changes do not show at all."""
    shown = np.flatnonzero(np.isfinite(sizes))
    for place in np.flatnonzero(np.isinf(sizes)):
        axes.text(0.03, place, "at no size", transform=axes.get_yaxis_transform(), va="center", fontsize=7.0)
    axes.plot(sizes[shown], shown, "o", color=ORANGE)
    if len(shown) and sizes[shown].max() > _WIDE * sizes[shown].min():
        axes.set_xscale("log")
    else:
        axes.hlines(shown, 0.0, sizes[shown], color=ORANGE, lw=0.6)
        axes.set_xlim(0.0, None)
    axes.tick_params(labelleft=False)
    axes.set(xlabel=f"random change detected, {'at most, ' if at_most else ''}% of the group")


def _draw_rest(axes: Any, count: int, rest: "Rest", resolution: float) -> None:
    """Hatch where the values that were not looked for may lie."""
    edges = [count + 0.5, count + rest.directions + 0.5]
    label = f"not known: {rest.directions:,} values at or below {rest.bound:.2g}"
    low = min(resolution, 1e-3 * rest.bound) or 1e-3 * rest.bound
    axes.fill_between(edges, low, rest.bound, facecolor="none", edgecolor=GREY, hatch="///", lw=0.6, label=label)
    if rest.directions > 20 * count:
        axes.set_xscale("log")
