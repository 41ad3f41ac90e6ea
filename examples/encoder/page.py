"""The results on one self-contained HTML page."""

import html
import io
from pathlib import Path

import matplotlib as mpl
from conclusions import conclusions, in_short
from pictures import draw_judged, draw_scaled, draw_seen, draw_sentences
from tables import AGAIN, JUDGED, SCALED, SEEN, tables

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }
th { font-weight: 600; } th:first-child, td:first-child { text-align: left; }
.unseen { border-left: 4px solid #d55e00; padding: 0.5rem 1rem; background: #fdf3ec; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""


def write_page(results, path):
    """Write the page; the file appears whole or not at all."""
    pictures = {
        SEEN: draw_seen(results), JUDGED: draw_judged(results), AGAIN: draw_sentences(results),
        SCALED: draw_scaled(results),
    }  # fmt: skip
    said, parts = conclusions(results), []
    for title, frame in tables(results).items():
        parts.append(f"<h2>{html.escape(title)}</h2><p>{html.escape(said[title])}</p>")
        parts.append(_svg(pictures[title]) if title in pictures else "")
        parts.append(frame.to_html(float_format=lambda value: f"{value:.3g}", border=0, na_rep=""))
    intro = (
        "A monitor reads the similarity of a few sentences to three worrying topics, in the embedding of a pretrained "
        "sentence encoder (MiniLM: 6 layers, width 384, 22.7 million weights). Nothing moved. Is the encoder the same, "
        "or could this monitor not have seen it? Shifts are in standard deviations of the noise, all readings together."
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>What a monitor of an encoder can see</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'
        f"<h1>What a monitor of a sentence encoder can see</h1><p>{intro}</p>"
        f'<p class="unseen"><strong>In short.</strong> {html.escape(in_short(results))}</p>'
        f"{''.join(parts)}</body></html>\n"
    )
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)


def _svg(figure):
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"
