"""A verdict as a table, in the look of statsmodels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from estim.report import number, summary_of

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

    from estim.probe.verdict.record import Verdict


_ROWS = ("shift parameters can make", "shift they cannot make")


def verdict_summary(result: "Verdict") -> "Summary":
    """Return what was decided and its numbers, the tests, then the reason and the prescription in full."""
    notes = [result.reason, result.prescription, *result.notes]
    return summary_of(f"Verdict: {result.outcome.name}", facts_of(result), _tests(result), notes, _rows(result))


def _rows(result: "Verdict") -> tuple[str, ...]:
    return ("your rule",) if result.own_rule else _ROWS[: 1 + (result.residual_degrees > 0)]


def _tests(result: "Verdict") -> dict[str, Any]:
    """Return the columns of the table: of the change test and that of the residual, or of the user's own rule."""
    if result.own_rule:  # it has no degrees of freedom
        return {
            result.test: np.array([result.statistic]),
            "p-value": np.array([result.p_value]),
            "level": np.array([result.level]),
        }
    degrees = np.array([result.degrees, result.residual_degrees])
    statistics = np.array([result.statistic, result.residual_statistic])
    if result.test == "F":
        statistics = statistics / np.maximum(degrees, 1)
    columns = {
        result.test: statistics,
        "degrees": degrees,
        "p-value": np.array([result.p_value, result.residual_p_value]),
        "level": np.full(2, result.level),
    }
    return {name: values[: len(_rows(result))] for name, values in columns.items()}


def facts_of(result: "Verdict") -> list[tuple[str, str]]:
    """Return the numbers of a verdict, each with its name."""
    facts = [
        ("Smallest change of interest:", result.change),
        ("It moves the readings by:", _shift(result)),
        ("Power against it:", f"{_with_error(result.power, result.power_se)} (wanted {result.wanted_power:g})"),
        ("False-alarm rate:", _with_error(result.false_alarm_rate, result.false_alarm_se)),
        ("Equivalence p-value:", f"{number(result.equivalence_p_value)} (level {1.0 - result.confidence_level:.3g})"),
    ]
    if result.degrees == 0 and not np.isinf(result.shifts).any():  # a user's own rule, or nothing resolved
        return facts
    return [
        *facts,
        ("EQUIVALENT if nothing changed:", f"with probability {result.equivalence_probability:.3g}"),
        ("Repeats needed:", "no number helps" if result.repeats_needed is None else str(result.repeats_needed)),
        ("Noise needed:", _noise(result)),
    ]


def _noise(result: "Verdict") -> str:
    if result.sigma_factor == 0.0:
        return "none is low enough"
    if result.sigma_factor == np.inf:
        return "any is low enough"
    return f"{number(result.sigma_factor)} times the present one, at most"


def _shift(result: "Verdict") -> str:
    if len(result.shifts) == 1:
        return f"{number(result.smallest_shift)} standard deviations"
    if np.isinf(result.shifts).all():
        return "inf standard deviations"
    low, middle, high = (number(float(value)) for value in np.quantile(result.shifts, [0.05, 0.5, 0.95]))
    return f"{middle} standard deviations in the median; 5 % to 95 %: {low} to {high}"


def _with_error(value: float, error: float) -> str:
    return f"{number(value)} +- {number(error)}" if error else number(value)
