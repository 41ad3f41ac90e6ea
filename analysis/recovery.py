"""The recovery study: ours beside the note's two figures, and the curve."""

from typing import TYPE_CHECKING, Any

import estim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The note's figures: sigma and the empirical relative RMSE (arXiv:2610.09620, section 6).
NOTE = ((1.57e-10, 0.0050), (1.57e-7, 1.31))


def table(study: dict[str, Any]) -> str:
    """Return the table of the study, and below it the note's figures beside ours."""
    simulated, exact = (estim.Recovery.from_dict(study[part]) for part in ("monte_carlo", "exact"))
    lines = [str(simulated.summary()), "", "Relative RMSE beside the note's:"]
    lines.append(f"{'sigma':>10}  {'note':>7}  {'Monte Carlo':>20}  {'exact':>9}")
    for (sigma, theirs), k in zip(NOTE, (0, -1), strict=True):
        ours, spread = simulated.relative_rmse[k], simulated.rmse_se[k] / simulated.theta
        lines.append(f"{sigma:10.2e}  {theirs:7.4g}  {ours:9.6f} +- {spread:.1e}  {exact.relative_rmse[k]:9.6f}")
    spread = simulated.rmse_se[-1] / simulated.theta * (simulated.trials / 1000) ** 0.5
    lines += [
        "",
        "By theory the first figure is sigma / (theta |m'(theta)|): equal figures mean equal slopes of both fixtures.",
        "The cap on theta decides the second: 0.15 here, not given in the note. Nor is the note's number of trials:",
        f"with 1,000 of them ours would have a standard error of {spread:.2g}.",
    ]
    return "\n".join(lines)


def draw(study: dict[str, Any]) -> "Figure":
    """Draw RMSE, linear prediction, exact curve and clipped fractions, with the note's two points."""
    simulated, exact = (estim.Recovery.from_dict(study[part]) for part in ("monte_carlo", "exact_curve"))
    figure = simulated.plot(exact=exact)
    above = figure.axes[0]
    above.plot(*zip(*NOTE, strict=True), "D", ms=9, mfc="none", mec="#000000", label="the note: 0.0050 and 1.31")
    above.legend(frameon=False, loc="upper left")
    return figure
