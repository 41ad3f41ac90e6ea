"""Many unknowns recovered under noise: Monte Carlo over bounded least squares."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.blas import one_blas_thread
from estim.probe.many_unknowns.fits import BLOCK, Moments, Trials
from estim.probe.many_unknowns.notes import drawn_notes, notes_of
from estim.probe.many_unknowns.record import ParameterRecovery
from estim.probe.many_unknowns.set_up import SetUp, set_up
from estim.streams import Seed, check_flag, check_trials, check_workers, generator, summed

Array = npt.NDArray[np.float64]


def recover_parameters(
    model: Any,
    bank: Any,
    sigma: Any,
    *,
    params: Any = None,
    jac: Callable[..., Any] | None = None,
    bounds: Any = None,
    trials: int = 1000,
    rng: "Seed" = None,
    workers: int | Callable[..., Iterable[Any]] = 1,
    progress: bool = False,
    names: Sequence[str] | None = None,
) -> ParameterRecovery:
    """Find the error of parameters estimated from noisy readings, beside what the singular values predict.

    Each trial adds Gaussian noise to the readings at `params` and estimates the parameters by least squares, whitened
    by the noise and, with `bounds`, inside a box.

    Parameters
    ----------
    model : callable, attention.Network or fitted statsmodels result
        As for `estim.sensitivity`; it is called at other parameters.
    bank : any
        What the model takes, passed whole.
    sigma : float, array_like of shape (readings,) or (readings, readings), or scipy.stats.Covariance
        Noise of the readings, in their units, without zeros: a standard deviation, one for each, or a covariance.
    params : array_like, or nested dict and list of them
        The truth, for a callable; inside `bounds`.
    jac : callable, optional
        ``jac(params, bank) -> d readings / d params``, (readings, parameters); without it a callable is
        differentiated by complex steps or central differences.
    bounds : pair of float, array_like of shape (parameters,) or mapping of names to numbers, optional
        Lower and upper ends of the parameters, in their units: ``(0, inf)`` for nonnegative ones. Infinite ones are
        legal, and stand for names left out; a `scipy.optimize.Bounds` is such a pair, too. Estimates stay inside, and
        so do the differences that a fit takes for missing derivatives. The derivatives at `params`, and the curvature
        there, are taken around it, beyond a bound nearby as well, as far as the model can be evaluated there.
    trials : int
        At least 2.
    rng : None, int or numpy.random.Generator
        Seed or generator of the noise (SPEC 7); 0 is a seed. The same seed at another sigma draws the same noise,
        scaled.
    workers : int or map-like callable
        Threads, -1 for one per processor; or a replacement of `map`, such as that of a process pool. No bit of the
        result depends on it, nor on the threads that BLAS may take, as long as the workers are of this process: BLAS is
        held to one thread meanwhile. Workers elsewhere hold their own.
    progress : bool
        Whether to show a progress bar on the standard error stream.
    names : sequence of str, (parameters,), optional
        In place of those found in `params`.

    Returns
    -------
    ParameterRecovery

    Raises
    ------
    TypeError
        When the model is none of the kinds or cannot be evaluated at other parameters, or `trials` is no integer.
    ValueError
        When `sigma` leaves a reading without noise or lies below the rounding of the readings, `params` lies outside
        `bounds`, `bounds` are given with an attention.Network (its gauge moves factors without changing the function),
        the readings resolve no direction at `params`, or one whose singular value float64 does not know, or another
        argument does not fit.

    Notes
    -----
    The estimate is the local minimum found from the linear model's estimate, or from the truth where that fits worse.
    Without `bounds` it is sought in the span of the resolved directions: modulo the gauge of a network, and with
    what the readings do not resolve held at the truth. For small noise the RMSE along a singular direction is 1 / s.
    `breakdown` says up to where, by the second-order theory of `curvature`, beside this, and the nearest bound.

    References
    ----------
    Seber and Wild, Nonlinear Regression, 1989, chapters 2, 4 and 14, doi:10.1002/0471725315.

    Examples
    --------
    >>> import numpy as np
    >>> import estim
    >>> def decay(p, t):
    ...     return p["a"] * np.exp(-p["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 7)
    >>> found = estim.recover_parameters(decay, t, 0.01, params={"a": 1.0, "rate": 0.5}, trials=2000, rng=0)
    >>> bool(found.linear.all() and (abs(found.z_scores) < 4).all())
    True
    """
    count = check_trials(trials)
    source = generator(rng)
    check_flag(progress, "progress")
    if not callable(workers):
        check_workers(workers)
    with one_blas_thread():
        start = set_up(model, bank, sigma, params=params, jac=jac, bounds=bounds, names=names)
        run = Trials(start.problem, start.coordinates)
        sums = summed(run, source, count, block=BLOCK, shape=(run.size,), workers=workers, progress=progress)
    return _record(start, Moments(sums, count, run))


def _record(start: SetUp, moments: Moments) -> ParameterRecovery:
    seen, coordinates = start.seen, start.coordinates
    rank, size = seen.resolved, len(seen.names)
    linear = np.full(size, np.inf)
    linear[:rank] = 1.0 / seen.singular_values[:rank]
    bias, rmse, se = moments.errors(slice(rank))
    known = np.isfinite(coordinates.linear_rmse)
    c_bias, c_rmse, c_se = (np.where(known, part, np.nan) for part in moments.errors(slice(rank, None)))
    return ParameterRecovery(
        names=seen.names,
        parameters=start.problem.truth,
        lower=start.lower,
        upper=start.upper,
        directions=seen.directions,
        status=seen.status,
        singular_values=seen.singular_values,
        linear_rmse=linear,
        bias=_padded(bias, size),
        rmse=_padded(rmse, size),
        rmse_se=_padded(se, size),
        predicted_bias=_padded(start.curved.bias * linear[:rank], size),
        breakdown=_padded(start.breakdown, size),
        coordinate_names=coordinates.names,
        coordinate_values=coordinates.values,
        coordinate_linear_rmse=coordinates.linear_rmse,
        coordinate_bias=c_bias,
        coordinate_rmse=c_rmse,
        coordinate_rmse_se=c_se,
        clipped_low=moments.clipped[0],
        clipped_high=moments.clipped[1],
        trials=moments.trials,
        failures=moments.failures,
        evaluations=moments.evaluations,
        notes=(*notes_of(start), *drawn_notes(rmse, se, moments.trials, moments.failures)),
    )


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.full(size - len(values), np.nan)])
