"""From which size on random changes of a group are detected: their power, averaged over directions, at every size.

The size whose root mean square shift is detected is another, smaller one: where few of a group's directions move the
readings, most random changes move them by less than that.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from estim.probe.matrix_free.margin import counted, hidden_share, random_share
from estim.probe.verdict.change import change_powers, detectable_shift

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]

#: The power, and one minus the level of the change test, that make a change one that is detected.
POWER, CONFIDENCE = 0.8, 0.95
# Strata of each normal coordinate of a random direction, and coordinates times strata where more are for free.
_LEAST, _MOST, _ENTRIES = 1024, 8192, 2**20
# Of the power as a function of the shift, and standard deviations beyond the one detected where it is 1.
_STEPS, _CERTAIN = 2000, 8.0


def detectable_changes(found: "ModelSensitivity") -> Array:
    """Return the relative size from which random changes of each group are detected, (named groups,), right to 1 %.

    Infinite where too few are seen, NaN where a group's parameters are zero. Where there is a `rest`, at most that.
    """
    sizes = np.full(len(found.group_names), np.nan)
    squares = _strata(max(found.group_singular_values.shape[1], found.resolved, 1))
    for k, norm in enumerate(found.group_norms):
        if norm == 0.0:
            continue
        dimension, error = int(found.group_table[k, 0]), float(found.group_resolution[k])
        if found.rest is None:
            values = found.group_singular_values[k]
            values, hidden = values[values > error], found.resolution * hidden_share(found, dimension)
        else:
            values, hidden = _most_unequal(found, k)[:dimension], 0.0
        lengths = _lengths(values, dimension, squares[: len(values)])
        sizes[k] = _size(counted(lengths, error * random_share(dimension), hidden), found.resolved) / norm
    return sizes


def _most_unequal(found: "ModelSensitivity", k: int) -> Array:
    """Return singular values of a group along the directions found, of all that it may have there the most unequal.

    Their squares sum to what is known, and the group is a part of the whole, so that none exceeds the whole's. Random
    changes are the harder to detect, the more unequal they are: a mean of a concave function.
    """
    squares = np.square(found.singular_values[: found.resolved])
    left = float(squares @ found.group_share[k]) - np.cumsum(squares) + squares
    filled = np.sqrt(np.clip(left, 0.0, squares))
    return np.asarray(filled[filled > 0.0])


def _strata(count: int) -> Array:
    """Return squares of so many independent normals, (count, draws): a Latin hypercube, so that sums hardly vary."""
    draws = min(max(_ENTRIES // count, _LEAST), _MOST)
    return np.random.default_rng(0).permuted(np.tile(_quantiles(1, draws), (count, 1)), axis=1)


@lru_cache(maxsize=64)  # groups of one size are many
def _quantiles(degrees: int, draws: int) -> Array:
    return np.asarray(stats.chi2.ppf((np.arange(draws) + 0.5) / draws, degrees))


def _lengths(values: Array, dimension: int, squares: Array) -> Array:
    """Return |W d|, (draws,), as `random_lengths`, of given squares of the coordinates that move the readings."""
    others, draws = dimension - len(values), squares.shape[1]
    rest = np.random.default_rng(1).permutation(_quantiles(others, draws)) if others else np.zeros(draws)
    return np.asarray(np.sqrt(np.square(values) @ squares / (squares.sum(axis=0) + rest)))


def _size(shifts: Array, degrees: int) -> float:
    """Return the multiple of shifts at which their mean power is the one asked for."""
    enough = float(np.sort(shifts)[::-1][math.ceil(POWER * len(shifts)) - 1])
    if not degrees or enough <= 0.0:
        return math.inf
    needed = detectable_shift(degrees, POWER, CONFIDENCE)
    places, powers = _power_curve(degrees)

    def lacking(log_size: float) -> float:
        return POWER - float(np.interp(math.exp(log_size) * shifts, places, powers).mean())

    low, high = math.log(needed / float(shifts.max())), math.log(places[-1] / enough)
    return math.exp(low if lacking(low) <= 0.0 else optimize.brentq(lacking, low, high, xtol=1e-9))


@lru_cache(maxsize=16)
def _power_curve(degrees: int) -> tuple[Array, Array]:
    """Return the power of the change test at shifts from 0 to where it is certain."""
    places = np.linspace(0.0, detectable_shift(degrees, POWER, CONFIDENCE) + _CERTAIN, _STEPS)
    powers = change_powers(places, degrees, 1.0 - CONFIDENCE)
    powers[-1] = 1.0
    return places, powers
