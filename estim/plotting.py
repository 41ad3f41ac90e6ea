"""Pictures of results. Takes arrays and names, never a model; matplotlib is imported on use."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from estim.probe.many_unknowns.record import ParameterRecovery
    from estim.probe.record import Sensitivity
    from estim.recovery.recovery import Recovery

Array = npt.NDArray[np.float64]

#: Okabe and Ito's palette, told apart by colour-blind readers and in grey.
BLACK, ORANGE, BLUE, GREEN, VERMILION, GREY = "#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#7F7F7F"

#: Characters of a name on an axis.
LONGEST_NAME = 40


def new_figure(**options: Any) -> "Figure":
    """Return an empty figure that no window manager holds on to.

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        msg = "pictures need matplotlib: pip install 'estim[plot]'"
        raise ModuleNotFoundError(msg) from error
    return Figure(layout="constrained", **options)


def plot_recovery(result: "Recovery", *, exact: "Recovery | None" = None) -> "Figure":
    """Draw RMSE, its linear prediction and the clipped fractions against sigma, on log axes."""
    figure = new_figure(figsize=(7.0, 6.0))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3.0, 1.2])
    relative = result.theta != 0.0
    scale = abs(result.theta) if relative else 1.0
    order = np.argsort(result.sigma)
    sigma = result.sigma[order]
    if exact is not None:
        by = np.argsort(exact.sigma)
        above.plot(exact.sigma[by], exact.rmse[by] / scale, color=BLUE, lw=2.0, label="exact")
    if np.isfinite(result.linear_rmse).all():
        above.plot(sigma, result.linear_rmse[order] / scale, "--", color=GREY, label="linear: sigma / |slope|")
    if result.method == "exact":
        above.plot(sigma, result.rmse[order] / scale, "o-", ms=4.0, color=BLUE, label="exact")
    else:
        above.errorbar(
            sigma, result.rmse[order] / scale, yerr=2.0 * result.rmse_se[order] / scale, fmt="o", ms=4.0, capsize=2.0,
            color=VERMILION, label=f"Monte Carlo, {result.trials:,} trials (±2 s.e.)",
        )  # fmt: skip
    if sigma[0] < result.linear_limit < sigma[-1]:
        above.axvline(result.linear_limit, color=GREY, lw=0.8, ls=":")
        above.annotate(
            "linear within 10 %\nup to here ", (result.linear_limit, 0.04), xycoords=("data", "axes fraction"),
            ha="right", va="bottom", fontsize=8.0, color=GREY,
        )  # fmt: skip
    above.set(xscale="log", yscale="log", ylabel="RMSE / theta" if relative else "RMSE")
    above.set_title(f"Recovery of theta = {result.theta:g}", loc="left", fontsize=11.0)
    above.legend(frameon=False, loc="upper left")
    source = result if exact is None else exact
    for fraction, color, label in (
        (source.clipped_low, BLUE, "clipped at the lower end"),
        (source.clipped_high, ORANGE, "clipped at the upper end"),
    ):
        below.plot(source.sigma, fraction, "o", ms=3.5, color=color, label=label)
        if source.method == "exact":
            below.plot(*_clipped_between(source.sigma, fraction), color=color)
    below.set(xscale="log", xlabel="noise sd of a reading, sigma", ylabel="fraction")
    if max(source.clipped_low.max(), source.clipped_high.max()) > 1e-6:
        below.set(yscale="log", ylim=(1e-6, 1.5))
        below.legend(frameon=False, loc="upper left", fontsize=8.0)
    else:
        below.set(ylim=(0.0, 1.0))
        below.text(0.5, 0.5, "hardly a reading is clipped", transform=below.transAxes, ha="center", color=GREY)
    for axes in (above, below):
        plain(axes)
    return figure


def _clipped_between(sigma: Array, fraction: Array) -> tuple[Array, Array]:
    """Return a curve of clipped fractions through exact ones, (points,): all are P(noise beyond one distance)."""
    from scipy.special import ndtr, ndtri

    fine = np.geomspace(sigma.min(), sigma.max(), 400)
    inside = (fraction > 0.0) & (fraction < 1.0)
    if not inside.any():
        return fine, np.full_like(fine, fraction[0])
    score = ndtri(fraction[inside])
    best = int(np.argmin(np.abs(score + 1.5)))  # neither rounded to a half nor far in the tail
    return fine, ndtr(score[best] * sigma[inside][best] / fine)


def plot_sensitivity(result: "Sensitivity") -> "Figure":
    """Draw both spectra with their limits, what the weakest directions are made of, and the power for each group."""
    from estim.probe.verdict.power_plot import draw_power

    figure = new_figure(figsize=(7.0, 10.0))
    above, middle, below = figure.subplots(3, 1, height_ratios=[1.3, 1.0, 1.0])
    _draw_spectrum(above, result)
    _draw_weakest(middle, result)
    draw_power(below, result)
    return figure


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
    axes.axhline(1.0, color=BLACK, lw=0.8, ls="--", label="floor of one unit")
    counts = ", ".join(f"{count} {status}" for status, count in result.counts.items() if count)
    axes.set(yscale="log", xlabel="direction, strongest first", ylabel="singular value per noise sd")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(f"What is seen: {counts}", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)


def _draw_weakest(axes: Any, result: "Sensitivity") -> None:
    """Draw the squared components of the weakest directions, gauge left out, in parameters of equal effect."""
    shown = [k for k, status in enumerate(result.status) if status != "gauge"][-3:]
    weight = np.abs(result.directions[shown]) * np.where(np.isfinite(result.column_norms), result.column_norms, 1.0)
    if not weight.any():
        weight = np.abs(result.directions[shown])
    share = weight**2 / np.maximum((weight**2).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    order = np.argsort(-share.max(axis=0), kind="stable")[:12]
    place = np.arange(len(order), dtype=float)
    for row, (k, color) in enumerate(zip(shown, (GREEN, ORANGE, VERMILION), strict=False)):
        offset = (row - 0.5 * (len(shown) - 1)) * 0.25
        axes.bar(place + offset, share[row, order], 0.25, color=color, label=f"direction {k + 1}: {result.status[k]}")
    labels = [shorten(result.names[j]) for j in order]
    # A name is a name: a dollar in it starts no formula.
    axes.set_xticks(place, labels, rotation=30.0, ha="right", fontsize=8.0, parse_math=False)
    axes.set(ylabel="share of the direction", ylim=(0.0, 1.05))
    axes.set_title("The weakest directions, parameters in units of equal effect", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)


def shorten(name: str) -> str:
    """Leave out the middle of a name too long for an axis, and write characters that the font lacks by their code."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    name = "".join(c if font.get_char_index(ord(c)) else c.encode("ascii", "backslashreplace").decode() for c in name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}...{name[-LONGEST_NAME // 2 + 3 :]}"


def plain(axes: Any) -> None:
    """Leave a light grid and two spines."""
    axes.grid(which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def plot_coverage(
    theta: npt.ArrayLike,
    coverage: Mapping[str, npt.ArrayLike],
    *,
    confidence_level: float = 0.95,
    parameter: str = "theta",
) -> "Figure":
    """Draw how often intervals hold the true parameter, against that parameter.

    Parameters
    ----------
    theta : array_like, shape (points,)
        True parameters, in their units, in any order.
    coverage : mapping from names to array_like, shape (points,)
        Probabilities, as from `estim.coverage`, under the name of their method.
    confidence_level : float
        The level asked for, drawn as a dashed line.
    parameter : str
        What the horizontal axis is called.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing; the message names the extra to install.
    """
    figure = new_figure(figsize=(7.0, 4.0))
    draw_coverage(figure.subplots(), theta, coverage, confidence_level=confidence_level, parameter=parameter)
    return figure


def draw_coverage(
    axes: Any,
    theta: npt.ArrayLike,
    coverage: Mapping[str, npt.ArrayLike],
    *,
    confidence_level: float,
    parameter: str,
) -> None:
    """Draw what `plot_coverage` says."""
    points = np.asarray(theta, dtype=np.float64)
    order = np.argsort(points)
    # Exact methods lie on one another and on the level: each later line is thinner, so that all are seen.
    styles = zip((BLUE, ORANGE, VERMILION, GREEN, BLACK), (5.0, 2.5, 1.5, 1.2, 1.0), strict=True)
    for (name, values), (color, width) in zip(coverage.items(), cycle(styles), strict=False):
        axes.plot(points[order], np.asarray(values, dtype=np.float64)[order], color=color, lw=width, label=name)
    axes.axhline(confidence_level, color=GREY, lw=0.8, ls="--", label=f"level asked for: {confidence_level:g}")
    axes.set(xlabel=parameter, ylabel="probability that the interval holds it")
    axes.set_title("Coverage", loc="left", fontsize=11.0)
    axes.ticklabel_format(axis="y", useOffset=False)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, confidence_level - 0.02), max(high, confidence_level + 0.02))
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)


def plot_parameters(result: "ParameterRecovery") -> "Figure":
    """Draw the RMSE of every resolved direction beside 1 / s, and their ratio beside the breakdown that theory says."""
    figure = new_figure(figsize=(7.0, 6.0))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.6, 1.0])
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
    below.legend(frameon=False, fontsize=8.0)
    for axes in (above, below):
        plain(axes)
    return figure
