"""Exact moments of the clipped and inverted reading, without its inverse.

The estimate exceeds theta exactly when the reading exceeds m(theta). So for h(t) = t and t^2, integrated by parts,

    E[estimate - truth]     = integral of Q(z(t)) over t > 0, minus the same over t < 0,
    E[(estimate - truth)^2] = 2 integral of |t| Q(|z(t)|) over all t,

with t = theta - truth inside the domain, z(t) = (m(truth + t) - m(truth)) / sigma signed to increase, and Q the upper
tail of the normal. The atoms at both ends are in it, no derivative is needed, nothing of the second integral cancels,
and the integrands are smooth where the response is, a vanishing slope included.

Gauss-Legendre panels, all noise levels and both sides at once, are halved until the error of each is small.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.recovery.local import Local
from estim.recovery.monotone import EPS, Monotone

if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]

REACH = 12.0  # Q(12) = 2e-33: what lies beyond is below rounding unless theta grows by 1e10 there, which is bounded
NODES = 44  # enough for most panels to pass at the first try
RTOL = 1e-11
#: Where rounding of m(truth + t) - m(truth) moves z by more than this, the local series takes its place.
CANCELLATION = 1e-12
#: Of nodes and weights (good to some 1e-15), of the normal tail, and of sums of that many terms.
ARITHMETIC = 16.0 * EPS
#: How far the polynomial of a panel may miss Q at its ends where there is no time for more panels.
UNSEEN = 0.1
DEEPEST = 60
SECANTS = 40
FARTHEST = 37.0  # Q(37) = 6e-300
#: Noise that nobody declared may shake every panel: what is left of their error is then reported, not halved.
MOST_PANELS = 1 << 14

_NODE, _WEIGHT = np.polynomial.legendre.leggauss(NODES)
_PLACE = np.concatenate([[0.0], 0.5 * (1.0 + _NODE), [1.0]])


def _legendre_bands() -> Array:
    """Return the map from values at the nodes to three bands of four Legendre coefficients: first, middle, last."""
    degree = np.concatenate([np.arange(4), NODES // 2 - 2 + np.arange(4), NODES - 4 + np.arange(4)])
    basis = np.polynomial.legendre.legvander(_NODE, NODES - 1)[:, degree]
    return np.ascontiguousarray((basis * _WEIGHT[:, None] * (degree + 0.5)).T)


_BANDS = _legendre_bands()
#: Part of a panel between an end and the second node from it: what it does not see lies there.
_EDGE = float(_PLACE[2])
#: From values at the nodes to those of their polynomial at the two ends of the panel.
_AT_ENDS = (np.polynomial.legendre.legvander(_NODE, NODES - 1) * _WEIGHT[:, None]) @ (
    (np.arange(NODES) + 0.5)[:, None] * np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), NODES - 1).T
)


@dataclass(frozen=True)
class Moments:
    """Bias, RMSE and clipped fractions along sigma, with the relative error of the RMSE."""

    bias: Array
    rmse: Array
    clipped_low: Array
    clipped_high: Array
    relative_error: Array
    beyond: Array
    """The part of that error which readings beyond the reach may have."""


def exact_moments(response: "MeanResponse", truth: float, local: Local | None, sigma: Array) -> Moments:
    """Integrate for every sigma (1-D, positive) at once; `local` is the response near the truth, if known better."""
    from scipy.special import ndtr

    rise, grid, upper = response._rise, response._grid, response.upper
    here = float(rise(np.array([truth]))[0])
    lower, levels = float(grid.theta[0]), len(sigma)
    both, sign = np.concatenate([sigma, sigma]), np.repeat([-1.0, 1.0], levels)
    blur = (2.0 * EPS * here + response.rounding) / sigma
    near, length = _near_window(local, REACH * sigma, blur)
    if not near.all():
        outer = _window(rise, grid, here, sign * (REACH * both), upper, truth)
        length = np.where(np.concatenate([near, near]), length, np.abs(outer - truth))

    def difference(t: Array, row: npt.NDArray[np.intp]) -> Array:
        inside = np.minimum(np.maximum(truth + t, lower), upper)
        if local is None or not near.any():
            return rise(inside) - here
        close = near[row % levels]
        change = np.empty(t.shape)
        change[close] = local.difference(t[close])
        change[~close] = rise(inside[~close]) - here
        return change

    # Where rounding shakes the integrand by more, halving panels would not make them any better, only many.
    blur = np.where(near, local.error if local is not None else 0.0, blur)
    tolerance = np.maximum(RTOL, np.concatenate([blur, blur]))
    # In units of the window, in which no square overflows or vanishes, whatever those of theta.
    unit = np.maximum(length[:levels], length[levels:])
    # Where even there a square is none that float64 holds, the error is not known, and says so.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first, second, error = _integrate(difference, both, sign, length, np.concatenate([unit, unit]), tolerance)
        bias = first[levels:] - first[:levels]
        square = 2.0 * (second[:levels] + second[levels:])
        relative = (error[:levels] + error[levels:]) / square
        beyond = _beyond(grid, here, truth, upper, sigma, unit) / square
        rmse = unit * np.sqrt(square)
        blur += np.where(near, 0.0, EPS * abs(truth) / rmse)  # truth + t is rounded
    # Of the RMSE: half that of its square; a shift of every z by its rounding moves it by less than that, relative.
    relative = ARITHMETIC + np.where(np.isfinite(square) & (square > 1e-290), relative, np.inf) + blur
    high = ndtr(-(grid.supremum - here) / sigma)
    return Moments(unit * bias, rmse, ndtr(-here / sigma), high, relative + beyond, beyond)


def _near_window(local: Local | None, reach: Array, blur: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """Return which levels need the local series (and stay inside it), and |t| a little beyond the reach, twice."""
    if local is None or not (blur > CANCELLATION).any():
        return np.zeros(len(reach), bool), np.zeros(2 * len(reach))
    length = np.minimum(1.2 * reach / local.slope, local.half_width)
    ends = np.minimum(local.difference(length), -local.difference(-length))
    return (ends >= reach) & (blur > CANCELLATION), np.concatenate([length, length])


def _beyond(grid: Monotone, here: float, truth: float, upper: float, sigma: Array, unit: Array) -> Array:
    """Bound the integrals of t Q beyond the reach, in the units given: Q falls, so that each cell has its first Q.

    They are next to nothing but where theta grows like an exponential of the mean, as that of a logarithm does.
    """
    bound = np.zeros(sigma.shape)
    farthest = max(upper - truth, truth - float(grid.theta[0]))
    if np.isfinite(farthest) and 1e-6 * farthest <= unit.min():
        return bound
    for side in (grid.theta > truth, grid.theta < truth):
        t, change = np.abs(grid.theta[side] - truth), np.abs(grid.rise[side] - here)
        order = np.argsort(t)
        t, change = t[order], change[order]
        first = max(int(np.searchsorted(change, REACH * sigma.min(), side="right")) - 1, 0)
        t, z = t[first:], np.maximum(change[first:] / sigma[:, None], REACH)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            tail = -0.5 * z * z - np.log(z * math.sqrt(2.0 * math.pi))  # log Q(z) is less than that
            volume = np.log(np.diff(t)) + np.log(0.5 * t[1:] + 0.5 * t[:-1]) - 2.0 * np.log(unit[:, None])
            cells = np.where(z[:, 1:] > REACH, np.exp(volume + tail[:, :-1]), 0.0)
            bound += cells.sum(axis=1)
    if np.isinf(upper):  # behind the last cell theta is no float
        bound[(grid.rise[-1] - here) / sigma < FARTHEST] = np.inf
    return bound


def _window(
    rise: Callable[[Array], Array], grid: Monotone, here: float, reach: Array, upper: float, truth: float
) -> Array:
    """Return thetas whose rises are at or a little beyond here + reach (of either sign), or the end of the domain.

    Starts from the checked grid and moves the far side in by secants; a window half as wide again costs less than a
    root.
    """
    target, goal, up = here + reach, np.abs(reach), reach > 0.0
    side = np.searchsorted(grid.rise, target)
    last = len(grid.theta) - 1
    outer = grid.theta[np.minimum(np.maximum(np.where(up, side, side - 1), 0), last)]
    outer[target >= grid.supremum] = upper
    inside = (target > 0.0) & (target < grid.supremum)
    inner = np.full(target.shape, truth)
    for trial in range(SECANTS + 1100):
        overshoot = np.abs(rise(outer) - here) / goal
        wide = inside & (overshoot > 1.5)
        if not wide.any():
            break
        # Where the grid is far coarser than the response, secants creep along from the inner side: halve, then.
        part = np.minimum(1.2 / np.maximum(overshoot, 1.0), 0.5) if trial < SECANTS else 0.5
        guess = inner + (outer - inner) * part
        beyond = np.abs(rise(guess) - here) >= goal
        outer = np.where(wide & beyond, guess, outer)
        inner = np.where(wide & ~beyond, guess, inner)
    return outer


def _integrate(
    difference: Callable[[Array, npt.NDArray[np.intp]], Array],
    sigma: Array,
    sign: Array,
    length: Array,
    unit: Array,
    tolerance: Array,
) -> tuple[Array, Array, Array]:
    """Return, for each row, the integrals of Q and of t Q over t in [0, length], and the error left in the second.

    They are those of t in the units given, one a row. The tolerance of a row is relative to the second and, for the
    first, to the root-mean-square that comes of it.
    """
    from scipy.special import ndtr

    rows = len(length)
    totals, error = np.zeros((2, rows)), np.zeros(rows)
    row = np.flatnonzero(length > 0.0)
    start, size = np.zeros(len(row)), length[row] / unit[row]
    for depth in range(DEEPEST):
        t = start[:, None] + size[:, None] * _PLACE
        which = np.repeat(row, t.shape[1])
        change = difference((sign[row, None] * unit[row, None] * t).ravel(), which).reshape(t.shape)
        q = ndtr(np.abs(change) / -sigma[row, None])
        ends, tail = q[:, [0, -1]], np.ascontiguousarray(q[:, 1:-1])
        weighted = tail * t[:, 1:-1]
        half = 0.5 * size
        first = half * (weighted @ _WEIGHT)
        left, left_bias = half * _panel_error(np.concatenate([weighted, tail])).reshape(2, -1)
        unseen = _unseen(tail, ends)
        edge = size * _EDGE
        left += edge * (unseen * np.stack([start + edge, start + size], axis=1)).sum(axis=1)
        left_bias += edge * unseen.sum(axis=1)
        scale = (totals[1] + np.bincount(row, first, rows))[row]
        done = (left <= tolerance[row] * scale) & (left_bias <= tolerance[row] * np.sqrt(2.0 * scale))
        seen = unseen.max(axis=1) < UNSEEN
        done |= seen & ((scale == 0.0) | (len(row) > MOST_PANELS)) | (depth == DEEPEST - 1)
        kept = done.astype(np.float64)
        totals[0] += np.bincount(row, kept * half * (tail @ _WEIGHT), rows)
        totals[1] += np.bincount(row, kept * first, rows)
        error += np.bincount(row, kept * left, rows)
        if done.all():
            break
        row, size = np.repeat(row[~done], 2), np.repeat(0.5 * size[~done], 2)
        start = np.repeat(start[~done], 2)
        start[1::2] += size[1::2]
    return totals[0], totals[1], error


def _unseen(tail: Array, ends: Array) -> Array:
    """Return what a panel does not see of Q between its ends and the nodes beside them, shape (rows, 2).

    All nodes may lie behind a steep rise, at the truth say, and see but the small tail that follows. What their
    polynomial misses of Q at an end is that, but for what its own series leaves out.
    """
    head, _, last = np.abs(_BANDS @ tail.T).reshape(3, 4, -1).max(axis=1)
    known = NODES * (last + EPS * head)
    return np.asarray(np.maximum(np.abs(tail @ _AT_ENDS - ends) - known[:, None], 0.0))


def _panel_error(values: Array) -> Array:
    """Bound the error of the Gauss rule on each row of values, relative to a panel of length 2.

    The rule with n nodes is exact to degree 2n - 1, so its error is about the Legendre coefficient of that degree.
    For an integrand smooth on the panel coefficients fall geometrically or faster, and that coefficient is the square
    of the last one found, relative to the first. They do so when the last band has fallen at least 1.6 times as many
    decades as the middle one; else (a kink, an end with a root) the last one itself is the bound.
    """
    head, middle, last = np.maximum(np.abs(_BANDS @ values.T).reshape(3, 4, -1).max(axis=1), np.finfo(float).tiny)
    fallen = last / head
    geometric = fallen <= np.minimum(middle / head, 1.0) ** 1.6
    return np.asarray(last * np.where(geometric, np.minimum(10.0 * fallen, 1.0), 1.0) + 4.0 * EPS * head)
