"""Proof-reading of a response when it is made: where it turns, lies flat, or is not a number.

The check works on a grid which is dense on the whole domain, geometric toward both ends (there the slope may
vanish), and refined where the slope is small. The same grid later brackets the inverse.

notation: ``theta`` grid points, ``rise`` = +-(m(theta) - m(lower)), nonnegative and increasing when all is well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]

EPS = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)
ROUNDINGS = 4.0  # a response computed in float64 may be off by a few units in the last place
KINK = 1e3  # how far past a flat stretch of a smooth response the rise stays below this many roundings (order < 10)


@dataclass(frozen=True)
class Monotone:
    """A response that passed: direction, grid, rises on it, their supremum, and what their rounding is relative to."""

    sign: float
    theta: Array
    rise: Array
    supremum: float
    magnitude: float


def check_monotone(excess: Function, lower: float, upper: float, magnitude: float) -> Monotone:
    """Return the checked grid, or raise a ValueError naming where the response fails.

    ``magnitude`` is |m(lower)| where the excess is a difference of means (its rounding is eps times the mean), else 0.
    """
    points = theta = domain_grid(lower, upper)
    with np.errstate(all="ignore"):  # overflow far out in an infinite domain is an answer, not a fault
        values = excess(theta)
    supremum = math.nan
    if math.isinf(upper):
        theta, values, supremum = _cut_at_limit(theta, values, magnitude)
        if math.isinf(supremum) and len(theta) < len(points):
            theta, values = _up_to_overflow(excess, theta, values, points[len(theta)])
    _require_numbers(theta, values)
    magnitude = max(magnitude, _grain(excess, theta, values, supremum) / EPS)
    _require_one_direction(excess, theta, values, magnitude)
    if np.ptp(values) <= ROUNDINGS * EPS * magnitude:
        msg = f"the response is constant: it has the same mean at all theta in [{lower:g}, {upper:g}]"
        raise ValueError(msg)
    sign = 1.0 if values[-1] > values[0] else -1.0
    rise = sign * values
    for _ in range(6):
        theta, rise = _refine(excess, sign, theta, rise)
        _require_numbers(theta, rise)
        _require_one_direction(excess, theta, sign * rise, magnitude)
    _require_no_plateau(excess, sign, theta, rise, magnitude, math.isinf(upper))
    rise = np.maximum.accumulate(rise)
    return Monotone(sign, theta, rise, float(rise[-1]) if math.isnan(supremum) else abs(supremum), magnitude)


def _grain(excess: Function, theta: Array, values: Array, supremum: float) -> float:
    """Return the step in which the excess leaves zero where float64 has rounded it on the way, or 0.

    log(1 + t), 1 - exp(-t) and 1 / (1 + exp(-t)) - 1/2 start at zero by cancellation: below eps they stand still, then
    move in steps of eps times their terms. A step larger than that (a true plateau at the lower end) is none of it.
    """
    rise = np.abs(values)
    if not rise[1:].any():
        return 0.0
    start = 1 + int(np.argmax(rise[1:] > 0.0))
    between = theta[start - 1] + (theta[start] - theta[start - 1]) * np.exp2(-np.arange(64.0))
    found = np.abs(excess(between))
    first = float(found[found > 0.0].min())
    near = rise[: max(2, int(np.argmax(rise > 8.0 * first)))]
    stands_still = start > 1 or bool((np.diff(near) == 0.0).any())
    if math.isnan(supremum):
        typical = float(rise[-1])
    else:
        typical = abs(supremum) if math.isfinite(supremum) else float(rise[np.searchsorted(theta, theta[0] + 1.0) - 1])
    return first if stands_still and first <= 8.0 * ROUNDINGS * EPS * typical else 0.0


def domain_grid(lower: float, upper: float) -> Array:
    """Return points from lower to upper: dense, and geometric toward the ends."""
    tiny = np.exp2(-np.concatenate([np.arange(10.0, 60.0, 2.0), np.arange(60.0, 1000.0, 20.0)]))
    if math.isinf(upper):
        steps = np.exp2(np.concatenate([np.arange(-1000, -40, 20), np.arange(-40, 40, 0.125), np.arange(40, 1024)]))
        return np.unique(np.concatenate([[lower], lower + steps, [LARGEST]]))
    span = upper - lower
    fractions = np.linspace(0.0, 1.0, 1025)
    points = np.concatenate([lower + span * fractions, lower + span * tiny, upper - span * tiny[:25]])
    return np.unique(np.clip(points, lower, upper))


def _cut_at_limit(theta: Array, values: Array, magnitude: float) -> tuple[Array, Array, float]:
    """Cut the grid of an infinite domain where float64 can no longer tell the mean from its limit."""
    finite = np.isfinite(values)
    last = len(values) if finite.all() else int(np.argmin(finite))
    if last < 2:
        return theta, values, math.nan  # not a number from the start: refused by the caller, with the place
    inside = values[:last]
    limit = inside[-1]
    reached = np.abs(inside - limit) <= ROUNDINGS * EPS * (abs(limit) + magnitude)
    arrival = last - int(np.argmin(reached[::-1])) if not reached.all() else 0
    if last - arrival >= 8 and theta[last - 1] >= 64.0 * max(theta[arrival], 1.0):
        return theta[: arrival + 1], inside[: arrival + 1], float(limit)
    if last < len(values) and np.isinf(values[last]):
        return theta[:last], inside, math.inf
    if last < len(values):
        return theta, values, math.nan
    return theta, values, _limit_by_growth(theta, inside)


def _up_to_overflow(excess: Function, theta: Array, values: Array, high: float) -> tuple[Array, Array]:
    """Extend the grid to the last theta at which the mean does not overflow, as it does at `high`, by bisection."""
    low = theta[-1]
    more: list[tuple[float, float]] = []
    while low < (middle := 0.5 * low + 0.5 * high) < high:
        value = float(excess(np.array([middle]))[0])
        if math.isfinite(value):
            low = middle
            more.append((middle, value))
        else:
            high = middle
    found = np.array(more).reshape(-1, 2)
    return np.concatenate([theta, found[:, 0]]), np.concatenate([values, found[:, 1]])


def _limit_by_growth(theta: Array, values: Array) -> float:
    """Return infinity for a mean that keeps growing, or refuse: increments per doubling like k^-a, a > 1, sum up."""
    middle, last = 512, 1023
    at = np.searchsorted(theta, np.exp2([middle - 1.0, last - 1.0]) + theta[0])
    early, late = np.abs(np.diff(values)[at])
    if late > 0.0 and -math.log(late / early) / math.log(last / middle) < 0.9:
        return math.inf
    msg = (
        "the limit of the mean as theta grows without bound could not be found: "
        "it still changes at theta = 1e308, but too slowly to tell where it ends; give a finite upper"
    )
    raise ValueError(msg)


def _require_numbers(theta: Array, values: Array) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        i = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[i]) else "infinite"
        msg = f"the response is {what} at theta = {theta[i]:.6g}; restrict lower and upper to where it is finite"
        raise ValueError(msg)


def _rounding(rise: Array, magnitude: float) -> Array:
    """Return what float64 cannot tell apart at each grid point."""
    return np.asarray(ROUNDINGS * EPS * (np.abs(rise) + magnitude))


def _require_one_direction(excess: Function, theta: Array, values: Array, magnitude: float) -> None:
    step, noise = np.diff(values), _rounding(values, magnitude)
    moves = np.flatnonzero(np.abs(step) > noise[1:] + noise[:-1])
    turns = np.flatnonzero(np.diff(np.sign(step[moves])))
    if not turns.size:
        return
    from scipy.optimize import minimize_scalar

    before, after = moves[turns[0]], moves[turns[0] + 1]
    a, b = theta[before], theta[after + 1]
    up = float(np.sign(step[before]))
    peak = minimize_scalar(
        lambda t: -up * float(excess(np.array([t]))[0]),
        bounds=(a, b),
        method="bounded",
        options={"xatol": 1e-9 * (b - a)},
    ).x
    first, then = ("rises", "falls") if up > 0 else ("falls", "rises")
    msg = (
        f"the response turns at theta = {peak:.6g} ({first} before, {then} after): "
        "a reading would have two roots; split the domain there"
    )
    raise ValueError(msg)


def _refine(excess: Function, sign: float, theta: Array, rise: Array) -> tuple[Array, Array]:
    """Put seven more points into each cell whose slope is below both of its neighbours' (at most 48 cells)."""
    with np.errstate(over="ignore"):
        slope = np.diff(rise) / np.diff(theta)
    padded = np.concatenate([[np.inf], slope, [np.inf]])
    low = np.flatnonzero((slope <= padded[:-2]) & (slope <= padded[2:]))
    low = low[np.argsort(slope[low], kind="stable")][:48]
    inner = np.arange(1.0, 8.0) / 8.0
    more = (theta[low, None] + (theta[low + 1] - theta[low])[:, None] * inner).ravel()
    more = np.setdiff1d(more, theta)
    if not more.size:
        return theta, rise
    merged = np.concatenate([theta, more])
    order = np.argsort(merged, kind="stable")
    return merged[order], np.concatenate([rise, sign * excess(more)])[order]


def _require_no_plateau(
    excess: Function, sign: float, theta: Array, rise: Array, magnitude: float, to_limit: bool
) -> None:
    """Refuse a true plateau; accept the flat look that rounding gives to a vanishing slope.

    Just outside a flat stretch of width w, a smooth response of order p has risen by about 2^p roundings after
    another w; after a plateau (or in the float64 saturation of a mean) it has risen by very many.
    """
    noise = _rounding(rise, magnitude)
    level = np.diff(rise) <= noise[1:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], level, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if to_limit and last == len(theta) - 1:
            continue  # the mean has come within rounding of its limit at infinity
        a, b = theta[first], theta[last]
        if b - a <= ROUNDINGS * EPS * max(abs(a), abs(b)):
            continue  # neighbours among the floats: theta / 1e6 near 1e6 may well be the same for them
        around = np.clip(np.array([a - (b - a), b + (b - a)]), theta[0], theta[-1])
        before, after = sign * excess(around)
        jump = max(rise[first] - before, after - rise[last])
        if jump > KINK * max(noise[last], np.finfo(np.float64).tiny):
            msg = (
                f"the response is flat (to float64) between theta = {a:.6g} and {b:.6g}: "
                "readings there have no single root; leave that stretch out of [lower, upper], "
                "or give the exact excess with MeanResponse.from_excess"
            )
            raise ValueError(msg)
