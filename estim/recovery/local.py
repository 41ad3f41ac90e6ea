"""A response near one theta, without the cancellation of m(theta + t) - m(theta).

notation: rise(theta + t) - rise(theta) = t R(t) for |t| <= T, R a Chebyshev series; u = t R(t) the change of the mean.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from estim.recovery.monotone import EPS

if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]

POINTS = 16  # an even number, so that no node lies at t = 0, where the quotient is 0/0


@dataclass(frozen=True)
class Local:
    """The difference quotient R as a series in t/T, with the relative error of its values."""

    half_width: float
    series: Array
    error: float

    @property
    def slope(self) -> float:
        """R(0): the derivative of the rise at theta."""
        return float(chebyshev.chebval(0.0, self.series))

    def difference(self, t: Array) -> Array:
        """Return rise(theta + t) - rise(theta) for |t| <= T."""
        return np.asarray(t * chebyshev.chebval(t / self.half_width, self.series))

    def inverse(self) -> tuple[float, Array]:
        """Return W and the power series c with t = sum_k c_k (u/W)^(k+1), for |u| <= W."""
        width = float(np.abs(self.difference(np.array([-self.half_width, self.half_width]))).min())
        for _ in range(40):
            series = self._inverse_series(width)
            # R may be a short polynomial whose inverse is a long series: theta^9 from 1/4 to 3/4, or a near-plateau.
            if np.abs(series[-3:]).max() <= 4.0 * EPS * abs(series[0]):
                break
            width *= 0.5
        return width, np.asarray(chebyshev.cheb2poly(series), np.float64)

    def _inverse_series(self, width: float) -> Array:
        """Return t/v as a Chebyshev series in v = u / width."""
        derivative = chebyshev.chebder(self.series)
        v = chebyshev.chebpts1(POINTS)
        t = v * width / self.slope
        for _ in range(12):  # Newton; where it does not converge, neither does the series, and a smaller width is tried
            x = np.clip(t / self.half_width, -1.0, 1.0)
            r = chebyshev.chebval(x, self.series)
            t = t - (t * r - v * width) / (r + x * chebyshev.chebval(x, derivative))
        return np.asarray(chebyshev.chebfit(v, t / v, POINTS - 1))


def local_difference(response: "MeanResponse", theta: float) -> Local | None:
    """Return the widest local series that reaches rounding, or None at an end of the domain or on a kink."""
    rise = response._rise
    here = float(rise(np.array([theta]))[0])
    half_width = 0.5 * min(theta - response.lower, response.upper - theta)
    for _ in range(60):
        if half_width <= 1e6 * EPS * abs(theta) or half_width == 0.0:
            return None
        t = half_width * chebyshev.chebpts1(POINTS)
        # theta + t is rounded: the quotient must be taken with the step really made.
        made = (theta + t) - theta
        with np.errstate(over="ignore", invalid="ignore"):
            quotient = (rise(theta + t) - here) / made
        if not np.isfinite(quotient).all() or quotient.min() <= 0.0:  # it overflows there, or rounding is all there is
            half_width *= 0.5
            continue
        series = chebyshev.chebfit(made / half_width, quotient, POINTS - 1)
        noise = EPS + (EPS * here + response.rounding) / float(np.abs(quotient * half_width).min())
        if np.abs(series[-3:]).max() <= 8.0 * noise * abs(series[0]):
            # The largest quotients carry the largest roundings into R(0).
            error = 16.0 * noise * float(quotient.max()) / abs(float(series[0]))
            return Local(half_width, np.asarray(series, np.float64), error)
        half_width *= 0.5
    return None
