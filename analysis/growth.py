"""The growth study: contact order, singular value and RMSE curve together, and what every direction says of theory."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import estim
from analysis.growth_fits import (
    CONFIDENCE,
    WELL_ABOVE,
    Z_LIMIT,
    coverage,
    coverage_as_stated,
    exponents_held,
    linear_regimes,
    many_unknowns,
    one_unknown,
    windows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table(study: dict[str, Any]) -> str:
    """Return order, singular value and breakdown of the chains, the fitted exponents, and the verdicts."""
    lines = [
        "Depth turns into blindness: the last factor of scalar chains at theta = 0.05",
        f"{'depth':>5}{'order':>7}{'fitted':>10}{'singular value':>17}{'breakdown sigma':>17}{'sigma for 10 %':>16}",
    ]
    for row in study["chains"]:
        s, half = row["singular_value"], row["singular_value_at_half_scale"]
        limit = estim.Recovery.from_dict(row["exact"]).linear_limit
        lines.append(
            f"{row['depth']:>5}{row['order']:>7}{np.log2(s / half):>10.4f}{s:>17.4e}{limit:>17.3e}"
            f"{0.1 * s * study['fixture']['theta']:>16.3e}"
        )
    lines += ["", "d log RMSE / d log sigma, weighted least squares, 95 % interval (* where it misses the exact one):"]
    for name, row in one_unknown(study):
        lines.append(f"  {name}")
        for first, last, fitted, exact in windows(row):
            flag = " " if fitted.holds(exact) else "*"
            lines.append(
                f"   {flag}sigma {first:.2e} to {last:.2e}: {fitted.value:8.5f} [{fitted.low:.5f}, {fitted.high:.5f}]"
                f"  exact {exact:.5f}"
            )
    held, total = exponents_held(study)
    together, _ = exponents_held(study, together=True)
    lines += [
        f"  {held} of {total} intervals hold the exact exponent; at 95 % each, the probability of a miss or more is "
        f"{1.0 - CONFIDENCE**total:.2f}.",
        f"  {together} of {total} do at 95 % for all {total} together (Sidak).",
        "",
        "Coverage, simulated:",
    ]
    for name, exponent, share, count in coverage(study):
        verdict = "as stated" if coverage_as_stated(share, count) else "NOT as stated"
        lines.append(
            f"  {name:<10} exponent {exponent:.4f}: {100 * share:.1f} % of {count} intervals hold it, {verdict}"
        )
    lines += [
        "",
        "Linear regime, predicted breakdown at least ten times the noise: |RMSE s / sigma - 1| in standard errors",
    ]
    regimes = linear_regimes(study)
    for one in regimes:
        verdict = "agrees" if one.agrees else "DEPARTS" if one.compared else "no level is linear"
        lines.append(f"  {one.study:<32}{one.compared:>5} of {one.total:>4} compared, worst {one.worst:.2f}: {verdict}")
    count = sum(one.compared for one in regimes)
    lines += [
        f"  {count} comparisons: were all errors Gaussian, one or more would pass {Z_LIMIT:g} by chance with "
        f"probability {1.0 - (1.0 - math.erfc(Z_LIMIT / math.sqrt(2.0))) ** count:.2f}.",
        "",
        "Beyond it, many unknowns (median over directions whose predicted breakdown is below the noise):",
    ]
    for name, levels in many_unknowns(study):
        lines += [f"  {name}: {line}" for line in map(_beyond, levels)]
    return "\n".join(lines)


def _beyond(level: dict[str, Any]) -> str:
    ratio = np.array(level["rmse"]) / np.array(level["linear_rmse"])
    room = np.array(level["breakdown"])
    broken = ratio[room < 1.0]
    said = f"{np.median(broken):.3g}" if broken.size else "-"
    return (
        f"sigma {level['sigma']:.1e}: {np.count_nonzero(room >= WELL_ABOVE)} linear, {broken.size} broken, RMSE over "
        f"linear {said}; clipped {level['clipped']:.3f}; {level['failures']} of {level['trials']} did not settle"
    )


def draw(study: dict[str, Any]) -> "Figure":
    """Draw the page of pictures."""
    from analysis.growth_pictures import draw

    return draw(study)
