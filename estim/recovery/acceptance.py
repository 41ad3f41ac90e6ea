"""Acceptance regions and their inversion for a unit normal whose mean lies in [0, width].

The reading x has mean mu. The likelihood ratio of mu against the best mean clip(x, 0, width) is exp(-q/2) with

    q = (x - mu)^2                       for x inside [0, width],
    q = mu (mu - 2 x)                    below it,
    q = (width - mu) (2 x - width - mu)  above it.

Feldman and Cousins (1998, doi:10.1103/PhysRevD.57.3873) accept for each mu the readings of smallest q that hold the
confidence level: an interval [mu - d1, mu + d2] at whose ends q is the same. As mu grows, d1 never grows and d2 never
falls, so both ends of the region rise at slope one or more, and the means that accept a reading are one interval.

Everything is in units of the noise, and every length is measured from the end of the domain that it is near: a width
of 1e-70 and a reading at 40 cost no digits.

notation: ``below`` and ``above`` are the distances of a mean, or of a reading, from the lower and the upper end;
``own`` is the distance of the mean from the end that lies on the side of an acceptance limit, ``other`` that from the
opposite end; ``tails`` is one minus the confidence level.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Array = npt.NDArray[np.float64]

#: Where distances are to be cut, one without an end too: their products stay finite.
FARTHEST = 1e300


class Origin(IntEnum):
    """Where a limit's distance is measured from."""

    START = 0
    """The end of the domain that the limit looks towards: the lower one for a lower limit."""
    STOP = 1
    """The opposite end."""
    READING = 2
    """The reading."""


@dataclass(frozen=True)
class Limit:
    """A limit of an interval, as a distance in noise units from the place where it loses no digits."""

    distance: Array
    origin: npt.NDArray[np.int8]


def one_sided(tails: float) -> float:
    """Return the quantile that leaves all of `tails` on one side; not below 0, where q has its ties."""
    return max(-float(ndtri(tails)), 0.0)


def two_sided(tails: float) -> float:
    """Return the quantile that leaves half of `tails` on each side."""
    return -float(ndtri(0.5 * tails))


def reach(root: Array | float, end: Array) -> Array:
    """Return the distance from a mean at which sqrt(q) is `root`, on the side of a domain end at distance `end`."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        length = np.where(root <= end, root, 0.5 * (np.square(root) / end + end))
    return np.where(end > 0.0, length, np.inf)  # at 0, and at -0.0, all readings beyond are alike


def partner(limit: Array, own: Array, other: Array) -> Array:
    """Return the distance of the acceptance limit on the other side, where q is what it is at `limit`."""
    with np.errstate(over="ignore", invalid="ignore"):
        root = np.where(limit <= own, limit, np.sqrt(own * np.maximum(2.0 * limit - own, 0.0)))
    return reach(root, other)


def _excluded(limit: Array, own: Array, other: Array) -> Array:
    """Return the probability outside an acceptance region that has one limit at this distance."""
    outside: Array = ndtr(-limit) + ndtr(-partner(limit, own, other))
    return outside


def acceptance(below: Array, above: Array, tails: float) -> tuple[Array, Array]:
    """Find Feldman and Cousins' acceptance region [mu - d1, mu + d2] of each mean.

    Parameters
    ----------
    below, above : ndarray, shape (means,)
        Distance of the mean from either end of its domain, not negative; infinite without an end.
    tails : float
        One minus the confidence level.

    Returns
    -------
    d1, d2 : ndarray, shape (means,)
        Infinite towards an end where the mean lies on it.
    """
    own, other = np.maximum(below, above), np.minimum(below, above)
    most = np.full(own.shape, two_sided(tails))
    least = np.full(own.shape, one_sided(tails))
    near = _root(lambda d, f, n: _excluded(d, f, n) / tails - 1.0, most, least, own, other)
    near = np.where(other >= most, most, near)
    far = np.where(other >= most, most, partner(near, own, other))
    return np.where(below <= above, far, near), np.where(below <= above, near, far)


def feldman_cousins_limit(below: Array, above: Array, width: Array, tails: float) -> Limit:
    """Find the lowest mean whose acceptance region holds each reading.

    Parameters
    ----------
    below, above : ndarray, shape (readings,)
        How far the reading lies above the lower end and below the upper end of the domain; negative outside.
        Exchanged, they give the highest mean instead, measured from the opposite ends.
    width : ndarray, shape (readings,)
        ``below + above``, which may be lost in the sum. All three at most FARTHEST, which stands for no end.
    tails : float
        One minus the confidence level.

    Returns
    -------
    Limit

    Notes
    -----
    The unknown is the mean's distance from the nearer end. Feldman and Cousins' interval lies inside that of the
    likelihood ratio, whose limit is one end of the bracket; the best mean is the other.
    """
    quantile = two_sided(tails)
    at_end = below <= one_sided(tails)
    inside = ~at_end & (below >= 2.0 * quantile) & (above >= 0.0)
    sought = ~at_end & ~inside
    distance = np.where(inside, quantile, 0.0)
    origin = np.where(inside, Origin.READING, Origin.START).astype(np.int8)
    if sought.any():
        distance[sought], origin[sought] = _seek(below[sought], above[sought], width[sought], tails)
    return Limit(distance, origin)


def _seek(below: Array, above: Array, width: Array, tails: float) -> tuple[Array, npt.NDArray[np.int8]]:
    """Solve for the distance of the limit from the end it is near."""

    def accepted(t: Array, reading: Array, width: Array, from_below: Array) -> Array:
        """Compare the region that ends at the reading with the level; the mean is at t from the lower or upper end."""
        low = from_below > 0.5
        limit = np.maximum(np.where(low, reading - t, t - reading), 0.0)
        rest = width - t
        return _excluded(limit, np.where(low, rest, t), np.where(low, t, rest)) / tails - 1.0

    middle = 0.5 * width
    low = accepted(middle, below, width, np.ones(width.shape)) >= 0.0
    outer_below, outer_above = _likelihood_ratio_lowest(below, above, width, two_sided(tails))
    outer = np.minimum(np.where(low, outer_below, outer_above), middle)
    inner = np.where(low, np.minimum(below, middle), np.maximum(above, 0.0))
    reading = np.where(low, below, above)
    found = _root(accepted, outer, inner, reading, width, low.astype(np.float64))
    return found, np.where(low, Origin.START, Origin.STOP).astype(np.int8)


def likelihood_ratio_limit(below: Array, above: Array, width: Array, tails: float) -> Limit:
    """Return the lowest mean with q at most the chi-square quantile; arguments as for `feldman_cousins_limit`."""
    quantile = two_sided(tails)
    from_start, from_stop = _likelihood_ratio_lowest(below, above, width, quantile)
    low = from_start <= 0.5 * width
    inside = (from_start > 0.0) & (above >= 0.0)
    distance = np.where(inside, quantile, np.where(low, from_start, from_stop))
    origin = np.where(inside, Origin.READING, np.where(low, Origin.START, Origin.STOP))
    return Limit(distance, origin.astype(np.int8))


def _likelihood_ratio_lowest(below: Array, above: Array, width: Array, quantile: float) -> tuple[Array, Array]:
    """Return the distances of that mean from the lower and from the upper end: a root of a parabola, twice."""
    over = np.maximum(-above, 0.0)
    root = np.hypot(over, quantile)
    from_stop = np.where(above >= 0.0, above + quantile, quantile * (quantile / (root + over)))
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = (width * (below + over) - quantile**2) / (below + root)
    from_start = np.where(above >= 0.0, below - quantile, beyond)
    return np.clip(from_start, 0.0, width), np.clip(from_stop, 0.0, width)


def central_limit(below: Array, above: Array, width: Array, tails: float) -> Limit:
    """Return the quantile's distance below each reading, wherever the domain ends; arguments as above."""
    return Limit(np.full(below.shape, two_sided(tails)), np.full(below.shape, Origin.READING, dtype=np.int8))


def _root(function: Callable[..., Array], outer: Array, inner: Array, *args: Array) -> Array:
    """Find where a function, negative at `outer` and positive at `inner`, vanishes; an end where it is not so is it."""
    from scipy.optimize import elementwise

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        at_outer, at_inner = function(outer, *args), function(inner, *args)
        found = np.where(at_outer >= 0.0, outer, inner)
        open_ = (at_outer < 0.0) & (at_inner > 0.0)
        if open_.any():
            bracket = (outer[open_], inner[open_])
            found[open_] = elementwise.find_root(function, bracket, args=tuple(a[open_] for a in args)).x
    return found
