"""A known, strictly monotone mean response of one parameter, and its inverse.

Everything is done with the *excess* over the mean at the lower end of the domain. Near collapse the excess may be
1e-70 while the mean is 1: as a difference of two means nothing of it would be left in float64.

notation: ``rise`` is the excess times the sign that makes it nonnegative.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.real_numbers import real_number, reals
from estim.recovery.arguments import check_span, checked_table, finite_number, of_one_function
from estim.recovery.declared import check_derivative
from estim.recovery.functions import ArrayFunction
from estim.recovery.interpolated import table_excess
from estim.recovery.monotone import EPS, Monotone, check_monotone

Array = npt.NDArray[np.float64]


def check_response(response: Any) -> None:
    """Refuse what is no response."""
    if not isinstance(response, MeanResponse):
        made = ": estim.MeanResponse(function, lower=..., upper=...) makes one" if callable(response) else ""
        msg = f"response must be an estim.MeanResponse; got {type(response).__name__}{made}"
        raise TypeError(msg)


class MeanResponse:
    """A known, strictly monotone mean m(theta) for theta in [lower, upper].

    Monotonicity is checked once, here. Calls and inversions afterwards cost no checks beyond those of their argument.

    Parameters
    ----------
    function : callable
        ``function(theta) -> mean``, in the units of the readings. It may take a float or a 1-D array: which of the two
        is found out. It must be pure: it is called about three thousand times here.
    lower, upper : float
        The domain of theta, in the units of the parameter. `upper` may be infinite; the attainable range is then half
        open, and its limit is found, or refused with a sentence.
    derivative : callable, optional
        ``derivative(theta) -> d mean / d theta``. Without it, slopes come from the response's values.
    name : str, optional
        Shown in summaries and on plots.

    Raises
    ------
    TypeError
        When `function` or `derivative` is not callable.
    ValueError
        When the response turns, is flat on an interval, is constant, is NaN or infinite, raises, or returns the wrong
        shape: the message says at which theta. When `derivative` has the wrong sign or disagrees with `function`.

    See Also
    --------
    MeanResponse.from_excess : for responses whose range is small beside their mean.
    MeanResponse.from_table : for a measured curve.

    Notes
    -----
    A plain function carries the rounding of its mean: an excess below about ``eps |m|`` is noise. `rounding` is
    that bound, and `recover` says where it matters.

    Examples
    --------
    >>> import estim
    >>> dose = estim.MeanResponse(lambda d: 100 * d / (2.5 + d), upper=50.0, name="Michaelis-Menten")
    >>> float(dose.invert(50.0))
    2.5
    >>> dose.attainable
    (0.0, 95.238...)
    """

    @of_one_function
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        lower: float = 0.0,
        upper: float = math.inf,
        derivative: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._set_domain(lower, upper)
        self._mean: ArrayFunction | None = self._adopt(function, "function")
        self._excess: ArrayFunction | None = None
        self.baseline = self._at_lower(self._mean)
        self._finish(derivative, name, magnitude=abs(self.baseline))

    @classmethod
    @of_one_function
    def from_excess(
        cls,
        excess: Callable[..., Any],
        *,
        baseline: float = 0.0,
        lower: float = 0.0,
        upper: float = math.inf,
        derivative: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> "MeanResponse":
        """Make a response from its excess over the mean at `lower`, which loses nothing to cancellation.

        Parameters
        ----------
        excess : callable
            ``excess(theta) = m(theta) - m(lower)``, with full relative accuracy; zero at `lower`. Negative when the
            response decreases.
        baseline : float
            m(lower), in the units of the readings.
        lower, upper, derivative, name
            As for `MeanResponse`.

        Returns
        -------
        MeanResponse

        Raises
        ------
        TypeError, ValueError
            As for `MeanResponse`; also when ``excess(lower)`` is not zero.

        Examples
        --------
        >>> import estim
        >>> tiny = estim.MeanResponse.from_excess(lambda t: 1e-70 * t**2, baseline=1.0, upper=1.0)
        >>> float(tiny.invert_excess(1e-72))
        0.1
        """
        self = cls.__new__(cls)
        self._set_domain(lower, upper)
        self._mean, self._excess = None, self._adopt(excess, "excess")
        self.baseline = finite_number(baseline, "baseline")
        self._finish(derivative, name, magnitude=0.0)
        at_lower = self._at_lower(self._excess)
        if abs(at_lower) > EPS * abs(self._grid.supremum):
            msg = f"excess must be 0 at theta = lower ({self.lower:g}); got {at_lower:g}"
            raise ValueError(msg)
        return self

    @classmethod
    def from_table(cls, theta: "npt.ArrayLike", mean: "npt.ArrayLike", *, name: str | None = None) -> "MeanResponse":
        """Make a response from a table, by shape-preserving cubic interpolation (PCHIP).

        Parameters
        ----------
        theta : array_like, shape (points,)
            Strictly increasing; its ends are the domain.
        mean : array_like, shape (points,)
            Strictly increasing or strictly decreasing.
        name : str, optional
            Shown in summaries and on plots.

        Returns
        -------
        MeanResponse

        Raises
        ------
        ValueError
            When the two differ in length, there are fewer than two points, an entry is not finite, `theta` is not
            strictly increasing, or `mean` turns, is flat or has the labels of `theta` in another order: the message
            says where.

        References
        ----------
        Fritsch and Butland (1984), doi:10.1137/0905021, as implemented by `scipy.interpolate.PchipInterpolator`.

        Examples
        --------
        >>> import estim
        >>> float(estim.MeanResponse.from_table([0.0, 1.0], [1.0, 0.0]).invert(0.25))
        0.75
        """
        excess = table_excess(*checked_table(theta, mean))
        points, values = excess.points, excess.values
        return cls.from_excess(
            excess, baseline=float(values[0]), lower=float(points[0]), upper=float(points[-1]),
            derivative=excess.slope, name=name,
        )  # fmt: skip

    def _set_domain(self, lower: float, upper: float) -> None:
        self.lower, self.upper = finite_number(lower, "lower"), real_number(upper, "upper")
        if not self.upper > self.lower:
            msg = f"upper must be greater than lower; got lower = {lower!r}, upper = {upper!r}"
            raise ValueError(msg)
        if math.isfinite(self.upper):
            check_span(self.upper - self.lower, "upper - lower", also=", or be infinite")

    def _adopt(self, function: Callable[..., Any], argument: str) -> ArrayFunction:
        probes = self.lower + min(self.upper - self.lower, 1.0) * np.array([0.25, 0.5, 0.75])
        with np.errstate(all="ignore"):  # what it returns is judged on the grid, with the place
            return ArrayFunction(function, probes, argument)

    def _at_lower(self, function: ArrayFunction) -> float:
        with np.errstate(all="ignore"):
            value = float(function(np.array([self.lower]))[0])
        if not math.isfinite(value):
            msg = f"the response must be finite at theta = lower ({self.lower:g}); got {value!r}"
            raise ValueError(msg)
        return value

    def _finish(self, derivative: Callable[..., Any] | None, name: str | None, magnitude: float) -> None:
        self.name = None if name is None else str(name)
        self._grid: Monotone = check_monotone(self._raw_excess, self.lower, self.upper, magnitude)
        #: Absolute rounding of the excess in the units of the readings: eps |m(lower)| for a plain function (or eps
        #: times the terms that cancel there), 0 for an exact excess. Its relative rounding comes on top.
        self.rounding = EPS * self._grid.magnitude
        self._derivative = None
        if derivative is not None:
            self._derivative = self._adopt(derivative, "derivative")
            check_derivative(self._derivative, self._grid)

    def __repr__(self) -> str:
        """Show name, domain and attainable range."""
        low, high = self.attainable
        direction = "increasing" if self.increasing else "decreasing"
        name = f"{self.name!r}, " if self.name else ""
        return (
            f"MeanResponse({name}{direction}, theta in [{self.lower:g}, {self.upper:g}], mean in [{low:g}, {high:g}])"
        )

    @property
    def increasing(self) -> bool:
        """Whether the mean increases with theta."""
        return self._grid.sign > 0.0

    @property
    def attainable_excess(self) -> tuple[float, float]:
        """Smallest and largest excess over m(lower), in the units of the readings; a limit where upper is infinite."""
        top = self._grid.supremum
        return (0.0, top) if self.increasing else (-top, 0.0)

    @property
    def attainable(self) -> tuple[float, float]:
        """Smallest and largest mean, in the units of the readings; a limit where upper is infinite."""
        low, high = self.attainable_excess
        return self.baseline + low, self.baseline + high

    @property
    def has_derivative(self) -> bool:
        """Whether the derivative was given; if not, slopes come from the response's values."""
        return self._derivative is not None

    def _raw_excess(self, theta: Array) -> Array:
        if self._mean is not None:
            return self._mean(theta) - self.baseline
        assert self._excess is not None
        return self._excess(theta)

    def _rise(self, theta: Array) -> Array:
        """Evaluate the rise for theta of any shape, inside the domain; no checks."""
        return self._grid.sign * self._raw_excess(theta.ravel()).reshape(theta.shape)

    def _invert_rise(self, rise: Array) -> Array:
        """Invert 1-D rises that are not NaN, clipped to the attainable range."""
        from estim.recovery.inverse import invert_rise

        return invert_rise(self._rise, self._grid, self.upper, rise)

    def _inside(self, theta: "npt.ArrayLike") -> Array:
        values = reals(theta, "theta")
        outside = (values < self.lower) | (values > self.upper) | np.isinf(values)
        if outside.any():
            msg = f"theta must be finite and lie in [{self.lower:g}, {self.upper:g}]; got {values[outside].flat[0]:g}"
            raise ValueError(msg)
        return values

    def _map(self, function: Callable[[Array], Array], theta: "npt.ArrayLike") -> Any:
        """Apply a function of 1-D arrays to theta of any shape; NaN stays NaN."""
        values = self._inside(theta)
        result = np.full(values.shape, np.nan)
        known = ~np.isnan(values)
        if known.any():
            result[known] = function(values[known])
        return result[()]

    def __call__(self, theta: "npt.ArrayLike") -> Any:
        """Evaluate the mean.

        Parameters
        ----------
        theta : array_like, any shape
            Inside [lower, upper]. NaN stays NaN.

        Returns
        -------
        float or ndarray, the shape of `theta`
            In the units of the readings.

        Raises
        ------
        ValueError
            When a theta lies outside the domain.
        """
        return self.baseline + self.excess(theta) if self._mean is None else self._map(self._mean, theta)

    def excess(self, theta: "npt.ArrayLike") -> Any:
        """Evaluate m(theta) - m(lower); arguments, result and errors are those of calling the response."""
        return self._map(self._raw_excess, theta)

    def slope(self, theta: "npt.ArrayLike") -> Any:
        """Evaluate d mean / d theta; arguments, result and errors as for calling the response.

        Without a given derivative it comes from Chebyshev series through values of the response. At an end where the
        response has order p (excess like theta^p) it is exactly 0 for p > 1 and infinite for p < 1.
        """
        return self._map(self._slope, theta)

    def _slope(self, theta: Array) -> Array:
        if self._derivative is not None:
            return self._derivative(theta)
        from estim.recovery.slopes import slope

        return slope(self._rise, self._grid, self.lower, self.upper, theta, self.rounding)

    def invert(self, y: "npt.ArrayLike", *, clip: bool = True) -> Any:
        """Find theta with m(theta) = y.

        Parameters
        ----------
        y : array_like, any shape
            Readings, in their units. NaN stays NaN.
        clip : bool
            Whether a reading outside the attainable range is clipped to it; if not, its inverse is NaN.

        Returns
        -------
        float or ndarray, the shape of `y`
            In the units of the parameter, accurate to a few roundings of theta wherever y holds the information.
            Infinite for readings at or above the limit of a response on an infinite domain.

        Raises
        ------
        TypeError, ValueError
            When `y` is not real.

        Examples
        --------
        >>> import estim
        >>> square = estim.MeanResponse(lambda t: 4 - t**2, upper=2.0)
        >>> square.invert([3.0, 5.0, -1.0])
        array([1., 0., 2.])
        >>> square.invert([3.0, 5.0, -1.0], clip=False)
        array([ 1., nan, nan])
        """
        return self.invert_excess(reals(y, "y") - self.baseline, clip=clip)

    def invert_excess(self, e: "npt.ArrayLike", *, clip: bool = True) -> Any:
        """Find theta whose excess over m(lower) is e; arguments, result and errors as for `invert`."""
        rise = self._grid.sign * reals(e, "e")
        result = np.full(rise.shape, np.nan)
        known = ~np.isnan(rise) if clip else (rise >= 0.0) & (rise <= self._grid.supremum)
        if known.any():
            result[known] = self._invert_rise(rise[known])
        return result[()]
