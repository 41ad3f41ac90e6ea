"""Many unknowns recovered under noise: Monte Carlo over bounded least squares."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.attention import Network
from estim.probe.assemble import assemble
from estim.probe.bounds import read_bounds
from estim.probe.curvature import SecondOrder, box_breakdown, second_order
from estim.probe.least_squares import EPS, Problem, absolute, fit, whitened
from estim.probe.models import Probed, probe
from estim.probe.noise import Whitening, whitening
from estim.probe.parameter_recovery import ParameterRecovery
from estim.probe.record import Sensitivity, Status
from estim.probe.refit import NetworkRefit, Refit, refit_of
from estim.streams import Seed, check_workers, generator, in_batches, mapping

Array = npt.NDArray[np.float64]
Block = tuple[np.random.Generator, int]

#: Trials that share a Generator: few, since each is a fit, so that workers end together.
BLOCK = 32
#: Step of the second derivatives, in parts of a parameter: long, since a Jacobian of weak directions carries rounding.
_STEP = 2.0**-7


def recover_parameters(
    model: Any,
    bank: Any,
    sigma: Any,
    *,
    params: Any = None,
    jac: Callable[..., Any] | None = None,
    bounds: Any = None,
    trials: int = 1000,
    rng: Seed = None,
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
    bounds : pair of float or array_like of shape (parameters,), or scipy.optimize.Bounds, optional
        Lower and upper ends of the parameters, in their units; infinite ones are legal. ``(0, inf)`` for nonnegative.
    trials : int
        At least 2.
    rng : None, int or numpy.random.Generator
        Seed or generator of the noise (SPEC 7); 0 is a seed. The same seed at another sigma draws the same noise,
        scaled.
    workers : int or map-like callable
        Threads, -1 for one per processor; or a replacement of `map`, such as that of a process pool. No bit of the
        result depends on it.
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
        When `sigma` leaves a reading without noise, `params` lies outside `bounds`, `bounds` are given with an
        attention.Network (its gauge moves factors without changing the function), the readings resolve no direction
        at `params`, or another argument does not fit.

    Notes
    -----
    The estimate is the local minimum found from the linear model's estimate, or from the truth where that fits worse.
    Without `bounds` it is sought in the span of the resolved directions: modulo the gauge of a network, and with
    what the readings do not resolve held at the truth. For small noise the RMSE along a singular direction is 1 / s.
    `breakdown` says up to where, by the second-order theory of `estim.probe.curvature` and the nearest bound.

    References
    ----------
    Seber and Wild, Nonlinear Regression, 1989, chapters 2, 4 and 14, doi:10.1002/0471725315.

    Examples
    --------
    >>> import numpy as np
    >>> from estim.probe.trials import recover_parameters
    >>> def decay(p, t):
    ...     return p["a"] * np.exp(-p["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 7)
    >>> found = recover_parameters(decay, t, 0.01, params={"a": 1.0, "rate": 0.5}, trials=2000, rng=0)
    >>> bool(found.linear.all() and (abs(found.z_scores) < 4).all())
    True
    """
    count = _checked_trials(trials)
    source = generator(rng)
    if not callable(workers):
        check_workers(workers)
    if bounds is not None and isinstance(model, Network):
        msg = (
            "bounds must be left out with an attention.Network: its gauge moves the factors without changing the "
            f"function, so that a box of factors means nothing; got {bounds!r:.80}"
        )
        raise ValueError(msg)
    probed = probe(model, bank, params=params, jac=jac, names=names)
    noise = _noisy(sigma, probed.total)
    lower, upper = read_bounds(bounds, probed.parameters, probed.names)
    seen = assemble(
        probed, sigma, symmetry=None, repeats=1, repeat_correlation=0.0, smallest_change=None, rtol=None, atol=None
    )
    if not seen.resolved:
        msg = "the readings must resolve a direction at params; their Jacobian resolves none there (it may vanish)"
        raise ValueError(msg)
    refit, scales = refit_of(model, bank, params, names, jac, probed.derivative)
    problem, linear = _problem(refit, probed, noise, seen, lower, upper)
    curved = second_order(problem, linear, whitened(noise, probed.jacobian @ linear), scales, _STEP)
    coordinates = _coordinates(refit, seen, linear, probed)
    run = _Trials(problem, coordinates)
    sums = _summed(run, source, count, workers, progress)
    return _record(probed, seen, coordinates, curved, (lower, upper), _Moments(sums, count, run), _notes(seen, problem))


def _checked_trials(trials: Any) -> int:
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer):
        msg = f"trials must be an integer; got {trials!r}"
        raise TypeError(msg)
    if trials < 2:
        msg = f"trials must be at least 2, for a standard error; got {trials}"
        raise ValueError(msg)
    return int(trials)


def _noisy(sigma: Any, readings: int) -> Whitening:
    noise = whitening(sigma, readings)
    if len(noise.noiseless):
        msg = "sigma must leave noise in every reading here; got a reading, or a combination of readings, without"
        raise ValueError(msg)
    return noise


def _problem(
    refit: Refit, probed: Probed, noise: Whitening, seen: Sensitivity, lower: Array, upper: Array
) -> tuple[Problem, Array]:
    """Return the problem in its coordinates, and steps of one linear RMSE along each resolved direction, (P, n)."""
    linear = (seen.directions[: seen.resolved] / seen.singular_values[: seen.resolved, None]).T
    bounded = bool(np.isfinite(lower).any() or np.isfinite(upper).any())
    unit = 1.0 / np.where(seen.column_norms > 0.0, seen.column_norms, np.median(seen.column_norms) or 1.0)
    truth = np.array(probed.parameters)
    fixed = refit.gauge_fixed(truth, linear) if isinstance(refit, NetworkRefit) else None
    linear = linear if fixed is None else _orthonormal(fixed, probed.jacobian, noise)
    basis = np.diag(unit) if bounded else linear
    readings = refit.readings(truth)
    size = absolute(noise, np.abs(readings))
    problem = Problem(
        model=refit, noise=noise, truth=truth, readings=readings, basis=basis,
        tangent=whitened(noise, probed.jacobian @ basis),
        lower=(lower - truth) / unit if bounded else np.full(basis.shape[1], -np.inf),
        upper=(upper - truth) / unit if bounded else np.full(basis.shape[1], np.inf),
        floor=8.0 * EPS * float(size.max()) * float(np.sqrt(basis.shape[1])),
    )  # fmt: skip
    return problem, linear


def _orthonormal(steps: Array, jacobian: Array, noise: Whitening) -> Array:
    """Correct steps, strongest first, by the rounding that strong ones left in weak ones."""
    _, mixing = np.linalg.qr(whitened(noise, jacobian @ steps))
    mixing = mixing * np.sign(np.diagonal(mixing))[:, None]
    return np.asarray(np.linalg.solve(mixing.T, steps.T).T)


@dataclass(frozen=True)
class _Coordinates:
    """Numbers that the readings can determine."""

    names: tuple[str, ...]
    values: Array
    linear_rmse: Array
    network: NetworkRefit | None
    along: Array
    """From errors of the coordinates to those along the resolved directions, (directions, coordinates)."""

    def errors(self, truth: Array, error: Array) -> Array:
        """Return the errors of the coordinates for an error of the parameters."""
        return error if self.network is None else self.network.effective_change(truth, error)


def _coordinates(refit: Refit, seen: Sensitivity, linear: Array, probed: Probed) -> _Coordinates:
    directions = seen.directions[: seen.resolved]
    if not isinstance(refit, NetworkRefit):
        return _Coordinates(seen.names, probed.parameters, seen.standard_errors, None, directions)
    values, derivative = refit.effective(probed.parameters), refit.effective_derivative(probed.parameters)
    floors = np.linalg.norm(derivative @ linear, axis=1)
    back = directions @ np.linalg.pinv(derivative, rcond=1e-10)
    return _Coordinates(refit.effective_names, values, floors, refit, back)


@dataclass(frozen=True)
class _Trials:
    """Works off a block of trials; pickles when the model does."""

    problem: Problem
    coordinates: _Coordinates

    def __call__(self, block: Block) -> Array:
        """Return sums over the trials of powers 1, 2, 4 of the errors, then of clipped, unsettled and evaluations."""
        rng, trials = block
        total = np.zeros(0)
        for _ in range(trials):
            row = self._one(rng.standard_normal(len(self.problem.tangent)))
            total = row if not total.size else total + row
        return total

    def _one(self, z: Array) -> Array:
        problem = self.problem
        found = fit(problem, z)
        error = problem.basis @ found.c
        low, high = np.zeros(len(error)), np.zeros(len(error))
        if problem.bounded:
            low, high = (found.c <= problem.lower).astype(float), (found.c >= problem.upper).astype(float)
        of_coordinates = self.coordinates.errors(problem.truth, error)
        errors = np.concatenate([self.coordinates.along @ of_coordinates, of_coordinates])
        counted = [float(not found.settled), float(found.evaluations)]
        return np.concatenate([errors, errors**2, errors**4, low, high, counted])


@dataclass(frozen=True)
class _Moments:
    """What the sums say."""

    sums: Array
    trials: int
    run: _Trials

    def errors(self, part: slice) -> tuple[Array, Array, Array]:
        """Return bias, RMSE and its standard error of some of the errors."""
        size = sum(self.run.coordinates.along.shape)
        mean, square, fourth = (self.sums[k * size : (k + 1) * size][part] / self.trials for k in range(3))
        rmse = np.sqrt(square)
        # Delta method: the variance of the mean square, carried to its root.
        spread = np.sqrt(np.maximum(fourth - square * square, 0.0) / (self.trials - 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            return mean, rmse, np.where(rmse > 0.0, 0.5 * spread / rmse, 0.0)

    @property
    def clipped(self) -> Array:
        """(2, P), fractions of estimates at the lower and the upper bound."""
        return self.sums[-2 - 2 * len(self.run.problem.truth) : -2].reshape(2, -1) / self.trials


def _summed(
    run: _Trials, rng: np.random.Generator, trials: int, workers: int | Callable[..., Iterable[Any]], progress: bool
) -> Array:
    """Add the blocks' sums in their order: the same bits whoever computed them."""
    from tqdm import tqdm

    total = np.zeros(())
    with mapping(workers) as map_, tqdm(total=trials, unit="trial", disable=not progress) as bar:
        for batch in in_batches(_blocks(rng, trials)):
            results = 0
            for (_, count), sums in zip(batch, map_(run, batch), strict=False):
                total = total + sums
                results += 1
                bar.update(count)
            if results != len(batch):
                msg = (
                    f"workers, a map-like callable, must yield one result for each of {len(batch)} calls; "
                    f"it yielded {results}"
                )
                raise ValueError(msg)
    return total


def _blocks(rng: np.random.Generator, trials: int) -> Iterator[Block]:
    for start in range(0, trials, BLOCK):
        yield rng.spawn(1)[0], min(BLOCK, trials - start)


def _record(
    probed: Probed,
    seen: Sensitivity,
    coordinates: _Coordinates,
    curved: SecondOrder,
    box: tuple[Array, Array],
    moments: _Moments,
    notes: tuple[str, ...],
) -> ParameterRecovery:
    rank, size = seen.resolved, len(seen.names)
    linear = np.full(size, np.inf)
    linear[:rank] = 1.0 / seen.singular_values[:rank]
    bias, rmse, se = (_padded(part, size) for part in moments.errors(slice(rank)))
    breakdown = np.minimum(curved.breakdown(), box_breakdown(probed.parameters, *box, seen.standard_errors))
    known = np.isfinite(coordinates.linear_rmse)
    of_coordinates = (np.where(known, part, np.nan) for part in moments.errors(slice(rank, None)))
    c_bias, c_rmse, c_se = of_coordinates
    failures = int(moments.sums[-2])
    if failures:
        notes = (*notes, f"{failures} of {moments.trials} fits did not settle; their last estimates count like others.")
    return ParameterRecovery(
        names=seen.names, parameters=probed.parameters, lower=box[0], upper=box[1], directions=seen.directions,
        status=seen.status, singular_values=seen.singular_values, linear_rmse=linear, bias=bias, rmse=rmse, rmse_se=se,
        predicted_bias=_padded(curved.bias * linear[:rank], size), breakdown=_padded(breakdown, size),
        coordinate_names=coordinates.names, coordinate_values=coordinates.values,
        coordinate_linear_rmse=coordinates.linear_rmse, coordinate_bias=c_bias, coordinate_rmse=c_rmse,
        coordinate_rmse_se=c_se, clipped_low=moments.clipped[0], clipped_high=moments.clipped[1],
        trials=moments.trials, failures=failures, evaluations=float(moments.sums[-1] / moments.trials), notes=notes,
    )  # fmt: skip


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.full(size - len(values), np.nan)])


def _notes(seen: Sensitivity, problem: Problem) -> tuple[str, ...]:
    notes = list(seen.notes)
    gauge, hidden = seen.counts[Status.GAUGE], seen.counts[Status.UNRESOLVED] + seen.counts[Status.NULL]
    if gauge:
        notes.append(
            f"Modulo {gauge} gauge directions: an error along a direction is that of the effective parameters, "
            "carried back by their linear map."
        )
    if hidden:
        held = "move only as the fit happens to" if problem.bounded else "are held at the truth"
        notes.append(f"{hidden} directions that the readings do not resolve {held}; their error is not known.")
    if problem.floor > 1e-3:
        notes.append(f"Readings are rounded to {problem.floor:.1e} of the noise in float64: errors carry that, too.")
    return tuple(notes)
