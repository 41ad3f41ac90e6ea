"""Real numbers that a user gives, of any kind, raised to float64; every error names the argument."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.masks import unmasked


def real_number(value: Any, argument: str) -> float:
    """Return a float, or raise as `reals`; neither text nor True is a number."""
    array = reals(value, argument, "a real number", flags=False)
    if array.ndim:
        msg = f"{argument} must be one real number; got {shown(value)}"
        raise TypeError(msg)
    return float(array)


def probability(value: Any, argument: str) -> float:
    """Return a probability strictly between 0 and 1 as a float, whatever kind of number it was, or raise."""
    number = real_number(value, argument)
    if not 0.0 < number < 1.0:
        msg = f"{argument} must lie between 0 and 1; got {value!r}"
        raise ValueError(msg)
    return number


def reals(values: Any, argument: str, kind: str = "real numbers", *, flags: bool = True) -> NDArray[np.float64]:
    """Return real numbers of any shape, fractions and decimals too, as a fresh float64 array.

    Raises
    ------
    TypeError
        When they are no real numbers, of rows of different lengths, or True and False where these are no `flags`.
    ValueError
        When one lies beyond float64.
    """
    try:
        array = np.asarray(unmasked(values))
        if array.dtype.kind in ("biuf" if flags else "iuf"):
            return np.array(array, dtype=np.float64)
        if array.dtype.kind != "O" or any(isinstance(entry, str | bytes) for entry in array.flat):
            raise TypeError
        return np.array([float(entry) for entry in array.flat], dtype=np.float64).reshape(array.shape)
    except OverflowError as error:
        msg = f"{argument} must lie within float64, which ends at 1.8e308; got {shown(values)}"
        raise ValueError(msg) from error
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, None, complex
        msg = f"{argument} must be {kind}; got {shown(values)}"
        raise TypeError(msg) from error


def shown(value: Any) -> str:
    """Write what was given in one line of at most sixty characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
