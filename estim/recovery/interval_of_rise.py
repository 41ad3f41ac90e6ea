"""The interval of a mean, and its coverage: all that does not ask for the response.

notation: ``rise`` how far a reading, or a mean, lies above the lower end of the attainable range; ``span`` its width.
"""

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from estim.recovery.acceptance import (
    FARTHEST,
    Limit,
    Origin,
    acceptance,
    central_limit,
    feldman_cousins_limit,
    likelihood_ratio_limit,
    reach,
    two_sided,
)

Array = npt.NDArray[np.float64]
Method = Literal["feldman-cousins", "central", "likelihood-ratio"]
METHODS: tuple[str, ...] = get_args(Method)

_LIMITS = dict(zip(METHODS, (feldman_cousins_limit, central_limit, likelihood_ratio_limit), strict=True))


def interval_of_rise(rise: Array, span: float, sigma: Array, level: float, method: str) -> tuple[Array, Array]:
    """Return the interval of the mean for each reading, 1-D; reversed or outside [0, span] where it is empty."""
    if not rise.size:
        return rise, rise
    below, above, width = _noise_units(rise, span, sigma)
    find = _LIMITS[method]
    low = _place(find(below, above, width, 1.0 - level), rise, sigma, 0.0, span)
    high = _place(find(above, below, width, 1.0 - level), rise, sigma, span, 0.0)
    if method != "central":
        low, high = (np.clip(np.where(np.isinf(rise), rise, limit), 0.0, span) for limit in (low, high))
    return low, high


def coverage_of_rise(rise: Array, span: float, sigma: Array | float, level: float, method: str) -> Array:
    """Return the coverage where the mean has this rise; the shape of `rise`."""
    below, above, _ = _noise_units(rise, span, sigma)
    down, up = _region(below, above, level, method)
    return np.asarray(1.0 - (ndtr(-down) + ndtr(-up)), dtype=np.float64)


def _noise_units(rise: Array, span: float, sigma: Array | float) -> tuple[Array, Array, Array]:
    """Return distances above the lower end and below the upper one, and that between the ends, in units of the noise.

    They are cut where products of two would overflow.
    """
    with np.errstate(over="ignore"):
        rest = span - rise if math.isfinite(span) else np.full_like(rise, math.inf)
        below, above, width = rise / sigma, rest / sigma, np.divide(span, sigma)
    return np.clip(below, -FARTHEST, FARTHEST), np.clip(above, -FARTHEST, FARTHEST), np.clip(width, 0.0, FARTHEST)


def _region(below: Array, above: Array, level: float, method: str) -> tuple[Array, Array]:
    """Return how far the accepted readings reach below and above each mean, in units of the noise."""
    if method == "feldman-cousins":
        return acceptance(below, above, 1.0 - level)
    quantile = two_sided(1.0 - level)
    if method == "central":
        return np.full_like(below, quantile), np.full_like(below, quantile)
    return reach(quantile, below), reach(quantile, above)


def _place(limit: Limit, reading: Array, sigma: Array, start: float, stop: float) -> Array:
    """Turn a limit into a rise: away from where it looks when it lies beside the start or the reading."""
    length = sigma * limit.distance if start < stop else -sigma * limit.distance
    return np.select(
        [limit.origin == Origin.START, limit.origin == Origin.STOP],
        [start + length, stop - length],
        reading - length,
    )
