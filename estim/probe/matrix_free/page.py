"""The page of what is seen of a model too large for single parameters."""

import html
from typing import TYPE_CHECKING, Any

from estim.html import inline_svg, notes_of, table_of, write_page
from estim.probe.matrix_free.summary import RANDOM, facts, notes

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity


def write_model_report(result: "ModelSensitivity", path: Any) -> None:
    """Write the page; the file appears whole or not at all."""
    (_, hidden), *others = facts(result)
    random = ", ".join(value for name, value in others if name in RANDOM)
    lines = "".join(f"<li>{html.escape(f'{name} {value}')}</li>" for name, value in others if name not in RANDOM)
    write_page(path, "what these readings see", lambda: [
        "<h1>What these readings see of a model</h1>",
        f'<div class="unseen"><p><strong>Not seen:</strong> {html.escape(hidden)}.</p>'
        f"<p><strong>Random changes seen</strong>, 4 times out of 5: {html.escape(random)}.</p></div><ul>{lines}</ul>",
        f"<h2>Spectrum and groups</h2>{inline_svg(result.plot())}",
        f"<h2>Groups</h2>{table_of(result.by_group())}",
        f"<h2>Directions</h2>{table_of(result.to_frame())}",
        f"<h2>Inputs, by their share in each direction</h2>{table_of(result.by_input().iloc[:, -8:])}",
        notes_of(tuple(notes(result))),
    ])  # fmt: skip
