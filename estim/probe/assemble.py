"""From a Jacobian with its error to the sensitivity record: statuses, floors, shares of inputs and groups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.directions import BLOCK, Directions, floors, refined, resolve
from estim.probe.noise import Whitening, whitening
from estim.probe.record import Sensitivity, Status
from estim.probe.words import combinations

if TYPE_CHECKING:
    from estim.probe.models import Probed

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
CARRIERS = 3
MOST_PHRASES = 12
#: Combinations of more parameters than these are no use in words.
MOST_NAMES = 60


def assemble(
    probed: "Probed",
    sigma: Any,
    *,
    symmetry: npt.ArrayLike | None,
    repeats: int,
    repeat_correlation: float,
    smallest_change: npt.ArrayLike | None,
    rtol: float | None,
    atol: float | None,
    certified: Directions | None = None,
) -> Sensitivity:
    """Return the record; ``certified`` directions, when given, take the place of those that float64 resolves."""
    jacobian, parameters = probed.jacobian, probed.jacobian.shape[1]
    noise = noise_of(probed, sigma, repeats, repeat_correlation)
    error = _with_tolerance(jacobian, probed.error, rtol, atol)
    change = _smallest_change(smallest_change, parameters)
    found = resolve(jacobian, error, noise) if certified is None else certified
    gauge = _gauge(jacobian, error, noise, probed.tangents, symmetry)
    null = np.zeros((0, parameters)) if probed.exact is None else _without(_exact_null_space(probed.exact), gauge)
    proven = np.concatenate([null, gauge])
    unresolved = _without(found.directions[found.rank :], proven)
    found, notes = _in_own_units(found, jacobian, noise, proven, certified is not None)
    directions = np.concatenate([found.directions[: found.rank], unresolved, null, gauge])
    status = [
        *_seen_or_weak(found, change),
        *[Status.UNRESOLVED] * len(unresolved),
        *[Status.NULL] * len(null),
        *[Status.GAUGE] * len(gauge),
    ]
    norms = _column_norms(jacobian, noise)
    unit = np.eye(BLOCK, parameters)
    errors = np.concatenate([floors(np.roll(unit, k, axis=1), found) for k in range(0, parameters, BLOCK)])[:parameters]
    share, carriers = _shares(jacobian, noise, found, probed.inputs, parameters)
    group_names, group_table = _groups(jacobian, error, noise, probed.groups, gauge, found, norms)
    blind = np.concatenate([unresolved, null])
    return Sensitivity(
        names=probed.names,
        groups=probed.groups,
        parameters=probed.parameters,
        singular_values=found.singular_values,
        directions=directions,
        status=tuple(status),
        scale=found.scale,
        scaled_singular_values=found.scaled_singular_values,
        scaled_directions=found.scaled_directions,
        resolution=found.resolution,
        raw_singular_values=_raw(jacobian, noise, found),
        standard_errors=errors,
        column_norms=norms,
        input_share=share,
        carriers=carriers,
        group_names=group_names,
        group_table=group_table,
        readings=len(jacobian),
        derivative=probed.derivative,
        smallest_change=change,
        unseen=_phrases(blind, probed.names, _comparable(norms)),
        identifiable=_identifiable(found, probed.names, norms) if len(blind) else (),
        notes=(*probed.notes, *notes),
    )


def noise_of(probed: "Probed", sigma: Any, repeats: int, repeat_correlation: float) -> Whitening:
    """Return the whitening of the readings that are left, where some were NaN and left out."""
    values = sigma.covariance if hasattr(sigma, "covariance") else sigma
    if len(probed.kept) < probed.total:
        given = np.asarray(values)
        if given.ndim and given.shape[0] == probed.total:
            values = given[np.ix_(*[probed.kept] * given.ndim)]
    return whitening(values, len(probed.jacobian), repeats, repeat_correlation)


def _in_own_units(
    found: Directions, jacobian: Array, noise: Whitening, proven: Array, certified: bool
) -> tuple[Directions, tuple[str, ...]]:
    """Make the singular values in the user's units as accurate as what is proven allows, or leave them out."""
    if certified or found.rank in (0, len(found.scale)) or len(noise.noiseless):
        return found, ()
    if len(proven) == len(found.scale) - found.rank:
        return refined(found, jacobian, noise, proven), ()
    values = found.singular_values.copy()
    vague = values[: found.rank] < 64.0 * EPS * len(values) * values[0] / found.scaled_singular_values[found.rank - 1]
    if not vague.any():
        return found, ()
    values[: found.rank][vague] = np.nan
    note = (
        f"{int(vague.sum())} resolved directions are too weak, beside the strongest, for float64 to know their "
        "singular values in the parameters' units (NaN): those free of units, statuses and floors hold."
    )
    return replace(found, singular_values=values), (note,)


def _comparable(norms: Array) -> Array:
    """Return the effect of each parameter; a typical one where it is none or infinite."""
    usable = np.isfinite(norms) & (norms > 0.0)
    return np.where(usable, norms, np.median(norms[usable]) if usable.any() else 1.0)


def _with_tolerance(jacobian: Array, error: Array | None, rtol: float | None, atol: float | None) -> Array | None:
    if rtol is None and atol is None:
        return error
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not 0.0 <= value < np.inf:
            msg = f"{name} must be finite and not negative; got {value!r}"
            raise ValueError(msg)
    given = (atol or 0.0) + (rtol or 0.0) * np.abs(jacobian)
    return np.maximum(given, EPS * np.abs(jacobian) if error is None else error)


def _smallest_change(smallest: npt.ArrayLike | None, parameters: int) -> Array | None:
    if smallest is None:
        return None
    sizes = np.atleast_1d(np.asarray(smallest, dtype=np.float64))
    if sizes.shape not in ((1,), (parameters,)):
        msg = (
            f"smallest_change must be a number or have one entry for each of the {parameters} parameters; "
            f"got shape {sizes.shape}"
        )
        raise ValueError(msg)
    if not ((sizes > 0.0) & np.isfinite(sizes)).all():
        msg = f"smallest_change must be positive and finite; got {smallest!r}"
        raise ValueError(msg)
    return sizes


def _seen_or_weak(found: Directions, change: Array | None) -> list[Status]:
    """Return the status of each resolved direction: WEAK when its floor 1/s exceeds the change of interest along it."""
    if change is None:
        return [Status.SEEN] * found.rank
    along = found.directions[: found.rank]
    length = 1.0 / np.linalg.norm(along / change, axis=1) if change.size > 1 else np.full(found.rank, change[0])
    return [
        Status.SEEN if s * size >= 1.0 else Status.WEAK for s, size in zip(found.singular_values, length, strict=False)
    ]


def _gauge(
    jacobian: Array, error: Array | None, noise: Whitening, tangents: Array | None, symmetry: npt.ArrayLike | None
) -> Array:
    """Return orthonormal rows spanning the gauge: proven tangents of the model, and symmetries declared by the user."""
    parameters = jacobian.shape[1]
    columns = [np.zeros((parameters, 0))] if tangents is None else [tangents]
    if symmetry is not None:
        declared = np.asarray(symmetry, dtype=np.float64)
        declared = declared[:, None] if declared.ndim == 1 else declared
        if declared.ndim != 2 or len(declared) != parameters or not np.isfinite(declared).all():
            msg = f"symmetry must be finite, of shape ({parameters}, symmetries); got shape {declared.shape}"
            raise ValueError(msg)
        moved = np.abs(jacobian @ declared)
        allowed = (EPS * np.abs(jacobian) if error is None else error) @ np.abs(declared)
        allowed += parameters * EPS * (np.abs(jacobian) @ np.abs(declared))
        if (moved > allowed).any():
            row, k = (int(i) for i in np.argwhere(moved > allowed)[0])
            msg = f"symmetry {k} is none: a unit step along it moves reading {row} by {moved[row, k]:.3g}"
            raise ValueError(msg)
        columns.append(declared)
    return _span(np.concatenate(columns, axis=1).T)


def _span(rows: Array) -> Array:
    """Return an orthonormal basis of the span of rows, those of length zero or dependent left out."""
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows[lengths > 0.0] / lengths[lengths > 0.0, None]
    if not len(rows):
        return rows
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(right[values > 1e-10 * values[0]])


def _without(rows: Array, removed: Array) -> Array:
    """Return an orthonormal basis of what is left of a subspace when another, inside it, is taken out."""
    left = len(rows) - len(removed)
    if left < 0:
        msg = (
            f"{len(removed)} directions are proven to be unseen, but only {len(rows)} were not resolved: "
            "the error given for the Jacobian is too small"
        )
        raise ArithmeticError(msg)
    if not len(removed) or left == 0:
        return rows[:left]
    _, _, right = np.linalg.svd(rows - (rows @ removed.T) @ removed, full_matrices=False)
    return np.asarray(right[:left])


def _exact_null_space(exact: npt.NDArray[np.object_]) -> Array:
    """Return orthonormal rows spanning the null space of exact entries, found in rational arithmetic."""
    from estim.arithmetic import as_float, as_rationals, from_rationals
    from estim.attention.effective import null_space

    return _span(as_float(from_rationals(null_space(as_rationals(exact)))).T)


def _column_norms(jacobian: Array, noise: Whitening) -> Array:
    """Return how far one unit of each parameter moves the whitened readings; infinite where a noiseless one moves."""
    norms = np.sqrt(sum(np.square(block).sum(axis=0) for block in noise.blocks(jacobian, BLOCK)))
    moved = np.abs(noise.noiseless @ jacobian).max(axis=0, initial=0.0)
    return np.where(moved > 0.0, np.inf, norms)


def _raw(jacobian: Array, noise: Whitening, found: Directions) -> Array:
    """Return the singular values as float64 has them, without any decision where not all are resolved."""
    if found.rank == min(jacobian.shape):
        return found.singular_values
    known = int(np.isinf(found.singular_values).sum())
    values = np.linalg.svd(np.concatenate(list(noise.blocks(jacobian, BLOCK))), compute_uv=False)
    raw = np.concatenate([np.full(known, np.inf), values, np.zeros(jacobian.shape[1])])
    return np.asarray(raw[: jacobian.shape[1]])


def _shares(
    jacobian: Array, noise: Whitening, found: Directions, inputs: npt.NDArray[np.int64], parameters: int
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return each input's share in each resolved direction, and the readings that contribute most to it."""
    count = int(inputs.max()) + 1
    share = np.zeros((count, parameters))
    carriers = np.full((parameters, min(CARRIERS, len(jacobian))), -1, dtype=np.int64)
    most = carriers.shape[1]
    for start in range(0, found.rank, 32):
        part = slice(start, min(start + 32, found.rank))
        moved = jacobian @ found.directions[part].T
        known = np.isinf(found.singular_values[part])
        parts = noise.contributions(moved)
        if known.any():
            rows = noise.noiseless @ moved[:, known]
            parts[:, known] = np.abs(noise.noiseless.T) @ np.square(rows)
        total = parts.sum(axis=0)
        parts /= np.where(total > 0.0, total, 1.0)
        np.add.at(share[:, part], inputs, parts)
        carriers[part] = _largest(parts, most).T
    return share, carriers


def _largest(parts: Array, most: int) -> npt.NDArray[np.int64]:
    """Return the rows of the largest entries of each column, largest first."""
    first = np.argpartition(-parts, most - 1, axis=0)[:most]
    order = np.argsort(-np.take_along_axis(parts, first, axis=0), axis=0, kind="stable")
    return np.asarray(np.take_along_axis(first, order, axis=0), dtype=np.int64)


def _groups(
    jacobian: Array,
    error: Array | None,
    noise: Whitening,
    groups: tuple[str, ...],
    gauge: Array,
    whole: Directions,
    norms: Array,
) -> tuple[tuple[str, ...], Array]:
    """Resolve each group of columns by itself, the other parameters held fixed."""
    names = tuple(dict.fromkeys(groups))
    label = np.array(groups, dtype=object)
    table = np.zeros((len(names), 6))
    total = 0.0
    for k, name in enumerate(names):
        member = label == name
        found, size = whole, int(member.sum())
        within = _within(gauge, member)
        inside = len(within)
        if not member.all():
            part = jacobian[:, member]
            found = resolve(part, None if error is None else error[:, member], noise)
            found, _ = _in_own_units(found, part, noise, within, False)
        values = found.singular_values[: found.rank]
        information = float(np.square(norms[member]).sum())
        total += information
        best = 1.0 / values[0] if found.rank else np.inf
        worst = 1.0 / values[-1] if found.rank == size - inside and found.rank else np.inf
        table[k] = size, found.rank, best, worst, information, inside
    with np.errstate(invalid="ignore"):
        table[:, 4] /= total if total > 0.0 else 1.0
    return names, table


def _within(gauge: Array, member: npt.NDArray[np.bool_]) -> Array:
    """Return orthonormal rows, over the members alone, of the gauge directions that touch no other parameter."""
    if not len(gauge) or member.all():
        return gauge
    left, outside, _ = np.linalg.svd(gauge[:, ~member])
    touching = int(np.count_nonzero(outside > 1e-8))
    return _span((left.T @ gauge)[touching:, member])


def _identifiable(found: Directions, names: tuple[str, ...], norms: Array) -> tuple[str, ...]:
    """Put in words the seen combinations of several parameters; those of one have a finite standard error."""
    if len(names) > MOST_NAMES:
        return ()
    functionals = found.scaled_directions[: found.rank] * found.scale
    phrases = _phrases(functionals, names, 1.0 / _comparable(norms))
    return tuple(text for text in phrases if " " in text)


def _phrases(rows: Array, names: tuple[str, ...], scale: Array) -> tuple[str, ...]:
    """Put a subspace in words, a dozen combinations at most."""
    if not len(rows):
        return ()
    found = combinations(rows, names, scale)
    if len(found) <= MOST_PHRASES:
        return found
    return (*found[:MOST_PHRASES], f"... and {len(found) - MOST_PHRASES} more combinations")


def certified_directions(model: Any, bank: Any, noise: Whitening, digits: int) -> Directions:
    """Return the directions of a network decided in certified arithmetic; raises TypeError for another model."""
    from estim.attention import Network

    if not isinstance(model, Network):
        kind = type(model).__name__
        msg = f"digits need an attention.Network, or exact entries in Sensitivity.from_jacobian; got {kind}"
        raise TypeError(msg)
    from estim.probe.certified import network_directions

    return network_directions(model, bank, noise, digits)


def from_jacobian(
    jacobian: Any,
    sigma: Any,
    *,
    jac_error: npt.ArrayLike | None,
    parameters: npt.ArrayLike | None,
    names: Sequence[str] | None,
    groups: Sequence[str] | None,
    inputs: npt.ArrayLike | None,
    digits: int | None,
    nan_policy: str,
    **options: Any,
) -> Sensitivity:
    """Make the record of `Sensitivity.from_jacobian`."""
    from estim.probe.matrix import probe_matrix

    probed = probe_matrix(
        jacobian,
        jac_error=jac_error,
        parameters=parameters,
        names=names,
        groups=groups,
        inputs=inputs,
        nan_policy=nan_policy,
    )
    certified = None
    if digits is not None:
        from estim.probe.certified import matrix_directions

        noise = noise_of(probed, sigma, options["repeats"], options["repeat_correlation"])
        certified = matrix_directions(probed, noise, digits)
    return assemble(probed, sigma, certified=certified, **options)
