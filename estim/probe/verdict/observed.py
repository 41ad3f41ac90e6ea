"""What was observed, in any of its forms, as a shift of the readings with its noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.order_of_labels import labels_of, require_one_order, require_order
from estim.probe.arguments import numbers
from estim.probe.directions.noise import norms_of
from estim.probe.verdict.planning import Repeats
from estim.streams import check_flag

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# Scatter of repeats that sigma makes so unlikely is mentioned.
_SUSPECT = 1e-3


@dataclass(frozen=True)
class Observation:
    """A shift of the readings, and how large its noise is."""

    shift: Array
    """(readings,)."""
    rounding: Array
    """(readings,) bound of what rounding may have moved."""
    repeats: Repeats
    count: int
    """Repeats after the change, averaged."""
    noise_scale: float
    """Estimated noise over sigma; 1 where sigma is taken as known."""
    noise_degrees: float
    """Infinite where sigma is taken as known."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """Readings before or after, or their difference."""

    rows: Array
    """(repeats, readings), or (1, readings) where only their mean is known."""
    repeats: int

    @property
    def mean(self) -> Array:
        """Averaged over the repeats, (readings,)."""
        return np.asarray(self.rows.mean(axis=0))

    @property
    def repeated(self) -> bool:
        """Whether each repeat is known."""
        return len(self.rows) > 1


def observe(found: "Sensitivity", observed: Any, baseline: str, absolute_sigma: bool) -> Observation:
    """Read the `observed_shift` of `Sensitivity.judge`; errors name it."""
    if not isinstance(baseline, str) or baseline not in ("known", "noisy"):
        msg = f"baseline must be 'known' or 'noisy'; got {baseline!r}"
        raise ValueError(msg)
    check_flag(absolute_sigma, "absolute_sigma")
    sides = shift_or_pair(found, observed)
    before, after = sides[0], sides[-1]
    if len(sides) == 1:
        return _with_noise(found, after.mean, np.zeros(found.readings), after, after, baseline, absolute_sigma)
    if baseline == "known" and before.repeated:
        msg = (
            "observed_shift has repeats of the readings before the change, so that they have noise: "
            "pass baseline='noisy', or their exact values, of shape (readings,)"
        )
        raise ValueError(msg)
    rounding = 4.0 * EPS * np.maximum(np.abs(before.mean), np.abs(after.mean))
    return _with_noise(found, after.mean - before.mean, rounding, before, after, baseline, absolute_sigma)


def shift_or_pair(found: "Sensitivity", observed: Any) -> tuple[Side, ...]:
    """Return the one side that a shift is, or the readings before and after."""
    if isinstance(observed, tuple) and len(observed) == 2 and np.ndim(observed[0]) and np.ndim(observed[1]):
        if found.repeats > 1:
            _require_clear(found, observed)
        after = "observed_shift, the readings after,"
        require_one_order(*observed, ("those before", after), found.readings + len(found.left_out))
        return tuple(_side(found, part) for part in observed)
    side = _side(found, observed)
    if side.repeated:
        msg = f"observed_shift must have shape ({found.readings},), or be a tuple (before, after); got repeats of it"
        raise ValueError(msg)
    return (side,)


def _require_clear(found: "Sensitivity", pair: tuple[Any, Any]) -> None:
    """Refuse one row, which is one repeat or the average of the record's."""
    for part in pair:
        if np.ndim(part) > 1 and len(part) == 1:
            msg = (
                f"observed_shift has one row, of shape {np.shape(part)}: averaged over the record's {found.repeats} "
                "repeats it must have shape (readings,); one repeat alone needs a record made with repeats=1"
            )
            raise ValueError(msg)


def _side(found: "Sensitivity", values: Any) -> Side:
    require_order(
        labels_of(values, found.readings + len(found.left_out)), _names(found), "observed_shift", "the bank's inputs"
    )
    array = _of_those_left(found, numbers(values, "observed_shift"))
    if not np.isfinite(array).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        msg = f"observed_shift must be finite; got {array[at]} at {at}: leave what was not read out of the bank"
        raise ValueError(msg)
    size = array.size * (2 if array.dtype.kind == "c" else 1)
    repeated = array.ndim > 1 and size != found.readings and size == len(array) * found.readings
    if size != found.readings and not repeated:
        whole = f" (or of all {found.readings + len(found.left_out)})" if len(found.left_out) else ""
        msg = (
            f"observed_shift must have one entry for each of the {found.readings} readings{whole}, or be a pair "
            f"(before, after) of shapes (readings,) or (repeats, readings); got shape {array.shape}"
        )
        raise ValueError(msg)
    rows = array.reshape(len(array) if repeated else 1, -1)
    rows = np.concatenate([rows.real, rows.imag], axis=1) if rows.dtype.kind == "c" else rows.astype(np.float64)
    return Side(rows, len(rows) if repeated else found.repeats)


def _names(found: "Sensitivity") -> Sequence[str]:
    """Return the names of the inputs, once for each reading; only once where readings are left out."""
    if not found.input_names or len(found.left_out):
        return found.input_names
    return [found.input_names[k] for k in found.inputs]


def _of_those_left(found: "Sensitivity", array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Take out the readings that the record leaves out, where all are given."""
    parts = 2 if array.dtype.kind == "c" else 1
    total = found.readings + len(found.left_out)
    repeated = array.ndim > 1 and array.size * parts == len(array) * total
    rows = len(array) if repeated else 1
    if not len(found.left_out) or array.size * parts != rows * total:
        return array
    flat = array.reshape(rows, -1)
    every = np.concatenate([flat.real, flat.imag], axis=1) if parts == 2 else flat
    return np.delete(every, found.left_out, axis=1)


def noise_factor(found: "Sensitivity", seen: Observation) -> float:
    """Return the noise of the observed shift over that of the record, which is of its own repeats."""
    return math.sqrt(seen.repeats.variance / variance_of_mean(found, found.repeats)) * seen.noise_scale


def _with_noise(
    found: "Sensitivity", shift: Array, rounding: Array, before: Side, after: Side, baseline: str, absolute: bool
) -> Observation:
    noisy = baseline == "noisy"
    variance = variance_of_mean(found, after.repeats) + (variance_of_mean(found, before.repeats) if noisy else 0.0)
    sides = [side for side in ((before, after) if noisy else (after,)) if side.repeated]
    whitened = int(np.count_nonzero(found.whitening)) if found.whitening.ndim == 1 else len(found.whitening)
    degrees = sum(side.repeats - 1 for side in sides) * whitened
    scale, notes = (math.nan, ()) if not degrees else _scatter(found, sides, degrees)
    if not absolute and not degrees:
        msg = (
            "absolute_sigma=False estimates the noise from repeats: observed_shift must be a pair (before, after), one "
            "of them of shape (repeats, readings) with at least 2 repeats, and some noise"
        )
        raise ValueError(msg)
    if not absolute and not scale > 0.0:
        msg = "absolute_sigma=False found no noise in the repeats: they are all alike"
        raise ValueError(msg)
    repeats = Repeats(variance, 1 + noisy, found.repeat_correlation, 0 if absolute else whitened)
    if absolute:
        return Observation(shift, rounding, repeats, after.repeats, 1.0, math.inf, notes)
    note = "The noise was estimated from the repeats: what is planned takes it to be as estimated."
    return Observation(shift, rounding, repeats, after.repeats, scale, float(degrees), (note,))


def variance_of_mean(found: "Sensitivity", repeats: int) -> float:
    """Return the variance of a mean of repeats, in units of one reading's."""
    variance = (1.0 + (repeats - 1) * found.repeat_correlation) / repeats
    if variance <= 0.0:
        msg = f"observed_shift has {repeats} repeats: too many for a repeat_correlation of {found.repeat_correlation!r}"
        raise ValueError(msg)
    return variance


def _scatter(found: "Sensitivity", sides: list[Side], degrees: int) -> tuple[float, tuple[str, ...]]:
    """Return the noise in the repeats over sigma, and a sentence where the two cannot both be right."""
    from scipy import stats

    if found.repeat_correlation == 1.0:
        msg = "repeats with repeat_correlation 1 are all alike: their scatter says nothing of the noise"
        raise ValueError(msg)
    scatter = np.concatenate([whiten(found, (side.rows - side.mean).T).ravel() for side in sides])
    length = float(norms_of(scatter[:, None])[0])  # its square may be beyond the float range
    scale = length * math.sqrt(variance_of_mean(found, found.repeats) / (1.0 - found.repeat_correlation) / degrees)
    total = scale * scale * degrees
    tail = min(stats.chi2.sf(total, degrees), stats.chi2.cdf(total, degrees))
    if tail > 0.5 * _SUSPECT:
        return scale, ()
    note = (
        f"The repeats scatter {scale:.3g} times as much as sigma says ({degrees} degrees of freedom, "
        f"p = {2.0 * tail:.2g}): with absolute_sigma=False the noise is taken from them."
    )
    return scale, (note,)


def whiten(found: "Sensitivity", shifts: Array) -> Array:
    """Return shifts of the readings, (readings, ...), in standard deviations of the record's averaged noise."""
    if found.whitening.ndim == 2:
        return np.asarray(found.whitening @ shifts)
    return np.asarray((found.whitening * shifts.T).T)


def rounding_note(found: "Sensitivity", seen: Observation, *, certain: bool) -> tuple[str, ...]:
    """Say how far readings before and after are rounded, where a change is certain but for that, or noise is less."""
    largest = float(seen.rounding.max(initial=0.0))
    noiseless = len(found.noiseless) > 0 or (found.whitening.ndim == 1 and bool((found.whitening == 0.0).any()))
    beyond = bool((np.abs(whiten(found, seen.rounding)) > 1.0).any())
    if largest == 0.0 or not (beyond or (certain and noiseless)):
        return ()
    what = "which is more than some of their noise" if beyond else "which is all that a reading without noise may move"
    return (f"By rounding alone, readings before and after may differ by up to {largest:.3g}, {what}.",)


def noiseless_movement(found: "Sensitivity", seen: Observation) -> bool:
    """Whether a reading, or a combination of them, that has no noise moved by more than rounding."""
    if found.whitening.ndim == 1:
        moved, allowed = np.abs(seen.shift), seen.rounding
        return bool((moved > allowed)[found.whitening == 0.0].any())
    if not len(found.noiseless):
        return False
    moved = np.abs(found.noiseless @ seen.shift)
    # The combinations themselves are known to rounding.
    allowed = np.abs(found.noiseless) @ (seen.rounding + 64.0 * EPS * found.readings * np.abs(seen.shift))
    return bool((moved > allowed).any())
