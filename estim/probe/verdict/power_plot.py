"""Power against the size of a change, for the hardest change of each group of parameters."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, plain, shorten
from estim.probe.verdict.any_change import AnyChange, called
from estim.probe.verdict.change import change_powers, detectable_shift
from estim.probe.verdict.margin import margin_of

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

#: Curves that an eye tells apart.
MOST_CURVES = 6
# Groups whose hardest change is sought.
_MOST_GROUPS = 60
_LEVEL, _POWER = 0.05, 0.8


def hardest_shifts(found: "Sensitivity") -> tuple[bool, dict[str, float]]:
    """Return, for each group, what its hardest change of size 1 moves, in standard deviations; and if it is relative.

    Relative where every group's parameters are known and none is all zeros, else of Euclidean size 1. Zero for a group
    in which a change can hide at any size.
    """
    names = found.group_names[:_MOST_GROUPS]
    rng = np.random.default_rng(0)  # nothing is drawn for the hardest change
    for relative in (True, False):
        try:
            return relative, {
                name: float(margin_of(found, AnyChange(1.0, group=name, relative=relative), rng).shifts[0])
                for name in names
            }
        except ValueError:
            continue
    return False, {}


def draw_power(axes: Any, found: "Sensitivity") -> None:
    """Draw a curve for each group, the hardest to see first."""
    relative, shifts = hardest_shifts(found)
    degrees = found.noisy_resolved
    seen = {name: shift for name, shift in shifts.items() if 0.0 < shift < math.inf}
    chosen = sorted(seen, key=lambda name: seen[name])[:MOST_CURVES]
    needed = detectable_shift(degrees, _POWER, 1.0 - _LEVEL) if degrees else math.inf
    axes.set(xlabel=_unit(relative, found), ylabel=f"detected, at level {_LEVEL:g}", ylim=(0.0, 1.03))
    axes.set_title("What a change must be to be seen: the hardest of each group", loc="left", fontsize=11.0)
    if chosen and degrees:
        sizes = np.geomspace(0.05 * needed / max(seen[name] for name in chosen), 4.0 * needed / seen[chosen[0]], 300)
        # Groups that are equally hard lie on one another: each later line is thinner.
        styles = zip((VERMILION, ORANGE, GREEN, BLUE, BLACK, GREY), np.linspace(4.0, 1.0, MOST_CURVES), strict=True)
        for name, (color, width) in zip(chosen, styles, strict=False):
            power = change_powers(sizes * seen[name], degrees, _LEVEL)
            text = f"{shorten(called(name))}: {_POWER:g} at {needed / seen[name]:.2g}"
            axes.plot(sizes, power, color=color, lw=width, label=text)
        axes.axhline(_POWER, color=GREY, lw=0.8, ls="--")
        axes.set(xscale="log", xlim=(sizes[0], sizes[-1]))
        axes.legend(frameon=False, fontsize=8.0, loc="center left")
        for text in axes.get_legend().get_texts():
            text.set_parse_math(False)
    else:
        axes.set_xticks([])  # there is no size to tell
        axes.text(0.5, 0.5, _no_curve(set(shifts.values())), transform=axes.transAxes, ha="center", color=GREY)
    hidden = [name for name in shifts if shifts[name] == 0.0]
    if hidden:
        names = ", ".join(shorten(called(name)) for name in hidden[:4]) + (", ..." if len(hidden) > 4 else "")
        axes.text(
            0.99, 0.04, f"can hide at any size: {names}", transform=axes.transAxes, ha="right", fontsize=8.0,
            color=VERMILION, parse_math=False,
        )  # fmt: skip
    plain(axes)


def _no_curve(shifts: set[float]) -> str:
    if shifts == {0.0}:
        return "of each group some change hides at any size"
    return "readings without noise see any change for certain" if shifts == {math.inf} else ""


def _unit(relative: bool, found: "Sensitivity") -> str:
    if not relative:
        return "size of the change, in the parameters' units"
    if found.relative_norm is not None:
        return "relative change of the effective parameters"
    return "relative change of the group's parameters"
