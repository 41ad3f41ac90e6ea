"""One self-contained HTML page of a result: words, tables, pictures; no script and nothing from elsewhere."""

import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estim.files import check_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from estim.probe.record import Sensitivity
    from estim.probe.verdict.record import Verdict
    from estim.recovery.interval_record import ConfidenceInterval

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.unseen { border-left: 4px solid #d55e00; padding: 0.5rem 1rem; background: #fdf3ec; }
.seen { border-left: 4px solid #009e73; padding: 0.5rem 1rem; background: #eef8f4; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""
MOST_ROWS = 200
GROUPS = (
    "best and worst floor: RMSE floor along the best and the worst direction of the group, the others held fixed.",
    "information share: the group's part in the directions seen, in parameters of equal effect.",
)


def write_report(result: "Sensitivity", path: Any) -> None:
    """Write the page of what readings see."""
    from estim.report import DEFINITIONS, number

    frames = {"Groups": result.by_group(), "Inputs, by their share in each direction": result.by_input().iloc[:, -8:]}
    write_page(path, "what these readings see", [
        "<h1>What these readings see</h1>",
        _unseen(result),
        _facts(result),
        "<h2>Spectrum, weakest directions, and power for each group</h2>",
        inline_svg(result.plot()),
        "<h2>Parameters</h2>",
        _table(result.to_frame(), number),
        *(f"<h2>{html.escape(title)}</h2>{_table(frame, number)}" for title, frame in frames.items()),
        _notes((*DEFINITIONS, *GROUPS, *result.notes)),
    ])  # fmt: skip


def write_verdict(result: "Verdict", path: Any) -> None:
    """Write the page of a verdict: its sentences, its numbers, its pictures."""
    from estim.probe.verdict.summary import facts_of

    tone = "seen" if result.outcome == "equivalent" else "unseen"
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in facts_of(result)
    )
    write_page(path, f"the model is {result.outcome}", [
        f"<h1>Verdict: {result.outcome.name}</h1>",
        f'<div class="{tone}"><p>{html.escape(result.reason)}</p><p><strong>What to do:</strong> '
        f"{html.escape(result.prescription)}</p></div>",
        inline_svg(result.plot()),
        f"<h2>Numbers</h2><table>{rows}</table>",
        _notes(result.notes),
    ])  # fmt: skip


def write_intervals(result: "ConfidenceInterval", path: Any) -> None:
    """Write the page of some intervals: each beside its reading, and how often such intervals are right."""
    from estim.report import number

    write_page(path, "confidence intervals", [
        f"<h1>{100.0 * result.confidence_level:.4g} % confidence intervals</h1>",
        f"<p>Response: {html.escape(result.response)}. Method: {html.escape(result.method)}.</p>",
        inline_svg(result.plot()),
        f"<h2>Intervals</h2>{_table(result.to_frame(), number)}",
        _notes(result.notes),
    ])  # fmt: skip


def write_page(path: Any, title: str, parts: list[str]) -> None:
    """Write one page; the file appears whole or not at all."""
    check_folder(path, "path")
    target = Path(path)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>estim: {html.escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )
    draft = target.with_name(target.name + ".part")
    draft.write_text(page, encoding="utf-8")
    draft.replace(target)


def _notes(notes: tuple[str, ...]) -> str:
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<h2>Notes</h2><ul>{items}</ul>" if notes else ""


def _unseen(result: "Sensitivity") -> str:
    if not result.unseen:
        return '<p class="seen">Every direction, gauge left out, stands above the resolution.</p>'
    items = "".join(f"<li>{html.escape(text)}</li>" for text in result.unseen)
    seen = ""
    if result.identifiable:
        seen = f"<p>Seen: {html.escape('; '.join(result.identifiable))}.</p>"
    return f'<div class="unseen"><strong>Not seen:</strong><ul>{items}</ul>{seen}</div>'


def _facts(result: "Sensitivity") -> str:
    from estim.report import _hints

    counts = ", ".join(f"{count} {status}" for status, count in result.counts.items() if count)
    hints = "".join(f"<li>{html.escape(text)}</li>" for text in _hints(result))
    return (
        f"<p>{result.readings} readings of {int(result.inputs.max()) + 1} inputs, {len(result.names)} parameters: "
        f"{html.escape(counts)}. {_noise(result)}"
        f"Derivatives: {html.escape(result.derivative)}. Resolution {result.resolution:.2e}.</p><ul>{hints}</ul>"
    )


def _noise(result: "Sensitivity") -> str:
    return f"Noise: {html.escape(result.noise)}. " if result.noise else ""


def _table(frame: "DataFrame", number: Any) -> str:
    cut = frame.iloc[:MOST_ROWS]
    text = cut.to_html(float_format=number, border=0)
    return str(text) + (f"<p>{len(frame) - MOST_ROWS} more rows.</p>" if len(frame) > MOST_ROWS else "")


def inline_svg(figure: "Figure") -> str:
    """Return the figure as inline SVG, its text as text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    svg = buffer.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}</figure>"
