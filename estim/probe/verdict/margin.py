"""The smallest change of interest as a shift of the readings: a change, a set of them, or two sets of parameters."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import is_one_number
from estim.probe.directions.noise import norms_of
from estim.probe.labels import is_of
from estim.probe.verdict.any_change import AnyChange, any_of_size, relative_size
from estim.probe.verdict.hardest import coordinates, least, modulo
from estim.probe.verdict.hidden import INSIDE, free_of_gauge, of_equal_effect, phrases, rows_of, unseen_of
from estim.probe.verdict.moved import (
    NOTABLE,
    doubt_of_set,
    inverse_of,
    moved_by,
    random_shifts,
    without_known,
)

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

# Of a parameter modulo gauge, that must be left: rounding is then 1e-8 of it.
_LEFT = 1e-8


@dataclass(frozen=True)
class Margin:
    """What a smallest change of interest would do to the readings."""

    words: str
    shifts: Array
    """(members,) in standard deviations of the noise; one but for random directions. What the Jacobian's own error may
    have added is taken off."""
    change: Array | None
    """(parameters,) the change, of a set the one hardest to see; None for random directions."""
    unseen: tuple[str, ...] = ()
    """What of the set is not seen, in words."""
    null: bool = False
    """Whether some of that is proven to be null."""
    unresolved: bool = False
    """Whether some of that, beside what is `beyond`, is unresolved."""
    beyond: int = 0
    """How many unresolved combinations, at least, so few readings cannot show, whatever the digits."""
    gauge: bool = False
    """Whether the change is a gauge, and so no change."""
    hardest: str = ""
    """The change of a set that is hardest to see, in words; empty for one change."""
    single: bool = False
    """Whether it is one change, not the hardest or all of a set."""
    doubt: float = 0.0
    """How far the Jacobian's own error may move the readings along the change, or at most along a random one, in the
    same standard deviations."""

    def in_units_of(self, noise: float) -> "Margin":
        """Return the same in other standard deviations."""
        return replace(self, shifts=self.shifts / noise, doubt=self.doubt / noise)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of a shift that is known roughly."""
        middle = float(np.median(self.shifts))
        if self.doubt <= NOTABLE * middle or not self.shifts.any():
            return ()
        if len(self.shifts) > 1:
            return (
                "Within the error of the Jacobian, random changes may move the readings by up to "
                f"{2.0 * self.doubt:.3g} standard deviations more than is counted; better derivatives would narrow "
                "that.",
            )
        return (
            "Within the error of the Jacobian, the smallest change moves the readings by anything between "
            f"{middle:.3g} and {middle + 2.0 * self.doubt:.3g} standard deviations; the least is counted; better "
            "derivatives would narrow that.",
        )


def margin_of(found: "Sensitivity", smallest: Any, rng: np.random.Generator) -> Margin:
    """Read the `smallest_change` of `Sensitivity.judge`; its errors name the rule."""
    if smallest is None:
        if found.smallest_change is None:
            msg = "smallest_change must be given, here or to estim.sensitivity: without it no silence can be believed"
            raise ValueError(msg)
        if found.smallest_change.size > 1:
            text = "any change of the record's smallest sizes (half-axes of an ellipsoid)"
            return _of_set(found, text, 1.0, 1.0 / found.smallest_change, None)
        smallest = float(found.smallest_change[0])
    if is_one_number(smallest):
        smallest = any_of_size(smallest)
    if isinstance(smallest, AnyChange):
        norm = _norm(found, smallest)
        drawn = rng if smallest.case == "typical" else None
        return _of_set(found, str(smallest), smallest.size, norm, drawn, smallest.group)
    delta = _difference(found, smallest)
    if delta is None:
        return Margin("the change between these networks", np.zeros(1), None, gauge=True, single=True)
    return _of_one(found, delta)


def _difference(found: "Sensitivity", smallest: Any) -> Array | None:
    """Return one change: given, or the difference of two sets of parameters; None for networks that are the same."""
    pair = isinstance(smallest, tuple) and len(smallest) == 2 and not any(isinstance(x, Real) for x in smallest)
    if not pair:
        return found._vector(smallest, "smallest_change")
    before, after = _alike(_flat(smallest[0]), _flat(smallest[1]), found.names)
    from estim.probe.two_models.pair_of_networks import change_between, comparable

    delta = change_between(*smallest) if comparable(*smallest) else after - before
    return None if delta is None else found._vector(delta, "smallest_change")


def _flat(params: Any) -> tuple[tuple[str, ...], Array]:
    """Return the names and the values of a set of parameters."""
    from estim.attention import Network
    from estim.probe.model.parameters import read_parameters

    if isinstance(params, Network):
        return (), params.parameters
    read = read_parameters(params, argument="smallest_change")
    return read.names, read.values


def _alike(
    before: tuple[tuple[str, ...], Array], after: tuple[tuple[str, ...], Array], names: tuple[str, ...]
) -> tuple[Array, Array]:
    """Return the values of two sets of parameters in one order: the record's where their names are its names."""
    order = names if set(names) == set(before[0]) else before[0]
    if before[1].shape != after[1].shape or set(before[0]) != set(after[0]):
        msg = (
            f"smallest_change, two sets of parameters, must be alike; got {before[1].size} and {after[1].size} numbers"
        )
        if before[1].shape == after[1].shape:
            msg += f", and {min(set(before[0]) ^ set(after[0]))!r} is in one of them only"
        raise ValueError(msg)
    if not order:
        return before[1], after[1]
    first, second = (dict(zip(*part, strict=True)) for part in (before, after))
    return np.array([first[name] for name in order]), np.array([second[name] for name in order])


def _of_one(found: "Sensitivity", delta: Array) -> Margin:
    if not delta.any():
        msg = "smallest_change must change something; got zeros"
        raise ValueError(msg)
    words = _in_words(found, delta)
    scaled = found.scale * delta
    length = float(norms_of(scaled[:, None])[0])
    shift, doubt = found.shift(delta), found._doubt(delta)
    if shift > 0.0:
        return Margin(words, np.array([shift - doubt]), delta, single=True, doubt=doubt)
    hidden = scaled - _projected(scaled, found.scaled_directions[: found.resolved])
    besides_gauge = hidden - _projected(hidden, of_equal_effect(found, "gauge"))
    besides_null = hidden - _projected(hidden, of_equal_effect(found, "null", "gauge"))
    gauge, null = (bool(norms_of(part[:, None])[0] <= INSIDE * length) for part in (besides_gauge, besides_null))
    return Margin(
        words, np.zeros(1), delta, unseen=() if gauge else (words,), null=null and not gauge, unresolved=not null,
        gauge=gauge, single=True,
    )  # fmt: skip


def _projected(vector: Array, rows: Array) -> Array:
    return np.asarray((rows @ vector) @ rows)


def _in_words(found: "Sensitivity", delta: Array) -> str:
    from estim.probe.words import phrase

    return f"a change by {phrase(delta, found.names, found.scale)}"


def _members(found: "Sensitivity", group: str | None) -> npt.NDArray[np.bool_]:
    if group is None:
        return np.ones(len(found.names), dtype=bool)
    members = np.array([name == group for name in found.groups])
    if not members.any():
        members = np.array([is_of(name, group) for name in found.names])
    if not members.any():
        known = ", ".join(found.group_names[:8])
        msg = f"group must be one of {known}, or the beginning of a parameter's name; got {group!r}"
        raise ValueError(msg)
    return members


def _norm(found: "Sensitivity", change: AnyChange) -> Array:
    """Return rows, or a weight for each parameter, that measure a change."""
    if not change.relative:
        return np.ones(len(found.names))
    if found.relative_norm is not None:
        return found.relative_norm
    if not np.isfinite(found.parameters).all():
        msg = "a relative change needs the parameters' values: pass parameters to from_jacobian, or relative=False"
        raise ValueError(msg)
    label, weights = np.array(found.groups, dtype=object), np.ones(len(found.names))
    members = _members(found, change.group)
    # Of a group given by the beginning of a name, that part alone.
    for name in dict.fromkeys(label[members]):
        block = members & (label == name)
        weights[block] = 1.0 / relative_size(name, float(np.linalg.norm(found.parameters[block])))
    return weights


def _of_set(
    found: "Sensitivity",
    words: str,
    size: float,
    norm: Array,
    rng: np.random.Generator | None,
    group: str | None = None,
) -> Margin:
    """Return the margin of all changes of one size, or of random ones."""
    members = _members(found, group)
    if norm is not found.relative_norm:  # that one has the gauge for its null space as it is
        gauge, weights = rows_of(found, "gauge"), norm
        norm, free = modulo(norm, gauge), free_of_gauge(gauge, members, norm)
        if norm.ndim == 2:
            _require_measured(found, norm, weights, free)
    else:
        free = members
    where = coordinates(norm, free, found.scale)
    if not where.dimension:
        return Margin(words, np.zeros(1), None, gauge=True)
    if rng is not None:
        shifts, doubt = random_shifts(found, where, size, rng)
        return Margin(words, shifts, None, doubt=doubt)
    unseen, null = unseen_of(found, members)
    if len(unseen):
        hardest = unseen[0] / float(np.linalg.norm(_measured(norm, unseen[0])))
        beyond = int(max(0, where.dimension - found.readings - null))
        return Margin(
            words, np.zeros(1), size * hardest, phrases(found, unseen), null > 0, len(unseen) > null + beyond, beyond
        )  # fmt: skip
    matrix, known = moved_by(found, where)
    basis = without_known(found, where, known) if len(known) else None
    if basis is not None and not (basis.shape[1] and len(matrix)):  # all is known without noise
        return Margin(words, np.array([np.inf]), None)
    inverse = inverse_of(found, where) if basis is None else None
    value, vector = least(matrix if basis is None else matrix @ basis, inverse)
    change = size * where.change(vector if basis is None else basis @ vector, len(members))
    doubt = size * doubt_of_set(found, where, matrix, basis, value)
    if size * value <= doubt:
        return Margin(words, np.zeros(1), change, phrases(found, (change * found.scale)[None, :]), unresolved=True)
    from estim.probe.words import phrase

    # As a direction: its largest part 1.
    leading = change[int(np.argmax(np.abs(change * found.scale)))]
    hardest = phrase(change / leading, found.names, found.scale) if where.dimension > 1 else ""
    return Margin(words, np.array([size * value - doubt]), change, hardest=hardest, doubt=doubt)


def _require_measured(found: "Sensitivity", norm: Array, weights: Array, free: npt.NDArray[np.bool_]) -> None:
    """Refuse a parameter of which modulo gauge too little is left to be more than rounding."""
    left = np.where(free, norms_of(norm) / weights, 1.0)
    worst = int(np.argmin(left))
    if left[worst] < _LEFT:
        msg = (
            f"a change of {found.names[worst]!r} is a gauge but for {left[worst]:.1e} of it, in which float64 has "
            "no digits: give one change, another group, or parameters in units of like size"
        )
        raise ValueError(msg)


def _measured(norm: Array, change: Array) -> Array:
    return norm * change if norm.ndim == 1 else norm @ change
