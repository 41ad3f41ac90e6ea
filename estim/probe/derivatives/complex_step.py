"""The complex step: derivatives without cancellation, from models that take complex parameters and are analytic.

The imaginary part of m(theta + i h) / h is the derivative to rounding, for h so small that its square vanishes. A model
that drops the imaginary part on its way (abs, a real part, a comparison, a cast) gives a wrong number without a sign of
it, so every column is held against a real step by `estim.probe.derivatives.differentiate` before it is believed.

Squire and Trapp, Using complex variables to estimate derivatives of real functions, 1998,
doi:10.1137/S003614459631241X.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import error_by_moving, moved
from estim.probe.model.calls import Calls

Array = npt.NDArray[np.float64]

#: The step, times the scale of the parameter: its square is lost in any rounding, nothing near it underflows.
STEP = 2.0**-133
#: The least scale, so that no step vanishes: a parameter smaller than that seldom matters on its own scale.
_SMALLEST = 1e-200
#: A second step of a parameter that is zero, in first steps: a power of two, so that it rounds alike.
_OTHER = 2.0**-24


@dataclass(frozen=True)
class ComplexColumn:
    """Derivatives of all readings with respect to one parameter, each field (M,)."""

    values: Array
    error: Array
    real: Array
    """The readings that came with it: those of the real model, when the model is analytic."""


def complex_column(calls: Calls, x: Array, parameter: int, scale: float) -> ComplexColumn | None:
    """Differentiate with respect to one parameter; None when the model does not take complex numbers.

    The error is what rounding inside the model does: it is seen by taking the derivative again, a thousand units in the
    last place away on both sides.
    """
    step = STEP * max(scale, _SMALLEST)
    parts = [_readings(calls, point, parameter, step) for point in (x, moved(x, 1.0), moved(x, -1.0))]
    here, above, below = parts
    if here is None or above is None or below is None:
        return None
    derivatives = [part.imag / step for part in (here, above, below)]
    if not all(np.isfinite(part).all() for part in derivatives):
        return None
    error = error_by_moving(*derivatives)
    if x[parameter] == 0.0:
        # No move of the parameter shows that it stands at a branch point, as in t^1.5; another step does.
        other = _readings(calls, x, parameter, _OTHER * step)
        if other is None:
            return None
        error = np.maximum(error, 2.0 * np.abs(derivatives[0] - other.imag / (_OTHER * step)))
    return ComplexColumn(derivatives[0], error, here.real)


def _readings(calls: Calls, x: Array, parameter: int, step: float) -> npt.NDArray[np.complex128] | None:
    point = x.astype(np.complex128)
    point[parameter] += 1j * step
    try:
        readings = calls.at_complex(point)
    except Exception:  # a model for real numbers says so in its own way
        return None
    return readings.astype(np.complex128, copy=False) if readings.dtype.kind == "c" else None
