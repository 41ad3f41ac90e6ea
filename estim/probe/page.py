"""The page of what readings see."""

import html
from typing import TYPE_CHECKING, Any

from estim.html import inline_svg, notes_of, table_of, write_page
from estim.probe.summary import DEFINITIONS, hints

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

GROUPS = (
    "best and worst floor: RMSE floor along the best and the worst direction of the group, the others held fixed.",
    "information share: the group's part in the directions seen, in parameters of equal effect.",
)


def write_report(result: "Sensitivity", path: Any) -> None:
    """Write the page of what readings see."""
    write_page(path, "what these readings see", lambda: [
        "<h1>What these readings see</h1>",
        _unseen(result),
        _facts(result),
        "<h2>Spectrum, weakest directions, and power for each group</h2>",
        inline_svg(result.plot()),
        "<h2>Parameters</h2>",
        table_of(result.to_frame()),
        f"<h2>Groups</h2>{table_of(result.by_group())}",
        f"<h2>Inputs, by their share in each direction</h2>{table_of(result.by_input().iloc[:, -8:])}",
        notes_of((*DEFINITIONS, *GROUPS, *result.notes)),
    ])  # fmt: skip


def _unseen(result: "Sensitivity") -> str:
    if not result.unseen:
        return '<p class="seen">Every direction, gauge left out, stands above the resolution.</p>'
    items = "".join(f"<li>{html.escape(text)}</li>" for text in result.unseen)
    seen = ""
    if result.identifiable:
        seen = f"<p>Seen: {html.escape('; '.join(result.identifiable))}.</p>"
    return f'<div class="unseen"><strong>Not seen:</strong><ul>{items}</ul>{seen}</div>'


def _facts(result: "Sensitivity") -> str:
    counts = ", ".join(f"{count} {status}" for status, count in result.counts.items() if count)
    helps = "".join(f"<li>{html.escape(text)}</li>" for text in hints(result))
    return (
        f"<p>{result.readings} readings of {int(result.inputs.max()) + 1} inputs, {len(result.names)} parameters: "
        f"{html.escape(counts)}. {_noise(result)}"
        f"Derivatives: {html.escape(result.derivative)}. Resolution {result.resolution:.2e}.</p><ul>{helps}</ul>"
    )


def _noise(result: "Sensitivity") -> str:
    return f"Noise: {html.escape(result.noise)}. " if result.noise else ""
