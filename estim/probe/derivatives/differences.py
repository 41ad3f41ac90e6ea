"""Derivatives by differences at steps that suit the function, with errors that hold.

A ladder of steps (`ladders`, beside this) starts at the size of the parameter; others follow below, where rounding was
not reached, and above, where it is all there is. What a ladder shows can still be wrong: a large step leaps over waves,
a small one falls among the coarse steps in which a formula rounds. So an estimate counts only where smaller steps bear
it out, is held against the slope from nearby, and its error covers a second slope where there are two.

notation: ``at(h)`` readings with one parameter moved by h; ``noise`` what rounding does to each reading.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.ladders import RUNGS, Ladder, Steps, climb, judged, power_of_two
from estim.probe.derivatives.rounding import EPS, Noise, rounding_noise
from estim.probe.derivatives.stairs import look_for_stairs
from estim.probe.derivatives.steep import grows_without_end

Array = npt.NDArray[np.float64]

#: From one ladder to the next: they overlap in one rung.
OCTAVES = 2.0 ** (RUNGS - 1)
#: A relative error below this needs no other steps.
GOOD = 1e-9
#: A relative error above this may be that of a slope without end.
POOR = 1e-2
#: Ladders for one parameter.
LADDERS = 7
#: The step of a last look from nearby, in first steps: two ladders down.
_NEAR = 2.0**-20
#: Units in the last place beyond which rounding is more than that of the last operations.
_COARSE = 64.0
#: Times to look for steps: low ones may hide among high ones.
_STAIRS = 3


@dataclass(frozen=True)
class Column:
    """Derivatives of all readings with respect to one parameter, and bounds of their errors, each (M,)."""

    values: Array
    error: Array
    kinked: bool
    """Whether a reading has different slopes on both sides; its error covers both."""
    height: Array
    """About how high the steps are in which a reading moves, zero where it does not: the slope is that from afar."""
    steep: bool
    """Whether the slope of a reading grows without end as the step shrinks, so that it has no derivative."""


def column(
    evaluate: Callable[[Array], Array], x: Array, parameter: int, readings: Array, noise: Noise, scale: float
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
    noise : Noise
    scale : float
        A first guess of a change that matters, in the units of the parameter; positive.
    """
    at = Steps(evaluate, x, parameter, readings)
    level = noise.level
    ladders = [climb(at, power_of_two(scale) / 4.0, level)]
    height = np.zeros_like(readings)
    if not np.isfinite(ladders[0].values).any():
        return Column(np.full_like(readings, np.nan), np.full_like(readings, np.inf), False, height, False)
    if not ladders[0].rounded.any(axis=0).all():
        # Rounding may depend on the parameter: in a (1 - exp(-b x)) with a tiny b it hides when a moves as well.
        alone = rounding_noise(evaluate, x, readings, np.where(np.arange(len(x)) == parameter, scale, 0.0), 0.0)
        level = np.maximum(level, alone.level)
        ladders = [judged(at, ladders[0], level)]
    if (level > _COARSE * EPS * np.abs(readings)).any():
        level = np.maximum(level, _typical(at, ladders[0], level))
        ladders = [judged(at, ladders[0], level)]
    smallest = max(float(np.abs(x[parameter])) * 2.0**-44, np.finfo(np.float64).tiny / EPS)
    best, error, rung, near = _searched(at, ladders, smallest, level, height > 0.0)
    for _ in range(_STAIRS):
        stairs = look_for_stairs(at, ladders[0], best, error, rung, level)
        if not (stairs.level > level).any():
            break
        height, level = np.maximum(height, stairs.height), np.maximum(level, stairs.level)
        ladders = [judged(at, ladder, level) for ladder in ladders]
        best, error, rung, near = _searched(at, ladders, smallest, level, height > 0.0)
    if height.any():
        error = np.maximum(error, stairs.apart)
    kinks = _kinks(at, best, rung, level)
    error = np.maximum(error, _contradiction(ladders, best, error))
    astray = near.contradicts(best, error, rung)
    error[astray] = np.maximum(error, np.abs(near.slope - best))[astray]
    total = np.maximum(2.0 * error, kinks) + 8.0 * noise.relative * np.abs(best)
    # Differences that do not converge, as at an infinite slope, tell no more than that.
    total[total > 0.25 * np.abs(best)] += np.abs(best)[total > 0.25 * np.abs(best)]
    poor = total > POOR * np.abs(best)
    if poor.any() and not height.any():
        endless = poor & grows_without_end(at, power_of_two(scale), x[parameter] == 0.0)
        # Of many that round coarsely, one may grow by chance.
        steep = 2 * np.count_nonzero(endless) >= np.count_nonzero(poor)
        total[endless] = np.maximum(total, 2.0 * np.abs(best))[endless]
        return Column(best, total, bool((kinks > 0.0).any()), height, bool(steep))
    return Column(best, total, bool((kinks > 0.0).any()), height, False)


def _typical(at: Steps, ladder: Ladder, level: Array) -> Array:
    """Return the rounding of readings that round as most do, relative to how far they move, (M,); zero where few do.

    Coarse steps in a part that all readings share may by chance leave one of them alone on the lines along which
    rounding was looked for; and where a reading is level, as at its maximum, they show further away only.
    """
    with np.errstate(invalid="ignore"):
        moves = np.array([np.abs(at(step) - at(0.0)) for step in at.known_steps(0.0, float(ladder.steps[0]))])
        move = np.nan_to_num(moves, nan=0.0, posinf=0.0).max(axis=0, initial=0.0)
    coarse = (level > _COARSE * EPS * (np.abs(at(0.0)) + move)) & (move > 0.0)
    relative = np.where(coarse, level / np.where(move > 0.0, move, 1.0), 0.0)
    return np.asarray(np.median(relative) * move)


def _searched(
    at: Steps, ladders: list[Ladder], smallest: float, level: Array, stepped: npt.NDArray[np.bool_]
) -> tuple[Array, Array, Array, "_Near"]:
    """Add ladders as long as they help; return what is `_chosen`, and the slope nearby."""
    near = _near_slope(at, max(ladders[0].start * _NEAR, smallest), level)
    top = _slope_at_top(at, ladders[0], level)
    while True:
        best, error, rung = _chosen(ladders, stepped, top)
        step = _next_step(ladders, best, error, near.contradicts(best, error, rung))
        if step is None or step < smallest or len(ladders) >= LADDERS:
            return best, error, rung, near
        ladders.append(climb(at, step, level))


def _slope_at_top(at: Steps, first: Ladder, level: Array) -> tuple[Array, Array]:
    """Return plain slopes over the largest step of the first ladder, and how far the truth may be from them; (M,)."""
    step = float(first.steps[0])
    if first.side or not all(at.knows(side * step) and at.knows(0.5 * side * step) for side in (1.0, -1.0)):
        return np.zeros(at.count), np.full(at.count, np.inf)
    with np.errstate(all="ignore"):
        slope, half = ((at(h) - at(-h)) / (2.0 * h) for h in (step, 0.5 * step))
        slack = 4.0 * level / step + 4.0 * np.abs(slope - half)
    return np.nan_to_num(slope), np.where(np.isfinite(slack), slack, np.inf)


def _chosen(
    ladders: list[Ladder], stepped: npt.NDArray[np.bool_], top: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Return, reading by reading, the estimate with the smallest error, that error, and its step; each (M,).

    A large step may step over what the function does in between, and show small errors: an estimate counts only
    where its interval meets those of all smaller steps that count (Lepskii, On a problem of adaptive estimation in
    Gaussian white noise, 1991, doi:10.1137/1135065). Smaller steps bear nothing out for readings that are `stepped`,
    (M,): no step above the first ladder counts for them. Nor does one that the slopes at its `top` contradict.
    """
    steps = np.concatenate([ladder.steps for ladder in ladders])
    values = np.concatenate([ladder.values for ladder in ladders])
    errors = np.concatenate([ladder.errors for ladder in ladders])
    # Beyond the first ladder, which suits the size of the parameter, an estimate that is all error tells nothing.
    with np.errstate(invalid="ignore"):
        # Steps that leap over waves may agree by chance.
        borne_out = (errors <= 0.25 * np.abs(values)) & (np.abs(values - top[0]) <= top[1] + errors)
        told = (steps <= ladders[0].steps[0])[:, None] | (borne_out & ~stepped)
    best, rung = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    error, low, high = np.full_like(best, np.inf), np.full_like(best, -np.inf), np.full_like(best, np.inf)
    for k in np.argsort(steps, kind="stable"):
        below, above = values[k] - errors[k], values[k] + errors[k]
        counts = np.isfinite(errors[k]) & told[k] & (above >= low) & (below <= high)
        low[counts] = np.maximum(low, below)[counts]
        high[counts] = np.minimum(high, above)[counts]
        better = counts & (errors[k] < error)
        best[better], error[better], rung[better] = values[k][better], errors[k][better], steps[k]
    return best, error, rung


def _contradiction(ladders: list[Ladder], best: Array, error: Array) -> Array:
    """Return how far the slope at a larger scale is from the best estimate, where both are plain to see; else 0.

    A ripple on a line has two slopes, and so has a model whose formula rounds in coarse steps: which of them is meant,
    the readings do not tell, so the error covers both.
    """
    apart = np.zeros_like(best)
    for ladder in ladders:
        with np.errstate(invalid="ignore"):
            # Steps that leap over many waves may agree by chance, but then on a slope much smaller than the waves'.
            plain = (ladder.errors <= 1e-3 * np.abs(ladder.values)) & (np.abs(ladder.values) > 0.05 * np.abs(best))
            off = np.abs(ladder.values - best)
        for k in range(len(plain) - 2):
            steady = plain[k : k + 3].all(axis=0) & (off[k : k + 3] > ladder.errors[k : k + 3] + error).all(axis=0)
            apart[steady] = np.maximum(apart, off[k])[steady]
    return apart


@dataclass(frozen=True)
class _Near:
    """Slopes over one step so small that nothing is stepped over, each field (M,)."""

    step: float
    slope: Array
    slack: Array
    """What rounding and curvature may add to them."""

    def contradicts(self, best: Array, error: Array, rung: Array) -> npt.NDArray[np.bool_]:
        """Tell where an estimate is none of the slope nearby: it saw the function on too large a scale."""
        with np.errstate(invalid="ignore"):
            off = np.abs(self.slope - best) > self.slack + 2.0 * error + 1e-3 * np.abs(best)
        return np.asarray(off & (rung > self.step))


def _near_slope(at: Steps, step: float, noise: Array) -> _Near:
    with np.errstate(all="ignore"):
        slope = (at(step) - at(-step)) / (2.0 * step)
    return _Near(step, slope, 4.0 * noise / step + _even_part(at, step))


def _next_step(ladders: list[Ladder], best: Array, error: Array, astray: npt.NDArray[np.bool_]) -> float | None:
    """Return where another ladder should start: below the lowest, above the highest; None when there is no need."""
    poor = error > GOOD * np.abs(best)
    # Only the lowest ladder tells whether rounding was reached: a higher one may have met it among false estimates.
    lowest = min(ladders, key=lambda ladder: ladder.start)
    above = lowest.start > ladders[0].start * _NEAR
    if (poor & ~lowest.rounded.any(axis=0)).any() or (above and astray.any()):
        return float(min(ladder.steps[0] for ladder in ladders)) / OCTAVES
    seen = np.abs(best) > error
    highest = max(ladders, key=lambda ladder: ladder.start)
    if (poor & highest.rounded[1:2].any(axis=0) & (seen | ~seen.any())).any():
        return highest.start * OCTAVES
    return None


def _kinks(at: Steps, best: Array, rung: Array, noise: Array) -> Array:
    """Return half the jump of the slope where it jumps at the parameters, else 0.

    The even part of a reading over the step shrinks with the step for a smooth one, and stays at a kink.
    """
    jumps = np.zeros_like(best)
    for step in np.unique(rung[rung > 0.0]):
        rows = rung == step
        fine = _even_part(at, step / 8.0)
        suspect = rows & _stays(fine, _even_part(at, step / 4.0)) & (fine > 1e-6 * np.abs(best))
        suspect &= fine > 32.0 * noise / step
        if suspect.any():
            finest = _even_part(at, step / 64.0)
            suspect &= _stays(finest, fine) & (finest > 256.0 * noise / step)
        jumps[suspect] = fine[suspect]
    return jumps


def _even_part(at: Steps, step: float) -> Array:
    """Return the even part of the change of every reading, over the step, (M,)."""
    with np.errstate(all="ignore"):
        return np.abs(at(step) + at(-step) - 2.0 * at(0.0)) / (2.0 * step)


def _stays(even: Array, at_larger: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((even > 0.75 * at_larger) & (even < 1.33 * at_larger))
