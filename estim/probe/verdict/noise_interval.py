"""Noise known to an interval only, and the level within it that makes a small shift likeliest.

notation: q the squared length of the observed shift, D the margin, v the variance of the noise, all in units of one
estimate; k degrees of freedom. P(v) = P(chi-square_k(D^2/v) <= q/v) is the probability of so small a shift.

Differentiation of P(v), with the density of the noncentral chi-square in Bessel functions, shows that it rises exactly
while A_k(D sqrt(q) / v) > sqrt(q) / D, where A_k = I_{k/2} / I_{k/2-1}. As A_k rises from 0 to 1, P(v) has one maximum,
at v = D sqrt(q) / A_k^-1(sqrt(q) / D), and falls throughout for q >= D^2.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Steps down in the order of the Bessel functions from where their ratio has a simple bound.
_ORDERS = 10
_NEWTON = 4
_BESIDE = 1e-13
_SETTLED = 1e-7
# Noncentralities beyond it are out of the reach of the noncentral chi-square's series, which takes seconds, then NaN.
_FAR = 1e9


@lru_cache(maxsize=64)
def variance_interval(noise_degrees: float, missed: float) -> tuple[float, float]:
    """Return the confidence interval of the true variance, in units of the estimate, that misses it so often."""
    from scipy import stats

    tail = 0.5 * missed
    low, high = stats.chi2.isf(tail, noise_degrees), stats.chi2.ppf(tail, noise_degrees)
    return float(noise_degrees / low), float(noise_degrees / high)


def largest_probability(statistic: Array | float, degrees: int, margins: Array, interval: tuple[float, float]) -> Array:
    """Return, for each margin, the largest P(v) for variances in an interval; two degrees of freedom or more."""
    variances = likeliest_variance(np.broadcast_to(statistic, margins.shape), degrees, margins, interval)
    return probability_below(statistic / variances, degrees, margins**2 / variances)


def likeliest_variance(statistics: Array, degrees: int, margins: Array, interval: tuple[float, float]) -> Array:
    """Return the variance in an interval at which so small a shift is likeliest."""
    lengths = np.sqrt(statistics)
    variances = np.full(margins.shape, interval[0])
    inside = (lengths > 0.0) & (lengths < margins)
    ratio, product = lengths[inside] / margins[inside], lengths[inside] * margins[inside]
    rising = _bessel_ratio(product / interval[1], degrees) >= ratio
    place = np.full(ratio.shape, interval[1])
    if not rising.all():
        place[~rising] = np.clip(product[~rising] / _concentration(ratio[~rising], degrees), *interval)
    variances[inside] = place
    return variances


def _concentration(ratio: Array, degrees: int) -> Array:
    """Return A_k^-1, that of the von Mises-Fisher distribution, for ratios below 1.

    Newton's method (Sra 2012, doi:10.1007/s00180-011-0232-x) from an approximation that is right at both ends; beside
    1, where it would divide rounding by rounding, that alone. The maximum of P(v) is flat: an error of 1e-4 of its
    place moves it by the square of that.
    """
    found = ratio * (degrees - ratio**2) / ((1.0 - ratio) * (1.0 + ratio))
    open_ = 1.0 - ratio > np.sqrt(_BESIDE * degrees)
    for _ in range(_NEWTON):
        place, target = found[open_], ratio[open_]
        mean = _bessel_ratio(place, degrees)
        step = (mean - target) / (1.0 - mean**2 - (degrees - 1.0) * (mean / place))
        found[open_] = np.clip(place - step, 0.5 * place, 2.0 * place)
    return np.asarray(found)


def _bessel_ratio(place: Array, degrees: int) -> Array:
    """Return A_k, by its continued fraction down from Amos' bound (1974, doi:10.1090/S0025-5718-1974-0333287-7)."""
    order = 0.5 * degrees + _ORDERS
    ratio = place / (order - 0.5 + np.hypot(order + 0.5, place))
    for _ in range(_ORDERS):
        order -= 1.0
        ratio = place / (2.0 * order + place * ratio)
    return np.asarray(ratio)


def largest_statistics(level: float, degrees: int, margins: Array, interval: tuple[float, float]) -> Array:
    """Return, for each margin, the largest q whose P(v) is at most the level for all variances in an interval.

    From the upper end: the quantile at one variance, the likeliest variance for it, and so on. No step raises q, and
    the maximum being flat, few are needed; where the upper end is the likeliest, none.
    """
    variances = np.full(margins.shape, interval[1])
    statistics = variances * quantile(level, degrees, margins**2 / variances)
    for _ in range(100):
        likeliest = likeliest_variance(statistics, degrees, margins, interval)
        moving = np.abs(likeliest - variances) > _SETTLED * variances
        if not moving.any():
            break
        variances[moving] = likeliest[moving]
        squares = margins[moving] ** 2
        statistics[moving] = variances[moving] * quantile(level, degrees, squares / variances[moving])
    return statistics


def quantile(level: float, degrees: int, noncentrality: Array) -> Array:
    """Return the lower quantile of the noncentral chi-square."""
    from scipy import stats

    found = stats.ncx2.ppf(level, degrees, np.minimum(noncentrality, _FAR))
    if noncentrality.max(initial=0.0) <= _FAR:
        return np.asarray(found)
    far = np.square(_far_length(degrees, noncentrality) - stats.norm.isf(level))
    return np.asarray(np.where(noncentrality > _FAR, far, found))


def probability_below(statistic: Array | float, degrees: int, noncentrality: Array) -> Array:
    """Return how often a noncentral chi-square is at most a statistic."""
    from scipy import stats

    # A statistic so much smaller than the noncentrality has none, and its series would be summed in vain.
    near = np.minimum(statistic, 4.0 * _FAR)
    found = stats.ncx2.cdf(near, degrees, np.minimum(noncentrality, _FAR))
    if noncentrality.max(initial=0.0) <= _FAR:
        return np.asarray(found)
    far = stats.norm.cdf(np.sqrt(statistic) - _far_length(degrees, noncentrality))
    return np.asarray(np.where(noncentrality > _FAR, far, found))


def _far_length(degrees: int, noncentrality: Array) -> Array:
    """Return the mean of the root of a noncentral chi-square far out, where it is normal of variance 1."""
    length = np.sqrt(np.maximum(noncentrality, _FAR))
    return np.asarray(length + (degrees - 1.0) / (2.0 * length))
