"""The page of some confidence intervals."""

import html
from typing import TYPE_CHECKING, Any

from estim.html import inline_svg, notes_of, table_of, write_page

if TYPE_CHECKING:
    from estim.recovery.interval_record import ConfidenceInterval


def write_intervals(result: "ConfidenceInterval", path: Any) -> None:
    """Write the page of some intervals: each beside its reading, and how often such intervals are right."""
    write_page(path, "confidence intervals", lambda: [
        f"<h1>{100.0 * result.confidence_level:.4g} % confidence intervals</h1>",
        f"<p>Response: {html.escape(result.response)}. Method: {html.escape(result.method)}.</p>",
        inline_svg(result.plot()),
        f"<h2>Intervals</h2>{table_of(result.to_frame())}",
        notes_of(result.notes),
    ])  # fmt: skip
