"""Pictures of results."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from monitor import LAYERS
from study import POWER, SIZE

# Okabe and Ito's palette, told apart by colour-blind readers and in grey.
BLACK, ORANGE, BLUE, GREEN, VERMILION, GREY = "#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#7F7F7F"
COLORS = (BLUE, ORANGE, GREEN, VERMILION, BLACK, GREY)


def draw_seen(results):
    """Return how far random changes of each map shift the readings."""
    figure = Figure(layout="constrained", figsize=(8.0, 3.6))
    axes = figure.subplots()
    seen = results["seen"]
    for kind, color in (("query/key", BLUE), ("value", ORANGE)):
        rows = seen[seen.index.str.endswith(kind)]
        place = np.arange(len(rows))
        axes.plot(place, rows["shift"], "o-", ms=6.0, color=color, label=f"{kind}, noise of bfloat16")
        axes.plot(place, rows["shift, int8"], "o--", ms=6.0, mfc="white", color=color, label=f"{kind}, noise of int8")
    axes.axhline(results["needed"][0], color=BLACK, ls="--", lw=0.9, label=f"detected with power {POWER:g}")
    axes.set(xlabel="layer", ylabel="shift, sd of the noise", yscale="log", xticks=np.arange(LAYERS))
    axes.set_title(f"Random changes of {100 * SIZE:g} % of one map", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0, ncols=2, loc="center", bbox_to_anchor=(0.5, 0.52))
    plain(axes)
    return figure


def draw_judged(results):
    """Return predicted beside actual shifts of quantised layers."""
    figure = Figure(layout="constrained", figsize=(8.0, 4.4))
    axes = figure.subplots()
    judged = results["judged"]
    for (name, rows), color in zip(judged.groupby(level=0, sort=False), COLORS, strict=False):
        axes.plot(rows["predicted"], rows["actual"], "o", ms=5.0, color=color, label=name)
        blind = rows[rows["verdict"] == "BLIND"]
        axes.plot(blind["predicted"], blind["actual"], "o", ms=9.0, mfc="none", color=color)
    ends = np.array([judged["predicted"].min() / 1.5, judged["predicted"].max() * 1.5])
    axes.plot(ends, ends, color=GREY, lw=0.8, zorder=0, label="as predicted")
    axes.axhline(results["needed"][0], color=BLACK, ls="--", lw=0.9, label=f"detected with power {POWER:g}")
    axes.plot([], [], "o", ms=9.0, mfc="none", color=BLACK, label="ringed: BLIND")
    axes.set(xscale="log", yscale="log", xlabel="predicted shift, sd of the noise", ylabel="actual shift")
    axes.set_title("One layer to int8 and back: six layers, four ways", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)
    return figure


def draw_sentences(results):
    """Return the power against the number of sentences."""
    figure = Figure(layout="constrained", figsize=(8.0, 3.2))
    axes = figure.subplots()
    count = np.arange(1, len(results["gains"]) + 1)
    axes.plot(count, results["as given"], color=GREY, label="bank, then candidates as they come")
    axes.plot(count, results["best first"], color=VERMILION, label="best first")
    axes.axvline(len(results["bank"]), color=GREY, lw=0.8, ls=":")
    axes.annotate(" the bank", (len(results["bank"]), 0.9), fontsize=8.0, color=GREY)
    axes.axhline(POWER, color=BLACK, ls="--", lw=0.9, label="asked for")
    axes.set(xlabel="sentences read", ylabel="power", ylim=(0.0, 1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title(f"A random {100 * SIZE:g} % change of one layer's query and key", loc="left", fontsize=11.0)
    axes.legend(frameon=False, fontsize=8.0, loc="center left")
    plain(axes)
    return figure


def draw_scaled(results):
    """Return how singular values fall with the scale, with and without residuals."""
    figure = Figure(layout="constrained", figsize=(8.0, 4.2))
    scales = np.array(results["scales"])
    both = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, key, title in zip(both, ("with", "without"), ("with residuals", "without residuals"), strict=True):
        values, resolutions = results[key]
        for k, color in enumerate(COLORS[:LAYERS]):
            known = values[:, k] > resolutions[:, k]
            axes.plot(
                scales[known],
                values[known, k],
                "o-",
                ms=3.5,
                lw=1.2,
                color=color,
                label=f"layer {k}" if key == "with" else None,
            )
            axes.plot(scales[~known], values[~known, k], "x", ms=3.5, color=color, alpha=0.5)
        axes.set(xscale="log", yscale="log", xlabel="scale of all query and key weights")
        axes.set_title(title, loc="left", fontsize=11.0)
        plain(axes)
    values = results["without"][0]
    for order, k in ((1, 0), (5, 1), (17, 2)):
        start = max(-1, -(len(scales) // 2)) if k == 2 else -1
        anchor = start if k < 2 else min(3, len(scales) - 1)
        guide = values[anchor, k] * (scales / scales[anchor]) ** order
        shown = (guide > 1e-17) & (guide < 10.0)
        both[1].plot(scales[shown], guide[shown], ":", color=GREY, lw=1.0)
        both[1].annotate(f"slope {order}", (scales[shown][-1], guide[shown][-1]), fontsize=8.0, color=GREY)
    both[0].set_ylabel("largest singular value of a layer")
    both[0].legend(frameon=False, fontsize=8.0)
    both[1].plot([], [], "x", color=GREY, label="below the resolution")
    both[1].legend(frameon=False, fontsize=8.0, loc="lower right")
    return figure


def plain(axes):
    """Leave a light grid and two spines."""
    axes.grid(which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
