"""The page of a verdict."""

import html
from typing import TYPE_CHECKING, Any

from estim.html import inline_svg, notes_of, write_page
from estim.probe.verdict.summary import facts_of

if TYPE_CHECKING:
    from estim.probe.verdict.record import Verdict


def write_verdict(result: "Verdict", path: Any) -> None:
    """Write the page of a verdict: its sentences, its numbers, its pictures."""
    tone = "seen" if result.outcome == "equivalent" else "unseen"
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in facts_of(result)
    )
    write_page(path, f"the model is {result.outcome}", lambda: [
        f"<h1>Verdict: {result.outcome.name}</h1>",
        f'<div class="{tone}"><p>{html.escape(result.reason)}</p><p><strong>What to do:</strong> '
        f"{html.escape(result.prescription)}</p></div>",
        inline_svg(result.plot()),
        f"<h2>Numbers</h2><table>{rows}</table>",
        notes_of(result.notes),
    ])  # fmt: skip
