"""Two models of one kind, as the readings of one bank."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.along import whitened
from estim.probe.directions.noise import Whitening
from estim.probe.labels import is_of
from estim.probe.verdict.any_change import AnyChange
from estim.probe.verdict.judge import Projected
from estim.probe.verdict.margin import Margin

Array = npt.NDArray[np.float64]

#: Random directions drawn for a typical change of a model too large for a Jacobian: a product with it each.
DIRECTIONS = 16


@dataclass(frozen=True)
class Pair:
    """Two models of one kind, as far as their readings go; all changes of readings are (M,), after less before."""

    expected: Array
    """J delta."""
    changed: Array
    error: Array
    """(M,) bound of the error of both."""
    partly: Callable[[float], Array]
    """The change of the readings after a fraction of the change of the parameters; NaN where the model fails."""
    noise: Whitening
    """Of the readings of one model."""
    project: Callable[[Array], Projected]
    """A change of the readings, split in what the parameters can do, to first order, and the rest."""
    margin: Callable[[Any, np.random.Generator], Margin]
    """Of a smallest change of interest that is given."""
    delta: Array
    """(2,) Euclidean norm of the change of the parameters, and of the parameters before."""
    parameters: int
    notes: tuple[str, ...]


def require_finite(readings: Array, argument: str) -> None:
    """Refuse a model whose readings are not finite."""
    if not np.isfinite(readings).all():
        i = int(np.argmin(np.isfinite(readings)))
        msg = f"readings of {argument} must be finite; reading {i} is not"
        raise ValueError(msg)


def whole_change(change: Array, noise: Whitening) -> Projected:
    """Return a change of the readings, (M,), all of which the parameters can make."""
    white = whitened(noise, change)
    size = np.abs(white)
    largest = tuple(int(i) for i in np.argsort(-size, kind="stable")[:3] if size[i] > 0.0)
    return Projected(float(white @ white), len(white), 0.0, 0, largest=largest)


def worst_margin(smallest: AnyChange, size: int, readings: int) -> Margin:
    """Return the margin of the change of `size` parameters that is hardest to see, where these exceed the readings."""
    if size <= readings:
        msg = (
            "smallest_change must have case='typical' for a model this large; for the worst case use "
            f"estim.sensitivity(...).judge(...); got {smallest!r}"
        )
        raise ValueError(msg)
    words = f"{size - readings:,} of the {size:,} directions of {smallest.group or 'the parameters'}"
    return Margin(str(smallest), np.zeros(1), None, unseen=(words,), null=True, beyond=size - readings)


def blocks_of(names: Sequence[str], homes: Sequence[str], group: str | None) -> dict[str, list[int]]:
    """Return which tensors of these names change, in the blocks, `homes`, to which a change is relative.

    Raises
    ------
    ValueError
        When there is no such group.
    """
    found: dict[str, list[int]] = {}
    for k, (name, home) in enumerate(zip(names, homes, strict=True)):
        if group is None or group == home or is_of(name, group):
            found.setdefault(home, []).append(k)
    if not found:
        known = ", ".join(list(dict.fromkeys(homes))[:8])
        msg = f"group must be one of {known}, or the beginning of a parameter's name; got {group!r}"
        raise ValueError(msg)
    return found


def typical_margin(smallest: AnyChange, changes: Iterable[Array], noise: Whitening) -> Margin:
    """Return the margin of random changes from what each changes of the readings, (M,), to first order."""
    shifts = [float(np.linalg.norm(whitened(noise, change))) for change in changes]
    return Margin(str(smallest), np.sort(shifts), None)


def third_margin(change: Array, project: Callable[[Array], Projected]) -> Margin:
    """Return the margin of a model that was given as the smallest change of interest, from its change of the readings.

    Raises
    ------
    ValueError
        When that is not finite.
    """
    require_finite(change, "smallest_change")
    shift = math.sqrt(project(change).statistic)
    words = "the change to the model given as the smallest one"
    if not shift > 0.0:
        return Margin(words, np.zeros(1), None, unseen=(words,), unresolved=True, single=True)
    return Margin(words, np.array([shift]), None, single=True)
