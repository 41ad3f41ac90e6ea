"""The smallest change of interest of a model too large for single parameters, as a shift of its readings.

Its groups are known by their spectra. A change d drawn at random on the sphere of radius r in n dimensions moves the
readings by |W d| = r sqrt(sum_i s_i^2 z_i^2 / sum_j z_j^2), with n independent normal z and the singular values s, zero
beyond the readings.
"""

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import real_number
from estim.probe.verdict.any_change import AnyChange
from estim.probe.verdict.change import detectable_shift
from estim.probe.verdict.margin import Margin
from estim.probe.verdict.moved import DIRECTIONS

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]

_ONE = "the change that shifts the readings as given"
#: Standard deviations of what an error of the Jacobian, of a given Frobenius norm, adds to a random change's shift.
_FAR = 3.0
#: Of the change that each group is told to show.
_POWER, _CONFIDENCE = 0.8, 0.95


def margin_of_model(
    found: "ModelSensitivity", smallest_change: Any, smallest_shift: Any, rng: np.random.Generator
) -> Margin:
    """Read the smallest change of `ModelSensitivity.judge`; its errors name the rule."""
    if smallest_shift is not None:
        if smallest_change is not None:
            msg = f"smallest_shift and smallest_change are two ways to say one thing; got both, {smallest_change!r:.80}"
            raise ValueError(msg)
        shift = found.shift(smallest_shift)
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
    if isinstance(smallest, Real):
        smallest = AnyChange(real_number(smallest, "smallest_change"), relative=False)
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
    values, resolution, dimension = _spectrum(found, change)
    size = change.size * (_norm(found, change.group) if change.relative else 1.0)
    resolved = values[values > resolution]
    if change.case == "typical":
        # What moves the readings along directions that the whole model does not resolve is not tested.
        doubt = max(resolution, _hidden(found, change)) * min(1.0, _FAR / math.sqrt(dimension))
        shifts = random_lengths(resolved, dimension, rng)
        return Margin(str(change), size * np.sort(np.maximum(shifts - doubt, 0.0)), None, doubt=size * doubt)
    hidden = dimension - len(resolved)
    if hidden:
        what = f"{hidden:,} of the {dimension:,} directions of {change.group or 'all parameters'}"
        beyond = max(0, dimension - found.readings)  # more unknowns than readings: that many are null, whatever J is
        return Margin(
            str(change), np.zeros(1), None, unseen=(what,), null=beyond > 0, unresolved=hidden > beyond, beyond=beyond
        )  # fmt: skip
    doubt = max(resolution, _hidden(found, change))
    if resolved[-1] <= doubt:
        return Margin(str(change), np.zeros(1), None, unseen=(f"{change.group or 'all parameters'}",), unresolved=True)
    return Margin(str(change), np.array([size * (resolved[-1] - doubt)]), None, doubt=size * doubt)


def _spectrum(found: "ModelSensitivity", change: AnyChange) -> tuple[Array, float, int]:
    """Return singular values per unit of the changes, what they must exceed, and the dimension of the changes."""
    if change.group is None:
        if change.relative:
            _require_norms(found)
            return found.relative_singular_values, found.relative_resolution, found.parameters
        return found.singular_values, found.resolution, found.parameters
    if change.group not in found.group_names:
        known = ", ".join(found.group_names[:8])
        msg = (
            f"group must be one of the {len(found.group_names)} of the record, {known}{_more(found)}, as groups=... of "
            f"estim.sensitivity makes them; got {change.group!r}"
        )
        raise ValueError(msg)
    k = found.group_names.index(change.group)
    dimension = int(found.group_table[k, 0])
    return found.group_singular_values[k][:dimension], float(found.group_resolution[k]), dimension


def _more(found: "ModelSensitivity") -> str:
    return ", ..." if len(found.group_names) > 8 else ""


def _norm(found: "ModelSensitivity", group: str | None) -> float:
    if group is None:  # whose spectrum is per unit of the norms
        return 1.0
    norm = float(found.group_norms[found.group_names.index(group)])
    if norm == 0.0:
        raise ValueError(_MEANS_NOTHING.format(group))
    return norm


_MEANS_NOTHING = "a relative change of {!r} means nothing: its parameters are zero; use relative=False"


def _require_norms(found: "ModelSensitivity") -> None:
    for name, norm in zip(found.group_names, found.group_norms, strict=True):
        if norm == 0.0:
            raise ValueError(_MEANS_NOTHING.format(name))


def _hidden(found: "ModelSensitivity", change: AnyChange) -> float:
    """Return how far, per unit of a change, what the whole model does not resolve may move the readings."""
    if change.group is None and change.relative:
        return float(found.resolution * found.group_norms.max(initial=0.0))
    return found.resolution


def random_lengths(values: Array, dimension: int, rng: np.random.Generator) -> Array:
    """Return |W d|, (draws,), of directions d uniform on the unit sphere in that many dimensions."""
    squares = np.square(rng.standard_normal((DIRECTIONS, len(values))))
    others = dimension - len(values)
    rest = rng.chisquare(others, DIRECTIONS) if others else np.zeros(DIRECTIONS)
    return np.asarray(np.sqrt(squares @ np.square(values) / (squares.sum(axis=1) + rest)))


def detectable_changes(found: "ModelSensitivity") -> Array:
    """Return the relative size of the random changes of each group that are detected, (named groups,), at most.

    Infinite where nothing is resolved, NaN where a group's parameters are zero.
    """
    needed = detectable_shift(found.resolved, _POWER, _CONFIDENCE)
    if found.rest is None:
        resolved = np.where(
            found.group_singular_values > found.group_resolution[:, None], found.group_singular_values, 0
        )
        squares = np.square(resolved).sum(axis=1)
    else:
        squares = found.group_share @ np.square(found.singular_values[: found.resolved])
    with np.errstate(divide="ignore", invalid="ignore"):
        typical = found.group_norms * np.sqrt(squares / found.group_table[:, 0])
        return np.where(found.group_norms > 0.0, needed / typical, np.nan)
