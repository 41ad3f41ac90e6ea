"""The picture of a recovery: error and clipping against the noise of a reading."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.plotting import BLUE, GREY, ORANGE, VERMILION, figure_for, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from estim.recovery.recovery_record import Recovery

Array = npt.NDArray[np.float64]


def plot_recovery(
    result: "Recovery", *, exact: "Recovery | None" = None, figure: "Figure | SubFigure | None" = None
) -> "Figure":
    """Draw RMSE, its linear prediction and the clipped fractions against sigma, on log axes."""
    drawn = figure_for(figure, figsize=(7.0, 6.0))
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=[3.0, 1.2])
    relative = result.theta != 0.0
    scale = abs(result.theta) if relative else 1.0
    order = np.argsort(result.sigma)
    sigma = result.sigma[order]
    if exact is not None:
        by = np.argsort(exact.sigma)
        above.plot(exact.sigma[by], exact.rmse[by] / scale, color=BLUE, lw=2.0, label="exact")
    if np.isfinite(result.linear_rmse).all():
        label = "linear: sigma / |theta slope|" if relative else "linear: sigma / |slope|"
        above.plot(sigma, result.linear_rmse[order] / scale, "--", color=GREY, label=label)
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
            "linear within 10 %\nup to here", (result.linear_limit, 0.04), xycoords=("data", "axes fraction"),
            xytext=(-4.0, 0.0), textcoords="offset points", ha="right", va="bottom", fontsize=8.0, color=GREY,
        )  # fmt: skip
    above.set(xscale="log", yscale="log", ylabel="RMSE / |theta|" if relative else "RMSE")
    above.set_title(f"Recovery of theta = {result.theta:g}", loc="left", fontsize=11.0)
    above.legend(frameon=False, loc="upper left")
    source = result if exact is None else exact
    for counted, fraction, color, label in (
        (result.clipped_low, source.clipped_low, BLUE, "clipped at the lower end"),
        (result.clipped_high, source.clipped_high, ORANGE, "clipped at the upper end"),
    ):
        below.plot(result.sigma, counted, "o", ms=3.5, color=color, label=label)
        if source.method == "exact":
            below.plot(*_clipped_between(source.sigma, fraction), color=color)
    below.set(xscale="log", xlabel="noise sd of a reading, sigma", ylabel="fraction")
    below.tick_params(axis="x", which="minor", labelsize=7.0)  # 3 and 4 times a power of ten touch one another
    if max(source.clipped_low.max(), source.clipped_high.max()) > 1e-6:
        below.set(yscale="log", ylim=(1e-6, 1.5))
        below.legend(frameon=False, fontsize=8.0)  # where no point is
    else:
        below.set(ylim=(0.0, 1.0))
        below.text(0.5, 0.5, "hardly a reading is clipped", transform=below.transAxes, ha="center", color=GREY)
    for axes in (above, below):
        plain(axes)
    return drawn


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
