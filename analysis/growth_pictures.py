"""Pictures of the growth study: above, depth that turns into blindness; below, many unknowns and exponents."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import estim
from analysis.growth_fits import many_unknowns, of_one, one_unknown, windows
from estim.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

#: One colour and one marker for each, so that neither alone has to tell them apart.
STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (VERMILION, "D"))


def draw(study: dict[str, Any]) -> "Figure":
    """Draw contact order, singular value and RMSE curve of the chains in one row, many unknowns and exponents below."""
    figure = new_figure(figsize=(14.0, 9.0))
    axes = figure.subplots(2, 3)
    _draw_orders(axes[0, 0], study)
    _draw_values(axes[0, 1], study)
    _draw_curves(axes[0, 2], study)
    _draw_spectrum(axes[1, 0], study["matrices"][-1])
    _draw_departure(axes[1, 1], study)
    _draw_exponents(axes[1, 2], study)
    for place in axes.flat:
        place.grid(which="major", color="0.9")
        place.set_axisbelow(True)
        place.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_orders(axes: "Axes", study: dict[str, Any]) -> None:
    depths = [row["depth"] for row in study["chains"]]
    orders = [row["order"] for row in study["chains"]]
    axes.bar(depths, orders, 0.5, color=[color for color, _ in STYLES[: len(depths)]])
    for depth, order in zip(depths, orders, strict=True):
        axes.annotate(str(order), (depth, order), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom")
    axes.set_xticks(depths)
    axes.set(xlabel="layers", ylabel="contact order of the last layer (exact)", ylim=(0, 1.12 * max(orders)),
             title="1. Depth raises the contact order ...")  # fmt: skip


def _draw_values(axes: "Axes", study: dict[str, Any]) -> None:
    scales = np.array([0.5, 1.0]) * study["fixture"]["theta"]
    for row, (color, marker) in zip(study["chains"], STYLES, strict=False):
        values = np.array([row["singular_value_at_half_scale"], row["singular_value"]])
        axes.loglog(scales, values, marker=marker, color=color)
        axes.annotate(f"{row['depth']} layers: slope {row['order']}", (scales[1], values[1]), xytext=(-2, 8),
                      textcoords="offset points", ha="right", color=color)  # fmt: skip
    axes.set_xticks(scales, [f"{scale:g}" for scale in scales])
    axes.minorticks_off()
    axes.set(xlabel="scale of the factors", ylabel="singular value of the last factor", xlim=(0.02, 0.0625),
             ylim=(1e-90, 1e3), title="2. ... so the signal sinks, by that power of the scale, ...")  # fmt: skip


def _draw_curves(axes: "Axes", study: dict[str, Any]) -> None:
    for row, (color, marker) in zip(study["chains"], STYLES, strict=False):
        curve = estim.Recovery.from_dict(row["exact"])
        sigma, rmse, _, _ = of_one(row)
        axes.loglog(curve.sigma, np.abs(curve.linear_rmse / curve.theta), "--", lw=1.0, color=GREY)
        axes.loglog(curve.sigma, curve.relative_rmse, color=color)
        axes.loglog(sigma, rmse / curve.theta, marker, ms=4, color=color)
        ten = 0.1 * row["singular_value"] * curve.theta
        right = row["depth"] != 3
        axes.annotate(f"{row['depth']} layers:\n10 % off at\n{ten:.0e}", (ten, 0.1), xytext=(8 if right else -8, -6),
                      textcoords="offset points", va="top", ha="left" if right else "right", color=color)  # fmt: skip
    axes.plot([], [], color=BLACK, label="exact")
    axes.plot([], [], "o", ms=4, color=BLACK, label="Monte Carlo")
    axes.plot([], [], "--", lw=1.0, color=GREY, label="linear: sigma / (s theta)")
    axes.legend(edgecolor="none", framealpha=0.9, loc="upper left")  # over the line of the deepest
    axes.set(xlabel="sigma, noise of the reading", ylabel="RMSE / theta", ylim=(5e-4, 60.0), xlim=(1e-76, 1e14),
             title="3. ... and ever less noise blinds")  # fmt: skip
    axes.minorticks_off()


def _draw_spectrum(axes: "Axes", matrix: dict[str, Any]) -> None:
    levels = matrix["levels"]
    linear = np.array(levels[0]["linear_rmse"]) / levels[0]["sigma"]
    rank = np.arange(1, len(linear) + 1)
    axes.semilogy(rank, linear, color=BLACK, lw=1.0, label="1 / s, from the Jacobian alone")
    for level, (color, marker) in zip(levels, STYLES, strict=False):
        axes.semilogy(rank, np.array(level["rmse"]) / level["sigma"], marker, ms=4, mfc="none", color=color,
                      label=f"RMSE / sigma at sigma {level['sigma']:.0e}")  # fmt: skip
    axes.legend(frameon=False, loc="upper left")
    title = f"The RMSE of {len(linear)} unknowns repeats the spectrum\n(matrix fixture, scale {matrix['scale']})"
    axes.set(xlabel="direction, strongest first", ylabel="error per unit of noise", title=title)
    axes.minorticks_off()


def _draw_departure(axes: "Axes", study: dict[str, Any]) -> None:
    """Draw RMSE over linear against noise over predicted breakdown: all studies on one curve near one."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    room = np.geomspace(1e-4, 2.0, 200)
    axes.plot(room, np.sqrt(1.0 + 0.21 * room**2), color=BLACK, lw=1.2, label="second-order theory", zorder=3)
    for (name, levels), (color, marker) in zip(many_unknowns(study), STYLES, strict=False):
        ratio = np.concatenate([np.array(level["rmse"]) / np.array(level["linear_rmse"]) for level in levels])
        noise = np.concatenate([1.0 / np.array(level["breakdown"]) for level in levels])
        axes.plot(noise, ratio, marker, ms=4, mfc="none", mew=0.8, color=color, label=name)
    axes.axvline(1.0, color=GREY, lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="noise / breakdown that theory predicts", ylabel="RMSE s / sigma",
             xlim=(1e-5, None), title="Each direction leaves 1 / s where theory says")  # fmt: skip
    top = axes.get_ylim()[1]
    axes.set_yticks([tick for tick in (0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0) if tick <= top])
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, loc="upper left")


def _draw_exponents(axes: "Axes", study: dict[str, Any]) -> None:
    curve = estim.Recovery.from_dict(study["chains"][0]["exact"])
    unit = study["chains"][0]["singular_value"] * curve.theta
    local = np.gradient(np.log(curve.rmse), np.log(curve.sigma))
    axes.semilogx(curve.sigma / unit, local, color=GREY, lw=1.0, label="exact, local (2 layers)")
    for number, (first, last, _, exact) in enumerate(windows(study["chains"][0])):
        label = None if number else "exact, over the decade fitted"
        axes.plot(np.array([first, last]) / unit, [exact, exact], color=BLACK, lw=2.0, label=label)
    for number, (row, (color, marker)) in enumerate(zip(study["chains"], STYLES, strict=False)):
        scale = row["singular_value"] * study["fixture"]["theta"]
        found = windows(row)
        # Aside of one another, as they all but coincide.
        at = np.array([np.sqrt(first * last) for first, last, *_ in found]) / scale * 1.25 ** (number - 1)
        values = np.array([(one.value, one.value - one.low, one.high - one.value) for *_, one, _ in found]).T
        axes.errorbar(at, values[0], yerr=values[1:], fmt=marker, ms=5, mfc="none", color=color, capsize=2,
                      label=f"fitted, {row['depth']} layers")  # fmt: skip
    for name, row in one_unknown(study)[len(study["chains"]) :]:
        ((_, _, fitted, exact),) = windows(row)
        axes.axhline(exact, color=GREY, lw=0.8, ls="--")
        said = f"{name.split(' (')[0]}: {fitted.value:.4f} +- {fitted.high - fitted.value:.4f}"
        axes.annotate(said, (1.2e-3, exact), xytext=(0, 3), textcoords="offset points")
    axes.legend(frameon=False, loc="upper right")
    axes.set(xlabel="sigma / (s theta)", ylabel="d log RMSE / d log sigma", ylim=(-0.05, 1.9),
             title="Fitted exponents, 95 % intervals")  # fmt: skip
