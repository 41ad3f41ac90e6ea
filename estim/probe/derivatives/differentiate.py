"""The Jacobian of a model without one of its own: complex step where the model is analytic, else differences."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.complex_step import ComplexColumn, complex_column
from estim.probe.derivatives.differences import POOR, Column, column
from estim.probe.derivatives.rounding import Noise, generic_signs, rounding_noise
from estim.probe.model.calls import Calls, First
from estim.probe.model.parameters import Parameters
from estim.streams import mapping, results

Array = npt.NDArray[np.float64]
Workers = int | Callable[..., Iterable[Any]]

#: Scales of parameters are cut here, so that steps and what is divided by them are numbers.
_SCALES = 1e-290, 1e290
#: A parameter smaller than that, beside others, whose effect does not show on its own scale, is looked at on theirs.
_TINY = 2.0**-20
#: Real step of the check, times the scale of the parameter.
_CHECK = 2.0**-17
#: Relative rounding from which a model is said to compute with less than float64.
_COARSE = 1e-9
#: Times two error estimates that two derivatives of the same may be apart: of many thousand, some are exceeded.
_MARGIN = 10.0
#: Roundings of a reading that complex arithmetic may be off from real arithmetic.
_REAL = 1e3


@dataclass(frozen=True)
class Derivative:
    """A Jacobian with its error."""

    jacobian: Array
    """(M, P)."""
    error: Array | None
    """(M, P); None for the rounding of given entries."""
    method: str
    """How it was found, as in `estim.probe.model.probed.Probed`."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _ByDifferences:
    calls: Calls
    x: Array
    readings: Array
    noise: Noise
    scales: Array
    typical: float
    """Size of the parameters in the middle: where one's own is next to nothing, that need not be what matters."""

    def __call__(self, parameter: int) -> Column:
        with np.errstate(all="ignore"):
            found = self._at(parameter, self.scales[parameter])
            tiny = self.scales[parameter] < _TINY * self.typical
            if not tiny or (found.error <= POOR * np.abs(found.values)).any():
                return found
            other = self._at(parameter, self.typical)
            return other if np.linalg.norm(other.error) < np.linalg.norm(found.error) else found

    def _at(self, parameter: int, scale: float) -> Column:
        return column(self.calls, self.x, parameter, self.readings, self.noise, scale)


@dataclass(frozen=True)
class _ByComplexStep:
    """Differentiates by a complex step, held against a real step of the same parameter."""

    by_differences: _ByDifferences

    def __call__(self, parameter: int) -> ComplexColumn | None:
        """Return None where the model does not take complex numbers, or the two disagree."""
        given = self.by_differences
        with np.errstate(all="ignore"):
            found = complex_column(given.calls, given.x, parameter, given.scales[parameter])
            if found is None or (np.abs(found.real - given.readings) > _REAL * given.noise.level).any():
                return None
            if self._plainly(parameter, found):
                return found
            ladder = given(parameter)
        agrees = np.abs(ladder.values - found.values) <= _MARGIN * (ladder.error + found.error)
        broken = ladder.kinked or ladder.steep or ladder.height.any()
        return found if agrees.all() and not broken else None

    def _plainly(self, parameter: int, found: ComplexColumn) -> bool:
        """Tell whether one cheap real step leaves no doubt."""
        given = self.by_differences
        step = _CHECK * given.scales[parameter]
        moved = np.zeros_like(given.x)
        moved[parameter] = step
        above, below = given.calls(given.x + moved), given.calls(given.x - moved)
        off = np.abs((above - below) / (2.0 * step) - found.values)
        curved = np.abs(above + below - 2.0 * given.readings) / (2.0 * step)
        size, rounding = np.abs(found.values), 8.0 * given.noise.level / step
        # A kink makes the reading as curved as it is steep; a staircase is flat, but for steps seen as noise.
        smooth = (off <= 0.01 * size + rounding) & (curved <= 0.1 * size + rounding)
        return bool((smooth & (given.noise.relative <= _COARSE)).all())


def differentiate(first: First, parameters: Parameters, workers: Workers = 1, progress: bool = False) -> Derivative:
    """Differentiate all readings with respect to all parameters.

    Parameters
    ----------
    first : First
        What the first calls showed; all readings are finite.
    parameters : Parameters
    workers : int or map-like callable
        Threads, or a map over parameters.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    Derivative
        NaN where the model has no derivative that could be found, with an infinite error.

    Raises
    ------
    ValueError
        When no step of a parameter gives finite readings.
    """
    x, scales = parameters.values, scales_of(parameters)
    with _quiet(), mapping(workers) as map_:
        noise = rounding_noise(first.calls, x, first.readings, scales, first.spread)
        sizes = np.abs(x[x != 0.0])
        typical = float(np.clip(np.median(sizes), *_SCALES)) if sizes.size else 1.0
        by_differences = _ByDifferences(first.calls, x, first.readings, noise, scales, typical)
        found = None if first.complex else _try_complex(by_differences, map_, progress)
        if found is not None:
            return found
        one_by_one = results(map_, by_differences, range(len(x)), lambda one: isinstance(one, Column))
        columns = list(_shown(one_by_one, len(x), progress))
    return _assembled(columns, first, parameters, noise)


@dataclass(frozen=True)
class _Line:
    """Readings along one direction of all parameters."""

    calls: Calls
    x: Array
    direction: Array

    def __call__(self, step: Array) -> Array:
        return self.calls(self.x + step[0] * self.direction)


def along(first: First, parameters: Parameters, direction: Array) -> Column:
    """Differentiate all readings along one direction of all parameters, by differences."""
    line, origin, unit = _Line(first.calls, parameters.values, direction), np.zeros(1), np.ones(1)
    with _quiet(), np.errstate(all="ignore"):
        noise = rounding_noise(line, origin, first.readings, unit, first.spread)
        return column(line, origin, 0, first.readings, noise, 1.0)


def scales_of(parameters: Parameters) -> Array:
    """Return a first guess of a change that matters for each parameter, in its units: its size.

    For a zero, the median size of the others in its group; one when there are none.
    """
    x = np.abs(parameters.values)
    scales = x.copy()
    groups = np.array(parameters.groups)
    for group in set(groups[x == 0.0].tolist()):
        members = groups == group
        sizes = x[members & (x > 0.0)]
        scales[members & (x == 0.0)] = np.median(sizes) if sizes.size else 1.0
    return np.clip(scales, *_SCALES)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hush warnings at trial steps; a cast that drops an imaginary part raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


def _try_complex(
    by_differences: _ByDifferences, map_: Callable[..., Iterable[Any]], progress: bool
) -> Derivative | None:
    """Return the Jacobian by complex steps, or None when the model does not take them or they are wrong."""
    given, one = by_differences, _ByComplexStep(by_differences)
    if one(0) is None:
        return None
    jacobian = np.empty((len(given.readings), len(given.x)))
    error = np.empty_like(jacobian)
    columns = results(map_, one, range(len(given.x)), lambda column: isinstance(column, ComplexColumn | None))
    for j, found in enumerate(_shown(columns, len(given.x), progress)):
        if found is None:
            return None
        jacobian[:, j], error[:, j] = found.values, found.error + given.noise.relative * np.abs(found.values)
    return Derivative(jacobian, error, "complex step", ()) if _borne_out(given, jacobian, error) else None


def _borne_out(given: _ByDifferences, jacobian: Array, error: Array) -> bool:
    """Tell whether accurate differences along one direction of all parameters leave no part of the Jacobian out.

    A single real step does not see a small part of a model that drops the imaginary part; these do.
    """
    direction = given.scales * generic_signs(len(given.x))
    line = _Line(given.calls, given.x, direction)
    with np.errstate(all="ignore"):
        found = column(line, np.zeros(1), 0, given.readings, given.noise, 1.0)
    if found.height.any():  # jumps, which have no derivative, and no part in one
        return False
    off = np.abs(found.values - jacobian @ direction)
    return not (off > _MARGIN * (found.error + error @ np.abs(direction))).any()


def _assembled(columns: list[Column], first: First, parameters: Parameters, noise: Noise) -> Derivative:
    jacobian = np.stack([one.values for one in columns], axis=1)
    error = np.stack([one.error for one in columns], axis=1)
    lost = ~np.isfinite(error)
    for j in np.flatnonzero(lost.all(axis=0)):
        raise ValueError(_no_step(first, parameters, int(j)))
    jacobian[lost] = np.nan
    kinked = [name for name, one in zip(parameters.names, columns, strict=True) if one.kinked]
    notes = [f"slopes differ on both sides of {', '.join(kinked)}: the error covers both"] if kinked else []
    notes += _on_stairs(parameters.names, columns)
    steep = _where_steep(parameters, columns)
    notes += steep
    # The noise that was found is then part of what is steep.
    if not steep and np.median(noise.relative) > _COARSE:
        notes.append(f"the model computes its readings only to a relative {np.median(noise.relative):.0e}")
    return Derivative(jacobian, error, "differences", tuple(notes))


def _where_steep(parameters: Parameters, columns: list[Column]) -> list[str]:
    """Return a note on parameters that readings have no derivative with respect to, or none."""
    places = [
        f"{name} = {value:g}"
        for name, value, one in zip(parameters.names, parameters.values, columns, strict=True)
        if one.steep
    ]
    if not places:
        return []
    return [
        f"the derivative is infinite at {', '.join(places)} (slopes grow without end as the step shrinks, as a square "
        "root's do at zero): not seen does not mean without effect there; start elsewhere"
    ]


def _on_stairs(names: tuple[str, ...], columns: list[Column]) -> list[str]:
    """Return a note on readings that move in steps, or none."""
    on = [(name, one.height[one.height > 0.0]) for name, one in zip(names, columns, strict=True) if one.height.any()]
    if not on:
        return []
    low, high = (function([function(heights) for _, heights in on]) for function in (np.min, np.max))
    about = f"{low:.1g}" if high < 3.0 * low else f"{low:.1g} to {high:.1g}"
    listed = ", ".join(name for name, _ in on[:5]) + (f" and {len(on) - 5} more" if len(on) > 5 else "")
    return [f"the readings move in steps of about {about} with {listed}: derivatives are slopes across the steps"]


def _no_step(first: First, parameters: Parameters, parameter: int) -> str:
    moved = parameters.values.copy()
    moved[parameter] += 1e-6 * scales_of(parameters)[parameter]
    try:
        said = f"readings such as {first.calls.raw(moved)[:3]}"
    except Exception as error:
        said = repr(error)
    name = parameters.names[parameter]
    return f"the model gives no finite readings for any change of {name} = {parameters.values[parameter]:g}: {said}"


def _shown(items: Iterable[Any], total: int, progress: bool) -> Iterable[Any]:
    if not progress:
        return items
    from tqdm import tqdm

    return tqdm(items, total=total, desc="derivatives", unit="parameter")
