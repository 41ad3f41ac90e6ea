"""The growth study: contact order, singular value and RMSE curve together, and what every direction says of theory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import estim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

#: Predicted breakdown over noise from which a direction counts as linear: theory then expects the RMSE within 0.1 %.
WELL_ABOVE = 10.0
#: Standard errors between a Monte Carlo figure and theory that count as agreement.
Z_LIMIT = 4.0
CONFIDENCE = 0.95
#: Levels of one fitted exponent.
WINDOW = 5
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00")


@dataclass(frozen=True)
class Exponent:
    """d log RMSE / d log sigma over some levels, fitted by weighted least squares."""

    value: float
    low: float
    high: float

    def holds(self, exact: float) -> bool:
        """Tell whether the 95 % interval holds a value."""
        return self.low <= exact <= self.high


@dataclass(frozen=True)
class Linear:
    """The linear regime of a study: directions and levels whose predicted breakdown lies well above the noise."""

    study: str
    compared: int
    total: int
    worst: float
    """Largest |RMSE s / sigma - 1| in Monte Carlo standard errors."""

    @property
    def agrees(self) -> bool:
        """Whether every comparison is within 4 standard errors."""
        return self.compared > 0 and self.worst < Z_LIMIT


def fitted_exponent(sigma: Array, rmse: Array, rmse_se: Array) -> Exponent:
    """Fit log RMSE against log sigma; weights and interval from the Monte Carlo standard errors, which are known."""
    import statsmodels.api as sm

    design = sm.add_constant(np.log(sigma))
    fit = sm.WLS(np.log(rmse), design, weights=(rmse / rmse_se) ** 2).fit(cov_type="fixed scale")
    low, high = fit.conf_int(alpha=1.0 - CONFIDENCE)[1]
    return Exponent(float(fit.params[1]), float(low), float(high))


def exact_exponent(sigma: Array, exact: Array, rmse: Array, rmse_se: Array) -> float:
    """Return what the same fit, with the same weights, gives for the exact RMSE: what the fitted one estimates."""
    import statsmodels.api as sm

    design = sm.add_constant(np.log(sigma))
    return float(sm.WLS(np.log(exact), design, weights=(rmse / rmse_se) ** 2).fit().params[1])


def windows(row: dict[str, Any]) -> list[tuple[float, float, Exponent, float]]:
    """Return (first sigma, last sigma, fitted, exact) for consecutive windows of a study of one unknown."""
    sigma, rmse, se, exact = of_one(row)
    found = []
    for start in range(0, len(sigma) - WINDOW + 1, WINDOW - 1):
        part = slice(start, start + WINDOW)
        fitted = fitted_exponent(sigma[part], rmse[part], se[part])
        found.append((sigma[part][0], sigma[part][-1], fitted, exact_exponent(sigma[part], exact[part], rmse[part],
                                                                              se[part])))  # fmt: skip
    return found


def of_one(row: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """Return sigma, Monte Carlo RMSE, its standard error and the exact RMSE of a study of one unknown."""
    levels = [estim.Recovery.from_dict(level) for level in row["monte_carlo"]]
    sigma, rmse, se = (np.array([getattr(one, name)[0] for one in levels]) for name in ("sigma", "rmse", "rmse_se"))
    return sigma, rmse, se, estim.Recovery.from_dict(row["exact_at_levels"]).rmse


def coverage(study: dict[str, Any]) -> list[tuple[str, float, float, int]]:
    """Return name, exponent, share of intervals that hold it, and number of replications."""
    found = []
    for row in study["replications"]:
        sigma, rmse, se = (np.array(row[name]) for name in ("sigma", "rmse", "rmse_se"))
        held = [fitted_exponent(sigma, *one).holds(row["exponent"]) for one in zip(rmse, se, strict=True)]
        found.append((row["name"], row["exponent"], float(np.mean(held)), len(held)))
    return found


def coverage_as_stated(share: float, count: int) -> bool:
    """Tell whether a share of intervals is within 4 binomial standard errors of 95 %."""
    return bool(abs(share - CONFIDENCE) < Z_LIMIT * np.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / count))


def linear_regimes(study: dict[str, Any]) -> list[Linear]:
    """Return the verdict on every study: RMSE s / sigma against one, where theory says that it is one."""
    found = []
    for row in study["chains"]:
        curve = estim.Recovery.from_dict(row["exact"])
        sigma, rmse, se, _ = of_one(row)
        scores = (rmse * row["singular_value"] / sigma - 1.0) / (se * row["singular_value"] / sigma)
        found.append(_verdict(f"chain of depth {row['depth']}", scores, curve.linear_limit / sigma))
    for name, levels in many_unknowns(study):
        scores, room = [], []
        for level in levels:
            rmse, se, linear = (np.array(level[key]) for key in ("rmse", "rmse_se", "linear_rmse"))
            scores.append((rmse - linear) / se)
            room.append(np.array(level["breakdown"]))
        found.append(_verdict(name, np.concatenate(scores), np.concatenate(room)))
    return found


def many_unknowns(study: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the studies of many unknowns, each a name and its levels."""
    matrices = [(f"matrix fixture at scale {row['scale']}", row["levels"]) for row in study["matrices"]]
    return [("three exponentials", study["exponentials"]), *matrices]


def _verdict(name: str, scores: Array, room: Array) -> Linear:
    inside = room >= WELL_ABOVE
    return Linear(name, int(inside.sum()), len(scores), float(np.abs(scores[inside]).max(initial=0.0)))


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
    lines += [
        f"  {held} of {total} intervals hold the exact exponent; 95 % are expected to.",
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
    for one in linear_regimes(study):
        verdict = "agrees" if one.agrees else "DEPARTS" if one.compared else "no level is linear"
        lines.append(f"  {one.study:<32}{one.compared:>5} of {one.total:>4} compared, worst {one.worst:.2f}: {verdict}")
    lines += ["", "Beyond it, many unknowns (median over directions whose predicted breakdown is below the noise):"]
    for name, levels in many_unknowns(study):
        lines += [f"  {name}: {line}" for line in map(_beyond, levels)]
    return "\n".join(lines)


def one_unknown(study: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the studies of one unknown, each with its name."""
    chains = [(f"chain of depth {row['depth']}", row) for row in study["chains"]]
    return chains + [(f"theta^{row['power']} at 0 (theory: 1/{row['power']})", row) for row in study["powers"]]


def exponents_held(study: dict[str, Any]) -> tuple[int, int]:
    """Return how many fitted intervals hold the exact exponent, and how many there are."""
    held = [fitted.holds(exact) for _, row in one_unknown(study) for *_, fitted, exact in windows(row)]
    return sum(held), len(held)


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
    """Draw contact order, singular value and RMSE curve of the chains in one row, many unknowns below."""
    from estim.plotting import new_figure

    figure = new_figure(figsize=(11.0, 7.4))
    axes = figure.subplots(2, 3)
    _draw_orders(axes[0, 0], study)
    _draw_values(axes[0, 1], study)
    _draw_curves(axes[0, 2], study)
    for place, (name, levels) in zip((axes[1, 0], axes[1, 1]), many_unknowns(study)[:2], strict=False):
        _draw_many(place, name, levels)
    _draw_local(axes[1, 2], study)
    for place in axes.flat:
        place.grid(which="major", color="0.9")
        place.set_axisbelow(True)
        place.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_orders(axes: "Axes", study: dict[str, Any]) -> None:
    depths = [row["depth"] for row in study["chains"]]
    orders = [row["order"] for row in study["chains"]]
    axes.bar(depths, orders, 0.5, color=COLORS[: len(depths)])
    for depth, order in zip(depths, orders, strict=True):
        axes.annotate(str(order), (depth, order), ha="center", va="bottom")
    axes.set_xticks(depths)
    axes.set(xlabel="layers", ylabel="contact order, exact", title="Depth raises the order ...")


def _draw_values(axes: "Axes", study: dict[str, Any]) -> None:
    scales = np.array([0.025, 0.05])
    for row, color in zip(study["chains"], COLORS, strict=False):
        logs = np.log10([row["singular_value_at_half_scale"], row["singular_value"]])
        axes.plot(np.log10(scales), logs, "o-", color=color, label=f"{row['depth']} layers")
    axes.set(xlabel="log10 of the scale", ylabel="log10 of the singular value", title="... the signal sinks by it ...")
    axes.legend(frameon=False, fontsize=8)


def _draw_curves(axes: "Axes", study: dict[str, Any]) -> None:
    for row, color in zip(study["chains"], COLORS, strict=False):
        curve = estim.Recovery.from_dict(row["exact"])
        sigma, rmse, _, _ = of_one(row)
        log = np.log10(curve.sigma)
        axes.plot(log, curve.relative_rmse, color=color, label=f"{row['depth']} layers, exact")
        axes.plot(log, np.minimum(curve.linear_rmse / curve.theta, 2.0), "--", lw=0.8, color=color)
        axes.plot(np.log10(sigma), rmse / curve.theta, "o", ms=3, color=color)
        axes.axvline(np.log10(curve.linear_limit), lw=0.7, ls=":", color=color)
    axes.set(yscale="log", xlabel="log10 of sigma", ylabel="RMSE / theta", title="... and less noise blinds")
    axes.legend(frameon=False, fontsize=8)


def _draw_many(axes: "Axes", name: str, levels: list[dict[str, Any]]) -> None:
    """Draw RMSE over linear against noise over predicted breakdown: one curve would mean that theory says it all."""
    for level in levels:
        ratio = np.array(level["rmse"]) / np.array(level["linear_rmse"])
        room = 1.0 / np.array(level["breakdown"])
        axes.plot(room, ratio, "o", ms=3, label=f"sigma {level['sigma']:.0e}")
    axes.axhline(1.0, color="0.4", lw=0.8, ls="--")
    axes.axvline(1.0, color="0.4", lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="noise / predicted breakdown", ylabel="RMSE / linear", title=name)
    axes.legend(frameon=False, fontsize=7)


def _draw_local(axes: "Axes", study: dict[str, Any]) -> None:
    for (name, row), color in zip(one_unknown(study), (*COLORS, "#000000"), strict=False):
        for first, last, fitted, exact in windows(row):
            where = np.sqrt(first * last) / (study["fixture"]["theta"] * row.get("singular_value", 1.0))
            error = [[fitted.value - fitted.low], [fitted.high - fitted.value]]
            axes.errorbar(where, fitted.value, yerr=error, fmt="o", ms=4, color=color)
            axes.plot(where, exact, "_", ms=12, color=color)
        axes.plot([], [], "o", color=color, label=name.split(" (")[0])
    axes.set(xscale="log", xlabel="sigma / (theta s); theta^p: sigma / 0.05", ylabel="d log RMSE / d log sigma",
             title="Fitted (dots) and exact (bars)")  # fmt: skip
    axes.legend(frameon=False, fontsize=7)
