"""Tables of results, in the look of statsmodels. Takes arrays and names, never a model."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.many_unknowns.record import ParameterRecovery
    from estim.probe.record import Sensitivity
    from estim.recovery.recovery import Recovery

Array = npt.NDArray[np.float64]

NOTE_WIDTH = 100
MOST_ROWS = 40
DEFINITIONS = (
    "std. error: Cramer-Rao bound for an unbiased estimator; inf where a direction not seen is involved.",
    "effect of one unit: how many standard deviations of noise the readings move when that parameter alone does.",
)


def recovery_summary(result: "Recovery") -> "Summary":
    """Return how the recovery was made, one row a noise level, and what to know before believing it."""
    exact = result.method == "exact"
    relative = result.theta != 0.0
    scale = abs(result.theta) if relative else 1.0
    prefix = "rel. " if relative else ""
    columns = {
        "sigma": result.sigma,
        f"{prefix}bias": result.bias / scale,
        f"{prefix}RMSE": result.rmse / scale,
        "num. error" if exact else "+-": result.numerical_error if exact else result.rmse_se / scale,
        "linear": result.linear_rmse / scale,
        "clipped low": result.clipped_low,
        "clipped high": result.clipped_high,
    }
    facts = [
        ("Response:", result.response),
        ("True theta:", f"{result.theta:.6g}"),
        ("Method:", "exact quadrature" if exact else f"Monte Carlo, {result.trials} trials a level"),
        ("Linear within 10 % up to sigma:", f"{result.linear_limit:.4g}"),
    ]
    notes = [
        f"RMSE{' and bias are' if relative else ' is'} {'relative to theta' if relative else 'in the units of theta'}; "
        + ("num. error: bound on its relative error." if exact else "+-: its Monte Carlo standard error."),
        "linear: sigma / |slope|, the Cramer-Rao bound of unbiased estimators; "
        "a clipped estimator is biased and may be below it.",
        *result.notes,
    ]
    return summary_of("Recovery of one parameter under noise", facts, columns, notes)


def recovery_frame(result: "Recovery") -> "DataFrame":
    """Return one row a noise level, one column an array field."""
    from pandas import DataFrame

    fields = {name: getattr(result, name) for name in result.to_dict()}
    return DataFrame({name: value for name, value in fields.items() if isinstance(value, np.ndarray)})


def sensitivity_summary(result: "Sensitivity") -> "Summary":
    """Return what is not seen at the top, then the parameters, the weakest directions and the notes."""
    from estim.probe.record import Status

    counts = result.counts
    seen = counts[Status.SEEN] + counts[Status.WEAK]
    facts = [
        ("Not seen:", "; ".join(result.unseen) or "nothing"),
        *([("Seen combinations:", "; ".join(result.identifiable))] if result.identifiable else []),
        *([("Weak:", _weak(result))] if counts[Status.WEAK] else []),
        ("Directions:", ", ".join(f"{count} {status}" for status, count in counts.items() if count)),
        ("Readings, parameters:", f"{result.readings}, {len(result.names)}"),
        ("Derivatives:", result.derivative),
        ("Resolution:", f"{result.resolution:.2e} (weakest resolved {_weakest(result):.2e})"),
        ("Dimension seen:", f"{seen} of {len(result.names) - counts[Status.GAUGE]}{_modulo(counts[Status.GAUGE])}"),
    ]
    shown = np.arange(len(result.names))[:MOST_ROWS]
    columns = {
        "value": result.parameters[shown],
        "std. error": result.standard_errors[shown],
        "effect of one unit": result.column_norms[shown],
    }
    notes = [
        *DEFINITIONS,
        *_hints(result),
        *result.notes,
    ]
    if len(result.names) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(result.names)} parameters are shown; to_frame() has all.")
    return summary_of("What these readings see", facts, columns, notes, [result.names[j] for j in shown])


def sensitivity_frame(result: "Sensitivity") -> "DataFrame":
    """Return one row a parameter."""
    from pandas import DataFrame, Index

    columns = {
        "group": list(result.groups),
        "value": result.parameters,
        "standard_error": result.standard_errors,
        "effect_of_one_unit": result.column_norms,
    }
    return DataFrame(columns, index=Index(result.names, name="parameter"))


def group_frame(result: "Sensitivity") -> "DataFrame":
    """Return one row a group of parameters."""
    from pandas import DataFrame, Index

    columns = ["parameters", "seen", "best_floor", "worst_floor", "information_share", "gauge"]
    frame = DataFrame(result.group_table, columns=columns, index=Index(result.group_names, name="group"))
    return frame.astype({"parameters": int, "seen": int, "gauge": int})


def input_frame(result: "Sensitivity") -> "DataFrame":
    """Return one row an input and one column a resolved direction."""
    from pandas import DataFrame, Index, RangeIndex

    share = result.input_share[:, : result.resolved]
    rows, columns = Index(range(len(share)), name="input"), RangeIndex(1, share.shape[1] + 1, name="direction")
    return DataFrame(share, index=rows, columns=columns)


def _modulo(gauge: int) -> str:
    return f", modulo {gauge} of gauge" if gauge else ""


def _weak(result: "Sensitivity") -> str:
    """Put the three weakest of the weak directions in words."""
    from estim.probe.record import Status
    from estim.probe.words import phrase

    rows = [k for k, status in enumerate(result.status) if status is Status.WEAK][-3:]
    found = result.directions[rows]
    found = found / np.take_along_axis(found, np.abs(found * result.scale).argmax(axis=1)[:, None], axis=1)
    return "; ".join(phrase(row, result.names, result.scale) for row in found[::-1])


def _weakest(result: "Sensitivity") -> float:
    return float(result.scaled_singular_values[result.resolved - 1]) if result.resolved else 0.0


def _hints(result: "Sensitivity") -> list[str]:
    """Return what helps, for each status that is there."""
    from estim.probe.record import Status

    helps = {
        Status.WEAK: "weak: seen, but not to the smallest change of interest: repeats, less noise, other inputs help.",
        Status.UNRESOLVED: "unresolved: hidden by the Jacobian's own error: more digits or better derivatives decide.",
        Status.NULL: "null: proven to have no effect on this bank: other inputs may help, repeats never.",
        Status.GAUGE: "gauge: the same function on all inputs: there is nothing to see.",
    }
    return [text for status, text in helps.items() if result.counts[status]]


def summary_of(
    title: str,
    facts: Sequence[tuple[str, str]],
    columns: Mapping[str, Array],
    notes: Sequence[str],
    rows: Sequence[str] | None = None,
) -> "Summary":
    """Return facts, a table, and numbered notes."""
    from statsmodels.iolib.summary import Summary
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

    summary = Summary()
    stubs, values = [name for name, _ in facts], [[value] for _, value in facts]
    values = [[textwrap.shorten(value[0], 90, placeholder=" ...")] for value in values]
    head = SimpleTable(values, stubs=stubs, title=title, txt_fmt=fmt_2cols)
    cells = [[number(entry) for entry in row] for row in zip(*columns.values(), strict=True)]
    body = SimpleTable(cells, headers=list(columns), stubs=rows, txt_fmt=fmt_params)
    summary.tables.extend([head, body])
    lines = [line for k, note in enumerate(notes, 1) for line in _note(k, note)]
    summary.add_extra_txt(["", "Notes:", *lines])
    return summary


def _note(k: int, text: str) -> list[str]:
    return textwrap.wrap(text, NOTE_WIDTH, initial_indent=f"[{k}] ", subsequent_indent="    ")


def number(value: float) -> str:
    """Format a number for a table: four significant digits, zero and infinity as such."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def parameter_summary(result: "ParameterRecovery") -> "Summary":
    """Return how many unknowns were recovered and how, one row a direction, and what to know before believing it."""
    facts = [
        ("Parameters:", f"{len(result.names)}, {int(np.isfinite(result.linear_rmse).sum())} directions resolved"),
        ("Trials:", f"{result.trials}, {result.failures} did not settle; {result.evaluations:.3g} evaluations each"),
        ("Linear by theory:", f"{int(result.linear.sum())} directions"),
        ("Clipped, at most:", f"{max(result.clipped_low.max(), result.clipped_high.max()):.4g} of the trials"),
    ]
    frame = parameter_frame(result)
    shown = frame[frame["status"].isin(["seen", "weak"])].iloc[:MOST_ROWS].drop(columns="status")
    columns = {name.replace("_", " "): shown[name].to_numpy(dtype=np.float64) for name in shown.columns}
    notes = [
        "linear rmse: 1 / s, the Cramer-Rao bound of unbiased estimators; bounds and curvature bias the estimate.",
        "breakdown: factor on the noise at which theory expects the linear figure to be 10 % off.",
        *result.notes,
    ]
    return summary_of("Recovery of many parameters under noise", facts, columns, notes)


def parameter_frame(result: "ParameterRecovery") -> "DataFrame":
    """Return one row a direction."""
    from pandas import DataFrame, RangeIndex

    columns = {
        "status": [str(status) for status in result.status],
        "singular_value": result.singular_values,
        "linear_rmse": result.linear_rmse,
        "rmse": result.rmse,
        "rmse_se": result.rmse_se,
        "bias": result.bias,
        "predicted_bias": result.predicted_bias,
        "breakdown": result.breakdown,
    }
    return DataFrame(columns, index=RangeIndex(1, len(result.names) + 1, name="direction"))
