"""Pictures of results. Takes arrays and names, never a model; matplotlib is imported on use."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from estim.recovery import Recovery

#: Okabe and Ito's palette, told apart by colour-blind readers and in grey.
BLACK, ORANGE, BLUE, GREEN, VERMILION, GREY = "#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#7F7F7F"


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
    by = np.argsort(source.sigma)
    for fraction, color, label in (
        (source.clipped_low, BLUE, "clipped at the lower end"),
        (source.clipped_high, ORANGE, "clipped at the upper end"),
    ):
        below.plot(source.sigma[by], fraction[by], color=color, label=label)
    below.set(xscale="log", yscale="log", ylim=(1e-6, 1.5), xlabel="noise sd of a reading, sigma", ylabel="fraction")
    below.legend(frameon=False, loc="upper left", fontsize=8.0)
    for axes in (above, below):
        axes.grid(which="major", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
