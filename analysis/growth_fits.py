"""Numbers of the growth study: fitted exponents beside exact ones, and where theory is linear."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import estim

Array = NDArray[np.float64]

#: Predicted breakdown over noise from which a direction counts as linear: theory then expects the RMSE within 0.1 %.
WELL_ABOVE = 10.0
#: Standard errors between a Monte Carlo figure and theory that count as agreement.
Z_LIMIT = 4.0
CONFIDENCE = 0.95
#: Levels of one fitted exponent.
WINDOW = 5


@dataclass(frozen=True)
class Exponent:
    """d log RMSE / d log sigma over some levels, fitted by weighted least squares."""

    value: float
    low: float
    high: float

    def holds(self, exact: float, intervals: int = 1) -> bool:
        """Tell whether the 95 % interval, or the one that is 95 % sure of as many at once (Sidak), holds a value."""
        from scipy.special import ndtri

        one, all_ = (ndtri(0.5 + 0.5 * CONFIDENCE ** (1.0 / count)) for count in (1, intervals))
        return bool(abs(exact - self.value) <= 0.5 * (self.high - self.low) * all_ / one)


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
    """Return name, mean exact exponent, share of intervals that hold it, and number of replications."""
    found = []
    for row in study["replications"]:
        sigma, exact, rmse, se = (np.array(row[name]) for name in ("sigma", "exact", "rmse", "rmse_se"))
        pairs = [
            (fitted_exponent(sigma, *one), exact_exponent(sigma, exact, *one)) for one in zip(rmse, se, strict=True)
        ]
        held = [fitted.holds(value) for fitted, value in pairs]
        found.append((row["name"], float(np.mean([value for _, value in pairs])), float(np.mean(held)), len(held)))
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


def one_unknown(study: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the studies of one unknown, each with its name."""
    chains = [(f"chain of depth {row['depth']}", row) for row in study["chains"]]
    return chains + [(f"theta^{row['power']} at 0 (theory: 1/{row['power']})", row) for row in study["powers"]]


def exponents_held(study: dict[str, Any], *, together: bool = False) -> tuple[int, int]:
    """Return how many fitted intervals, at 95 % each or all together, hold the exact exponent, and their number."""
    pairs = [(fitted, exact) for _, row in one_unknown(study) for *_, fitted, exact in windows(row)]
    return sum(fitted.holds(exact, len(pairs) if together else 1) for fitted, exact in pairs), len(pairs)
