"""Power of the test for a change, through survival functions that hold in the far tail.

notation: the projected shift z has k independent entries of one variance; z'z over that variance is chi-square with k
degrees of freedom, noncentrality shift^2. With the variance estimated from nu degrees of freedom, z'z / (k s^2) is F.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

#: Standard deviations that change no bit of a probability; the noncentral F of the squares of less is no number.
NOTHING = 1e-20
# Beyond it the series of the noncentral F ends too early.
_FAR = 3e4
#: So many standard deviations beyond the critical value the power is 1 to the last bit.
_CERTAIN = 1e3
#: Beyond it no root is sought.
FARTHEST = 1e150
NEAREST = 1e-150
# First step away from a guess.
_NEAR = 1.003


@lru_cache(maxsize=64)  # roots of the power ask for the same one dozens of times
def critical_value(degrees: int, level: float, noise_degrees: float = math.inf) -> float:
    """Return what z'z, over the variance known or estimated, exceeds with probability `level` without a change."""
    from scipy import stats

    if degrees == 0:
        return math.inf
    if math.isinf(noise_degrees):
        return float(stats.chi2.isf(level, degrees))
    return float(degrees * stats.f.isf(level, degrees, noise_degrees))


def change_p_value(statistic: float, degrees: int, noise_degrees: float = math.inf) -> float:
    """Return the probability of so large a z'z, over the variance, without a change; 1 without degrees of freedom."""
    from scipy import stats

    if degrees == 0:
        return 1.0
    if math.isinf(noise_degrees):
        return float(stats.chi2.sf(statistic, degrees))
    return float(stats.f.sf(statistic / degrees, degrees, noise_degrees))


def change_powers(shifts: Array, degrees: int, level: float, noise_degrees: float = math.inf) -> Array:
    """Return, for each shift, P(z'z over the variance exceeds its critical value); 0 without degrees of freedom."""
    from scipy import stats

    if degrees == 0:
        return np.where(np.isinf(shifts), 1.0, 0.0)
    critical = critical_value(degrees, level, noise_degrees)
    power = np.where(shifts > NOTHING, 1.0, level)
    within = (shifts > NOTHING) & (shifts <= _CERTAIN + 2.0 * math.sqrt(critical))
    squares = np.square(shifts[within])
    if math.isinf(noise_degrees):
        power[within] = stats.ncx2.sf(critical, degrees, squares)
        return np.asarray(power)
    near = np.minimum(squares, _FAR**2)
    found = stats.ncf.sf(critical / degrees, degrees, noise_degrees, near)
    # So far out the length has no noise beside its estimate's.
    beyond = stats.chi2.cdf(noise_degrees * squares / critical, noise_degrees)
    power[within] = np.where(squares > _FAR**2, beyond, found)
    return np.asarray(power)


def change_power(shift: float, degrees: int, confidence_level: float) -> float:
    """Return P(z'z exceeds its critical value) at that shift, the noise known; 0 without degrees of freedom."""
    return float(change_powers(np.array([shift]), degrees, 1.0 - confidence_level)[0])


def detectable_shift(degrees: int, power: float, confidence_level: float, noise_degrees: float = math.inf) -> float:
    """Return the shift, in whitened standard deviations, at which the power is reached.

    Raises
    ------
    ValueError
        When the power does not exceed the false-alarm rate: the test reaches that without any change.
    """
    alarm = 1.0 - confidence_level
    if power <= alarm:
        msg = f"power must exceed the false-alarm rate {alarm:.6g} = 1 - confidence_level; got {power!r}"
        raise ValueError(msg)
    return shift_detected(degrees, power, alarm, noise_degrees)


@lru_cache(maxsize=64)
def shift_detected(degrees: int, power: float, level: float, noise_degrees: float = math.inf) -> float:
    """Return the shift at which a test at a level has the power; infinite without degrees of freedom."""
    if degrees == 0:
        return math.inf
    return first_reaching(
        lambda shift: float(change_powers(np.array([shift]), degrees, level, noise_degrees)[0]), power
    )


def first_reaching(
    rising: Callable[[float], float],
    target: float,
    *,
    start: float | None = None,
    near: float | None = None,
    rtol: float = 4.0 * EPS,
) -> float:
    """Return where a rising function of a positive number, from `start` on, reaches the target; infinite if never.

    Zero where all that are sought reach it. `near` is a guess.
    """
    from scipy import optimize

    rising = cache(rising)  # the ends of a bracket are asked for again
    first, step = (1.0 if start is None else start, 2.0) if near is None else (near, _NEAR)
    reached = rising(first) >= target
    if reached and start is not None:
        return start
    low, high = _bracket(rising, target, first, 1.0 / step if reached else step)
    if low == high:
        return 0.0 if reached else math.inf
    while high > 4.0 * low:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if rising(middle) >= target else (middle, high)
    return float(optimize.brentq(lambda place: rising(place) - target, low, high, xtol=1e-14 * high, rtol=rtol))


def _bracket(rising: Callable[[float], float], target: float, first: float, step: float) -> tuple[float, float]:
    """Step away until the target is reached, or is not any more; an end of what is sought twice where neither is."""
    near, far = first, first * step
    while (rising(far) >= target) is (step < 1.0):
        step *= step
        near, far = far, min(max(far * step, NEAREST), FARTHEST)
        if near == far:
            break
    return min(near, far), max(near, far)
