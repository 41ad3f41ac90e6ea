"""A user's function of one parameter, seen as a function from arrays to arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.recovery.arguments import TABLES

Array = npt.NDArray[np.float64]


class ArrayFunction:
    """A scalar or vectorised Python function, called with one-dimensional arrays.

    Which of the two it is, is found out at two probe points: a function is vectorised when its answer to the
    array has the array's shape and equals its answers one by one. The object pickles when the function does.
    """

    def __init__(self, function: Callable[..., Any], probes: Array, argument: str) -> None:
        if not callable(function):
            hint = f"; {TABLES}" if hasattr(function, "__len__") and not isinstance(function, str) else ""
            msg = f"{argument} must be callable; got {type(function).__name__}{hint}"
            raise TypeError(msg)
        self.function = function
        self.argument = argument
        self.vectorized = False
        failures: list[Exception] = []
        try:
            together = self._together(probes)
        except Exception as error:
            failures.append(error)
            together = None
        try:
            singly = self._singly(probes)
        except Exception as error:
            failures.append(error)
            singly = None
        if together is None and singly is None:
            raise failures[-1]
        self.vectorized = together is not None and (
            singly is None or np.allclose(together, singly, rtol=1e-12, atol=0.0, equal_nan=True)
        )

    def __call__(self, theta: Array) -> Array:
        """Evaluate at every entry of a one-dimensional array.

        Silently: 1 / (1 + (k / theta)**h) is right at theta = 0 although it divides by zero on the way.
        """
        with np.errstate(all="ignore"):
            return self._together(theta) if self.vectorized else self._singly(theta)

    def _together(self, theta: Array) -> Array:
        try:
            # A copy, so that a function which writes into its argument does no harm here.
            value = self.function(theta.copy())
        except Exception as error:
            msg = f"{self.argument} raised {error!r} for theta between {theta.min():.6g} and {theta.max():.6g}"
            raise ValueError(msg) from error
        return self._real(value, theta.shape, theta)

    def _singly(self, theta: Array) -> Array:
        values = np.empty(theta.shape)
        for i, one in enumerate(theta.tolist()):
            try:
                value = self.function(one)
            except OverflowError:  # what Python's math says where NumPy says inf
                value = np.inf
            except Exception as error:
                msg = f"{self.argument} raised {error!r} at theta = {one:.6g}"
                raise ValueError(msg) from error
            values[i] = self._real(value, (), np.array(one))
        return values

    def _real(self, value: Any, shape: tuple[int, ...], theta: Array) -> Array:
        if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == shape:
            return value
        try:
            array = np.asarray(unmasked(value))
        except Exception as error:
            msg = f"{self.argument} must return real numbers; at theta = {theta!r} it returned {value!r}"
            raise ValueError(msg) from error
        if array.shape != shape:
            msg = f"{self.argument} must return shape {shape} for theta of that shape; got shape {array.shape}"
            raise ValueError(msg)
        if array.dtype in (np.float32, np.float16):
            msg = (
                f"{self.argument} must compute in float64; it returned {array.dtype}, "
                "whose rounding hides small changes (convert its parameters, not its result)"
            )
            raise ValueError(msg)
        if array.dtype.kind == "O":  # Fraction, Decimal, mpmath.mpf
            array = np.array([_number(entry, self.argument) for entry in array.flat]).reshape(shape)
        if array.dtype.kind not in "biuf":
            msg = f"{self.argument} must return real numbers; got {value!r}"
            raise ValueError(msg)
        return array.astype(np.float64)


def _number(entry: Any, argument: str) -> float:
    try:
        return float(entry)
    except (TypeError, ValueError) as error:
        msg = f"{argument} must return real numbers; got {entry!r}"
        raise ValueError(msg) from error
