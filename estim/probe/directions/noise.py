"""Noise of the readings: from sigma to whitened rows.

A reading without noise is legal: it fixes a combination of parameters exactly. Such rows are kept apart, unwhitened.

notation: Sigma = covariance of the readings; W = Sigma^(-1/2) J; E error bound of J, entry by entry.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.real_numbers import real_number, reals

if TYPE_CHECKING:
    from estim.probe.model.probed import Probed

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Rows whitened at a time; but no more than _BLOCKS blocks, as each factorisation of one more adds its rounding.
_ROWS, _BLOCKS = 512, 16


@dataclass(frozen=True)
class Whitening:
    """The map from readings to whitened readings of unit variance, and to combinations known without noise."""

    scale: Array
    """(readings,) 1/sd of a reading, 0 for a noiseless one; of the rows of `forward` where that is given."""
    forward: Array | None
    """(whitened, readings) for correlated noise; None where readings are independent."""
    noiseless: NDArray[Any]
    """What is known without noise: for independent readings their places, (combinations,), so that many take no room;
    for correlated noise the combinations themselves, (combinations, readings)."""

    @property
    def weights(self) -> Array:
        """How far one unit of each reading moves the whitened ones, (readings,)."""
        return self.scale if self.forward is None else norms_of(self.forward)

    def blocks(self, jacobian: Array) -> Iterator[Array]:
        """Yield the whitened Jacobian in blocks of rows, so that it is never held twice."""
        for part in self._parts():
            if self.forward is None:
                yield jacobian[part] * self.scale[part, None]
            else:
                yield product(self.forward[part], jacobian)

    def error_norms(self, jacobian: Array, error: Array) -> Array:
        """Bound the norms of the columns of the whitened error, the rounding of correlated whitening included."""
        norms = np.zeros(jacobian.shape[1])
        for part in self._parts():
            if self.forward is None:
                bound = error[part] * self.scale[part, None]
            else:
                weights = np.abs(self.forward[part])
                bound = product(weights, error + EPS * len(jacobian) * np.abs(jacobian))
            norms = np.hypot(norms, norms_of(bound))
        return norms

    def _parts(self) -> Iterator[slice]:
        rows = max(_ROWS, -(-len(self.scale) // _BLOCKS))
        return (slice(start, start + rows) for start in range(0, len(self.scale), rows))

    def known(self, matrix: Array) -> Array:
        """Return what a matrix of readings, (readings, ...), says of the combinations known without noise."""
        return np.asarray(self.noiseless @ matrix if self.noiseless.ndim == 2 else matrix[self.noiseless])

    def known_error(self, error: Array) -> Array:
        """Bound the error of `known`, given that of the matrix."""
        return np.asarray(np.abs(self.noiseless) @ error if self.noiseless.ndim == 2 else error[self.noiseless])


def norms_of(matrix: Array) -> Array:
    """Return the column norms without overflow or underflow, and without a copy of the matrix."""
    blocks = (matrix[start : start + _ROWS] for start in range(0, len(matrix), _ROWS))
    with np.errstate(all="ignore"):
        squares = sum((np.einsum("ij,ij->j", block, block) for block in blocks), np.zeros(matrix.shape[1]))
    if ((squares > 1e-200) & (squares < 1e200)).all():
        return np.asarray(np.sqrt(squares))
    largest = np.maximum(matrix.max(axis=0, initial=0.0), -matrix.min(axis=0, initial=0.0))
    safe = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    squares = np.zeros(matrix.shape[1])
    with np.errstate(over="ignore"):  # beside an infinity
        for start in range(0, len(matrix), _ROWS):
            squares += np.square(matrix[start : start + _ROWS] / safe).sum(axis=0)
    return np.asarray(safe * np.sqrt(squares) * (largest > 0.0))


def whitening(sigma: Any, readings: int, repeats: int = 1, repeat_correlation: float = 0.0) -> Whitening:
    """Return the map for ``repeats`` averaged readings of noise ``sigma``.

    Parameters
    ----------
    sigma : float, array_like of shape (readings,) or (readings, readings), or scipy.stats.Covariance
        Standard deviation of every reading, of each, or their covariance. A scalar must be positive; entries may be
        zero.
    readings : int
        Their number.
    repeats : int
        Number of repeated measurements that are averaged.
    repeat_correlation : float
        Common correlation between two repeats of one reading; the variance of their mean is (1 + (n - 1) rho) / n.

    Raises
    ------
    TypeError, ValueError
        When sigma has the wrong shape, a negative, infinite or NaN entry, a standard deviation that is neither zero
        nor between 1e-150 and 1e150, or is not positive semidefinite: the message names the entry or the eigenvalue;
        when `repeats` or `repeat_correlation` is impossible.
    """
    gain = 1.0 / np.sqrt(_variance_of_mean(repeats, repeat_correlation))
    values = read_sigma(sigma)
    if not np.isfinite(values).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        msg = f"sigma must be finite; got {values[at]} at {at if at else 'its only entry'}"
        raise ValueError(msg)
    if values.ndim == 2:
        return _correlated(values, readings, gain)
    return _independent(values, readings, gain)


def read_sigma(sigma: Any) -> Array:
    """Return noise in any of its forms as numbers; raises TypeError when it holds none, or flags."""
    given = sigma.covariance if hasattr(sigma, "covariance") else sigma  # a scipy.stats.Covariance
    return reals(given, "sigma", flags=False)


def noise_of(probed: "Probed", sigma: Any, repeats: int, repeat_correlation: float) -> Whitening:
    """Return the whitening of the readings that are left, where some were NaN and left out."""
    values = read_sigma(sigma)
    if len(probed.kept) < probed.total:
        values = noise_at(values, probed.kept, probed.total)
    return whitening(values, len(probed.jacobian), repeats, repeat_correlation)


def noise_at(values: Array, places: NDArray[np.int64], total: int) -> Array:
    """Return the noise of the readings at some places where it was given for all, in that order; else as it is."""
    return values[np.ix_(*[places] * values.ndim)] if values.ndim and len(values) == total else values


def _variance_of_mean(repeats: int, correlation: float) -> float:
    whole = isinstance(repeats, int | np.integer) and not isinstance(repeats, bool)
    if not whole or not 1 <= repeats < 2**63:
        msg = f"repeats must be a positive integer; got {repeats!r:.60}"
        raise ValueError(msg)
    correlation = real_number(correlation, "repeat_correlation")
    variance = (1.0 + (repeats - 1) * correlation) / repeats
    if not (np.isfinite(correlation) and correlation <= 1.0 and variance > 0.0):
        msg = (
            f"repeat_correlation must lie between -1/(repeats - 1) and 1, so that the mean of {repeats} repeats has a "
            f"positive variance; got {correlation!r}"
        )
        raise ValueError(msg)
    return float(variance)


def _independent(sd: Array, readings: int, gain: float) -> Whitening:
    if sd.ndim == 0 and not sd > 0.0:
        msg = f"sigma must be positive; got {float(sd)!r} (a vector may have zeros: noiseless readings)"
        raise ValueError(msg)
    if sd.ndim > 2 or (sd.ndim == 1 and sd.shape != (readings,)):
        msg = f"sigma must be a number or have one entry for each of the {readings} readings; got shape {sd.shape}"
        raise ValueError(f"{msg}{_flat(sd, readings)}")
    if (sd < 0.0).any():
        i = int(np.argmax(sd < 0.0))
        msg = f"sigma must not be negative; got {sd[i]} for reading {i}"
        raise ValueError(msg)
    _require_squares(sd)
    every = np.broadcast_to(sd, (readings,))
    noisy = every > 0.0
    scale = np.zeros(readings)
    scale[noisy] = gain / every[noisy]
    return Whitening(scale, None, np.flatnonzero(~noisy))


def _flat(sigma: Array, readings: int) -> str:
    many = sigma.ndim > 1 and sigma.size == readings
    return ": one standard deviation for each reading has one axis, numpy.ravel(sigma)" if many else ""


def _require_squares(sd: Array) -> None:
    """Refuse noise whose square, or the inverse of that, no float holds."""
    extreme = (sd > 0.0) & ~((sd >= 1e-150) & (sd <= 1e150))
    if extreme.any():
        got = float(sd[extreme].flat[0])
        msg = f"sigma must lie between 1e-150 and 1e150 (choose other units); got a standard deviation of {got!r}"
        raise ValueError(msg)


def _correlated(covariance: Array, readings: int, gain: float) -> Whitening:
    if covariance.shape != (readings, readings):
        # Not read as one for each of (inputs, outputs): it may be meant as the covariance of the outputs of one input.
        msg = f"sigma of two axes is a covariance and must have shape ({readings}, {readings}); got {covariance.shape}"
        raise ValueError(f"{msg}{_flat(covariance, readings)}")
    asymmetry = np.abs(covariance - covariance.T)
    if (asymmetry > 1e-12 * np.abs(covariance).max()).any():
        i, j = (int(k) for k in np.unravel_index(int(asymmetry.argmax()), asymmetry.shape))
        pair = f"{covariance[i, j]} at ({i}, {j}) and {covariance[j, i]} at ({j}, {i})"
        msg = f"sigma, a covariance, must be symmetric; got {pair}"
        raise ValueError(msg)
    # Relative to each reading's own sd, so that units do not decide what counts as zero.
    sd = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    _require_squares(sd)
    unit = np.where(sd > 0.0, sd, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    tolerance = 8.0 * readings * EPS * max(float(values[-1]), 1.0)
    if values[0] < -tolerance:
        # Of the covariance itself, as the user would find it.
        lowest = float(np.linalg.eigvalsh(covariance)[0])
        msg = f"sigma, a covariance, must be positive semidefinite; it has the eigenvalue {lowest:.6g}"
        raise ValueError(msg)
    noisy = values > tolerance
    forward = gain * (vectors[:, noisy] / np.sqrt(values[noisy])).T / unit
    return Whitening(np.ones(len(forward)), forward, vectors[:, ~noisy].T / unit)
