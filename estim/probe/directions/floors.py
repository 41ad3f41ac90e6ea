"""RMSE floors of combinations of parameters."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.noise import norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


def floors(
    functionals: Array, scale: Array, scaled_singular_values: Array, scaled_directions: Array, resolution: float
) -> Array:
    """Return the RMSE floor of each functional (rows), infinite where a direction not seen is involved.

    The singular values are the resolved ones. Involved means beyond what the error of the unseen subspace explains: by
    Wedin's theorem it is known to about the resolution over the smallest resolved value. All in parameters of equal
    effect, so that units do not matter.
    """
    values = scaled_singular_values
    finite = values[np.isfinite(values)]
    doubt = 8.0 * resolution / finite.min() if finite.size else 0.0
    scaled = functionals / scale
    lengths = norms_of(scaled.T)
    # By powers of two, exactly: squares neither overflow nor vanish.
    size = np.exp2(np.round(np.log2(np.where(lengths > 0.0, lengths, 1.0))))
    along = (scaled / size[:, None]) @ scaled_directions.T
    involved = np.abs(along[:, len(values) :]) > min(max(doubt, 1e-12), 1e-3) * (lengths / size)[:, None]
    part = along[:, : len(values)]
    if finite.size < values.size:  # beside what is known without noise, rounding is no part
        part = np.where(np.abs(part) > 64.0 * EPS * (lengths / size)[:, None], part, 0.0)
    squares = np.square(part / values).sum(axis=1)
    return np.asarray(np.where(involved.any(axis=1), np.inf, size * np.sqrt(squares)))
