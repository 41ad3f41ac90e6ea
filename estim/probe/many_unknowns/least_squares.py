"""One trial: the least-squares estimate of many unknowns from one set of noisy readings.

Coordinates c stand for theta = theta_0 + B c. Two choices of B: without bounds, the resolved directions divided by
their singular values, so that at the truth the whitened Jacobian U = A J B has orthonormal columns, the linear
estimate is U^T z for noise z, and what the readings do not resolve (the gauge, say) is held; with bounds, one
parameter a coordinate, in units of its own effect.

Where the model pulls cotangents back cheaply, steps with the Hessian of the truth and the exact gradient come first:
near the truth each gains digits without a Jacobian. Where they do not settle, and with bounds, the method of Levenberg
and Marquardt takes over, damped after Nielsen (Madsen, Nielsen and Tingleff, Methods for Non-Linear Least Squares
Problems, 2004, algorithm 3.16), with coordinates that a step takes beyond a bound held there. A fit has settled when
the residual is orthogonal to the tangent of the coordinates that no bound holds (Bates and Watts 1981,
doi:10.1080/00401706.1981.10486257).

notation: A whitening, r = A (m(theta) - m(theta_0)) - z residual, in standard deviations of the noise.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.directions.noise import Whitening
from estim.probe.many_unknowns.refit import Refit

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: A fit has settled when the residual's part along the tangent is less, in standard deviations of the noise.
SETTLED = 1e-6
#: Least gain of a step with the Hessian of the truth; slower ones are given up.
_GAIN = 0.5
_STEPS = 40
#: A narrow curved valley of a sloppy model takes most.
_LM_STEPS = 300
#: Damping, in units of the squared effect of a coordinate, that a first refused step brings, and with which a step
#: counts as impossible.
_LEAST_DAMPING, _MOST_DAMPING = 1e-6, 1e12
#: A step that brings less than this part of what the linear model foretold is damped next time.
_POOR = 0.25


def whitened(noise: Whitening, change: Array) -> Array:
    """Return A change, for a vector or the columns of a matrix."""
    if noise.forward is not None:
        return noise.forward @ change
    return change * (noise.scale if change.ndim == 1 else noise.scale[:, None])


def absolute(noise: Whitening, level: Array) -> Array:
    """Return |A| level, for nonnegative levels."""
    return level * noise.scale if noise.forward is None else np.abs(noise.forward) @ level


@dataclass(frozen=True)
class Problem:
    """The true model, whitened, and the coordinates in which it is fitted."""

    model: Refit
    noise: Whitening
    truth: Array
    """theta_0, (P,)."""
    readings: Array
    """m(theta_0), (M,), without noise."""
    basis: Array
    """B, (P, n)."""
    tangent: Array
    """U = A J(theta_0) B, (whitened readings, n)."""
    lower: Array
    """Lower ends of c, (n,); -inf where there is none."""
    upper: Array
    floor: float
    """Rounding of the whitened readings: no step smaller than this can be told from none."""

    @property
    def bounded(self) -> bool:
        """Whether there is a box, so that each coordinate is one parameter."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def theta(self, c: Array) -> Array:
        """Return the parameters at coordinates c."""
        return self.truth + self.basis @ c

    def whiten(self, change: Array) -> Array:
        """Return A change, for a vector or the columns of a matrix."""
        return whitened(self.noise, change)

    def unwhiten_cotangent(self, cotangent: Array) -> Array:
        """Return A^T cotangent."""
        if self.noise.forward is not None:
            return self.noise.forward.T @ cotangent
        return cotangent * self.noise.scale

    def residual(self, c: Array, z: Array) -> Array:
        """Return r at coordinates c."""
        return self.whiten(self.model.readings(self.theta(c)) - self.readings) - z

    def jacobian(self, c: Array) -> Array:
        """Return d r / d c."""
        return self.whiten(self.model.jacobian(self.theta(c)) @ self.basis)


@dataclass(frozen=True)
class Fit:
    """What came of a trial."""

    c: Array
    """The last accepted coordinates: the estimate."""
    settled: bool
    evaluations: int
    """Sets of readings computed."""


def fit(problem: Problem, z: Array) -> Fit:
    """Return the least-squares estimate for whitened noise z, started from that of the linear model."""
    c = np.clip(_linear(problem, z), problem.lower, problem.upper)
    found = None if problem.bounded else _by_gradients(problem, z, c)
    if found is not None and found.settled:
        return found
    residual = problem.residual(c, z)
    spent = 1 if found is None else found.evaluations + 1
    if not residual @ residual <= z @ z:  # NaN too: then the truth is the better start
        c, residual = np.zeros_like(c), -z
    return _levenberg_marquardt(problem, z, c, residual, spent)


def _linear(problem: Problem, z: Array) -> Array:
    if problem.bounded:
        return np.asarray(np.linalg.lstsq(problem.tangent, z, rcond=None)[0])
    return problem.tangent.T @ z


def _by_gradients(problem: Problem, z: Array, c: Array) -> Fit | None:
    """Step by minus the exact gradient, the Hessian of the truth being one; settled only where this gains steadily."""
    last = np.inf
    for count in range(1, _STEPS + 1):
        at = problem.model.pulled(problem.theta(c))
        if at is None:
            return None
        readings, pull = at
        residual = problem.whiten(readings - problem.readings) - z
        if not np.isfinite(residual).all():
            return Fit(c, False, count)
        gradient = problem.basis.T @ pull(problem.unwhiten_cotangent(residual))
        size = float(np.linalg.norm(gradient))
        if size <= SETTLED or (size > _GAIN * last and size <= problem.floor):
            return Fit(c, bool(residual @ residual <= (1.0 + 4.0 * EPS) * (z @ z) + problem.floor), count)
        if not size <= _GAIN * last:
            return Fit(c, False, count)
        last = size
        c = c - gradient
    return Fit(c, False, _STEPS)


def _levenberg_marquardt(problem: Problem, z: Array, c: Array, residual: Array, spent: int) -> Fit:
    damping, growth = 0.0, 2.0
    cost = float(residual @ residual)
    jacobian = problem.jacobian(c)
    for _ in range(_LM_STEPS):
        if not np.isfinite(jacobian).all():
            break
        move, along = _step(problem, jacobian, residual, c, damping)
        if along <= max(SETTLED, problem.floor):
            return Fit(c, True, spent)
        # Of two costs closer than this, rounding of the readings decides which is the lower.
        slack = 4.0 * EPS * cost + problem.floor * np.sqrt(cost / len(c))
        linear = residual + jacobian @ move
        moved = np.clip(c + move, problem.lower, problem.upper)
        residual, before = problem.residual(moved, z), residual
        spent += 1
        new, foretold = float(residual @ residual), cost - float(linear @ linear)
        if new <= cost + slack:
            gain = (cost - new) / foretold if foretold > slack else 0.5  # which leaves the damping
            damping, growth = damping * max(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3), 2.0
            if gain < _POOR and damping == 0.0:
                damping = _LEAST_DAMPING
            c, cost, jacobian = moved, new, problem.jacobian(moved)
        elif along**2 <= slack:
            return Fit(c, True, spent)
        else:  # NaN, too
            residual = before
            damping, growth = max(growth * damping, _LEAST_DAMPING), 2.0 * growth
            if damping > _MOST_DAMPING:
                break
    return Fit(c, False, spent)


def _step(problem: Problem, jacobian: Array, residual: Array, c: Array, damping: float) -> tuple[Array, float]:
    """Return the damped Gauss-Newton step, and the norm of the residual's part along the tangent.

    Coordinates that a bound holds are left out of both; those that the step would take beyond one end there, and the
    others make up for it.
    """
    gradient = jacobian.T @ residual
    free = ~(((c <= problem.lower) & (gradient > 0.0)) | ((c >= problem.upper) & (gradient < 0.0)))
    step, along = np.zeros_like(c), 0.0
    for round_ in range(len(c) + 1):
        if not free.any():
            break
        step[free], part = _damped(jacobian[:, free], residual, damping, problem.bounded)
        along = part if round_ == 0 else along
        beyond = free & ((c + step < problem.lower) | (c + step > problem.upper))
        if not beyond.any():
            break
        step[beyond] = np.clip(c[beyond] + step[beyond], problem.lower[beyond], problem.upper[beyond]) - c[beyond]
        residual = residual + jacobian[:, beyond] @ step[beyond]
        free &= ~beyond
    return step, along


def _damped(columns: Array, residual: Array, damping: float, bounded: bool) -> tuple[Array, float]:
    """Return the damped step of some coordinates, and the norm of the residual's part along their columns."""
    if not bounded:
        # Orthonormal columns at the truth: squaring loses nothing here, and is several times cheaper.
        gram, gradient = _gram(columns), columns.T @ residual
        try:
            full = np.asarray(np.linalg.solve(gram, gradient), dtype=np.float64)
            if damping > 0.0:
                gram[np.diag_indices_from(gram)] += damping
            damped = full if damping == 0.0 else np.asarray(np.linalg.solve(gram, gradient), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
        else:
            return -damped, math.sqrt(max(float(full @ gradient), 0.0))
    left, values, right = np.linalg.svd(columns, full_matrices=False)
    kept = values > EPS * max(columns.shape) * values[0]
    part = left[:, kept].T @ residual
    step = -right[kept].T @ (values[kept] / (values[kept] ** 2 + damping) * part)
    return step, float(np.linalg.norm(part))


def _gram(columns: Array) -> Array:
    """Return columns^T columns, in pieces so small that BLAS starts no threads, which cost more than they bring."""
    rows = len(columns) - len(columns) % 16
    pieces = columns[:rows].reshape(-1, 16, columns.shape[1])
    rest = columns[rows:]
    return np.asarray((pieces.swapaxes(1, 2) @ pieces).sum(axis=0) + rest.T @ rest)
