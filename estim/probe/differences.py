"""Extrapolated differences with an error estimate that includes the rounding of the model.

The differences are those of `scipy.differentiate`: eighth order, on a ladder of steps halved again and again. On each
rung the error is the change from the rung before (truncation) plus the rounding of the readings times the weights of
the formula over the step; every reading takes the rung where the sum is smallest. To stop at the first small change, as
the library does by itself, takes two noisy estimates that happen to agree for a small error.

notation: ``at(h)`` readings with one parameter moved by h; ``noise`` rounding of each reading, in its units.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Rungs of one ladder; the first has no error estimate.
RUNGS = 11
#: An error below this part of the largest entry of a column needs no other steps.
GOOD = 1e-10
#: Ladders for one parameter, each RUNGS - 1 octaves from the last: steps over 60 octaves are reached.
LADDERS = 7
# Order of the formula; sum of its weights, times which rounding / step bounds the error (computed from the stencils
# that `scipy.differentiate.derivative` documents, step factor 2).
_CENTRAL = (8, 13.6)
_ONE_SIDED = (4, 47.0)


@dataclass(frozen=True)
class Column:
    """Derivatives of all readings with respect to one parameter, and bounds of their errors, each (M,)."""

    values: Array
    error: Array
    kinked: bool
    """Whether a reading has different slopes on both sides; its error covers both."""


@dataclass(frozen=True)
class _Ladder:
    """Estimates of one ladder of steps."""

    steps: Array
    """(rungs,), descending."""
    values: Array
    """(rungs, M)."""
    errors: Array
    """(rungs, M)."""
    rounded: npt.NDArray[np.bool_]
    """(rungs, M), whether rounding exceeds the change from the rung before."""


class _Steps:
    """Readings at steps of one parameter, each evaluated once."""

    def __init__(self, evaluate: Callable[[Array], Array], x: Array, parameter: int, at_zero: Array) -> None:
        self._evaluate, self._x, self._parameter = evaluate, x, parameter
        self._known = {0.0: at_zero}

    def __call__(self, step: float) -> Array:
        if step not in self._known:
            moved = self._x.copy()
            moved[self._parameter] += step
            self._known[step] = self._evaluate(moved)
        return self._known[step]

    def finite(self, step: float) -> bool:
        return bool(np.isfinite(self(step)).all())

    def table(self, steps: Array) -> Array:
        """Return readings for the step or steps that SciPy asks for: (M,) or (M, steps)."""
        if steps.ndim == 0:
            return self(float(steps))
        return np.stack([self(float(step)) for step in steps], axis=-1)


def column(
    evaluate: Callable[[Array], Array], x: Array, parameter: int, readings: Array, noise: Array, scale: float
) -> Column:
    """Differentiate with respect to one parameter.

    Parameters
    ----------
    evaluate : callable
        Parameter vector (P,) -> readings (M,), NaN where the model fails.
    x : (P,) array
    parameter : int
    readings : (M,) array
        At x; finite.
    noise : (M,) array
        Rounding of each reading, in its units.
    scale : float
        A first guess of a change that matters, in the units of the parameter; positive.
    """
    at = _Steps(evaluate, x, parameter, readings)
    best = np.zeros_like(readings)
    error = np.full_like(readings, np.inf)
    rung = np.zeros_like(readings)
    step, tried, taken = power_of_two(scale) / 4, set[int](), 0
    while taken < LADDERS:
        step, side = _reachable(at, step)
        ladder = _climb(at, step, side, noise)
        _keep(best, error, rung, ladder)
        taken += 1
        tried.add(round(np.log2(step)))
        way = _way(best, error, rung, ladder)
        step *= 2.0 ** (way * (RUNGS - 1))
        if way == 0 or any(abs(np.log2(step) - old) < 2 for old in tried):
            break
    kinks = _kinks(at, best, rung, noise)
    with np.errstate(invalid="ignore"):
        total = np.maximum(2.0 * error, kinks) + EPS * np.abs(best)
    return Column(best, total, bool((kinks > 0.0).any()))


def power_of_two(scale: float) -> float:
    """Round down to a power of two: adding it to a parameter then loses nothing, or next to nothing."""
    return float(2.0 ** np.floor(np.log2(scale)))


def _reachable(at: _Steps, step: float) -> tuple[float, int]:
    """Shrink a step until the readings are finite on both sides, or on one: (step, 0 or the side)."""
    for shrink in range(12):
        h = step / 16.0**shrink
        if at.finite(h) and at.finite(-h):
            return h, 0
    for shrink in range(12):
        h = step / 16.0**shrink
        for side in (1, -1):
            if at.finite(side * h):
                return h, side
    return step, 0


def _climb(at: _Steps, step: float, side: int, noise: Array) -> "_Ladder":
    """Evaluate a ladder of steps down from one, until smaller ones can only do worse."""
    from scipy.differentiate import derivative

    order, weight = _ONE_SIDED if side else _CENTRAL
    estimates: list[Array] = []

    def record(result: object) -> None:
        if np.max(result.nit) > len(estimates):  # type: ignore[attr-defined]
            running = result.status == 1  # type: ignore[attr-defined]
            estimates.append(np.where(running, result.df, np.nan))  # type: ignore[attr-defined]
            if len(estimates) > 2 and _hopeless(estimates, noise * weight / (step / 2.0 ** (len(estimates) - 1))):
                raise StopIteration

    derivative(
        at.table,
        0.0,
        initial_step=step,
        step_direction=side,
        order=order,
        maxiter=RUNGS,
        tolerances={"atol": 0.0, "rtol": 0.0},
        preserve_shape=True,
        callback=record,
    )
    values = np.array(estimates)
    steps = step / 2.0 ** np.arange(len(values))
    rounding = weight * noise / steps[:, None]
    with np.errstate(invalid="ignore"):
        truncation = np.abs(np.diff(values, axis=0, prepend=np.nan))
    errors = np.where(np.isnan(truncation), np.inf, truncation + rounding)
    return _Ladder(steps, values, errors, truncation <= rounding)


def _hopeless(estimates: list[Array], rounding: Array) -> bool:
    """Tell whether smaller steps can only do worse: rounding alone now exceeds the changes."""
    with np.errstate(invalid="ignore"):
        change = np.abs(estimates[-1] - estimates[-2])
    return bool((np.isnan(change) | (change <= rounding)).all())


def _keep(best: Array, error: Array, rung: Array, ladder: _Ladder) -> None:
    """Take over, reading by reading, the rung with the smallest error, where it improves."""
    choice = np.argmin(ladder.errors, axis=0)
    columns = np.arange(len(best))
    better = ladder.errors[choice, columns] < error
    best[better] = ladder.values[choice, columns][better]
    error[better] = ladder.errors[choice, columns][better]
    rung[better] = ladder.steps[choice][better]


def _way(best: Array, error: Array, rung: Array, ladder: _Ladder) -> int:
    """Return 1 when larger steps promise more, -1 when smaller ones do, 0 when all is well or neither does."""
    poor = error > GOOD * np.abs(best).max(initial=0.0)
    if not poor.any():
        return 0
    unfinished = poor & ~ladder.rounded[-1] & ((rung == ladder.steps[-1]) | np.isinf(error))
    if unfinished.any():
        return -1
    return 1 if (poor & ladder.rounded[1:].all(axis=0)).any() else 0


def _kinks(at: _Steps, best: Array, rung: Array, noise: Array) -> Array:
    """Return half the jump of the slope where it jumps at the parameters, else 0.

    The even part of a reading over the step halves with the step for a smooth one, and stays at a kink.
    """
    jumps = np.zeros_like(best)
    for step in np.unique(rung[rung > 0.0]):
        rows = rung == step
        fine, coarse = step / 8.0, step / 4.0
        here = at(0.0)[rows]
        with np.errstate(invalid="ignore"):
            even = np.abs(at(fine)[rows] + at(-fine)[rows] - 2.0 * here) / (2.0 * fine)
            twice = np.abs(at(coarse)[rows] + at(-coarse)[rows] - 2.0 * here) / (2.0 * coarse)
            rounding = 4.0 * noise[rows] / fine
            kinked = (even > 0.75 * twice) & (even > rounding) & (even > 1e-6 * np.abs(best[rows]))
        jumps[rows] = np.where(kinked, even, 0.0)
    return jumps


def rounding_noise(evaluate: Callable[[Array], Array], x: Array, readings: Array, scales: Array) -> Array:
    """Estimate the rounding of every reading, in its units, from a table of differences along a tiny line.

    More and Wild, Estimating computational noise, 2011, doi:10.1137/100786125. Differences of second and higher order
    see nothing but rounding when the steps are tiny. Where most readings on the line are equal, as those of a model
    that computes in float32 are, the line is lengthened.
    """
    direction = (
        scales * np.where(np.arange(len(x)) % 2, -1.0, 1.0) * (0.75 + 0.5 * np.modf(np.arange(len(x)) * 0.618)[0])
    )
    noise = np.zeros_like(readings)
    todo = np.ones(len(readings), dtype=bool)
    for octave in (-42, -32, -22, -12):
        line = [evaluate(x + k * 2.0**octave * direction) for k in range(-3, 4)]
        table = np.array(line)[:, todo]
        found = _noise_of(table)
        moving = (np.diff(table, axis=0) != 0.0).sum(axis=0) >= 4
        # A model that computes in float64 moves at the first length, unless the reading hardly depends on x.
        places = np.flatnonzero(todo)
        noise[places[moving]] = found[moving]
        todo[places[moving]] = False
        if not todo.any() or octave == -12:
            break
    return np.maximum(EPS * np.abs(readings), 3.0 * noise)


def _noise_of(table: Array) -> Array:
    """Return the standard deviation of independent errors that explains differences of order 3 to 5, (M,)."""
    levels = []
    for order, factor in ((3, 20.0), (4, 70.0), (5, 252.0)):
        difference = np.diff(table, n=order, axis=0)
        levels.append(np.sqrt(np.mean(difference**2, axis=0) / factor))
    found = np.median(levels, axis=0)
    return np.where(np.isfinite(found), found, 0.0)
