"""A statistic of the user's own: its weights where it is linear, and what it sees, as one reading in place of all.

notation: T(d) the statistic of a shift d of the readings, weights a where T(d) = a . d.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.verdict.observed import shift_or_pair, variance_of_mean
from estim.real_numbers import real_number, reals

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

# A statistic is linear when it adds up, to rounding of so many parts of its size, on random shifts.
_LINEAR = 1e-9
_CHECKS = 4


@dataclass(frozen=True)
class Statistic:
    """A number made of a shift of the readings."""

    function: Callable[[Array], float]
    weights: Array | None
    """(readings,) where it is linear."""


def read_statistic(found: "Sensitivity", statistic: Any) -> Statistic:
    """Take weights, or a callable, whose linearity is checked."""
    if not callable(statistic):
        weights = reals(statistic, "statistic")
        if weights.shape != (found.readings,) or not np.isfinite(weights).all() or not weights.any():
            msg = f"statistic must be callable, or {found.readings} finite weights of the readings, not all 0"
            raise ValueError(msg)
        return Statistic(lambda shift: float(weights @ shift), weights)

    def function(shift: Array) -> float:
        value = real_number(statistic(shift.copy()), "the value of statistic")
        if not math.isfinite(value):
            msg = f"statistic must return a finite number; got {value!r}"
            raise ValueError(msg)
        return value

    return Statistic(function, _weights_of(found, function))


def _weights_of(found: "Sensitivity", function: Callable[[Array], float]) -> Array | None:
    """Return the weights of a linear function, None for another: it must add up on random shifts as large as noise."""
    rng = np.random.default_rng(0)
    sd = np.sqrt(np.square(unwhitening(found)).sum(axis=1)) if found.whitening.ndim == 2 else unwhitening(found)
    unit = np.where(sd > 0.0, sd, 1.0)
    if function(np.zeros(found.readings)) != 0.0:
        return None
    for _ in range(_CHECKS):
        one, other = (unit * rng.standard_normal(found.readings) for _ in range(2))
        parts = function(one), function(other), function(one - 2.0 * other)
        if abs(parts[0] - 2.0 * parts[1] - parts[2]) > _LINEAR * max(map(abs, parts)):
            return None
    return np.array([function(row) for row in np.diag(unit)]) / unit


def unwhitening(found: "Sensitivity") -> Array:
    """Return what turns whitened shifts back: sds, (readings,), or a matrix, (readings, whitened)."""
    if found.whitening.ndim == 2:
        return np.asarray(np.linalg.pinv(found.whitening))
    return np.divide(1.0, found.whitening, out=np.zeros(found.readings), where=found.whitening > 0.0)


def gradient_of(found: "Sensitivity", weights: Array) -> tuple[Array, float]:
    """Return the derivative of a weighted sum of readings, (parameters,), and the sum's standard deviation."""
    free = np.zeros(found.readings) if found.whitening.ndim == 2 else weights[found.whitening == 0.0]
    values = found.singular_values[: found.resolved]
    known = np.isinf(values)
    if free.any() or (len(found.noiseless) and np.abs(found.noiseless @ weights).max() > 1e-12):
        msg = "statistic weighs readings without noise: their movement alone is a change; leave them out"
        raise ValueError(msg)
    if np.isnan(values).any():
        msg = "statistic needs a record whose singular values are all known"
        raise ValueError(msg)
    back = unwhitening(found)
    whitened = weights @ back if back.ndim == 2 else weights * back
    along = (found.readout.T @ whitened) * values[~known]
    return along @ found.directions[: found.resolved][~known], float(np.linalg.norm(whitened))


def one_reading(found: "Sensitivity", weights: Array) -> "Sensitivity":
    """Return what a weighted sum of the readings sees: one reading in place of all."""
    gradient, deviation = gradient_of(found, weights)
    error = found.resolution * found.scale * deviation if np.isfinite(found.resolution) else np.zeros(len(gradient))
    once = deviation / math.sqrt(variance_of_mean(found, found.repeats))
    one = found.from_jacobian(
        gradient[None, :], once, jac_error=error[None, :], parameters=found.parameters, names=found.names,
        groups=found.groups, repeats=found.repeats, repeat_correlation=found.repeat_correlation,
        smallest_change=found.smallest_change,
    )  # fmt: skip
    return replace(one, relative_norm=found.relative_norm)


def as_one_reading(found: "Sensitivity", weights: Array, observed: Any) -> Any:
    """Return what was observed, a number, a shift or both sides, as values of the weighted sum."""
    if not isinstance(observed, tuple) and np.ndim(observed) == 0:
        return np.array([real_number(observed, "observed_shift")])
    sides = [(side.rows @ weights)[:, None] for side in shift_or_pair(found, observed)]
    shaped = tuple(side if len(side) > 1 else side[0] for side in sides)
    return shaped if len(shaped) == 2 else shaped[0]


def from_whitened(back: Array, whitened: Array) -> Array:
    """Return a shift of the readings from whitened ones."""
    return np.asarray(back @ whitened if back.ndim == 2 else back * whitened)
