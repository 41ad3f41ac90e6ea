"""The error of one unknown recovered under noise.

A known mean response m(theta) is read with Gaussian noise; the reading is clipped to the attainable range and
inverted. The estimate's bias and root-mean-square error follow by Monte Carlo or exactly, beside the prediction of
the linearised response.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from estim.real_numbers import real_number
from estim.recovery.arguments import check_sigma
from estim.recovery.local import local_difference
from estim.recovery.moments import Moments, exact_moments
from estim.recovery.notes import accuracy_notes, rarity_notes, rounding_notes, unknown_notes
from estim.recovery.recovery_record import Recovery
from estim.recovery.response import MeanResponse, check_response
from estim.streams import Seed, check_flag, check_trials, check_workers, generator

Array = npt.NDArray[np.float64]

#: How far the exact RMSE may leave the linear prediction before that counts as wrong.
LINEAR_TOLERANCE = 0.1


def recover(
    response: MeanResponse,
    theta: float,
    sigma: "npt.ArrayLike",
    *,
    trials: int = 100_000,
    method: Literal["monte-carlo", "exact"] = "monte-carlo",
    rng: "Seed" = None,
    workers: int | Callable[..., Iterable[Any]] = 1,
    progress: bool = False,
) -> Recovery:
    """Find the error of theta recovered from one clipped, inverted reading, for each noise level.

    Parameters
    ----------
    response : MeanResponse
        The known mean.
    theta : float
        The true parameter, in the domain of the response.
    sigma : float or array_like, shape (levels,)
        Standard deviation of the reading's Gaussian noise, in the units of the readings; positive.
    trials : int
        Readings drawn for each level, at least 2. All levels share their draws (common random numbers), so that
        curves along sigma are smooth and their errors correlated. Memory does not grow with it.
    method : {"monte-carlo", "exact"}
        Simulation, or the same moments by quadrature: relative accuracy 1e-10 of `rmse`, or what `numerical_error`
        says.
    rng : None, int or numpy.random.Generator
        Seed or generator of the draws (SPEC 7); 0 is a seed.
    workers : int or map-like callable
        Threads, -1 for one per processor; or a replacement of `map`. No bit of the result depends on it.
    progress : bool
        Whether to show a progress bar on the standard error stream.

    Returns
    -------
    Recovery

    Raises
    ------
    TypeError
        When `response` is not a MeanResponse, or `theta`, `sigma` or `trials` is not of its kind.
    ValueError
        When `theta` lies outside the domain, `sigma` is empty, not positive or not finite, `trials` is below 2,
        `method` is unknown; when the mean has a finite limit on an infinite domain: readings above it invert to
        infinity, and the RMSE is infinite at every sigma.

    Notes
    -----
    For small noise the RMSE is sigma / |m'(theta)|. For larger noise the boundary and the curvature of the response
    decide. The exact moments integrate by parts (see `estim.recovery.moments`), so that they need neither inverse nor
    derivative.

    Examples
    --------
    A reading of theta >= 0 itself, one standard deviation from zero:

    >>> import estim
    >>> identity = estim.MeanResponse(lambda t: t)
    >>> found = estim.recover(identity, 1.0, [0.1, 1.0], method="exact")
    >>> found.rmse
    array([0.1       , 0.87064877])
    >>> simulated = estim.recover(identity, 1.0, [0.1, 1.0], rng=0)
    >>> bool(abs(simulated.rmse[1] - found.rmse[1]) < 4 * simulated.rmse_se[1])
    True
    """
    truth, levels = _check(response, theta, sigma, method)
    count = check_trials(trials)
    source = generator(rng)
    check_flag(progress, "progress")
    if not callable(workers):
        check_workers(workers)
    _require_slope(response, truth)
    local = local_difference(response, truth)
    slope = abs(response.slope(truth)) if local is None or response.has_derivative else local.slope
    moments = partial(exact_moments, response, truth, local)
    exact = moments(levels)
    linear = levels / slope if slope > 0.0 else np.full(levels.shape, math.inf)
    limit = _linear_limit(moments, slope, response, truth)
    notes = rounding_notes(response, levels)
    if method == "exact":
        bias, rmse, se = exact.bias, exact.rmse, np.zeros(levels.shape)
        low, high, count = exact.clipped_low, exact.clipped_high, 0
        notes += unknown_notes(levels, exact.beyond) or accuracy_notes(levels, exact.relative_error)
    else:
        from estim.recovery.monte_carlo import simulate

        bias, rmse, se, low, high = simulate(
            response, truth, local, levels, trials=count, rng=source, workers=workers, progress=progress
        )
        notes += unknown_notes(levels, exact.beyond) or rarity_notes(levels, rmse, se, exact.rmse, count)
    scale = abs(truth) if truth != 0.0 else math.nan
    with np.errstate(over="ignore"):
        relative_bias, relative_rmse = bias / scale, rmse / scale
    return Recovery(
        theta=truth, sigma=levels, bias=bias, rmse=rmse, relative_bias=relative_bias, relative_rmse=relative_rmse,
        rmse_se=se, linear_rmse=linear, clipped_low=low, clipped_high=high, numerical_error=exact.relative_error,
        linear_limit=limit, method=method, trials=count, response=response.name or repr(response), notes=notes,
    )  # fmt: skip


def _check(response: MeanResponse, theta: float, sigma: "npt.ArrayLike", method: str) -> tuple[float, Array]:
    check_response(response)
    if not isinstance(method, str) or method not in ("monte-carlo", "exact"):
        msg = f"method must be 'monte-carlo' or 'exact'; got {method!r}"
        raise ValueError(msg)
    truth = real_number(theta, "theta")
    if not response.lower <= truth <= response.upper or math.isinf(truth):
        domain = f"[{response.lower:g}, {response.upper:g}]"
        msg = f"theta must be finite and lie in the domain {domain} of the response; got {truth!r}"
        raise ValueError(msg)
    levels = check_sigma(sigma)
    low, high = response.attainable
    if math.isinf(response.upper) and math.isfinite(low) and math.isfinite(high):
        limit = high if response.increasing else low
        msg = (
            f"the mean tends to {limit:g} as theta grows without bound: readings beyond it invert to infinity, "
            "and the RMSE is infinite at every sigma; give the response a finite upper"
        )
        raise ValueError(msg)
    return truth, levels


def _require_slope(response: MeanResponse, truth: float) -> None:
    """Refuse units in which no float holds the slope of the mean: its logarithm is that of a secant."""
    end = truth if truth > response.lower else response.upper
    rise = float(response._rise(np.array([end]))[0]) if math.isfinite(end) else 0.0
    if not (rise > 0.0 and math.isfinite(rise)):
        return
    order = math.log10(rise) - math.log10(end - response.lower)
    if not -300.0 < order < 300.0:
        msg = f"the mean must rise by 1e-300 to 1e300 a unit of theta (choose other units); it rises by 1e{order:.0f}"
        raise ValueError(msg)


def _linear_limit(moments: Callable[[Array], Moments], slope: float, response: MeanResponse, truth: float) -> float:
    """Find where the exact RMSE first leaves the linear prediction: a scan in sigma, refined and interpolated."""
    if not 0.0 < slope < math.inf:
        return 0.0

    span = min(truth - response.lower, response.upper - truth) or min(response.upper - response.lower, 1.0)

    def deviation(sigma: Array) -> Array:
        return np.abs(moments(sigma).rmse / (sigma / slope) - 1.0)

    def between(low: float, high: float, points: int) -> tuple[Array, Array]:
        scan = np.clip(np.geomspace(low, high, points) * (slope * span), 1e-300, 1e300)
        return scan, deviation(scan)

    # Dense, as it may leave it upwards and come back: of t^2 between 0.6 and 1.4 for theta = 1.3 in [0, 2].
    scan, off = between(1e-2, 1e2, 33)
    if off[0] > LINEAR_TOLERANCE:  # theta lies on a rise far steeper than the rest
        scan, off = between(1e-18, 1e-2, 33)
    elif not (off > LINEAR_TOLERANCE).any():
        scan, off = between(1e2, 1e6, 9)
    for refinement in range(3):
        first = int(np.argmax(off > LINEAR_TOLERANCE))
        if not off[first] > LINEAR_TOLERANCE:
            return math.inf
        if first == 0:
            return 0.0
        ends = slice(first - 1, first + 1)
        if refinement < 2:
            scan = np.geomspace(scan[first - 1], scan[first], 9)
            off = deviation(scan)
    logs = np.log(np.maximum(off[ends], 1e-300))  # a power of sigma, or steeper where the tails set in
    return float(np.exp(np.interp(math.log(LINEAR_TOLERANCE), logs, np.log(scan[ends]))))
