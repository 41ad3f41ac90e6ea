"""The picture of a spectrum at several precisions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from estim.arithmetic import Array
from estim.plotting import count_along

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from estim.spectra.spectrum_record import Spectrum


def draw(spectra: "Sequence[Spectrum]", rtol: Sequence[float], ax: "Axes | None") -> "Axes":
    """Draw singular values against their number, with the float64 noise floor and the thresholds.

    Values may lie outside the range of float64: what is drawn is their log10. A bar is the enclosure where it is wider
    than the marker; one that reaches down to zero ends in an arrow.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.figure(figsize=(8, 4.6), layout="constrained").add_subplot()
    floats = spectra[0].float64_values
    _draw_values(ax, floats, "float64", "x", {"color": "0.55", "ms": 4})
    by_digits = {one.digits: one for one in spectra if one.digits is not None}
    for number, digits in enumerate(sorted(by_digits)):
        # Rings around points: where precisions agree, all of them stay visible.
        style = {"color": f"C{number}", "ms": 3 + 2.5 * (len(by_digits) - 1 - number), "mfc": "none"}
        _draw_values(ax, by_digits[digits].singular_values, f"{digits} digits", "o", style)
        _draw_unresolved(ax, by_digits[digits], f"C{number}")
    top = _log10(floats[0])
    if np.isfinite(top):
        bottom, _ = ax.get_ylim()
        ax.set_ylim(bottom, top + 0.06 * (top - bottom))
        floor = top + np.log10(np.finfo(float).eps * max(spectra[0].shape))
        ax.axhspan(min(bottom, floor), floor, color="0.93", zorder=0, label="below float64's noise floor")
        for threshold in filter(None, rtol):
            height = top + np.log10(threshold)
            ax.axhline(height, color="k", lw=0.8, ls="--")
            ax.annotate(f"{threshold:.0e} of the largest", (1, height), va="bottom", fontsize=8)
    ax.set(xlabel="number of the singular value", ylabel="log10 of the singular value")
    count_along(ax.xaxis)
    ax.legend(fontsize=8, frameon=False)
    return ax


def _log10(value: object) -> float:
    import mpmath

    return float(mpmath.log10(value)) if value else -np.inf


def _draw_values(ax: "Axes", values: Array, label: str, marker: str, style: dict[str, Any]) -> None:
    logs = np.array([_log10(value) for value in values])
    shown = np.isfinite(logs)
    ax.plot(np.flatnonzero(shown) + 1, logs[shown], marker, label=label, **style)


def _draw_unresolved(ax: "Axes", one: "Spectrum", color: str) -> None:
    """Mark values that the enclosures do not part from zero by an arrow down from their upper bound."""
    assert one.lower is not None
    assert one.upper is not None
    for number, (low, high) in enumerate(zip(one.lower, one.upper, strict=True), start=1):
        if not low and high:
            ax.plot(number, _log10(high), marker=r"$\downarrow$", color=color, ms=6)
