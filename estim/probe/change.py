"""Power of the chi-square test for a change, through survival functions that hold in the far tail."""

import math

import numpy as np


def change_power(shift: float, degrees: int, confidence_level: float) -> float:
    """Return P(chi-square of noncentrality shift^2 exceeds its critical value); 0 without degrees of freedom."""
    from scipy import stats

    if math.isinf(shift):
        return 1.0
    if degrees == 0:
        return 0.0
    critical = stats.chi2.isf(1.0 - confidence_level, degrees)
    if shift == 0.0:
        return 1.0 - confidence_level
    if shift > 1e3 + 2.0 * math.sqrt(critical):
        return 1.0  # tens of standard deviations beyond the critical value: 1 to the last bit
    return float(stats.ncx2.sf(critical, degrees, shift * shift))


def detectable_shift(degrees: int, power: float, confidence_level: float) -> float:
    """Return the shift, in whitened standard deviations, at which the power is reached.

    Raises
    ------
    ValueError
        When the power does not exceed the false-alarm rate: the test reaches that without any change.
    """
    from scipy import optimize

    alarm = 1.0 - confidence_level
    if power <= alarm:
        msg = f"power must exceed the false-alarm rate {alarm:.6g} = 1 - confidence_level; got {power!r}"
        raise ValueError(msg)
    if degrees == 0:
        return math.inf
    low, high = 1e-8, 1.0
    while change_power(high, degrees, confidence_level) < power:
        low, high = high, 2.0 * high
    root = optimize.brentq(
        lambda shift: change_power(shift, degrees, confidence_level) - power,
        low,
        high,
        xtol=1e-14,
        rtol=4.0 * np.finfo(float).eps,
    )
    return float(root)
