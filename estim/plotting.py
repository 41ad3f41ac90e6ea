"""What pictures share: a figure, colours, axes; matplotlib is imported on use. And the picture of coverage.

A picture of several panels takes a figure to be drawn into, one of a single panel its axes.
"""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from estim.files import check_folder, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


Array = npt.NDArray[np.float64]

#: Okabe and Ito's palette, told apart by colour-blind readers and in grey.
BLACK, ORANGE, BLUE, GREEN, VERMILION, GREY = "#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#7F7F7F"

#: Characters of a name on an axis.
LONGEST_NAME = 40


def new_figure(**options: Any) -> "Figure":
    """Return an empty figure that no window manager holds on to, and that a notebook shows.

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing.
    """
    try:
        import matplotlib.figure  # noqa: F401 - what the message is about, also once figures are imported
    except ModuleNotFoundError as error:
        msg = "pictures need matplotlib: pip install 'estim[plot]'"
        raise ModuleNotFoundError(msg) from error
    from estim.figures import ShownFigure

    return ShownFigure(layout="constrained", **options)


def check_picture(path: str, argument: str) -> None:
    """Refuse a picture that could not be written, before any work.

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing.
    ValueError
        When matplotlib does not know the format.
    OSError
        As for `check_folder`.
    """
    formats = new_figure().canvas.get_supported_filetypes()
    if Path(path).suffix.lstrip(".").lower() not in formats:
        msg = f"{argument} must end in one of .{', .'.join(sorted(formats))}; got {path!r}"
        raise ValueError(msg)
    check_folder(path, argument)


def write_picture(figure: "Figure", path: Any) -> None:
    """Write a picture in the format of its ending, whole or not at all."""
    write_whole(path, lambda draft: figure.savefig(draft, dpi=150))


def figure_for(given: "Figure | SubFigure | None", **options: Any) -> "Figure":
    """Return the figure or subfigure that a user gives to be drawn into, as it is, or a new one with these options.

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing.
    TypeError
        When what is given is neither.
    """
    if given is None:
        return new_figure(**options)
    from matplotlib.figure import FigureBase

    if not isinstance(given, FigureBase):
        msg = (
            "figure must be a matplotlib Figure or SubFigure, as the picture has several panels; "
            f"got {type(given).__name__}: one panel of a figure is a SubFigure, from Figure.subfigures"
        )
        raise TypeError(msg)
    return cast("Figure", given)  # what both have is enough to draw


def shorten(name: str) -> str:
    """Leave out the middle of a name too long for an axis, and write characters that the font lacks by their code."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    name = "".join(c if font.get_char_index(ord(c)) else c.encode("ascii", "backslashreplace").decode() for c in name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}...{name[-LONGEST_NAME // 2 + 3 :]}"


def count_along(axis: Any) -> None:
    """Tick an axis that counts, of directions say, at whole numbers only, also where it shows a single one."""
    from matplotlib.ticker import MaxNLocator

    if axis.get_scale() == "linear":  # a logarithmic one has powers of ten
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def plain(axes: Any) -> None:
    """Leave a light grid and two spines."""
    axes.grid(which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def plot_coverage(
    theta: "npt.ArrayLike",
    coverage: Mapping[str, npt.ArrayLike],
    *,
    confidence_level: float = 0.95,
    parameter: str = "theta",
    ax: "Axes | None" = None,
) -> "Figure":
    """Draw how often intervals hold the true parameter, against that parameter.

    Parameters
    ----------
    theta : array_like, shape (points,)
        True parameters, in their units, in any order.
    coverage : mapping from names to array_like, shape (points,)
        Probabilities, as from `estim.coverage`, under the name of their method.
    confidence_level : float
        The level asked for, drawn as a dashed line.
    parameter : str
        What the horizontal axis is called.
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when left out.

    Returns
    -------
    matplotlib.figure.Figure
        The one drawn into.

    Raises
    ------
    ModuleNotFoundError
        When matplotlib is missing; the message names the extra to install.
    TypeError
        When `ax` is no Axes.
    """
    axes: Any = new_figure(figsize=(7.0, 4.0)).subplots() if ax is None else ax
    if not hasattr(axes, "axhline"):
        msg = f"ax must be one matplotlib Axes; got {type(axes).__name__}"
        raise TypeError(msg)
    draw_coverage(axes, theta, coverage, confidence_level=confidence_level, parameter=parameter)
    figure: Figure = axes.figure
    return figure


def draw_coverage(
    axes: Any,
    theta: "npt.ArrayLike",
    coverage: Mapping[str, npt.ArrayLike],
    *,
    confidence_level: float,
    parameter: str,
) -> None:
    """Draw what `plot_coverage` says."""
    points = np.asarray(theta, dtype=np.float64)
    order = np.argsort(points)
    # Exact methods lie on one another and on the level: each later line is thinner, so that all are seen.
    styles = zip((BLUE, ORANGE, VERMILION, GREEN, BLACK), (5.0, 2.5, 1.5, 1.2, 1.0), strict=True)
    for (name, values), (color, width) in zip(coverage.items(), cycle(styles), strict=False):
        axes.plot(points[order], np.asarray(values, dtype=np.float64)[order], color=color, lw=width, label=name)
    axes.axhline(confidence_level, color=GREY, lw=0.8, ls="--", label=f"level asked for: {confidence_level:g}")
    axes.set(xlabel=parameter, ylabel="probability that the interval holds it")
    axes.set_title("Coverage", loc="left", fontsize=11.0)
    axes.ticklabel_format(axis="y", useOffset=False)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, confidence_level - 0.02), max(high, confidence_level + 0.02))
    axes.legend(frameon=False, fontsize=8.0)
    plain(axes)
