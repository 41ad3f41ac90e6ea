"""Tables in the look of statsmodels, of facts, columns and notes."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NOTE_WIDTH = 100
MOST_ROWS = 40


def summary_of(
    title: str,
    facts: Sequence[tuple[str, str]],
    columns: Mapping[str, Array | Counts],
    notes: Sequence[str],
    rows: Sequence[str] | None = None,
) -> "Summary":
    """Return facts, a table, and numbered notes."""
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

    from estim.escaped import EscapedSummary, printable

    summary = EscapedSummary()
    stubs, values = [name for name, _ in facts], [[value] for _, value in facts]
    values = [[textwrap.shorten(value[0], 90, placeholder=" ...")] for value in values]
    head = SimpleTable(values, stubs=stubs, title=title, txt_fmt=fmt_2cols)
    cells = [[number(entry) for entry in row] for row in zip(*columns.values(), strict=True)]
    stubs_of_rows = None if rows is None else [printable(name) for name in rows]
    body = SimpleTable(cells, headers=list(columns), stubs=stubs_of_rows, txt_fmt=fmt_params)
    summary.tables.extend([head, body])
    lines = [line for k, note in enumerate(notes, 1) for line in _note(k, note)]
    summary.add_extra_txt(["", "Notes:", *lines])
    return summary


def _note(k: int, text: str) -> list[str]:
    return textwrap.wrap(text, NOTE_WIDTH, initial_indent=f"[{k}] ", subsequent_indent="    ")


def number(value: float) -> str:
    """Format a number for a table: four significant digits, zero and infinity as such; a count, an integer, whole."""
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
