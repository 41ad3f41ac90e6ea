"""What rounding does to readings and to derivatives, seen from outside by moving the parameters a little."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Relative move that shows the rounding of a derivative: large enough to round anew, its square small enough to vanish.
_MOVE = 2.0**-42
# Places along the line, at unequal distances.
_LINE = np.array([-3.71, -2.83, -2.17, -0.93, 0.41, 1.19, 2.39, 2.97, 3.89])


@dataclass(frozen=True)
class Noise:
    """What rounding inside a model does to its readings."""

    level: Array
    """(M,), in the units of the readings."""
    relative: float
    """Median over the readings, relative to their size or their change with the parameters: eps, or that of float32."""


def generic_signs(count: int) -> Array:
    """Return numbers of either sign between 0.75 and 1.25 in size: a direction that favours no parameter."""
    places = np.arange(count)
    return np.asarray(np.where(places % 2, -1.0, 1.0) * (0.75 + 0.5 * np.modf(places * 0.618)[0]))


def moved(x: Array, side: float) -> Array:
    """Return parameters a thousand units in the last place away, on one side (1 or -1)."""
    return np.asarray(x * (1.0 + side * _MOVE * generic_signs(len(x))))


def error_by_moving(values: Array, above: Array, below: Array) -> Array:
    """Estimate the error of derivatives from those at the parameters `moved` to both sides.

    The first difference, scaled down, is what a rounding of the parameters does. The second holds nothing but the
    rounding inside the model; where by chance it holds none, what is typical for the readings stands in.
    """
    size = np.abs(values)
    conditioning = 8.0 * EPS / (2.0 * _MOVE) * np.abs(above - below)
    # Three roundings, of which the first may nearly be the mean of the others: a factor of eight leaves that to one
    # entry in some hundred, and there only where it exceeds eight units in the last place.
    inside = 8.0 * np.abs(above + below - 2.0 * values)
    moving = size > 0.0
    typical = 2.0 * float(np.median(inside[moving] / size[moving])) if moving.any() else 0.0
    return np.asarray(8.0 * EPS * size + conditioning + np.maximum(inside, typical * size))


def rounding_noise(
    evaluate: Callable[[Array], Array], x: Array, readings: Array, scales: Array, spread: float
) -> Noise:
    """Estimate the rounding of every reading, at least `spread`, from readings along a tiny line.

    What a parabola leaves of them is rounding alone (More and Wild, Estimating computational noise, 2011,
    doi:10.1137/100786125, take differences at equal distances; but there rounding follows a pattern that differences
    remove, too). Where most readings on the line are equal, as those of a model that computes in float32 are, the
    line is lengthened: rounding to three decimals is then noise, too.
    """
    direction = scales * generic_signs(len(x))
    noise, size = np.full_like(readings, spread), np.abs(readings)
    still = np.arange(len(readings))
    for octave in (-42, -32, -22, -12, -7, -3):
        line = np.array([evaluate(x + 2.0**octave * place * direction) for place in _LINE]) - readings
        table = line[:, still]
        moving = (np.diff(table, axis=0) != 0.0).sum(axis=0) >= len(_LINE) - 3
        left, change = _around_parabola(table[:, moving])
        noise[still[moving]] = np.maximum(3.0 * left, spread)
        size[still[moving]] = np.maximum(size[still[moving]], change / 2.0**octave)
        still = still[~moving]
        if not still.size:
            break
    noise = np.maximum(noise, EPS * np.abs(readings))
    relative = noise[size > 0.0] / size[size > 0.0]
    return Noise(noise, max(EPS, float(np.median(relative))) if relative.size else EPS)


def _around_parabola(table: Array) -> tuple[Array, Array]:
    """Return the standard deviation of the rows around a parabola along them, and its slope at 0; (columns,) each."""
    basis, triangle = np.linalg.qr(np.vander(_LINE, 3, increasing=True))
    along = basis.T @ table
    left = np.sqrt(((table - basis @ along) ** 2).sum(axis=0) / (len(_LINE) - 3))
    slope = np.abs(np.linalg.solve(triangle, along)[1])
    return np.where(np.isfinite(left), left, 0.0), np.where(np.isfinite(slope), slope, 0.0)
