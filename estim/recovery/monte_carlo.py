"""Monte Carlo recovery: blocks of draws through the compiled inverse, or through root finding where there is none."""

import copy
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.recovery import kernels
from estim.recovery.fast_inverse import Levels, build_levels
from estim.recovery.local import Local
from estim.recovery.normals import LARGEST_NORMAL
from estim.streams import Block, root_mean_square, summed

if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]

#: Trials that share a Generator.
BLOCK = 1 << 17
#: Readings inverted at once by root finding.
CHUNK = 1 << 14
#: Ratio of the largest readings that share one compiled inverse.
WINDOW = 1e3


def simulate(
    response: "MeanResponse",
    truth: float,
    local: Local | None,
    sigma: Array,
    *,
    trials: int,
    rng: np.random.Generator,
    workers: int | Callable[..., Iterable[Any]],
    progress: bool,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return bias, RMSE, standard error of the RMSE and the fractions clipped low and high, each of shape (levels,)."""
    run, unit = prepare(response, truth, local, sigma)
    shape = len(sigma), kernels.SUMS
    sums = summed(run, rng, trials, block=BLOCK, shape=shape, workers=workers, progress=progress)
    mean, square, fourth, low, high = (sums / trials).T
    rmse, se = root_mean_square(square, fourth, trials)
    return unit * mean, unit * rmse, unit * se, low, high


def prepare(
    response: "MeanResponse", truth: float, local: Local | None, sigma: Array
) -> tuple[Callable[[Block], Array], Array]:
    """Return the function that works off a block, and the unit of each level's errors."""
    here = float(response._rise(np.array([truth]))[0])
    groups = _windows(np.minimum(response._grid.supremum, here + LARGEST_NORMAL * sigma))
    built = [build_levels(response, truth, local, sigma[group]) for group in groups]
    parts = [(group, levels) for group, levels in zip(groups, built, strict=True) if levels is not None]
    if len(parts) == len(groups):
        unit = np.empty(sigma.shape)
        for group, levels in parts:
            unit[group] = levels.unit
        return partial(_compiled_block, parts), unit
    around = response._invert_rise(np.array([here, here + sigma.max(), max(here - sigma.max(), 0.0)]))
    unit = np.full(sigma.shape, np.ptp(around[np.isfinite(around)]) or 1.0)
    return partial(_block, response, truth, here, sigma, unit), unit


def _windows(top: Array) -> list[npt.NDArray[np.intp]]:
    """Group the levels whose largest readings are of one size: each group has its own compiled inverse.

    In a window made for much larger readings the smaller ones would lose their digits.
    """
    order = np.argsort(top, kind="stable")
    number = np.floor(np.log(top[order] / top[order[0]]) / math.log(WINDOW))
    return np.split(order, 1 + np.flatnonzero(np.diff(number)))


def _compiled_block(parts: list[tuple[npt.NDArray[np.intp], Levels]], block: Block) -> Array:
    rng, trials = block
    sums = np.empty((sum(len(group) for group, _ in parts), kernels.SUMS))
    for i, (group, levels) in enumerate(parts):
        draws = rng if i == len(parts) - 1 else copy.deepcopy(rng)  # every group sees the same draws
        sums[group] = kernels.accumulate(draws, trials, *levels.arguments())
    return sums


def _block(response: "MeanResponse", truth: float, here: float, sigma: Array, unit: Array, block: Block) -> Array:
    """Do what the compiled loop does, on the same draws, with each reading inverted by root finding."""
    rng, trials = block
    top = response._grid.supremum
    sums = np.zeros((len(sigma), kernels.SUMS))
    for start in range(0, trials, CHUNK):
        z = rng.standard_normal(min(CHUNK, trials - start))
        for k, s in enumerate(sigma):
            reading = here + s * z
            with np.errstate(over="ignore"):  # an infinite error is what it is
                d = (response._invert_rise(reading) - truth) / unit[k]
                sums[k] += d.sum(), (d * d).sum(), (d**4).sum(), (reading <= 0.0).sum(), (reading >= top).sum()
    return sums
