"""Pictures of a verdict. Takes its numbers, never a model; matplotlib is imported on use."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, figure_for, plain
from estim.probe.verdict.change import NOTHING
from estim.probe.verdict.words import p_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.probe.verdict.record import Verdict

Array = npt.NDArray[np.float64]

_POINTS = 600
#: Standard deviations beyond which two distributions do not fit in one picture.
_FARTHEST = 1e4
# Beyond it the series of the noncentral F takes seconds a curve, then hours.
_LONG = 100.0
_COLOR = {"changed": VERMILION, "equivalent": GREEN, "blind": BLACK}


def plot_verdict(result: "Verdict", *, figure: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw the observed shift among its distributions, and the power against multiples of the smallest change."""
    drawn = figure_for(figure, figsize=(7.0, 4.0 if result.own_rule else 6.0))
    if result.own_rule:
        _draw_rule(drawn.subplots(), result)
        return drawn
    above, below = drawn.subplots(2, 1, height_ratios=[1.25, 1.0])
    _draw_distributions(above, result)
    _draw_power(below, result)
    for axes in (above, below):
        plain(axes)
    return drawn


def _draw_distributions(axes: Any, result: "Verdict") -> None:
    """Draw lengths of the shift, not their squares: the densities are then alike in width."""
    _title(axes, result)
    why = _not_drawn(result)
    if why:
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=GREY)
        return
    observed, critical = math.sqrt(result.statistic), math.sqrt(result.critical_value)
    high = 1.15 * max(observed, critical, float(np.quantile(result.shifts, 0.9)) + math.sqrt(result.degrees) + 3.0)
    length = np.linspace(high / _POINTS, high, _POINTS)
    none, changed = (_density(length, shifts, result) for shifts in (np.zeros(1), result.shifts))
    axes.fill_between(length, none, color=BLUE, alpha=0.18, lw=0.0)
    axes.plot(length, none, color=BLUE, label="nothing changed")
    axes.plot(length, changed, color=ORANGE, label="the smallest change of interest")
    beyond = length >= critical
    axes.fill_between(
        length[beyond], changed[beyond], color=ORANGE, alpha=0.3, lw=0.0, label=f"power {result.power:.3g}"
    )
    axes.axvline(critical, color=GREY, lw=1.0, ls="--", label=f"changed beyond (level {result.level:.3g})")
    if 0.0 < result.equivalence_limit < high**2:
        enough = result.power >= result.wanted_power
        label = "equivalent below" if enough else "equivalent below, had it the power"
        axes.axvline(math.sqrt(result.equivalence_limit), color=GREEN, lw=1.0, ls=":", label=label)
    what = "on average" if result.average else "observed"
    axes.axvline(observed, color=_COLOR[result.outcome], lw=2.0, label=f"{what}, {p_of(result.p_value)}")
    unit = "sd of the noise" if math.isinf(result.noise_degrees) else "estimated sd of the noise"
    axes.set(xlabel=f"length of the shift along the resolved directions, {unit}", ylabel="density")
    axes.set(xlim=(0.0, high), ylim=(0.0, None))
    axes.legend(frameon=False, fontsize=8.0)


def _title(axes: Any, result: "Verdict") -> None:
    axes.set_title(f"{result.outcome.name}: {_wrapped(result.change)}", loc="left", fontsize=11.0, parse_math=False)


def _draw_rule(axes: Any, result: "Verdict") -> None:
    """Draw all that is known of a user's own rule: how often it alarms without and with the smallest change."""
    _title(axes, result)
    for place, rate, error, color, name in (
        (0, result.false_alarm_rate, result.false_alarm_se, BLUE, "false alarms"),
        (1, result.power, result.power_se, ORANGE, "power"),
    ):
        label = f"{name}: {rate:.3g}" + (f" (±2 s.e.: {2.0 * error:.1g})" if error else "")
        axes.errorbar([place], [rate], yerr=[2.0 * error], fmt="o", ms=6.0, capsize=3.0, color=color, label=label)
    label = f"power wanted: {result.wanted_power:g}"
    axes.axhline(result.wanted_power, color=GREY, lw=0.8, ls="--", label=label)
    axes.set_xticks([0, 1], ["nothing changed", "the smallest change of interest"])
    axes.set(xlim=(-0.5, 1.5), ylim=(-0.03, 1.03), ylabel="probability of an alarm")
    axes.legend(frameon=False, fontsize=8.0, loc="center")
    plain(axes)


def _not_drawn(result: "Verdict") -> str:
    """Say why there are no distributions to draw; empty where there are."""
    if np.isinf(result.shifts).all():
        return "a reading without noise sees the smallest change for certain"
    if result.degrees == 0:
        return "nothing is resolved"
    if max(float(result.shifts.max()), math.sqrt(result.statistic)) > _FARTHEST:
        return "the shift, or that of the smallest change, is far beyond the noise"
    return ""


def _density(length: Array, shifts: Array, result: "Verdict") -> Array:
    """Return the density of the length of a shift, chi or the root of F, averaged over an ensemble."""
    from scipy import stats

    shown = np.quantile(shifts, (np.arange(64) + 0.5) / 64) if len(shifts) > 64 else shifts
    squares, degrees = length**2, result.degrees
    total = np.zeros_like(length)
    for shift in shown:
        if math.isinf(result.noise_degrees):
            total += stats.ncx2.pdf(squares, degrees, shift**2) if shift > NOTHING else stats.chi2.pdf(squares, degrees)
        elif shift > _LONG:
            total += _far_density(length, shift + 0.5 * (degrees - 1) / shift, result.noise_degrees) / (2.0 * length)
        elif shift > NOTHING:
            total += stats.ncf.pdf(squares / degrees, degrees, result.noise_degrees, shift**2) / degrees
        else:
            total += stats.f.pdf(squares / degrees, degrees, result.noise_degrees) / degrees
    return np.asarray(total / len(shown) * 2.0 * length)


def _far_density(length: Array, shift: float, noise_degrees: float) -> Array:
    """Return the density of a normal length far from 0, of unit variance, over the root of an estimated variance.

    Laplace's integral over that root y, of y^nu exp(-nu y^2 / 2 - (x y - shift)^2 / 2): right to 1 / shift^2.
    """
    from scipy.special import gammaln

    nu = noise_degrees
    bend, pull = nu + length**2, length * shift
    root = (pull + np.sqrt(pull**2 + 4.0 * bend * nu)) / (2.0 * bend)
    constant = math.log(2.0) + 0.5 * nu * math.log(0.5 * nu) - float(gammaln(0.5 * nu))
    height = constant + nu * np.log(root) - 0.5 * nu * root**2 - 0.5 * (length * root - shift) ** 2
    return np.asarray(np.exp(height) / np.sqrt(nu / root**2 + bend))


def _draw_power(axes: Any, result: "Verdict") -> None:
    axes.set(xlabel="size of the change, in smallest changes of interest", ylabel="probability of detection")
    axes.set(ylim=(0.0, 1.03))
    factor = result.detectable_factor
    if not math.isfinite(factor) or factor == 0.0:
        axes.axhline(result.power, color=ORANGE, lw=2.0)
        text = "the smallest change of interest can hide at any size" if math.isinf(factor) else ""
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=GREY)
        return
    sizes = np.geomspace(0.05 * min(factor, 1.0), 3.0 * max(factor, 1.0), 120)
    axes.plot(sizes, result.power_at(sizes), color=ORANGE, lw=2.0)
    axes.axhline(result.wanted_power, color=GREY, lw=0.8, ls="--")
    axes.axhline(result.level, color=GREY, lw=0.8, ls=":")
    axes.plot([1.0], [result.power], "o", color=BLACK, ms=5.0, label=f"smallest change: {result.power:.3g}")
    axes.plot(
        [factor], [result.wanted_power], "D", color=BLUE, ms=5.0, label=f"{result.wanted_power:g} at {factor:.3g} of it"
    )
    axes.annotate("level", (sizes[0], result.level), xytext=(2.0, 2.0), textcoords="offset points", fontsize=8.0)
    axes.set(xscale="log", xlim=(sizes[0], sizes[-1]))
    axes.legend(frameon=False, fontsize=8.0, loc="upper left")


def _wrapped(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:67]}..."
