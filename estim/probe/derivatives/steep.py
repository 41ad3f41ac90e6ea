"""Readings whose slope grows without end as the step shrinks: a square root at zero, a cusp, a jump.

They have no derivative there, and whoever reads that a parameter is not seen must not take it for one without effect.

notation: ``at(h)`` readings with one parameter moved by h, as in `estim.probe.derivatives.ladders`.
"""

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.ladders import Steps
from estim.probe.derivatives.rounding import EPS

#: Octaves below the scale of a parameter at which slopes are compared, where rounding of the parameter allows it.
_OCTAVES = np.arange(8, 45, 6)
_OCTAVES_AT_ZERO = np.arange(10, 101, 10)
#: From each of these steps to the next a slope grows at least so much, that of t log t included.
_GROWS = 1.1
#: Moves count from so many units in the last place of the reading on, and so many of them must.
_CLEAR = 64.0
_STEPS = 4


def grows_without_end(at: Steps, scale: float, at_zero: bool) -> npt.NDArray[np.bool_]:
    """Tell which readings, (M,), have slopes that grow from each step to the next, on one side at least.

    What a model rounds coarsely grows as well, once steps are small, but its moves go up and down.

    Parameters
    ----------
    at : Steps
    scale : float
        Of the parameter, a power of two.
    at_zero : bool
        Whether the parameter is zero, so that steps of any size are exact.
    """
    steps = scale * np.exp2(-(_OCTAVES_AT_ZERO if at_zero else _OCTAVES).astype(np.float64))
    found = np.zeros(at.count, dtype=bool)
    for side in (1.0, -1.0):
        moves = np.array([np.abs(at(side * step) - at(0.0)) for step in steps])
        with np.errstate(invalid="ignore"):
            clear = np.isfinite(moves) & (moves > _CLEAR * EPS * np.abs(at(0.0)))
            grows = moves[1:] / steps[1:, None] > _GROWS * moves[:-1] / steps[:-1, None]
            grows &= moves[1:] <= (1.0 + _CLEAR * EPS) * moves[:-1]
        both = clear[1:] & clear[:-1]
        found |= (both.sum(axis=0) >= _STEPS - 1) & (grows | ~both).all(axis=0)
    return found
