"""Derivatives in floats of 16 bits held against readings in such floats, where no copy in longer ones can be made.

A difference of two such readings says little: one rounding of bfloat16 is 1/256. A curve through many of them, over
steps so large that it bends, says enough: its slope has an error that the readings' scatter about the curve tells, and
several spans tell what bends and kinks do to it: what they make of a slope shrinks with the span.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Combinations of the readings.
COMBINATIONS = 4
#: Steps on each side, up to these parts of the parameters' sizes.
_STEPS = 12
_SPANS = (0.25, 0.125, 0.0625)
#: Standard errors that all spans must exceed, each with t's 10 degrees of freedom: one alone does 1 time in 2000.
_SURE = 5.0
#: Part of a slope up to which it is agreed with, of what is off up to which spans settle, and of a slope to be known.
_CLOSE = 0.05
_SETTLED = 0.3
_KNOWN = 0.5


class _Slope(NamedTuple):
    """What is between a slope and that which derivatives say, of each combination of readings, (k,)."""

    off: Array
    error: Array
    """Standard error, with that of a kink nearby; infinite where readings stand still for most steps."""


def require_coarse_slopes(
    changed: Callable[[float], Array], said: Callable[[float], Array], typical: Array, library: str
) -> bool:
    """Hold the slopes of combinations of readings against the derivatives.

    Parameters
    ----------
    changed, said : callable
        Multiple of a direction of all parameters -> how far the combinations of the readings move, (k,), NaN where the
        model fails; and how far they do by the derivatives, with the steps that the parameters really take in their
        short floats.
    typical : ndarray, shape (k,)
        Size of a slope along that direction: root of the sum of squares over the parameters.
    library : str
        Who took the derivatives, and what may be the cause, in brackets.

    Returns
    -------
    bool
        Whether the readings say enough to have shown a slope that is half wrong.

    Raises
    ------
    ValueError
        When they contradict each other.
    """
    found = [_odd_part(changed, said, span) for span in _SPANS]
    if not all(np.isfinite(one.off).all() for one in found):
        return False
    narrow = found[-1]
    slope = np.abs(said(_SPANS[-1])) / _SPANS[-1]
    scale = np.maximum(typical, slope)
    reach = [_CLOSE * scale + _SURE * one.error for one in found]
    sure = [np.abs(one.off) > far for one, far in zip(found, reach, strict=True)]
    settled = [
        np.abs(one.off - narrow.off) <= _SETTLED * np.abs(narrow.off) + narrow.error + one.error for one in found
    ]
    wrong = np.logical_and.reduce([*sure, *settled])
    if wrong.any():
        k = int(np.argmax(wrong))
        name, _, cause = library.partition(" ")
        says = said(_SPANS[-1])[k] / _SPANS[-1]
        msg = (
            f"the derivative that {name} takes must be that of the model; along one direction of all parameters a "
            f"combination of readings changes by {says + narrow.off[k]:.3g} +- {narrow.error[k]:.1g}, {name} says "
            f"{says:.3g} {cause}"
        )
        raise ValueError(msg)
    return bool((np.max(reach, axis=0) < _KNOWN * slope).any())


def _odd_part(changed: Callable[[float], Array], said: Callable[[float], Array], span: float) -> _Slope:
    """Fit t and t^3 to what is between readings and derivatives on both sides, and |t| to what both sides share."""
    steps = span * np.arange(1, _STEPS + 1) / _STEPS
    moved = np.array([[changed(side * t) for t in steps] for side in (1.0, -1.0)])
    linear = np.array([[said(side * t) for t in steps] for side in (1.0, -1.0)])
    odd = (moved[0] - moved[1] - linear[0] + linear[1]) / 2.0
    even = (moved[0] + moved[1] - linear[0] - linear[1]) / 2.0
    off, error = _first_of(np.stack([steps, steps**3], axis=1), odd)
    kink, _ = _first_of(np.stack([steps, steps**2, np.ones(_STEPS)], axis=1), even)
    still = [len(np.unique(values)) < _STEPS for values in moved.reshape(2 * _STEPS, -1).T]
    return _Slope(off, np.where(still, np.inf, error + 2.0 * np.abs(kink) / _SURE))


def _first_of(columns: Array, values: Array) -> tuple[Array, Array]:
    """Return the first coefficient of a fit by least squares, and its standard error, each (k,)."""
    if not np.isfinite(values).all():
        return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    inverse = np.linalg.pinv(columns)
    coefficients = inverse @ values
    freedom = len(columns) - columns.shape[1]
    scatter = np.sqrt(np.square(values - columns @ coefficients).sum(axis=0) / freedom)
    return coefficients[0], scatter * np.linalg.norm(inverse[0])
