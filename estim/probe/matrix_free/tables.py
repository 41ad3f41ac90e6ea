"""Tables, picture and page of what is seen of a model too large for single parameters."""

from typing import TYPE_CHECKING, Any

import numpy as np

from estim.probe.record import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.matrix_free.record import ModelSensitivity
    from estim.probe.matrix_free.rest import Rest

_HELPS = {
    Status.WEAK: "weak: seen, but not to the smallest change of interest: repeats, less noise, other inputs help.",
    Status.UNRESOLVED: "unresolved: hidden by the derivatives' own error, or beyond the number of readings.",
}
_GROUPS = (
    "a group by itself was not looked at: it sees at least so many, its best floor is at most that, its worst is not "
    "known (nan)."
)
_NOT_LOOKED_AT = "unresolved: hidden by the derivatives' own error, or not looked at."


def facts(result: "ModelSensitivity") -> list[tuple[str, str]]:
    """Return what is to be known first, in pairs."""
    counts = result.counts
    ends = [1.0 / result.singular_values[k] for k in (0, result.resolved - 1)] if result.resolved else []
    return [
        ("Dimension seen:", f"{'at least ' if result.rest else ''}{result.resolved} of {result.parameters:,}"),
        ("Directions:", ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)),
        ("Readings, parameters:", f"{result.readings:,}, {result.parameters:,} in {len(result.names)} tensors"),
        ("RMSE floors:", _floors(result, ends)),
        ("Derivatives:", f"{result.derivative}; error {result.jacobian_error:.2e}"),
        ("Resolution:", f"{result.resolution:.2e}"),
    ]


def _floors(result: "ModelSensitivity", ends: list[float]) -> str:
    if not ends:
        return "not known" if result.rest else "none is finite"
    return f"{ends[0]:.4g} to {ends[1]:.4g}{', then not known' if result.rest else ''}"


def notes(result: "ModelSensitivity") -> list[str]:
    """Return what a reader must know, definitions first."""
    rest = result.rest
    helps = _HELPS if rest is None else {**_HELPS, Status.UNRESOLVED: _NOT_LOOKED_AT}
    unknown = () if rest is None else rest.said(float(np.square(result.singular_values).sum()), len(result.status))
    return [
        *unknown,
        "best and worst floor: RMSE along the strongest and weakest direction of a group by itself; inf where not all "
        "of its parameters are seen.",
        *(() if rest is None else (_GROUPS,)),
        f"spectrum: {result.path}.",
        *(text for status, text in helps.items() if result.counts[status]),
        *result.notes,
    ]


def model_summary(result: "ModelSensitivity") -> "Summary":
    """Return what is seen at the top, then the groups and the notes."""
    from estim.report import MOST_ROWS, summary_of

    frame = result.by_group().drop(columns="gauge")
    columns = {name.replace("_", " "): frame[name].to_numpy(dtype=np.float64)[:MOST_ROWS] for name in frame.columns}
    said = notes(result)
    if len(frame) > MOST_ROWS:
        said.append(f"The first {MOST_ROWS} of {len(frame)} groups are shown; by_group() has all.")
    rows = list(result.group_names[:MOST_ROWS])
    return summary_of("What these readings see of a model", facts(result), columns, said, rows)


def directions_frame(result: "ModelSensitivity") -> "DataFrame":
    """Return one row a direction."""
    from pandas import DataFrame, RangeIndex

    count = len(result.singular_values)
    main = [result.group_names[k] for k in result.group_share.argmax(axis=0)] if result.resolved else []
    with np.errstate(divide="ignore"):
        floors = np.where(np.arange(count) < result.resolved, 1.0 / result.singular_values, np.inf)
    columns = {
        "status": [str(status) for status in result.status],
        "singular_value": result.singular_values,
        "error": result.errors,
        "floor": floors,
        "main_group": main + [""] * (count - len(main)),
    }
    return DataFrame(columns, index=RangeIndex(1, count + 1, name="direction"))


def plot_model(result: "ModelSensitivity") -> "Figure":
    """Draw the spectrum with its resolution, and the groups' shares of the directions seen."""
    from estim.plotting import BLACK, BLUE, GREY, LONGEST_NAME, new_figure

    figure = new_figure(figsize=(7.0, 8.0))
    above, below = figure.subplots(2, 1, height_ratios=[1.2, 1.0])
    for values in result.group_singular_values:
        shown = values > 0.0
        above.plot(np.flatnonzero(shown) + 1, values[shown], "-", lw=0.6, color=GREY)
    shown = result.singular_values > 0.0
    above.plot(
        np.flatnonzero(shown) + 1, result.singular_values[shown], "o", ms=3.0, color=BLUE, label="all parameters"
    )
    if result.rest is None:
        above.plot([], [], "-", lw=0.6, color=GREY, label="each group alone")
    above.axhspan(0.0, result.resolution, color=BLUE, alpha=0.08, lw=0.0)
    above.axhline(result.resolution, color=BLUE, lw=1.0, ls=":", label="resolution")
    if result.rest is not None:
        _draw_rest(above, len(result.singular_values), result.rest, result.resolution)
    if result.smallest_change is not None:
        change = f"floor of the smallest change, {result.smallest_change:g}"
        above.axhline(1.0 / result.smallest_change, color=BLACK, lw=0.8, ls="--", label=change)
    above.set(yscale="log", xlabel="direction", ylabel="singular value")
    above.legend(frameon=result.rest is not None, edgecolor="none", fontsize=8.0)  # over the hatching
    shares = result.group_table[:, 4]
    order = np.argsort(-shares, kind="stable")[:20][::-1]
    names = [result.group_names[k][-LONGEST_NAME:] for k in order]
    below.barh(range(len(order)), shares[order], color=BLUE)
    below.set_yticks(range(len(order)), names, fontsize=7.0)
    below.set(xlabel="share of the directions seen")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_rest(axes: Any, count: int, rest: "Rest", resolution: float) -> None:
    """Hatch where the values that were not looked for may lie."""
    from estim.plotting import GREY

    edges = [count + 0.5, count + rest.directions + 0.5]
    label = f"not known: {rest.directions:,} values at or below {rest.bound:.2g}"
    low = min(resolution, 1e-3 * rest.bound) or 1e-3 * rest.bound
    axes.fill_between(edges, low, rest.bound, facecolor="none", edgecolor=GREY, hatch="///", lw=0.6, label=label)
    if rest.directions > 20 * count:
        axes.set_xscale("log")


def write_model_report(result: "ModelSensitivity", path: Any) -> None:
    """Write the page; the file appears whole or not at all."""
    import html
    from pathlib import Path

    from estim.html import STYLE, _table, inline_svg
    from estim.report import number

    lines = "".join(f"<li>{html.escape(f'{name} {value}')}</li>" for name, value in facts(result))
    said = "".join(f"<li>{html.escape(note)}</li>" for note in notes(result))
    parts = [
        f"<h1>What these readings see of a model</h1><ul>{lines}</ul>",
        f"<h2>Spectrum and groups</h2>{inline_svg(result.plot())}",
        f"<h2>Groups</h2>{_table(result.by_group(), number)}",
        f"<h2>Directions</h2>{_table(result.to_frame(), number)}",
        f"<h2>Inputs, by their share in each direction</h2>{_table(result.by_input().iloc[:, -8:], number)}",
        f"<h2>Notes</h2><ul>{said}</ul>",
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>estim: what these readings see</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    draft.write_text(page, encoding="utf-8")
    draft.replace(target)
