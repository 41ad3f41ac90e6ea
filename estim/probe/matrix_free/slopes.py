"""Derivatives of a large model held against differences: of a few combinations of readings, along one direction.

All parameters move at once, so that a part of the model that derivatives leave out, or give another derivative than it
has, shows. That is seen as well a little away from the parameters, where units do not stand at a kink, as they may for
biases of zero; one that stands there by chance shows in what both sides have in common. Slopes that agree decide, two
in short floats, where steps are few, and else three, as kinks make two agree by chance: where they do not settle,
differences have nothing to say.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS

Array = npt.NDArray[np.float64]

#: Combinations of the readings.
COMBINATIONS = 2
#: How far away, in sizes of the parameters, and the first step there; each is a quarter of the one before.
AWAY = 2.0**-4
_FIRST = 2.0**-6
# Part of a slope up to which it is agreed with in float64 and in short floats, and of that up to which two settle.
_CLOSE, _CLOSE_IN_SHORT = 2e-3, 0.05
_SETTLED = 0.2
#: Steps, those of a contradiction but the first and smaller ones, in which it may turn out to be kinks that lie close
#: together.
_SECOND_LOOKS = 6
#: Roundings of the readings in one combination.
_ROUNDING = 32.0


def sizes_of_steps(mean_squares: Sequence[float]) -> list[float]:
    """Return the size of a step of each tensor's entries from the mean of their squares, (tensors,)."""
    known = [square for square in mean_squares if square > 0.0]
    other = float(np.median(known)) if known else 1.0
    return [float(np.sqrt(square or other)) for square in mean_squares]


def weights_of(readings: int, combinations: int = COMBINATIONS) -> Array:
    """Return signs for each reading, (combinations, M)."""
    return np.random.default_rng(3).choice((-1.0, 1.0), (combinations, readings))


def require_slopes(
    at: Callable[[float], Array], start: Array, said: Array, typical: Array, *, eps: float, library: str
) -> None:
    """Hold the slopes of combinations of some readings, from derivatives, against differences.

    Parameters
    ----------
    at : callable
        Multiple of a direction of all parameters by which they are moved from `AWAY` on -> those readings, (M,); NaN
        where the model fails there.
    start : ndarray, shape (M,)
        At zero; finite.
    said, typical : ndarray, shape (COMBINATIONS,)
        Slopes, of readings combined by `weights_of`, along that direction: sum over the parameters, and root of the sum
        of squares.
    eps : float
        Rounding of the readings.
    library : str
        Who took the derivatives, and what may be the cause, in brackets.

    Raises
    ------
    ValueError
        When differences settle on other slopes, and agree in no smaller steps.
    """
    weights, size = weights_of(len(start)), float(np.abs(start).sum())
    step, last, alike = _FIRST, np.full(len(said), np.nan), np.zeros(len(said))
    found: str | None = None
    close, enough = (_CLOSE, 2) if eps <= EPS else (_CLOSE_IN_SHORT, 1)
    looks = _SECOND_LOOKS - enough
    with np.errstate(all="ignore"):
        while looks:
            noise = _ROUNDING * eps * size / step
            # Kinks may lie closer together than that step: a contradiction is looked into as far as rounding lets.
            if step < np.sqrt(eps) and (found is None or (noise > _SETTLED * typical).any()):
                break
            above, below = (weights @ (at(side * step) - start) for side in (1.0, -1.0))
            slope, kink = (above - below) / (2.0 * step), np.abs(above + below) / (2.0 * step)
            scale = np.maximum(typical, np.abs(slope))
            off = np.abs(slope - said)
            # After a contradiction noise alone is no agreement.
            if (off <= close * typical + (noise if found is None else np.minimum(noise, close * typical))).all():
                return
            alike = np.where(np.abs(slope - last) <= _SETTLED * close * scale, alike + 1, 0)
            wrong = (alike >= enough) & (off > close * scale + 2.0 * kink + 2.0 * noise)
            if found is None and wrong.any():
                found = _contradiction(slope, said, int(np.argmax(wrong)), library)
            looks -= found is not None
            step, last = step / 4.0, slope
    if found is not None:
        raise ValueError(found)


def _contradiction(slope: Array, said: Array, k: int, library: str) -> str:
    name, _, cause = library.partition(" ")
    return (
        f"the derivative that {name} takes must be that of the model; along one direction of all parameters a "
        f"combination of readings changes by {slope[k]:.6g}, {name} says {said[k]:.6g} {cause}"
    )
