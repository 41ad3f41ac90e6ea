"""The mean of a table, interpolated: its excess over the first entry, and its slope."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableExcess:
    """The interpolated excess of a table, held to its last entry, which rounding of the interpolation must not pass."""

    points: Array
    values: Array
    curve: Callable[[Array], Array]
    """In units of the two below."""
    derivative: Callable[[Array], Array]
    theta_unit: float
    mean_unit: float

    def __call__(self, theta: Array) -> Array:
        """Evaluate at an array of any shape."""
        last = float(self.values[-1] - self.values[0])
        excess = self.mean_unit * self.curve(theta / self.theta_unit)
        return np.where(np.asarray(theta) == self.points[-1], last, np.clip(excess, min(last, 0.0), max(last, 0.0)))

    def slope(self, theta: Array) -> Array:
        """Evaluate the derivative at an array of any shape."""
        return np.asarray(self.mean_unit / self.theta_unit * self.derivative(theta / self.theta_unit))


def table_excess(points: Array, values: Array) -> TableExcess:
    """Interpolate a checked table by PCHIP, in units that are powers of two: no bit depends on those of the table.

    SciPy divides steps by slopes, and squares them: both would overflow or vanish for steps of 1e200.
    """
    from scipy.interpolate import PchipInterpolator

    theta_unit, mean_unit = (_power_of_two(float(abs(ends[-1] - ends[0]))) for ends in (points, values))
    curve = PchipInterpolator(points / theta_unit, (values - values[0]) / mean_unit)
    return TableExcess(points, values, curve, curve.derivative(), theta_unit, mean_unit)


def _power_of_two(size: float) -> float:
    return float(np.exp2(np.floor(np.log2(size))))
