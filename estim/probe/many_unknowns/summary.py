"""Many unknowns recovered, as tables: a row a direction."""

from typing import TYPE_CHECKING

import numpy as np

from estim.report import MOST_ROWS, summary_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.many_unknowns.record import ParameterRecovery


def parameter_summary(result: "ParameterRecovery") -> "Summary":
    """Return how many unknowns were recovered and how, one row a direction, and what to know before believing it."""
    facts = [
        ("Parameters:", f"{len(result.names)}, {int(np.isfinite(result.linear_rmse).sum())} directions resolved"),
        ("Trials:", f"{result.trials}, {result.failures} did not settle; {result.evaluations:.3g} evaluations each"),
        ("Linear by theory:", f"{int(result.linear.sum())} directions, breakdown 10 or more"),
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
