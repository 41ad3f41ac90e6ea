"""RMSE floors of combinations of parameters."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Parameters at a time.
_ROWS = 64


def floors(
    functionals: Array, scale: Array, scaled_singular_values: Array, scaled_directions: Array, resolution: float
) -> Array:
    """Return the RMSE floor of each functional (rows), infinite where a direction not seen is involved.

    The singular values are the resolved ones. Involved means beyond what the error of the unseen subspace explains: by
    Wedin's theorem it is known to about the resolution over the smallest resolved value. All in parameters of equal
    effect, so that units do not matter.
    """
    scaled = functionals / scale
    lengths = norms_of(scaled.T)
    unit = np.where(lengths > 0.0, lengths, 1.0)
    return lengths * _floors_of_unit((scaled / unit[:, None]) @ scaled_directions.T, scaled_singular_values, resolution)


def standard_errors(scale: Array, scaled_singular_values: Array, scaled_directions: Array, resolution: float) -> Array:
    """Return the floor of each parameter."""
    parts = (scaled_directions[:, k : k + _ROWS].T for k in range(0, len(scale), _ROWS))
    return np.concatenate([_floors_of_unit(part, scaled_singular_values, resolution) for part in parts]) / scale


def _floors_of_unit(along: Array, values: Array, resolution: float) -> Array:
    """Return the floors of functionals of unit length, given their parts along the directions."""
    finite = values[np.isfinite(values)]
    doubt = 8.0 * resolution / finite.min() if finite.size else 0.0
    involved = np.abs(along[:, len(values) :]) > min(max(doubt, 1e-12), 1e-3)
    part = along[:, : len(values)]
    if finite.size < values.size:  # beside what is known without noise, rounding is no part
        part = np.where(np.abs(part) > 64.0 * EPS, part, 0.0)
    return np.asarray(np.where(involved.any(axis=1), np.inf, norms_of((part / values).T)))
