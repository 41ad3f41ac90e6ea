"""A model really evaluated along one direction of its parameters: where the linear picture stops being true."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import coefficients
from estim.probe.derivatives.differentiate import scales_of
from estim.probe.derivatives.rounding import EPS, rounding_noise
from estim.probe.directions.noise import Whitening, whitening
from estim.probe.model.calls import Calls, first_calls
from estim.probe.model.elsewhere import as_callable
from estim.probe.model.probe import probe
from estim.probe.model.probed import Probed
from estim.probe.model.same_batches import same_batches
from estim.probe.order_of_inputs import require_order_of_bank
from estim.real_numbers import real_number
from estim.record import Record
from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]

#: Points at which a turn is looked for before the response is made.
_POINTS = 257


def response_along(
    model: Any,
    bank: Any,
    direction: "npt.ArrayLike | Mapping[str, float]",
    *,
    params: Any = None,
    lower: float = 0.0,
    upper: float,
    sigma: Any = None,
    names: Any = None,
    name: str | None = None,
) -> MeanResponse:
    """Return the problem of one unknown along a direction, with the model evaluated at every step.

    The unknown theta is the length of a step from `params` along the unit vector v of the direction. Its reading is
    the change of all readings, projected on the change that the linear model predicts:
    m(theta) = u . A (readings(params + theta v) - readings(params + lower v)), u the unit vector along A J v, where A
    whitens with `sigma`, or is the identity without it. So m has slope ||A J v|| at theta = 0.

    Parameters
    ----------
    model, bank, params, names
        As for `estim.sensitivity`.
    direction : array_like, shape (parameters,), or mapping of names to components
        Its length does not matter; parameters left out of a mapping stay.
    lower, upper : float
        The domain of theta, in the units of the parameters; it may reach below 0.
    sigma : optional
        Noise of the readings, as for `estim.sensitivity`, without zeros. The noise of m is then 1. Without it, noise of
        one standard deviation in all readings is that of m.
    name : str, optional
        Shown in summaries and on plots.

    Returns
    -------
    MeanResponse
        In standard deviations, or in the units of the readings. The two sets of readings are subtracted one by one
        before they are projected; its `rounding` is what the rounding of the model leaves.

    Raises
    ------
    TypeError
        When the model cannot be evaluated at other parameters.
    ValueError
        When the direction is zero, the readings do not change along it, or the response turns: the message says up to
        which theta it can be used.

    Notes
    -----
    The model is called about three thousand times when the response is made.

    References
    ----------
    Bates and Watts, Relative curvature measures of nonlinearity, 1980, doi:10.1111/j.2517-6161.1980.tb01094.x.

    Examples
    --------
    >>> import numpy as np, estim
    >>> def decay(rate, t):
    ...     return np.exp(-rate[0] * t)
    >>> along = estim.response_along(decay, np.array([1.0, 2.0]), [1.0], params=[0.5], upper=2.0)
    >>> round(float(along.slope(0.0)), 6), round(float(along.excess(2.0)), 6)
    (0.953531, 0.612257)
    """
    require_order_of_bank(sigma, bank, model)
    found, calls = start(model, bank, params, names)
    unit = _step(direction, found.names, "direction")
    unit = unit / np.linalg.norm(unit)
    low, high = _domain(lower, upper)
    noise = None if sigma is None else noisy(sigma, found.total)
    line = _line(calls, found, unit, noise, low, high)
    _require_one_way(line, low, high)
    level = rounding_noise(calls, found.parameters, found.readings, scales_of(calls.parameters), 0.0).level
    rounding = float(np.linalg.norm(line.weights * level))
    return _Along(line, low, high, max(rounding, EPS * abs(line(high))), name)


@dataclass(frozen=True)
class Linearity(Record):
    """A change of the parameters as the linear model predicts it, and as it is; in standard deviations of the noise."""

    predicted: float
    """||W delta||, the whitened shift of the linear model."""
    actual: float
    """Norm of the whitened change of the readings."""
    ratio: float
    """actual / predicted; infinite when only the predicted shift is within `error`, NaN when both are."""
    difference: float
    """Norm of the difference between the two changes: below 1, the best test at level 0.05 tells
    them apart with a probability below 0.26."""
    cosine: float
    """Cosine of the angle between them; NaN when one of them is within `error`."""
    error: float
    """Bound of what rounding and the error of the derivatives contribute to each shift and to `difference`."""


def linearity(
    model: Any,
    bank: Any,
    delta: "npt.ArrayLike | Mapping[str, float]",
    sigma: Any,
    *,
    params: Any = None,
    names: Any = None,
) -> Linearity:
    """Compare the shift that the linear model predicts for a change of the parameters with the actual one.

    Parameters
    ----------
    model, bank, params, names
        As for `estim.sensitivity`.
    delta : array_like, shape (parameters,), or mapping of names to changes
        In the parameters' units.
    sigma : float, array_like of shape (readings,) or (readings, readings), or scipy.stats.Covariance
        Noise of the readings, without zeros.

    Returns
    -------
    Linearity

    Raises
    ------
    TypeError
        When the model cannot be evaluated at other parameters.
    ValueError
        When an argument does not fit, or the readings are not finite after the change.

    References
    ----------
    Bates and Watts, Relative curvature measures of nonlinearity, 1980, doi:10.1111/j.2517-6161.1980.tb01094.x.

    Examples
    --------
    >>> import numpy as np, estim
    >>> def square(p, x):
    ...     return p["a"] ** 2 * x
    >>> found = estim.linearity(square, np.array([3.0, 4.0]), {"a": 0.5}, 0.1, params={"a": 1.0})
    >>> round(found.predicted, 6), round(found.actual, 6), round(found.ratio, 6)
    (50.0, 62.5, 1.25)
    """
    require_order_of_bank(sigma, bank, model)
    found, calls = start(model, bank, params, names)
    change = _step(delta, found.names, "delta")
    noise = noisy(sigma, found.total)
    moved = calls(found.parameters + change)
    if not np.isfinite(moved).all():
        i = int(np.argmin(np.isfinite(moved)))
        msg = f"readings must be finite after the change; reading {i} is {moved[i]} there"
        raise ValueError(msg)
    expected = whitened(noise, found.jacobian @ change)
    actual = whitened(noise, moved - found.readings)
    error = float(np.linalg.norm(absolute(noise, error_of_change(found, calls, change, moved))))
    return compared(expected, actual, error)


def compared(expected: Array, actual: Array, error: float) -> Linearity:
    """Compare two whitened changes of the readings, each known to `error` in norm."""
    predicted, shift = float(np.linalg.norm(expected)), float(np.linalg.norm(actual))
    difference = float(np.linalg.norm(actual - expected))
    if predicted <= error:
        return Linearity(predicted, shift, np.inf if shift > error else np.nan, difference, np.nan, error)
    cosine = min(float(expected / predicted @ (actual / shift)), 1.0) if shift > error else np.nan
    return Linearity(predicted, shift, shift / predicted, difference, cosine, error)


def error_of_change(found: Probed, calls: Calls, change: Array, moved: Array) -> Array:
    """Bound the error of a change of the readings, predicted or actual, by derivatives and by rounding, (M,)."""
    noise = rounding_noise(calls, found.parameters, found.readings, scales_of(calls.parameters), 0.0)
    rounding = noise.level + np.maximum(noise.level, noise.relative * np.abs(moved))  # of a model in float32, say
    least = 2.0 * EPS * (np.abs(moved) + np.abs(found.readings))
    return np.asarray(found.bound @ np.abs(change) + np.maximum(rounding, least))


def start(model: Any, bank: Any, params: Any, names: Any) -> tuple[Probed, Calls]:
    """Return the linear model, and the model as a function of its parameter vector."""
    bank = same_batches(bank)
    called, parameters, whole = as_callable(model, bank, params, names)
    found = probe(model, bank, params=params, names=names)
    return found, first_calls(called, whole, parameters).calls


def _step(values: "npt.ArrayLike | Mapping[str, float]", names: tuple[str, ...], argument: str) -> Array:
    vector = coefficients(values, names, argument)
    if not vector.any():
        msg = f"{argument} must not be 0 in all of its {len(names)} entries"
        raise ValueError(msg)
    return vector


def _domain(lower: float, upper: float) -> tuple[float, float]:
    low, high = real_number(lower, "lower"), real_number(upper, "upper")
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        msg = f"lower and upper must be finite, lower below upper; got {lower!r} and {upper!r}"
        raise ValueError(msg)
    return low, high


def noisy(sigma: Any, readings: int) -> Whitening:
    """Return the whitening of `sigma`; raises ValueError when it leaves a reading without noise."""
    noise = whitening(sigma, readings)
    if len(noise.noiseless):
        msg = "sigma must leave noise in every reading here; got a reading, or a combination of readings, without"
        raise ValueError(msg)
    return noise


def whitened(noise: Whitening | None, change: Array) -> Array:
    """Return a change of the readings in standard deviations, as it is without noise."""
    if noise is None:
        return change
    return change * noise.scale if noise.forward is None else noise.forward @ change


def absolute(noise: Whitening, level: Array) -> Array:
    """Return bounds of readings in standard deviations."""
    return level * noise.scale if noise.forward is None else np.abs(noise.forward) @ level


@dataclass(frozen=True)
class _Line:
    """The excess of the response: changes of the readings, projected. Takes a number or an array of them."""

    calls: Calls
    start: Array
    unit: Array
    weights: Array
    at_lower: Array

    def __call__(self, theta: Any) -> Any:
        steps = np.asarray(theta, dtype=np.float64)
        values = [float(self.weights @ (self.readings(step) - self.at_lower)) for step in steps.ravel()]
        return np.array(values).reshape(steps.shape)[()]

    def readings(self, step: float) -> Array:
        return self.calls(self.start + step * self.unit)


def _line(calls: Calls, found: Probed, unit: Array, noise: Whitening | None, low: float, high: float) -> _Line:
    at_lower = calls(found.parameters + low * unit)
    moved = whitened(noise, found.jacobian @ unit)
    blur = np.linalg.norm(found.bound @ np.abs(unit) if noise is None else absolute(noise, found.bound @ np.abs(unit)))
    if np.linalg.norm(moved) <= blur:
        # To first order nothing is seen: what the model does at the far end stands in for the linear change.
        moved = whitened(noise, calls(found.parameters + high * unit) - at_lower)
    size = float(np.linalg.norm(moved))
    if not size > 0.0:
        msg = f"the readings must change along direction; they do not for theta from {low:g} to {high:g}"
        raise ValueError(msg)
    ahead = moved / size
    weights = ahead if noise is None else ahead * noise.scale if noise.forward is None else noise.forward.T @ ahead
    return _Line(calls, found.parameters, unit, weights, at_lower)


def _require_one_way(line: _Line, low: float, high: float) -> None:
    """Refuse a response that turns, saying up to where it does not."""
    theta = np.linspace(low, high, _POINTS)
    values = line(theta)
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        msg = f"readings must be finite along direction; they are not at theta = {theta[i]:.6g}: give upper below it"
        raise ValueError(msg)
    size = np.abs(line.weights) @ np.abs(line.at_lower)
    falls = np.diff(values) < -64.0 * EPS * (np.abs(values[1:]) + size)
    if not falls.any():
        return
    from scipy.optimize import minimize_scalar

    i = int(np.argmax(falls))
    around = (theta[max(i - 1, 0)], theta[i + 1])
    turn = minimize_scalar(
        lambda t: -line(t), bounds=around, method="bounded", options={"xatol": 1e-9 * (high - low)}
    ).x
    msg = f"the response along direction turns: it rises up to theta = {turn:.6g} only; give upper no larger than that"
    if turn - low < 1e-6 * (high - low):
        msg = "the response along direction falls from the start; give the opposite direction, or a larger lower"
    raise ValueError(msg)


class _Along(MeanResponse):
    """A response given by its excess, whose rounding is that of the model."""

    def __init__(self, line: _Line, lower: float, upper: float, rounding: float, name: str | None) -> None:
        self._set_domain(lower, upper)
        self._mean, self._excess = None, self._adopt(line, "model")
        self.baseline = 0.0
        self._finish(None, name, magnitude=rounding / EPS)
