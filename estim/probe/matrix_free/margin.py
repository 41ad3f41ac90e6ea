"""The smallest change of interest of a model too large for single parameters, as a shift of its readings.

Its groups are known by their spectra. A change d drawn at random on the sphere of radius r in n dimensions moves the
readings by |W d| = r sqrt(sum_i s_i^2 z_i^2 / sum_j z_j^2), with n independent normal z and the singular values s, zero
beyond the readings.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import is_one_number
from estim.probe.matrix_free.shifts import length_along, read_shift
from estim.probe.verdict.any_change import AnyChange, any_of_size, called, relative_size
from estim.probe.verdict.margin import Margin
from estim.probe.verdict.moved import DIRECTIONS

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]

_ONE = "the change that shifts the readings as given"
#: Standard deviations of what a matrix of a given Frobenius norm adds to a random change's shift.
_FAR = 3.0


def margin_of_model(
    found: "ModelSensitivity", smallest_change: Any, smallest_shift: Any, rng: np.random.Generator
) -> Margin:
    """Read the smallest change of `ModelSensitivity.judge`; its errors name the rule."""
    if smallest_shift is not None:
        if smallest_change is not None:
            msg = f"smallest_shift and smallest_change are two ways to say one thing; got both, {smallest_change!r:.80}"
            raise ValueError(msg)
        shift = length_along(found, read_shift(found, smallest_shift, "smallest_shift"))
        hidden: dict[str, Any] = {} if shift > 0.0 else {"unseen": (_ONE,), "unresolved": True}
        return Margin(_ONE, np.array([shift]), None, single=True, **hidden)
    return _of_set(found, _any_change(found, smallest_change), rng)


def _any_change(found: "ModelSensitivity", smallest: Any) -> AnyChange:
    if smallest is None:
        smallest = found.smallest_change
        if smallest is None:
            msg = (
                "smallest_change or smallest_shift must be given, here, or smallest_change to estim.sensitivity: "
                "without it no silence can be believed"
            )
            raise ValueError(msg)
    if is_one_number(smallest):
        smallest = any_of_size(smallest)
    if not isinstance(smallest, AnyChange):
        msg = (
            "smallest_change must be a number or an AnyChange for a model this large; for one change pass "
            "smallest_shift, the readings of a changed copy less the model's own, or ask estim.judge_models; "
            f"got {smallest!r:.80}"
        )
        raise TypeError(msg)
    if found.rest is not None:
        msg = (
            "smallest_change needs the spectrum of all directions, and only the strongest were looked for: pass "
            f"smallest_shift, or to estim.sensitivity fewer groups, inputs or readings; got {smallest}"
        )
        raise ValueError(msg)
    return smallest


def _of_set(found: "ModelSensitivity", change: AnyChange, rng: np.random.Generator) -> Margin:
    values, error, dimension = _spectrum(found, change)
    size = change.size * (_norm(found, change.group) if change.relative else 1.0)
    resolved, unseen = values[values > error], _unseen(found, change)
    if change.case == "typical":
        error, unseen = error * random_share(dimension), unseen * hidden_share(found, dimension)
        lengths = random_lengths(resolved, dimension, rng)
        shifts = counted(lengths, error, unseen)
        doubt = 0.5 * float((lengths + error - shifts).max())
        return Margin(str(change), size * np.sort(shifts), None, doubt=size * doubt)
    hidden = dimension - len(resolved)
    if hidden:
        what = f"{hidden:,} of the {dimension:,} directions of {_whose(change)}"
        beyond = max(0, dimension - found.readings)  # more unknowns than readings: that many are null, whatever J is
        return Margin(
            str(change), np.zeros(1), None, unseen=(what,), unresolved=hidden > beyond, beyond=beyond
        )  # fmt: skip
    least = float(counted(resolved[-1:], error, unseen)[0])
    if least == 0.0:
        what = f"the weakest of the {dimension:,} directions of {_whose(change)}"
        return Margin(str(change), np.zeros(1), None, unseen=(what,), unresolved=True)
    doubt = 0.5 * (float(resolved[-1]) + error - least)
    return Margin(str(change), np.array([size * least]), None, doubt=size * doubt)


def _whose(change: AnyChange) -> str:
    return "all parameters" if change.group is None else called(change.group)


def counted(lengths: Array, error: float, unseen: float) -> Array:
    """Return how far changes move the readings along the directions that the whole model resolves, at least.

    Parameters
    ----------
    lengths : ndarray
        How far they move the readings altogether.
    error : float
        How far the Jacobian's own error may, at most.
    unseen : float
        How far the directions that are not resolved, and so not tested, may carry it, at most.
    """
    tested = np.sqrt(np.maximum(lengths - unseen, 0.0) * (lengths + unseen))
    return np.asarray(np.maximum(tested - error, 0.0))


def random_share(dimension: int) -> float:
    """Return what part of a Jacobian's Frobenius norm a random unit change moves the readings by, at most."""
    return min(1.0, _FAR / math.sqrt(dimension))


def hidden_share(found: "ModelSensitivity", dimension: int) -> float:
    """Return what part of the resolution a random unit change may move the readings by unseen, at most.

    As many singular values as there are unresolved ones may be that large: their Frobenius norm counts.
    """
    count = len(found.singular_values) - found.resolved
    return min(1.0, _FAR * math.sqrt(count / dimension))


def _unseen(found: "ModelSensitivity", change: AnyChange) -> float:
    """Return how far, per unit of a change, it may move the readings along what the whole model does not resolve."""
    if found.resolved == len(found.singular_values) or (change.group is None and not change.relative):
        return 0.0
    largest = found.group_norms.max(initial=0.0) if change.group is None else 1.0
    return float(found.resolution * largest)


def _spectrum(found: "ModelSensitivity", change: AnyChange) -> tuple[Array, float, int]:
    """Return singular values per unit of the changes, what they must exceed, and the dimension of the changes."""
    if change.group is None:
        if change.relative:
            _require_norms(found)
            return found.relative_singular_values, found.relative_resolution, found.parameters
        return found.singular_values, found.resolution, found.parameters
    if change.group not in found.group_names:
        known = ", ".join([*found.group_names[:8], *(["..."] if len(found.group_names) > 8 else [])])
        msg = (
            f"group must be one of the {len(found.group_names)} of the record, {known}, as groups=... of "
            f"estim.sensitivity makes them; got {change.group!r}"
        )
        raise ValueError(msg)
    k = found.group_names.index(change.group)
    dimension = int(found.group_table[k, 0])
    if not dimension:
        msg = f"a change of {change.group!r} means nothing: it has no parameters"
        raise ValueError(msg)
    return found.group_singular_values[k][:dimension], float(found.group_resolution[k]), dimension


def _norm(found: "ModelSensitivity", group: str | None) -> float:
    if group is None:  # whose spectrum is per unit of the norms
        return 1.0
    return relative_size(group, float(found.group_norms[found.group_names.index(group)]))


def _require_norms(found: "ModelSensitivity") -> None:
    for name, norm, size in zip(found.group_names, found.group_norms, found.group_table[:, 0], strict=True):
        if size:
            relative_size(name, float(norm))


def random_lengths(values: Array, dimension: int, rng: np.random.Generator) -> Array:
    """Return |W d|, (draws,), of directions d uniform on the unit sphere in that many dimensions."""
    squares = np.square(rng.standard_normal((DIRECTIONS, len(values))))
    others = dimension - len(values)
    rest = rng.chisquare(others, DIRECTIONS) if others else np.zeros(DIRECTIONS)
    return np.asarray(np.sqrt(squares @ np.square(values) / (squares.sum(axis=1) + rest)))
