"""The picture of some intervals: each beside its reading, and how often such intervals hold the parameter."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.plotting import BLUE, VERMILION, draw_coverage, figure_for, plain, shorten
from estim.recovery.interval_of_rise import METHODS, coverage_of_rise

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.recovery.interval_record import ConfidenceInterval

Array = npt.NDArray[np.float64]

# More bars than this are one blot, and a page of tens of megabytes.
_MOST_BARS = 300
# Steps in the mean beside their median: wider ones part the two ends of the domain.
_GAP = 4.0
# Ratios of largest and smallest theta beyond which a linear scale hides the small ones.
_FEW_DECADES, _MANY_DECADES = 30.0, 1e3


def plot_intervals(result: "ConfidenceInterval", *, figure: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw the interval of each reading, and the coverage of each method against theta at the largest sigma."""
    drawn = figure_for(figure, figsize=(7.0, 7.0))
    ends = _ends(result.rise)
    grid = drawn.add_gridspec(2, len(ends))
    _draw_intervals(drawn.add_subplot(grid[0, :]), result)
    worst = float(np.max(result.sigma, initial=0.0))
    first = None
    for place, end in enumerate(ends):
        axes = drawn.add_subplot(grid[1, place], sharey=first)
        if worst:
            _draw_end(axes, result, end, worst)
        if first is None:
            first = axes
            axes.set_title(
                f"Coverage at sigma = {worst:.3g}; those above are {result.method}", loc="left", fontsize=11.0
            )
        else:
            axes.set(title="", xlabel="theta, at the upper end", ylabel="")
            axes.legend().remove()
            first.set_xlabel("theta, at the lower end")
    return drawn


def _ends(rise: Array) -> list[slice]:
    """Part the points where coverage is drawn: those near either end, where much lies between, else all in one."""
    steps = np.diff(rise)
    if not len(steps) or steps.max() <= _GAP * np.median(steps):
        return [slice(None)]
    parted = int(np.argmax(steps)) + 1
    return [slice(parted), slice(parted, None)]


def _draw_end(axes: Any, result: "ConfidenceInterval", end: slice, sigma: float) -> None:
    covered = {
        method: coverage_of_rise(result.rise[end], result.span, sigma, result.confidence_level, method)
        for method in METHODS
    }
    theta = result.theta[end]
    draw_coverage(axes, theta, covered, confidence_level=result.confidence_level, parameter="theta")
    axes.set_title("", loc="left")
    if theta.min() > 0.0 and theta.max() > _FEW_DECADES * theta.min():
        axes.set_xscale("log")


def _draw_intervals(axes: Any, result: "ConfidenceInterval") -> None:
    """Draw intervals as bars at their readings; one without an upper limit ends in an arrow."""
    shown = _shown(result)
    readings, low, high, empty = (
        np.ravel(values)[shown] for values in (result.readings, result.low, result.high, result.empty)
    )
    bounded, open_above = np.isfinite(high), np.isinf(high)
    axes.vlines(readings[bounded], low[bounded], high[bounded], color=BLUE, lw=1.5)
    axes.plot(readings[bounded], low[bounded], "_", readings[bounded], high[bounded], "_", color=BLUE, ms=5.0)
    if open_above.any():
        axes.plot(readings[open_above], low[open_above], "^", color=BLUE, ms=5.0, label="no upper limit: from here up")
    if empty.any():
        axes.plot(
            readings[empty], np.full(empty.sum(), 0.03), "x", color=VERMILION, ms=6.0,
            transform=axes.get_xaxis_transform(), label="empty: no theta agrees",
        )  # fmt: skip
    if open_above.any() or empty.any():
        axes.legend(frameon=False, fontsize=8.0)
    far = np.maximum(np.abs(low), np.where(open_above, 0.0, np.abs(high)))[~empty]
    if far.size and far.min() > 0.0 and far.max() > _MANY_DECADES * far.min():
        axes.set_yscale("symlog", linthresh=far.min())
    level, total = f"{100.0 * result.confidence_level:.4g} %", np.size(result.readings)
    drawn = "" if len(shown) == total else f" ({len(shown):,} of {total:,} are drawn)"
    axes.set(xlabel=f"reading{drawn}", ylabel=f"theta, {level} interval")
    axes.set_title(
        f"{shorten(result.response)}: what agrees with each reading", loc="left", fontsize=11.0, parse_math=False
    )
    plain(axes)


def _shown(result: "ConfidenceInterval") -> npt.NDArray[np.intp]:
    """Return the places of the readings to draw: those that are finite, of many an even choice by rank."""
    readings = np.ravel(result.readings)
    finite = np.flatnonzero(np.isfinite(readings) & (np.isfinite(np.ravel(result.low)) | np.ravel(result.empty)))
    if len(finite) <= _MOST_BARS:
        return finite
    ranked = finite[np.argsort(readings[finite], kind="stable")]
    return np.asarray(ranked[np.linspace(0, len(ranked) - 1, _MOST_BARS).round().astype(np.intp)])
