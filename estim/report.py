"""Tables of results, in the look of statsmodels. Takes arrays and names, never a model."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.recovery import Recovery

NOTE_WIDTH = 100


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
    return _summary("Recovery of one parameter under noise", facts, columns, notes)


def recovery_frame(result: "Recovery") -> "DataFrame":
    """Return one row a noise level, one column an array field."""
    from pandas import DataFrame

    fields = {name: getattr(result, name) for name in result.to_dict()}
    return DataFrame({name: value for name, value in fields.items() if isinstance(value, np.ndarray)})


def _summary(
    title: str, facts: Sequence[tuple[str, str]], columns: dict[str, np.ndarray], notes: Sequence[str]
) -> "Summary":
    from statsmodels.iolib.summary import Summary
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

    summary = Summary()
    stubs, values = [name for name, _ in facts], [[value] for _, value in facts]
    head = SimpleTable(values, stubs=stubs, title=title, txt_fmt=fmt_2cols)
    cells = [[number(entry) for entry in row] for row in zip(*columns.values(), strict=True)]
    body = SimpleTable(cells, headers=list(columns), txt_fmt=fmt_params)
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
