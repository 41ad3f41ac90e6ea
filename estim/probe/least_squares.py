"""One trial: the least-squares estimate of many unknowns from one set of noisy readings.

Coordinates c stand for theta = theta_0 + B c. Two choices of B: without bounds, the resolved directions divided by
their singular values, so that at the truth the whitened Jacobian U = A J B has orthonormal columns, the linear
estimate is U^T z for noise z, and what the readings do not resolve (the gauge, say) is held; with bounds, one
parameter a coordinate, in units of its own effect.

Where the model pulls cotangents back cheaply, steps with the Hessian of the truth and the exact gradient come first:
near the truth each gains digits without a Jacobian. Where they do not settle, and with bounds, the method of Levenberg
and Marquardt takes over, each step projected on the box (Kanzow, Yamashita and Fukushima 2004,
doi:10.1016/j.cam.2004.02.013).

notation: A whitening, r = A (m(theta) - m(theta_0)) - z residual, in standard deviations of the noise.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.noise import Whitening
from estim.probe.refit import Refit

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: A fit has settled when the next step would move the whitened readings by less, in standard deviations of the noise.
SETTLED = 1e-6
#: Least gain of a step with the Hessian of the truth; slower ones are given up.
_GAIN = 0.5
_STEPS = 40
_LM_STEPS = 100
#: Damping, in units of the squared effect of a coordinate, with which a step counts as impossible.
_MOST_DAMPING = 1e12


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
    damping, cost = 0.0, float(residual @ residual)
    jacobian = problem.jacobian(c)
    for _ in range(_LM_STEPS):
        if not np.isfinite(jacobian).all():
            return Fit(c, False, spent)
        moved = np.clip(c + _step(problem, jacobian, residual, c, damping), problem.lower, problem.upper)
        effect = float(np.linalg.norm(jacobian @ (moved - c)))
        tried = problem.residual(moved, z)
        spent += 1
        new = float(tried @ tried)
        # Of two costs closer than this, rounding of the readings decides which is the lower.
        slack = 4.0 * EPS * cost + problem.floor * np.sqrt(cost)
        if new <= cost + slack:
            settled = effect <= max(SETTLED, problem.floor) and damping <= 1.0
            c, residual, cost = moved, tried, new
            if settled:
                return Fit(c, True, spent)
            damping = 0.1 * damping if damping > 1e-6 else 0.0
            jacobian = problem.jacobian(c)
        else:
            if effect**2 <= max(SETTLED**2, slack) and damping <= 1.0:
                return Fit(c, True, spent)
            damping = max(10.0 * damping, 1e-3)
            if damping > _MOST_DAMPING:
                return Fit(c, False, spent)
    return Fit(c, False, spent)


def _step(problem: Problem, jacobian: Array, residual: Array, c: Array, damping: float) -> Array:
    """Return the damped Gauss-Newton step of the coordinates that no bound holds."""
    gradient = jacobian.T @ residual
    held = ((c <= problem.lower) & (gradient > 0.0)) | ((c >= problem.upper) & (gradient < 0.0))
    step = np.zeros_like(c)
    if held.all():
        return step
    free = jacobian[:, ~held]
    if not problem.bounded:
        # Orthonormal columns at the truth: squaring loses nothing here, and is several times cheaper.
        gram = _gram(free)
        gram[np.diag_indices_from(gram)] += damping
        try:
            return np.asarray(-np.linalg.solve(gram, gradient), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.asarray(-np.linalg.lstsq(gram, gradient, rcond=None)[0], dtype=np.float64)
    left, values, right = np.linalg.svd(free, full_matrices=False)
    kept = values > EPS * max(free.shape) * values[0] if values[0] > 0.0 else values > 0.0
    gains = values[kept] / (values[kept] ** 2 + damping)
    step[~held] = -right[kept].T @ (gains * (left[:, kept].T @ residual))
    return step


def _gram(columns: Array) -> Array:
    """Return columns^T columns, in pieces so small that BLAS starts no threads, which cost more than they bring."""
    rows = len(columns) - len(columns) % 16
    pieces = columns[:rows].reshape(-1, 16, columns.shape[1])
    rest = columns[rows:]
    return np.asarray((pieces.swapaxes(1, 2) @ pieces).sum(axis=0) + rest.T @ rest)
