"""One self-contained HTML page: words, tables, pictures; no script and nothing from elsewhere."""

import html
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estim.files import check_page, write_whole
from estim.report import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

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


def write_page(path: Any, title: str, parts: Callable[[], list[str]]) -> None:
    """Write one page, its parts made once the path is known to be good; the file appears whole or not at all."""
    check_page(path, "path")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>estim: {html.escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{"".join(parts())}</body></html>\n'
    )
    write_whole(path, lambda draft: draft.write_text(page, encoding="utf-8"))


def notes_of(notes: tuple[str, ...]) -> str:
    """Return notes as a list under their heading; nothing for none."""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<h2>Notes</h2><ul>{items}</ul>" if notes else ""


def table_of(frame: "DataFrame") -> str:
    """Return the first rows of a frame, and how many more there are."""
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
