"""Readings that move in steps: what they hide from small differences, and from the complex step.

A model that rounds part of what it computes (a table, an instrument's digits, ``np.round``) stands still, or keeps the
slope of its other part, between one step and the next: there all small differences agree, to the last digit, on a slope
that the model has nowhere from afar. So a derivative is held against the slopes at the largest steps of the first
ladder. Where these agree among one another but not with it, the slopes at places in between decide: a smooth function
gains from place to place what its slopes there say; one that moves in steps gains more, or less, although its slopes
hardly change.

notation: ``at(h)`` readings with one parameter moved by h, as in `estim.probe.derivatives.ladders`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.ladders import Ladder, Steps

Array = npt.NDArray[np.float64]

#: Places between which readings may jump, in units of the widest, at unequal distances; one is the parameter itself.
_PLACES = np.array([-0.97, -0.74, -0.53, -0.29, -0.11, 0.0, 0.17, 0.37, 0.59, 0.81, 1.0])
#: Of the intervals between them, the part that must be plain: slopes alike at both ends, or nothing gained.
_PLAIN = 0.6
#: Slopes are taken over this part of the step of the estimate in question: seldom across a jump.
_FINE = 2.0**-4
#: Pairs of widths and fine steps that are tried for one parameter.
_PAIRS = 2
#: Octaves of the first ladder that are compared with the estimate.
_FAR = 4
# Extrapolates central slopes at h, h/2, h/4, h/8 to h = 0, to eighth order.
_EXTRAPOLATE = np.linalg.solve(np.exp2(-2.0 * np.outer(np.arange(4), np.arange(4))), np.eye(4)[0])


@dataclass(frozen=True)
class Stairs:
    """What is known of the steps of every reading, each field (M,)."""

    height: Array
    """About how far a reading jumps; zero where no jumps were found."""
    level: Array
    """How far the reading may be from the smooth curve through its steps."""
    apart: Array
    """How far the slopes from afar are from the estimate, where that matters; else zero."""


def look_for_stairs(at: Steps, first: Ladder, best: Array, error: Array, rung: Array, noise: Array) -> Stairs:
    """Hold estimates (step `rung`, all (M,)) against the slopes from afar, and find out why they differ."""
    height, level = np.zeros_like(best), np.zeros_like(best)
    with np.errstate(all="ignore"):
        apart = _apart_from_afar(at, first, best, error, noise)
        suspects = np.flatnonzero((apart > 0.0) & (rung > 0.0) & (rung < first.steps[0]))
        pairs = [_pair(at, first, best[i], rung[i], apart[i], int(i)) for i in suspects]
        for pair in sorted(set(pairs), key=lambda one: (-pairs.count(one), one))[:_PAIRS]:
            rows = suspects[[one == pair for one in pairs]]
            height[rows], level[rows] = _jumps(at, *pair, rows, noise[rows])
        if height.any():
            # A reading that never moved may stand on a step as high as those of the others.
            stands = at.still(first.steps[0]) & (height == 0.0)
            height[stands] = np.median(height[height > 0.0])
            level[stands] = 0.5 * height[stands]
    return Stairs(height, level, apart)


def _central(at: Steps, step: float) -> Array:
    return (at(step) - at(-step)) / (2.0 * step)


def _apart_from_afar(at: Steps, first: Ladder, best: Array, error: Array, noise: Array) -> Array:
    """Return how far the slopes from afar are from the estimate, where they agree better with one another; else 0."""
    top = first.steps[0]
    steps = top * np.exp2(-np.arange(_FAR + 3))
    steps = steps[[at.knows(step) and at.knows(-step) for step in steps]]
    if first.side or len(steps) < _FAR:
        return np.zeros_like(best)
    slopes = np.array([_central(at, step) for step in steps])
    sharp = np.array([_EXTRAPOLATE @ slopes[k : k + 4] for k in range(len(slopes) - 3)])
    apart = np.zeros_like(best)
    for family in (slopes[:_FAR], sharp[:3], sharp[1:4]):
        if len(family) < 2:
            continue
        off, spread = np.abs(family - best).min(axis=0), np.ptp(family, axis=0)
        counts = off > spread + 4.0 * error + 1e-9 * np.abs(best) + 30.0 * noise / steps[-1]
        apart = np.where(counts, np.maximum(apart, off), apart)
    # Steps so high that few of them were met: it stands still at all but large steps.
    still = at.still(steps[-1] / 4.0)
    moves = np.abs(slopes[:2]).max(axis=0)
    return np.where(still & (apart == 0.0) & (moves > 4.0 * error + 4.0 * noise / top), moves, apart)


def _pair(at: Steps, first: Ladder, best: float, rung: float, apart: float, row: int) -> tuple[float, float]:
    """Return the width over which to look, some stairs wide and no wider, and the step of the slopes in it."""
    wide = first.steps[0]
    for step in at.known_steps(rung, wide):
        if abs((at(step)[row] - at(-step)[row]) / (2.0 * step) - best) > 0.5 * apart:
            wide = min(wide, 16.0 * step)
            break
    # Few different ones: one pair serves all readings that are about as steep.
    return min(first.steps[0], 8.0 ** np.ceil(np.log2(wide) / 3.0)), 4.0 ** np.floor(np.log2(rung * _FINE) / 2.0)


def _jumps(at: Steps, wide: float, fine: float, rows: npt.NDArray[np.int64], noise: Array) -> tuple[Array, Array]:
    """Return the height of the jumps of these readings and their distance from a smooth curve, each (rows,)."""
    places = np.round(wide * _PLACES / fine) * fine if wide < 2.0**50 * fine else wide * _PLACES
    above = np.array([at(place + fine)[rows] for place in places])
    below = np.array([at(place - fine)[rows] for place in places])
    values, slopes = 0.5 * (above + below), (above - below) / (2.0 * fine)
    width = np.diff(places)[:, None]
    slack = 8.0 * noise / fine
    gained = np.diff(values, axis=0) / width - 0.5 * (slopes[1:] + slopes[:-1])
    alike = np.abs(np.diff(slopes, axis=0)) <= 0.25 * np.abs(gained)
    nothing = np.abs(gained) <= slack
    jump = np.where(alike & ~nothing, np.abs(gained) * width, 0.0)
    plain = alike | nothing
    # A slope taken across a jump is wild: what was gained there is measured by the usual slope.
    other = np.where(plain, 0.0, np.abs(np.diff(values, axis=0) - np.median(slopes, axis=0) * width))
    found = (plain.mean(axis=0) >= _PLAIN) & (jump.sum(axis=0) > other.sum(axis=0))
    found &= np.isfinite(values).all(axis=0)
    basis, _ = np.linalg.qr(np.vander(places / wide, 4))
    smooth = np.where(np.isfinite(values), values, 0.0)
    rest = np.abs(smooth - basis @ (basis.T @ smooth)).max(axis=0)
    one = _lowest(at, places, slopes, rows, noise, jump)
    return np.where(found, one, 0.0), np.where(found, np.maximum(0.5 * one, rest), 0.0)


def _lowest(at: Steps, places: Array, slopes: Array, rows: npt.NDArray[np.int64], noise: Array, jump: Array) -> Array:
    """Return the smallest jump, (rows,): that of the smallest step at which a reading leaves its slope, or between."""
    slope = np.median(slopes, axis=0)
    lowest = np.where(jump > 0.0, jump, np.inf).min(axis=0)
    for step in at.known_steps(0.0, float(np.abs(places).min(initial=np.inf, where=places != 0.0))):
        for side in (step, -step):
            left = np.abs(at(side)[rows] - at(0.0)[rows] - slope * side)
            # A jump is much more than rounding, and than what the slope itself would do.
            jumped = (left > 64.0 * noise) & (left > 0.5 * np.abs(slope * side))
            lowest = np.where(jumped, np.minimum(lowest, left), lowest)
    return np.where(np.isfinite(lowest), lowest, 0.0)
