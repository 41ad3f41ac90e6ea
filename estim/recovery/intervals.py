"""Confidence intervals for one unknown that hold at the boundary of its domain, and their exact coverage.

A reading is normal around a known monotone mean, so everything is decided for the mean: a normal location problem on
the attainable range (see `estim.recovery.acceptance`). The interval is then carried to the parameter by the inverse of
the response, which keeps the order and so the coverage. Lengths are excesses over the mean at the lower end.

notation: ``rise`` is the excess times the sign that makes it nonnegative.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from estim.order_of_labels import require_one_order
from estim.real_numbers import probability, reals
from estim.recovery.acceptance import two_sided
from estim.recovery.arguments import check_sigma
from estim.recovery.interval_of_rise import METHODS, Method, coverage_of_rise, interval_of_rise
from estim.recovery.interval_record import ConfidenceInterval
from estim.recovery.notes import rounding_notes
from estim.recovery.response import MeanResponse, check_response

Array = npt.NDArray[np.float64]

# Coverage is drawn this many standard deviations from either end of the range; beyond, an end is not felt.
_SHOWN, _POINTS = 6.0, 61


def confidence_interval(
    response: MeanResponse,
    y: "npt.ArrayLike",
    sigma: "npt.ArrayLike",
    *,
    confidence_level: float = 0.95,
    method: Method = "feldman-cousins",
) -> ConfidenceInterval:
    """Find the parameters that agree with a reading, for each reading.

    Parameters
    ----------
    response : MeanResponse
        The known mean. Its domain is what is known of theta beforehand.
    y : array_like, any shape
        Readings, in their units, none NaN: leave out what is missing. An infinite reading gets the limit of the
        intervals of ever larger ones, the end of the domain that it points to (the central interval: an empty set,
        unless the mean has no bound there).
    sigma : array_like, broadcast against `y`
        Standard deviation of a reading's Gaussian noise, in the units of the readings; positive.
    confidence_level : float
        Strictly between 0 and 1, dimensionless.
    method : {"feldman-cousins", "central", "likelihood-ratio"}
        How readings are accepted:

        - "feldman-cousins": in the order of their likelihood ratio until the level is reached. Never empty; covers
          every theta with exactly the level (at levels below 0.5 the ends of the domain themselves with 0.5).
        - "central": the mean within the two-sided normal quantile of the reading, cut to the domain. Covers every
          theta with exactly the level, an empty set counting as a miss. Sets are empty, or surprisingly short, for
          readings outside the attainable range: a set in hand that is not empty is then no typical one.
        - "likelihood-ratio": twice the log likelihood ratio at most the chi-square quantile of one degree of freedom.
          Never empty. The quantile is right for a mean that has room on both sides; with less it is too large, and
          the interval covers more than the level: (1 + level) / 2 at an end of the domain, up to 1 when sigma is large
          beside the attainable range.

    Returns
    -------
    ConfidenceInterval
        Unpacks to ``low, high``, in the units of the parameter.

    Raises
    ------
    TypeError
        When `response` is not a MeanResponse, or `y`, `sigma` or `confidence_level` is not real.
    ValueError
        When `y` has a NaN; when `sigma` is empty, not positive or not finite, does not broadcast against `y`, or has
        its labels in another order; when `confidence_level` is not strictly between 0 and 1; when `method` is unknown.

    See Also
    --------
    coverage : the probability that the interval holds theta.

    Notes
    -----
    The limits of Feldman and Cousins solve the acceptance condition of a normal mean in [m(lower), m(upper)] by root
    finding, without a grid; in noise units they are good to 1e-12 or so. On an infinite domain where the mean tends to
    a limit, no reading excludes large theta once it comes within noise of that limit: `high` is then infinite.

    A reading holds the excess over m(lower) only to the rounding of the reading. Where the range is far below the
    mean, give the response baseline 0 and readings from which m(lower) has been taken.

    References
    ----------
    Feldman and Cousins (1998), Unified approach to the classical statistical analysis of small signals,
    doi:10.1103/PhysRevD.57.3873.

    Examples
    --------
    A reading of theta >= 0 itself, three standard deviations below, at, and two above zero:

    >>> import estim
    >>> identity = estim.MeanResponse(lambda t: t)
    >>> low, high = estim.confidence_interval(identity, [-3.0, 0.0, 2.0], 1.0)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.   , 0.355]), array([0.423, 1.96 , 3.96 ]))
    >>> estim.confidence_interval(identity, [-3.0, 0.0, 2.0], 1.0, method="central").empty
    array([ True, False, False])
    """
    confidence_level = _check(response, confidence_level, method)
    require_one_order(y, sigma, ("y", "sigma"))
    readings, levels = _broadcast(reals(y, "y"), sigma, "y")
    sign = 1.0 if response.increasing else -1.0
    rise = (sign * (readings - response.baseline)).ravel()
    top = response._grid.supremum
    low, high = interval_of_rise(rise, top, levels.ravel(), confidence_level, method)
    empty = (low > top) | (high < 0.0)
    limits = [_carry(response, sign, limit, empty).reshape(readings.shape) for limit in (low, high)]
    theta, shown = _along_domain(response, levels)
    return ConfidenceInterval(
        readings=readings, sigma=levels, low=limits[0], high=limits[1], empty=empty.reshape(readings.shape),
        confidence_level=confidence_level, method=method, response=response.name or repr(response), theta=theta,
        rise=shown, span=top,
        notes=_notes(response, levels, confidence_level, method, int(np.count_nonzero(empty))),
    )  # fmt: skip


def coverage(
    response: MeanResponse,
    theta: "npt.ArrayLike",
    sigma: "npt.ArrayLike",
    *,
    confidence_level: float = 0.95,
    method: Method = "feldman-cousins",
) -> Array | float:
    """Find the probability that the interval of a reading holds the true parameter.

    Parameters
    ----------
    response : MeanResponse
        The known mean.
    theta : array_like, any shape
        True parameters, inside the domain, in their units.
    sigma : array_like, broadcast against `theta`
        Standard deviation of a reading's Gaussian noise, in the units of the readings; positive.
    confidence_level, method
        As for `confidence_interval`.

    Returns
    -------
    float or ndarray, the broadcast shape of `theta` and `sigma`
        Exact: the normal probability between the limits of the acceptance region. Empty sets count as misses.

    Raises
    ------
    TypeError, ValueError
        As for `confidence_interval`, with `theta` for `y`; also when a theta lies outside the domain.

    See Also
    --------
    estim.plotting.plot_coverage : draws it against theta.

    References
    ----------
    Feldman and Cousins (1998), doi:10.1103/PhysRevD.57.3873.

    Examples
    --------
    >>> import estim
    >>> identity = estim.MeanResponse(lambda t: t)
    >>> estim.coverage(identity, [0.0, 1.0, 2.0], 1.0).round(4)
    array([0.95, 0.95, 0.95])
    >>> estim.coverage(identity, [0.0, 1.0, 2.0], 1.0, method="likelihood-ratio").round(4)
    array([0.975 , 0.9673, 0.95  ])
    """
    confidence_level = _check(response, confidence_level, method)
    require_one_order(theta, sigma, ("theta", "sigma"))
    truth, levels = _broadcast(response._inside(theta), sigma, "theta")
    top = response._grid.supremum
    rise = np.clip(response._rise(truth), 0.0, top) if truth.size else truth
    result = coverage_of_rise(rise, top, levels, confidence_level, method)
    return result if result.ndim else float(result)


def _along_domain(response: MeanResponse, sigma: Array) -> tuple[Array, Array]:
    """Return thetas that lie within `_SHOWN` times the largest noise of an end of the domain, and their rises."""
    if sigma.size == 0:
        return np.empty(0), np.empty(0)
    top = response._grid.supremum
    below = np.linspace(0.0, min(_SHOWN * float(sigma.max()), top), _POINTS)
    rise = np.union1d(below, top - below) if math.isfinite(top) else below
    theta = response.invert_excess(rise if response.increasing else -rise)
    shown = np.isfinite(theta)
    return np.asarray(theta)[shown], rise[shown]


def _check(response: MeanResponse, confidence_level: float, method: str) -> float:
    """Return the level as a float."""
    check_response(response)
    level = probability(confidence_level, "confidence_level")
    if not isinstance(method, str) or method not in METHODS:
        *most, last = map(repr, METHODS)
        msg = f"method must be {', '.join(most)} or {last}; got {method!r}"
        raise ValueError(msg)
    return level


def _broadcast(values: Array, sigma: "npt.ArrayLike", argument: str) -> tuple[Array, Array]:
    """Return values and noise levels of one shape; a missing value is refused."""
    missing = np.isnan(values)
    if missing.any():
        msg = f"{argument} must not be NaN; got one at entry {int(np.argmax(missing))}: leave out what is missing"
        raise ValueError(msg)
    levels = reals(sigma, "sigma", flags=False)
    levels = check_sigma(levels.ravel()).reshape(levels.shape)
    try:
        shape = np.broadcast_shapes(values.shape, levels.shape)
    except ValueError as error:
        msg = f"{argument} and sigma must broadcast; got shapes {values.shape} and {levels.shape}"
        raise ValueError(msg) from error
    return np.broadcast_to(values, shape), np.broadcast_to(levels, shape)


def _carry(response: MeanResponse, sign: float, rise: Array, empty: npt.NDArray[np.bool_]) -> Array:
    """Carry limits through the inverse of the response, cut to its domain."""
    inside = np.where(empty, np.nan, np.clip(rise, 0.0, response._grid.supremum))
    return np.asarray(response.invert_excess(sign * inside), dtype=np.float64)


def _notes(response: MeanResponse, sigma: Array, level: float, method: str, empty: int) -> tuple[str, ...]:
    if sigma.size == 0:
        return ()
    some = (f"{empty} of {sigma.size} intervals are empty.",) if empty else ()
    worst = float(sigma.max())
    covered = _coverage_notes(response._grid.supremum, worst, level, method)
    return (*some, *covered, *rounding_notes(response, sigma))


def _coverage_notes(span: float, sigma: float, level: float, method: str) -> tuple[str, ...]:
    """Say what a method that is not exact, or not always an interval, does over the domain at this noise."""
    quantile = two_sided(1.0 - level)
    if method == "feldman-cousins":
        return ()
    if method == "central":
        lost = float(ndtr(-quantile) + ndtr(-quantile - span / sigma))
        return (
            f"The central interval covers every theta with probability {level:.4g} when empty sets count as misses. At "
            f"sigma = {sigma:.3g} it is empty with probability up to {lost:.2g} (theta at an end of its domain), and "
            f"covers with probability up to {min(level / (1.0 - lost), 1.0):.4g} when it is not.",
        )
    covered = coverage_of_rise(np.linspace(0.0, min(0.5 * span, quantile * sigma), 101), span, sigma, level, method)
    return (
        f"The cutoff is the chi-square quantile of one degree of freedom: at sigma = {sigma:.3g} the interval covers "
        f"with probability {covered.min():.4g} to {covered.max():.4g} over the domain, not {level:.4g}.",
    )
