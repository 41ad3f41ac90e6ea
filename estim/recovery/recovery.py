"""The error of one unknown recovered under noise.

A known mean response m(theta) is read with Gaussian noise; the reading is clipped to the attainable range and
inverted. The estimate's bias and root-mean-square error follow by Monte Carlo or exactly, beside the prediction of
the linearised response.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from estim.record import Record
from estim.recovery.arguments import as_array
from estim.recovery.local import Local, local_difference
from estim.recovery.moments import Moments, exact_moments
from estim.recovery.response import MeanResponse
from estim.streams import Seed, check_progress, check_workers, generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]

#: How far the exact RMSE may leave the linear prediction before that counts as wrong.
LINEAR_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Record):
    """The error of a recovered parameter along the noise level. Arrays have shape (levels,).

    The estimator is biased by the boundary: its RMSE may lie below `linear_rmse`, the Cramer-Rao bound of unbiased
    estimators.
    """

    theta: float
    """The true parameter, in its own units, as is every error not called relative."""
    sigma: Array
    """Standard deviation of a reading, in the units of the readings."""
    bias: Array
    """Mean of estimate - theta."""
    rmse: Array
    """Root-mean-square of estimate - theta."""
    relative_bias: Array
    """bias / |theta|, dimensionless; NaN at theta = 0."""
    relative_rmse: Array
    """rmse / |theta|, dimensionless; NaN at theta = 0."""
    rmse_se: Array
    """Monte Carlo standard error of `rmse`; 0 for the exact method."""
    linear_rmse: Array
    """sigma / |slope at theta|: the prediction of the linearised response; infinite where the slope vanishes."""
    clipped_low: Array
    """Fraction of readings whose estimate is the lower end of theta's domain."""
    clipped_high: Array
    """Fraction of readings whose estimate is the upper end of theta's domain."""
    numerical_error: Array
    """Bound on the relative error of `rmse` that is not sampling: quadrature and the rounding of the response."""
    linear_limit: float
    """The sigma beyond which `linear_rmse` is off by more than 10 %; 0 when it always is, inf when it never is."""
    method: str
    """"monte-carlo" or "exact"."""
    trials: int
    """Number of trials at each level; 0 for the exact method."""
    response: str
    """What the response calls itself."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row."""

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: one row a noise level, `notes` below it."""
        from estim.recovery.recovery_summary import recovery_summary

        return recovery_summary(self)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with one row a noise level and the array fields as columns."""
        from estim.recovery.recovery_summary import recovery_frame

        return recovery_frame(self)

    def plot(self, *, exact: "Recovery | None" = None, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw RMSE, linear prediction and clipped fractions against sigma.

        Parameters
        ----------
        exact : Recovery, optional
            An exact recovery of the same response, drawn as a line through the Monte Carlo points.
        figure : matplotlib Figure or SubFigure, optional
            What to draw into, as it is; a new figure when left out.

        Returns
        -------
        matplotlib.figure.Figure
            The one drawn into.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is missing; the message names the extra to install.
        TypeError
            When `figure` is neither a Figure nor a SubFigure.
        """
        from estim.recovery.recovery_plot import plot_recovery

        return plot_recovery(self, exact=exact, figure=figure)


def recover(
    response: MeanResponse,
    theta: float,
    sigma: npt.ArrayLike,
    *,
    trials: int = 100_000,
    method: Literal["monte-carlo", "exact"] = "monte-carlo",
    rng: Seed = None,
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
    truth, levels = _check(response, theta, sigma, trials, method)
    source = generator(rng)
    check_progress(progress)
    if not callable(workers):
        check_workers(workers)
    _require_slope(response, truth)
    local = local_difference(response._rise, truth, response.lower, response.upper, response.rounding)
    slope = abs(response.slope(truth)) if local is None or response.has_derivative else local.slope
    exact = _exact(response, truth, local, levels)
    linear = levels / slope if slope > 0.0 else np.full(levels.shape, math.inf)
    limit = _linear_limit(lambda s: _exact(response, truth, local, s), slope, response, truth)
    notes = rounding_notes(response, levels)
    if method == "exact":
        bias, rmse, se = exact.bias, exact.rmse, np.zeros(levels.shape)
        low, high, count = exact.clipped_low, exact.clipped_high, 0
        notes += _unknown_notes(levels, exact.beyond) or _accuracy_notes(levels, exact.relative_error)
    else:
        from estim.recovery.monte_carlo import simulate

        count = int(trials)
        bias, rmse, se, low, high = simulate(
            response,
            truth,
            local,
            levels,
            trials=count,
            rng=source,
            workers=workers,
            progress=progress,
        )
        notes += _unknown_notes(levels, exact.beyond) or _rarity_notes(levels, rmse, se, exact.rmse, count)
    scale = abs(truth) if truth != 0.0 else math.nan
    with np.errstate(over="ignore"):
        relative_bias, relative_rmse = bias / scale, rmse / scale
    return Recovery(
        theta=truth, sigma=levels, bias=bias, rmse=rmse, relative_bias=relative_bias, relative_rmse=relative_rmse,
        rmse_se=se, linear_rmse=linear, clipped_low=low, clipped_high=high, numerical_error=exact.relative_error,
        linear_limit=limit, method=method, trials=count, response=response.name or repr(response), notes=notes,
    )  # fmt: skip


def _check(response: MeanResponse, theta: float, sigma: npt.ArrayLike, trials: int, method: str) -> tuple[float, Array]:
    if not isinstance(response, MeanResponse):
        msg = f"response must be an estim.MeanResponse; got {type(response).__name__}"
        raise TypeError(msg)
    if not isinstance(method, str) or method not in ("monte-carlo", "exact"):
        msg = f"method must be 'monte-carlo' or 'exact'; got {method!r}"
        raise ValueError(msg)
    truth = as_array(theta, "theta")
    if truth.ndim != 0 or truth.dtype.kind not in "iuf":
        msg = f"theta must be a real number; got {theta!r}"
        raise TypeError(msg)
    if not response.lower <= float(truth) <= response.upper or math.isinf(float(truth)):
        domain = f"[{response.lower:g}, {response.upper:g}]"
        msg = f"theta must be finite and lie in the domain {domain} of the response; got {float(truth)!r}"
        raise ValueError(msg)
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer):
        msg = f"trials must be an integer; got {trials!r}"
        raise TypeError(msg)
    if not 2 <= trials < 2**63:
        msg = f"trials must be at least 2, for a standard error, and below 2^63; got {trials!r:.60}"
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
    return float(truth), levels


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


def check_sigma(sigma: npt.ArrayLike) -> Array:
    """Return noise levels as a fresh 1-D float64 array, or raise."""
    levels = as_array(sigma, "sigma")
    if levels.dtype.kind not in "iuf":
        msg = f"sigma must be real; got dtype {levels.dtype}"
        raise TypeError(msg)
    if levels.ndim > 1 or levels.size == 0:
        msg = f"sigma must be a number or a non-empty 1-D array; got shape {levels.shape}"
        raise ValueError(msg)
    levels = np.atleast_1d(levels.astype(np.float64))
    bad = ~((levels > 0.0) & np.isfinite(levels))
    if bad.any():
        msg = f"sigma must be positive and finite; got {levels[bad][0]} at entry {int(np.argmax(bad))}"
        raise ValueError(msg)
    extreme = (levels < 1e-290) | (levels > 1e290)
    if extreme.any():
        msg = f"sigma must lie between 1e-290 and 1e290 (choose other units); got {levels[extreme][0]}"
        raise ValueError(msg)
    return levels


def _exact(response: MeanResponse, truth: float, local: Local | None, sigma: Array) -> Moments:
    return exact_moments(response._rise, response._grid, response.upper, response.rounding, truth, local, sigma)


def _linear_limit(moments: Callable[[Array], Moments], slope: float, response: MeanResponse, truth: float) -> float:
    """Find where the exact RMSE first leaves the linear prediction: a scan in sigma, refined twice."""
    if not 0.0 < slope < math.inf:
        return 0.0
    span = min(truth - response.lower, response.upper - truth) or min(response.upper - response.lower, 1.0)
    lowest, highest = np.clip(np.array([1e-6, 1e6]) * (slope * span), 1e-300, 1e300)
    for _ in range(3):
        scan = np.geomspace(lowest, highest, 25)
        off = np.abs(moments(scan).rmse / (scan / slope) - 1.0) > LINEAR_TOLERANCE
        if not off.any():
            return math.inf
        first = int(np.argmax(off))
        if first == 0:
            return 0.0
        lowest, highest = scan[first - 1], scan[first]
    return float(math.sqrt(lowest) * math.sqrt(highest))


def rounding_notes(response: MeanResponse, levels: Array) -> tuple[str, ...]:
    """Say where the rounding of a plain function's mean shows beside the noise or the range."""
    notes: list[str] = []
    low, high = response.attainable_excess
    if response.rounding > 1e-6 * levels.min():
        notes.append(
            f"The mean is known to {response.rounding:.1e} (float64), not small beside sigma = {levels.min():.3g}: "
            "give the exact excess with MeanResponse.from_excess."
        )
    if response.rounding > 1e-8 * (high - low):
        notes.append(
            f"The mean is known to {response.rounding:.1e} (float64), not small beside its attainable range "
            f"{high - low:.3g}: give the exact excess with MeanResponse.from_excess."
        )
    return tuple(notes)


def _unknown_notes(levels: Array, beyond: Array) -> tuple[str, ...]:
    """Say where the RMSE is no number that is known: no sample and no quadrature reaches the readings that carry it."""
    unknown = ~(beyond < 0.1)
    if not unknown.any():
        return ()
    k = int(np.argmax(unknown))
    return (
        f"From sigma = {levels[k]:.3g} on the RMSE is not known, and the one shown may be far too small: it is carried "
        "by readings that are next to never seen, whose estimates are huge; give the response a finite upper.",
    )


def _accuracy_notes(levels: Array, error: Array) -> tuple[str, ...]:
    poor = error > 1e-10
    if not poor.any():
        return ()
    worst = int(np.argmax(error))
    return (f"The RMSE at sigma = {levels[worst]:.3g} is accurate to {error[worst]:.1e} relative, short of 1e-10.",)


def _rarity_notes(levels: Array, rmse: Array, se: Array, exact: Array, trials: int) -> tuple[str, ...]:
    """Say where readings too rare for this many trials carry the error: simulation and its standard error miss it."""
    missed = (np.abs(rmse - exact) > 6.0 * se + 1e-9 * exact) & (exact > 0.0)
    if not missed.any():
        return ()
    k = int(np.argmax(missed))
    return (
        f"At sigma = {levels[k]:.3g} the error is carried by readings too rare for {trials} trials: "
        f"the exact RMSE is {exact[k]:.4g}; "
        'use method="exact" or more trials.',
    )
