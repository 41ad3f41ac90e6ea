"""What rounding does to readings and to derivatives, seen from outside by moving the parameters a little."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Relative move that shows the rounding of a derivative: large enough to round anew, its square small enough to vanish.
_MOVE = 2.0**-42
#: Entries of a column whose median is trusted.
_ENOUGH = 8
#: The same, in roundings.
MOVED = _MOVE / EPS
# Places along a line, at unequal distances, and polynomials on them.
_LINE = np.array([-3.71, -2.83, -2.17, -0.93, 0.41, 1.19, 2.39, 2.97, 3.89])
_BASIS, _TRIANGLE = np.linalg.qr(np.vander(_LINE, increasing=True))
#: Lengths of the lines, in octaves of the parameters; those after the third only for readings that stand still on it.
_OCTAVES = (-42, -27, -12, -7, -3)
_LAST_FOR_ALL = -12
#: Relative size up to which what looks like noise on the longer lines is taken for rounding.
_SMALL = 1e-8


@dataclass(frozen=True)
class Noise:
    """What rounding inside a model does to its readings."""

    level: Array
    """(M,), in the units of the readings."""
    relative: Array
    """(M,), relative to the size of the reading or its change with the parameters, whichever is larger."""


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
    rounding inside the model; where by chance it holds none, what is typical stands in: for the readings, parameter by
    parameter, as one whose effect is nothing but rounding says nothing of the others.
    """
    size = np.abs(values)
    conditioning = 8.0 * EPS / (2.0 * _MOVE) * np.abs(above - below)
    # Three roundings, of which the first may nearly be the mean of the others: a factor of eight leaves that to one
    # entry in some hundred, and there only where it exceeds eight units in the last place.
    inside = 8.0 * np.abs(above + below - 2.0 * values)
    return np.asarray(8.0 * EPS * size + conditioning + np.maximum(inside, 2.0 * _typical(inside, size) * size))


def _typical(inside: Array, size: Array) -> Any:
    """Return the median of the relative errors: of each column where it has enough entries, else of all."""
    if size.ndim < 2 or len(size) < _ENOUGH:
        moving = size > 0.0
        return float(np.median(inside[moving] / size[moving])) if moving.any() else 0.0
    ratio = np.divide(inside, size, out=np.full_like(size, np.nan), where=size > 0.0)
    ratio.sort(axis=0)  # NaN last
    last = np.count_nonzero(size > 0.0, axis=0) - 1
    middle = np.take_along_axis(ratio, np.maximum(last, 0)[None, :] // 2, axis=0)[0]
    return np.where(last >= 0, middle, 0.0)


def measured_error(values: Array, double: Array | None, above_below: tuple[Array, Array], eps: float = EPS) -> Array:
    """Return the error of derivatives, entry by entry, from two at moved parameters, and from one in double precision.

    Without the latter the two tell what rounding does. With it they are its own, and what a lower precision, of
    rounding `eps`, loses is seen beside it; an entry that is right by chance still carries a rounding. The parameters
    are moved by ``MOVED`` roundings, of the lower precision where there is none in double.
    """
    rounding = eps * np.abs(values)
    if double is None:
        return np.asarray(error_by_moving(values, *above_below) + (0.0 if eps <= EPS else 8.0 * rounding))
    return np.asarray(np.maximum(np.abs(values - double), rounding) + error_by_moving(double, *above_below))


def rounding_noise(
    evaluate: Callable[[Array], Array], x: Array, readings: Array, scales: Array, spread: float
) -> Noise:
    """Estimate the rounding of every reading, at least `spread`, from readings along three short lines.

    What a polynomial leaves of them is rounding (More and Wild, Estimating computational noise, 2011,
    doi:10.1137/100786125, take differences at equal distances; but there rounding follows a pattern that differences
    remove, too). On the shortest line this holds for every function. Longer ones show rounding in coarse steps, as of
    1 - exp(-b x) for a tiny b, of float32 or of three decimals; they count only where what is left looks like noise and
    is below 1e-8 of the reading, or the reading stands still on the shorter ones. A rounding that no parameter moves is
    not seen at all.
    """
    direction = scales * generic_signs(len(x))
    level, size = np.full_like(readings, spread), np.abs(readings)
    still, slope = np.ones(len(readings), dtype=bool), np.zeros_like(readings)
    for octave in _OCTAVES:
        length = 2.0**octave
        line = np.array([evaluate(x + length * place * direction) for place in _LINE]) - readings
        seen = _seen_along(line)
        # A ripple looks the same, and is part of the model: it is larger, and folds a line that is straight when short.
        small = (seen.noise <= _SMALL * np.maximum(size, slope)) & (seen.slope / length >= 0.25 * slope)
        trusted = still | (seen.white & small)
        if octave > _LAST_FOR_ALL:
            trusted &= still
        trusted &= seen.moving
        level[trusted] = np.maximum(level, 3.0 * seen.noise)[trusted]
        fresh = (slope == 0.0) & seen.moving & (seen.slope > 8.0 * seen.noise)
        slope[fresh] = seen.slope[fresh] / length
        still &= ~seen.moving
        if octave >= _LAST_FOR_ALL and not still.any():
            break
    level, size = np.maximum(level, EPS * np.abs(readings)), np.maximum(size, slope)
    with np.errstate(all="ignore"):
        relative = np.where(size > 0.0, level / size, EPS)
    return Noise(level, np.clip(relative, EPS, 1.0))


@dataclass(frozen=True)
class _Seen:
    """What readings along a line show, each field (M,)."""

    moving: npt.NDArray[np.bool_]
    """Whether most readings differ from their neighbours."""
    noise: Array
    """Standard deviation of what is left."""
    white: npt.NDArray[np.bool_]
    """Whether high polynomials hold as much as middling ones do: no smooth function is like that."""
    slope: Array
    """Change over a place of the line."""


def _seen_along(line: Array) -> _Seen:
    parts = _BASIS.T @ line
    # Of two numbers each, without squares that overflow.
    middling, high = np.hypot(parts[4], parts[5]) / np.sqrt(2.0), np.hypot(parts[7], parts[8]) / np.sqrt(2.0)
    moving = (np.diff(line, axis=0) != 0.0).sum(axis=0) >= len(_LINE) - 3
    finite = np.isfinite(parts).all(axis=0)
    slope = np.abs(parts[1] / _TRIANGLE[1, 1])
    return _Seen(
        moving & finite, np.where(finite, np.maximum(high, 0.5 * middling), 0.0), high >= 0.05 * middling, slope
    )
