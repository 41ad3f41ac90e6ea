"""The picture of many unknowns recovered: the error of each direction beside 1 / s."""

from typing import TYPE_CHECKING

import numpy as np

from estim.plotting import BLACK, BLUE, GREY, ORANGE, VERMILION, count_along, figure_for, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.probe.many_unknowns.record import ParameterRecovery


def plot_parameters(result: "ParameterRecovery", *, figure: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw the RMSE of every resolved direction beside 1 / s, and their ratio beside the breakdown that theory says."""
    drawn = figure_for(figure, figsize=(7.0, 6.0))
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=[1.6, 1.0])
    shown = np.isfinite(result.rmse)
    number = 1 + np.flatnonzero(shown)
    rmse, se, linear = result.rmse[shown], result.rmse_se[shown], result.linear_rmse[shown]
    above.plot(number, linear, "_", ms=9.0, mew=1.6, color=GREY, label="linear: 1 / singular value")
    above.errorbar(
        number, rmse, yerr=2.0 * se, fmt="o", ms=3.5, capsize=2.0, color=VERMILION,
        label=f"Monte Carlo, {result.trials:,} trials (±2 s.e.)",
    )  # fmt: skip
    above.set(yscale="log", ylabel="RMSE along the direction")
    above.set_title(f"Recovery of {len(result.names)} parameters", loc="left", fontsize=11.0)
    above.legend(frameon=False, fontsize=8.0)
    holds = result.linear[shown]
    for part, color, label in (
        (holds, BLUE, "theory: linear"),
        (~holds, ORANGE, "theory: close to breakdown or beyond"),
    ):
        ratio, error = (rmse / linear)[part], (2.0 * se / linear)[part]
        below.errorbar(number[part], ratio, yerr=error, fmt="o", ms=3.5, capsize=2.0, color=color, label=label)
    below.axhline(1.0, color=BLACK, lw=0.8, ls="--")
    below.set(xlabel="direction, strongest first", ylabel="RMSE / linear")
    count_along(below.xaxis)
    # Above the panel: error bars are everywhere in it.
    below.legend(frameon=False, fontsize=8.0, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    for axes in (above, below):
        plain(axes)
    return drawn
