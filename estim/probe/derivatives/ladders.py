"""Extrapolated differences with an error estimate that includes the rounding of the model.

The differences are those of `scipy.differentiate`: eighth order, on a ladder of steps halved again and again. On each
rung the error is the change from the rung before (truncation) plus the rounding of the readings times the weights of
the formula over the step; every reading takes the rung where the sum is smallest. To stop at the first small change, as
the library does by itself, takes two noisy estimates that happen to agree for a small error.

Why this library, and not as it is: on 28 functions like those of `tests/probe/functions.py` the true error exceeded
the reported one on 24 with `scipy.differentiate.jacobian` (1.17, first step a quarter of the parameter), on 26 with
jacobi 0.9, on 13 with numdifftools 0.11, which found no number on 4 more, with the rules here on none. They take 10 to
60 evaluations a parameter, the rules here 20 to 40 where the first ladder will do, up to 200 where it does not, and 27
more for the rounding. Where the default step suits the function all reach some 1e-13. SciPy is there anyway, is well
kept, and shows every rung.

notation: ``at(h)`` readings with one parameter moved by h; ``noise`` what rounding does to each reading.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS

Array = npt.NDArray[np.float64]

#: Rungs of one ladder; the first has no error estimate.
RUNGS = 11
# Order of the formula; sum of its weights, times which rounding / step bounds the error (computed from the stencils
# that `scipy.differentiate.derivative` documents, step factor 2).
_CENTRAL = (8, 13.6)
_ONE_SIDED = (4, 83.1)


@dataclass(frozen=True)
class Ladder:
    """Estimates of one ladder of steps."""

    start: float
    """The first step that was wanted; the first that gave finite readings may be smaller."""
    side: int
    """0 for central differences, else the side of one-sided ones."""
    steps: Array
    """(rungs,), descending."""
    values: Array
    """(rungs, M)."""
    errors: Array
    """(rungs, M)."""
    rounded: npt.NDArray[np.bool_]
    """(rungs, M), whether rounding exceeds the change from the rung before."""


class Steps:
    """Readings at steps of one parameter, each evaluated once."""

    def __init__(self, evaluate: Callable[[Array], Array], x: Array, parameter: int, at_zero: Array) -> None:
        self._evaluate, self._x, self._parameter = evaluate, x, parameter
        self._known = {0.0: at_zero}

    def __call__(self, step: float) -> Array:
        """Return the readings, (M,), with the parameter moved by a step."""
        if step not in self._known:
            moved = self._x.copy()
            moved[self._parameter] += step
            self._known[step] = self._evaluate(moved)
        return self._known[step]

    @property
    def count(self) -> int:
        """Number of readings."""
        return len(self(0.0))

    @property
    def finest(self) -> float:
        """The smallest step that moves the parameter by more than its rounding."""
        return float(8.0 * EPS * np.abs(self._x[self._parameter]))

    def knows(self, step: float) -> bool:
        """Tell whether the readings at a step cost nothing more."""
        return step in self._known

    def known_steps(self, low: float, high: float) -> list[float]:
        """Return the steps between two that were evaluated on both sides, ascending."""
        return sorted(step for step in self._known if low < step <= high and -step in self._known)

    def still(self, step: float) -> npt.NDArray[np.bool_]:
        """Tell which readings are the same, to the last bit, at all steps up to this one; (M,)."""
        near = [self(known) for known in self._known if abs(known) <= step]
        return np.asarray((np.array(near) == self(0.0)).all(axis=0) & (len(near) > 2))

    def finite(self, step: float) -> int:
        """Count the readings that are finite after a step."""
        return int(np.isfinite(self(step)).sum())

    def table(self, steps: Array) -> Array:
        """Return readings for the step or steps that SciPy asks for: (M,) or (M, steps)."""
        if steps.ndim == 0:
            return self(float(steps))
        return np.stack([self(float(step)) for step in steps], axis=-1)


def power_of_two(scale: float) -> float:
    """Round down to a power of two: adding it to a parameter then loses nothing, or next to nothing."""
    return float(2.0 ** np.floor(np.log2(scale)))


def _reachable(at: Steps, step: float) -> tuple[float, int]:
    """Shrink a step until all readings are finite on both sides, or on one: (step, 0 or the side).

    Where no step gives that, the one that gives most.
    """
    shrunk = [step / 16.0**shrink for shrink in range(12)]
    for h in shrunk:
        if at.finite(h) == at.finite(-h) == at.count:
            return h, 0
    for h in shrunk:
        for side in (1, -1):
            if at.finite(side * h) == at.count:
                return h, side
    both = max(shrunk, key=lambda h: min(at.finite(h), at.finite(-h)))
    one, side = max(((h, side) for h in shrunk for side in (1, -1)), key=lambda way: at.finite(way[1] * way[0]))
    return (both, 0) if min(at.finite(both), at.finite(-both)) >= at.finite(one * side) else (one, side)


def climb(at: Steps, start: float, noise: Array) -> Ladder:
    """Evaluate a ladder of steps down from a first one, until smaller ones can only do worse."""
    from scipy.differentiate import derivative

    step, side = _reachable(at, start)
    order, weight = _ONE_SIDED if side else _CENTRAL
    estimates: list[Array] = []

    def record(result: object) -> None:
        if np.max(result.nit) > len(estimates):  # type: ignore[attr-defined]
            # The library freezes a reading whose error grows; only fresh estimates count.
            fresh = result.status == 1  # type: ignore[attr-defined]
            estimates.append(np.where(fresh, result.df, np.nan))  # type: ignore[attr-defined]
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
    steps = step / np.exp2(np.arange(len(estimates), dtype=np.float64))
    return judged(at, Ladder(start, side, steps, np.array(estimates), np.empty(0), np.empty(0, dtype=bool)), noise)


def judged(at: Steps, ladder: Ladder, noise: Array) -> Ladder:
    """Estimate the errors of a ladder."""
    _, weight = _ONE_SIDED if ladder.side else _CENTRAL
    level = noise if ladder.side else np.maximum(noise, _far_rounding(at, ladder.steps))
    rounding = weight * level / ladder.steps[:, None]
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(ladder.values, axis=0, prepend=np.nan))
    rounded = change <= rounding
    errors = np.where(np.isnan(change), np.inf, np.where(rounded, change, _remaining(change)) + rounding)
    # Where the parameter itself hardly moves, nothing does: a reading that is zero, and so has no rounding, too.
    errors[ladder.steps < at.finest] = np.inf
    return replace(ladder, errors=errors, rounded=rounded)


def _remaining(change: Array) -> Array:
    """Return what all further changes add up to, when they go on to shrink as the last one did.

    At a smooth point they shrink 256 times a rung; next to t^1.5, at the edge of its domain, by 1.4.
    """
    with np.errstate(all="ignore"):
        shrink = change[:-1] / change[1:]
        factor = np.where(shrink > 1.0, np.clip(1.0 / (shrink - 1.0), 1.0, 20.0), 20.0)
    factor[np.isnan(shrink)] = 4.0
    return np.concatenate([change[:1], change[1:] * factor])


def _far_rounding(at: Steps, steps: Array) -> Array:
    """Return the rounding of readings that have grown at the end of a step, (steps, M)."""
    return EPS * np.array([np.maximum(np.abs(at(float(step))), np.abs(at(-float(step)))) for step in steps])


def _hopeless(estimates: list[Array], rounding: Array) -> bool:
    """Tell whether smaller steps can only do worse: rounding alone now exceeds the changes."""
    with np.errstate(invalid="ignore"):
        change = np.abs(estimates[-1] - estimates[-2])
    return bool((np.isnan(change) | (change <= rounding)).all())
