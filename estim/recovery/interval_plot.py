"""The picture of some intervals: each beside its reading, and how often such intervals hold the parameter."""

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from estim.plotting import BLUE, VERMILION, draw_coverage, new_figure, plain, shorten
from estim.recovery.intervals import Method, coverage_of_rise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from estim.recovery.interval_record import ConfidenceInterval


def plot_intervals(result: "ConfidenceInterval") -> "Figure":
    """Draw the interval of each reading, and the coverage of each method against theta at the largest sigma."""
    figure = new_figure(figsize=(7.0, 7.0))
    above, below = figure.subplots(2, 1)
    _draw_intervals(above, result)
    worst = float(np.max(result.sigma, initial=0.0))
    if worst:
        covered = {
            method: coverage_of_rise(result.rise, result.span, worst, result.confidence_level, method)
            for method in get_args(Method)
        }
        draw_coverage(below, result.theta, covered, confidence_level=result.confidence_level, parameter="theta")
        below.set_title(f"Coverage at sigma = {worst:.3g}; these are {result.method}", loc="left", fontsize=11.0)
    return figure


def _draw_intervals(axes: Any, result: "ConfidenceInterval") -> None:
    """Draw intervals as bars at their readings; one without an upper limit ends in an arrow."""
    readings, low, high = (np.ravel(values) for values in (result.readings, result.low, result.high))
    drawn = np.isfinite(readings) & np.isfinite(low)
    bounded, open_above = drawn & np.isfinite(high), drawn & np.isinf(high)
    axes.vlines(readings[bounded], low[bounded], high[bounded], color=BLUE, lw=1.5)
    axes.plot(readings[bounded], low[bounded], "_", readings[bounded], high[bounded], "_", color=BLUE, ms=5.0)
    axes.plot(readings[open_above], low[open_above], "^", color=BLUE, ms=5.0, label="no upper limit: from here up")
    empty = np.ravel(result.empty) & np.isfinite(readings)
    axes.plot(
        readings[empty], np.full(empty.sum(), 0.03), "x", color=VERMILION, ms=6.0, transform=axes.get_xaxis_transform(),
        label="empty: no theta agrees",
    )  # fmt: skip
    if open_above.any() or empty.any():
        axes.legend(frameon=False, fontsize=8.0)
    level = f"{100.0 * result.confidence_level:.4g} %"
    axes.set(xlabel="reading", ylabel=f"theta, {level} interval")
    axes.set_title(
        f"{shorten(result.response)}: what agrees with each reading", loc="left", fontsize=11.0, parse_math=False
    )
    plain(axes)
