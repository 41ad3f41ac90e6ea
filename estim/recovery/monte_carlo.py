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
from estim.recovery.inverse import invert_rise
from estim.recovery.local import Local
from estim.recovery.normals import LARGEST_NORMAL
from estim.streams import blocks, in_batches, mapping, results

if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]
Block = tuple[np.random.Generator, int]

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
    with mapping(workers) as map_, _Bar(trials, progress) as advance:
        sums = _sum(run, map_, blocks(rng, trials), advance, (len(sigma), kernels.SUMS))
    mean, square, fourth, low, high = (sums / trials).T
    rmse = np.sqrt(square)
    # Delta method: the variance of the mean square, carried to its root.
    spread = np.sqrt(np.maximum(fourth - square * square, 0.0) / (trials - 1))
    with np.errstate(invalid="ignore"):
        se = np.where(rmse > 0.0, 0.5 * spread / rmse, 0.0)
    return unit * mean, unit * rmse, unit * se, low, high


def prepare(
    response: "MeanResponse", truth: float, local: Local | None, sigma: Array
) -> tuple[Callable[[Block], Array], Array]:
    """Return the function that works off a block, and the unit of each level's errors."""
    here = float(response._rise(np.array([truth]))[0])
    invert = partial(invert_rise, response._rise, response._grid, response.upper)
    groups = _windows(np.minimum(response._grid.supremum, here + LARGEST_NORMAL * sigma))
    built = [build_levels(invert, response._grid, response.rounding, truth, here, local, sigma[g]) for g in groups]
    parts = [(group, levels) for group, levels in zip(groups, built, strict=True) if levels is not None]
    if len(parts) == len(groups):
        unit = np.empty(sigma.shape)
        for group, levels in parts:
            unit[group] = levels.unit
        return partial(_compiled_block, parts), unit
    unit = np.full(
        sigma.shape, float(np.ptp(invert(np.array([here, here + sigma.max(), max(here - sigma.max(), 0.0)]))))
    )
    return partial(_block, invert, response._grid.supremum, truth, here, sigma, unit), unit


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


def _block(
    invert: Callable[[Array], Array],
    top: float,
    truth: float,
    here: float,
    sigma: Array,
    unit: Array,
    block: Block,
) -> Array:
    """Do what the compiled loop does, on the same draws, with each reading inverted by root finding."""
    rng, trials = block
    sums = np.zeros((len(sigma), kernels.SUMS))
    for start in range(0, trials, CHUNK):
        z = rng.standard_normal(min(CHUNK, trials - start))
        for k, s in enumerate(sigma):
            reading = here + s * z
            d = (invert(reading) - truth) / unit[k]
            sums[k] += d.sum(), (d * d).sum(), (d**4).sum(), (reading <= 0.0).sum(), (reading >= top).sum()
    return sums


def _sum(
    run: Callable[[Block], Array],
    map_: Callable[..., Iterable[Any]],
    work: Iterable[Block],
    advance: Callable[[int], Any],
    shape: tuple[int, int],
) -> Array:
    """Add the blocks' sums in their order, with Neumaier's compensation: the same bits whoever computed them."""
    total = lost = np.zeros(())
    for batch in in_batches(work):
        for (_, trials), sums in zip(batch, results(map_, run, batch, shape), strict=True):
            new = total + sums
            lost = lost + np.where(np.abs(total) >= np.abs(sums), (total - new) + sums, (sums - new) + total)
            total = new
            advance(trials)
    return np.asarray(total + lost)


class _Bar:
    """A progress bar in trials, or nothing."""

    def __init__(self, trials: int, show: bool) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=trials, unit="trial", unit_scale=True, disable=not show)

    def __enter__(self) -> Callable[[int], Any]:
        return self._bar.update

    def __exit__(self, *_: object) -> None:
        self._bar.close()
