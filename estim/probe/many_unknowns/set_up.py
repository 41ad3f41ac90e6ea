"""What the trials of a model start from: its problem, the numbers in which errors count, and what theory expects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.attention import Network
from estim.probe.assemble import assemble
from estim.probe.derivatives.rounding import rounding_noise
from estim.probe.directions.noise import Whitening, whitening
from estim.probe.many_unknowns.bounds import read_bounds
from estim.probe.many_unknowns.curvature import SecondOrder, box_breakdown, second_order
from estim.probe.many_unknowns.fits import Coordinates
from estim.probe.many_unknowns.least_squares import EPS, Problem, absolute, whitened
from estim.probe.many_unknowns.network_refit import NetworkRefit
from estim.probe.many_unknowns.record import LINEAR
from estim.probe.many_unknowns.refit import CallableRefit, GivenRefit, Refit, refit_of
from estim.probe.model.probe import probe
from estim.probe.model.probed import Probed
from estim.probe.model.same_batches import same_batches
from estim.probe.order_of_inputs import require_order_of_bank
from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

#: Float64's roundings from which on a model is taken to compute in less.
_LESS = 1e4
#: Roundings of the largest reading that a change of the readings may carry.
_ROUNDINGS = 8.0
#: Each leaves of an error its rounding, times the condition of the Jacobian in parameters of equal effect.
_REFINEMENTS = 3


@dataclass(frozen=True)
class SetUp:
    """All that is known before the first trial."""

    seen: Sensitivity
    """At the truth: directions, singular values, and what they say of each parameter."""
    problem: Problem
    coordinates: Coordinates
    curved: SecondOrder
    breakdown: Array
    """(resolved directions,) factor on the noise, by curvature and by the box."""
    lower: Array
    """(parameters,)."""
    upper: Array


def set_up(
    model: Any, bank: Any, sigma: Any, *, params: Any, jac: Callable[..., Any] | None, bounds: Any,
    names: Sequence[str] | None,
) -> SetUp:  # fmt: skip
    """Check the arguments of `recover_parameters`, and differentiate the model around the truth."""
    if bounds is not None and isinstance(model, Network):
        msg = (
            "bounds must be left out with an attention.Network: its gauge moves the factors without changing the "
            f"function, so that a box of factors means nothing; got {bounds!r:.80}"
        )
        raise ValueError(msg)
    require_order_of_bank(sigma, bank, model)
    bank = same_batches(bank)
    probed = probe(model, bank, params=params, jac=jac, names=names)
    noise = _noisy(sigma, probed.total)
    lower, upper = read_bounds(bounds, probed.parameters, probed.names)
    seen = assemble(
        probed, sigma, symmetry=None, repeats=1, repeat_correlation=0.0, smallest_change=None, rtol=None, atol=None
    )
    if not seen.resolved:
        msg = "the readings must resolve a direction at params; their Jacobian resolves none there (it may vanish)"
        raise ValueError(msg)
    _require_known(seen)
    refit, scales = refit_of(model, bank, params, names, jac, probed.derivative, (lower, upper), seen.standard_errors)
    rounding = _rounding(refit, probed, scales)
    if isinstance(refit, CallableRefit):
        refit = refit.in_rounding(rounding, probed.readings)
    problem, linear = _problem(refit, probed, noise, seen, rounding, (lower, upper))
    _require_noise_above_rounding(problem)
    coordinates = _coordinates(refit, seen, linear, probed)
    tangent = whitened(noise, probed.jacobian @ linear)
    curved = second_order(problem, linear, tangent, scales, coordinates.derivative)
    bounded = box_breakdown(problem.truth, lower, upper, seen.standard_errors)
    breakdown = np.minimum(curved.breakdown(), bounded)
    if bounded < LINEAR:  # whatever the curvature, where that is not known
        breakdown = np.where(np.isnan(breakdown), bounded, breakdown)
    return SetUp(seen, problem, coordinates, curved, breakdown, lower, upper)


def _noisy(sigma: Any, readings: int) -> Whitening:
    noise = whitening(sigma, readings)
    if len(noise.noiseless):
        msg = "sigma must leave noise in every reading here; got a reading, or a combination of readings, without"
        raise ValueError(msg)
    return noise


def _rounding(refit: Refit, probed: Probed, scales: Array) -> Array:
    """Return the rounding of the readings, (M,): float64's, or what a model shows that computes in less."""
    own = EPS * np.abs(probed.readings)
    if not isinstance(refit, CallableRefit | GivenRefit):
        return own
    level = rounding_noise(refit.readings, probed.parameters, probed.readings, scales, 0.0).level
    return np.where(level > _LESS * own, level, own)


def _problem(
    refit: Refit, probed: Probed, noise: Whitening, seen: Sensitivity, rounding: Array, box: tuple[Array, Array]
) -> tuple[Problem, Array]:
    """Return the problem in its coordinates, and steps of one linear RMSE along each resolved direction, (P, n)."""
    lower, upper = box
    linear = _steps(seen, probed.jacobian, noise)
    bounded = bool(np.isfinite(lower).any() or np.isfinite(upper).any())
    unit = 1.0 / np.where(seen.column_norms > 0.0, seen.column_norms, np.median(seen.column_norms) or 1.0)
    truth = np.array(probed.parameters)
    fixed = refit.gauge_fixed(truth, linear) if isinstance(refit, NetworkRefit) else None
    linear = linear if fixed is None else _orthonormal(fixed, probed.jacobian, noise)
    basis = np.diag(unit) if bounded else linear
    ends = np.full((2, basis.shape[1]), [[-np.inf], [np.inf]])
    if bounded:
        with np.errstate(over="ignore"):  # an end that far is none
            ends = (np.array([lower, upper]) - truth) / unit
    readings = refit.readings(truth)
    problem = Problem(
        model=refit, noise=noise, truth=truth, readings=readings, basis=basis,
        tangent=whitened(noise, probed.jacobian @ basis),
        lower=ends[0],
        upper=ends[1],
        floor=_ROUNDINGS * float(absolute(noise, rounding).max()) * float(np.sqrt(basis.shape[1])),
    )  # fmt: skip
    return problem, linear


def _steps(seen: Sensitivity, jacobian: Array, noise: Whitening) -> Array:
    """Return a step of one linear RMSE along each resolved direction, (P, resolved).

    Each moves the whitened readings by its left singular vector. A unit vector over its singular value does so only up
    to the rounding of its largest entry: next to nothing as a length, and far more than the step itself moves where
    units are decades apart. What it moves too much is taken back by steps in parameters of equal effect.
    """
    kept = slice(seen.resolved)
    scale = seen.scale[:, None]
    steps = scale * (seen.directions[kept] / seen.singular_values[kept, None]).T
    columns = whitened(noise, jacobian / seen.scale)
    back = (seen.scaled_directions[kept] / seen.scaled_singular_values[kept, None]).T
    forth = columns @ back
    for _ in range(_REFINEMENTS):
        steps -= back @ (forth.T @ (columns @ steps - seen.readout))
    return np.asarray(steps / scale)


def _require_known(seen: Sensitivity) -> None:
    """Refuse directions whose linear error is not known: estimates are sought in units of it."""
    vague = int(np.isnan(seen.singular_values[: seen.resolved]).sum())
    if vague:
        msg = (
            "params must be in units, and their derivatives so accurate, that float64 knows every singular value; "
            f"{vague} of {seen.resolved} resolved directions are too weak for that beside the others"
        )
        raise ValueError(msg)


def _require_noise_above_rounding(problem: Problem) -> None:
    rounding = problem.floor / _ROUNDINGS
    if rounding > 1.0:
        msg = (
            f"sigma must stay above the rounding of the readings, which is about {rounding:.1e} standard deviations of "
            "that noise; take a larger one, or leave out of the readings what does not depend on params"
        )
        raise ValueError(msg)


def _orthonormal(steps: Array, jacobian: Array, noise: Whitening) -> Array:
    """Correct steps, strongest first, by the rounding that strong ones left in weak ones."""
    _, mixing = np.linalg.qr(whitened(noise, jacobian @ steps))
    mixing = mixing * np.sign(np.diagonal(mixing))[:, None]
    return np.asarray(np.linalg.solve(mixing.T, steps.T).T)


def _coordinates(refit: Refit, seen: Sensitivity, linear: Array, probed: Probed) -> Coordinates:
    directions, rmse = seen.directions[: seen.resolved], 1.0 / seen.singular_values[: seen.resolved]
    if not isinstance(refit, NetworkRefit):
        return Coordinates(seen.names, probed.parameters, seen.standard_errors, None, directions, rmse)
    values, derivative = refit.effective(probed.parameters), refit.effective_derivative(probed.parameters)
    floors = np.linalg.norm(derivative @ linear, axis=1)
    back = directions @ np.linalg.pinv(derivative, rcond=1e-10)
    return Coordinates(refit.effective_names, values, floors, refit, back, rmse)
