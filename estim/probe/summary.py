"""What readings see, as tables: what is not seen at the top."""

from typing import TYPE_CHECKING

import numpy as np

from estim.probe.status import Status
from estim.report import MOST_ROWS, summary_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.record import Sensitivity

DEFINITIONS = (
    "std. error: Cramer-Rao bound for an unbiased estimator; inf where a direction not seen, or a gauge, is involved.",
    "effect of one unit: how many standard deviations of noise the readings move when that parameter alone does.",
)


def sensitivity_summary(result: "Sensitivity") -> "Summary":
    """Return what is not seen at the top, then the parameters, the weakest directions and the notes."""
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
        *hints(result),
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
    named = result.input_names or range(len(share))
    rows, columns = Index(named, name="input"), RangeIndex(1, share.shape[1] + 1, name="direction")
    return DataFrame(share, index=rows, columns=columns)


def _modulo(gauge: int) -> str:
    return f", modulo {gauge} of gauge" if gauge else ""


def _weak(result: "Sensitivity") -> str:
    """Put the three weakest of the weak directions in words."""
    from estim.probe.words import phrase, told_apart

    rows = [k for k, status in enumerate(result.status) if status is Status.WEAK][-3:]
    found = told_apart(result)[rows]
    found = found / np.take_along_axis(found, np.abs(found * result.scale).argmax(axis=1)[:, None], axis=1)
    return "; ".join(phrase(row, result.names, result.scale) for row in found[::-1])


def _weakest(result: "Sensitivity") -> float:
    return float(result.scaled_singular_values[result.resolved - 1]) if result.resolved else 0.0


def hints(result: "Sensitivity") -> list[str]:
    """Return what helps, for each status that is there."""
    helps = {
        Status.WEAK: "weak: seen, but not to the smallest change of interest: repeats, less noise, other inputs help.",
        Status.UNRESOLVED: "unresolved: hidden by the Jacobian's own error: more digits or better derivatives decide.",
        Status.NULL: "null: proven to have no effect on this bank: other inputs may help, repeats never.",
        Status.GAUGE: "gauge: the same function on all inputs: there is nothing to see.",
    }
    if result.resolved == result.readings:  # the rest is beyond counting, whatever the digits: a note says so
        del helps[Status.UNRESOLVED]
    return [text for status, text in helps.items() if result.counts[status]]
