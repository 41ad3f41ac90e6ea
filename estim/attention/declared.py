"""Whether the parts of a user's normalizer belong to one function."""

from collections.abc import Callable
from typing import Any

import numpy as np

from estim.arithmetic import Array

# Scores at which the parts are compared; no round numbers, at which a wrong part might be right.
_SCORES = np.array([-1.3, -0.41, 0.0, 0.37, 1.2])
_STEP = 1e-4
# Differences that agree to the first share of what they are compared with are trusted; a part that is off by more
# than the second is wrong, not rounded.
_TRUSTED, _WRONG = 1e-5, 1e-3


def check_parts(
    name: str, function: Callable[[Array], Any], derivative: Callable[[Array], Any], taylor: Callable[[int], Any] | None
) -> None:
    """Refuse a derivative or Taylor coefficients that are not those of the function.

    Nothing is refused where differences of the function do not settle, or a part cannot be called here: what it then
    does is said where it is used.

    Raises
    ------
    ValueError
        Naming the part, the score, and both values.
    """
    with np.errstate(all="ignore"):
        middle, slope = _values(function, _SCORES), _values(derivative, _SCORES)
        coarse, fine = (_difference(function, step) for step in (_STEP, _STEP / 2))
    if middle is None or slope is None or coarse is None or fine is None:
        return
    scale = np.abs(fine) + np.abs(middle)
    bad = (np.abs(coarse - fine) < _TRUSTED * scale) & (np.abs(slope - fine) > _WRONG * scale)
    if bad.any():
        k = int(np.argmax(bad))
        msg = (
            f"`derivative` of normalizer {name!r} must be that of `function`; at score {_SCORES[k]} it is "
            f"{slope[k]:.6g}, where differences of `function` give {fine[k]:.6g}"
        )
        raise ValueError(msg)
    if taylor is not None:
        _check_taylor(name, taylor, [middle[2], slope[2]])


def _check_taylor(name: str, taylor: Callable[[int], Any], right: list[Any]) -> None:
    try:
        found = [float(coefficient) for coefficient in taylor(2)]
    except (ArithmeticError, TypeError, ValueError):
        return
    if not found or found[0] <= 0:  # Not positive: refused where the series is used.
        return
    for k, (one, other) in enumerate(zip(found, right, strict=False)):
        if abs(one - other) > _WRONG * (abs(other) + abs(right[0])):
            part = ("function", "derivative")[k]
            msg = (
                f"`taylor` of normalizer {name!r} must expand `function` at zero; its coefficient {k} is {one:.6g}, "
                f"where `{part}` gives {other:.6g}"
            )
            raise ValueError(msg)


def _difference(function: Callable[[Array], Any], step: float) -> Array | None:
    above, below = _values(function, _SCORES + step), _values(function, _SCORES - step)
    return None if above is None or below is None else np.asarray((above - below) / (2 * step))


def _values(part: Callable[[Array], Any], scores: Array) -> Array | None:
    asked = scores[None, None]  # The axes that scores have in a layer.
    try:
        values = np.asarray(part(asked))
        if values.dtype.kind not in "biuf" or values.dtype in (np.float16, np.float32):  # refused where it is called
            return None
        values = values.astype(np.float64)
    except Exception:  # A user's function: what it raises is for the call that needs it.
        return None
    if values.shape not in ((), asked.shape) or not np.isfinite(values).all():
        return None
    return np.asarray(np.broadcast_to(values, asked.shape)[0, 0])
