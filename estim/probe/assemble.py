"""From a Jacobian with its error to the sensitivity record: statuses, floors, shares of inputs and groups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import is_one_number
from estim.probe.derivatives.rough import without_rough
from estim.probe.directions.condensed import Condensed, condense
from estim.probe.directions.factored import joined
from estim.probe.directions.floors import standard_errors
from estim.probe.directions.graded_svd import complement
from estim.probe.directions.noise import Whitening, noise_of
from estim.probe.directions.proven import Subspace, exact_null_space, gauge_of
from estim.probe.directions.readout import measured
from estim.probe.directions.resolve import Directions, resolve, undecided
from estim.probe.directions.shares import carriers_of, group_table, groups_alone
from estim.probe.doubts import doubts
from estim.probe.labels import in_order
from estim.probe.model.names_of_inputs import names_of_inputs
from estim.probe.order_of_inputs import require_order_of_bank
from estim.probe.record import Sensitivity
from estim.probe.status import Status
from estim.probe.words import blind_notes, combinations, noise_phrase
from estim.real_numbers import real_number, reals

if TYPE_CHECKING:
    from estim.probe.model.probed import Probed

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
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
    error = with_tolerance(jacobian, probed.take_error(), rtol, atol)
    change = _smallest_change(in_order(smallest_change, probed.names, "smallest_change"), parameters)
    condensed = condense(jacobian, error, noise)
    norms = condensed.column_norms()
    gauge, null = _proven(probed, error, symmetry, condensed)
    del error
    alone = groups_alone(condensed, probed.groups, gauge)
    scale, held = condensed.scale, [condensed]
    del condensed  # so that it need not be held beside all that is found in it
    if certified is None:
        found = resolve(held.pop(), null.beside(gauge))
    else:
        found = replace(certified, undecided=undecided(held.pop().noisy) if certified.rank < parameters else None)
        null, gauge = (part.rescaled(found.scale / scale) for part in (null, gauge))
    readout = measured(jacobian, noise, found)
    carriers, unshared = carriers_of(found, readout)
    hidden, proven = _in_order(found, null.beside(gauge)), len(null) + len(gauge)
    _complete(found)
    status = (
        *_seen_or_weak(found, change),
        *[Status.UNRESOLVED] * hidden,
        *[Status.NULL] * len(null),
        *[Status.GAUGE] * len(gauge),
    )
    group_names, table = group_table(alone, probed.groups, len(gauge), found)
    return Sensitivity(
        names=probed.names,
        groups=probed.groups,
        parameters=probed.parameters,
        singular_values=found.singular_values,
        directions=found.directions,
        status=status,
        scale=found.scale,
        scaled_singular_values=found.scaled_singular_values,
        scaled_directions=found.scaled_directions,
        resolution=found.resolution,
        raw_singular_values=found.raw_singular_values(),
        standard_errors=standard_errors(
            found.scale, found.scaled_singular_values[: found.rank], found.scaled_directions, found.resolution
        ),
        column_norms=norms,
        inputs=probed.inputs,
        carriers=carriers,
        group_names=group_names,
        group_table=table,
        readings=len(jacobian),
        left_out=np.setdiff1d(np.arange(probed.total), probed.kept),
        **readout,
        repeats=int(repeats),
        repeat_correlation=float(repeat_correlation),
        relative_norm=probed.relative_norm,
        derivative=probed.derivative,
        smallest_change=change,
        unseen=_unseen(found, len(gauge), probed.names, norms),
        identifiable=_identifiable(found, probed.names, norms) if hidden or len(null) else (),
        notes=(
            *probed.notes,
            *blind_notes(found.rank),
            *unshared,
            *doubts(found, alone),
            *_beyond_counting(len(jacobian), parameters - proven),
        ),
        noise=noise_phrase(sigma, repeats),
        input_names=(),
    )


def _proven(
    probed: "Probed", error: Array | None, symmetry: npt.ArrayLike | None, condensed: Condensed
) -> tuple[Subspace, Subspace]:
    """Return the gauge, and what else is proven to be null."""
    scale = condensed.scale
    gauge = gauge_of(probed.jacobian, error, probed.tangents, symmetry, scale, condensed.idle())
    if probed.exact is None:
        return gauge, Subspace(gauge.rows[:0], gauge.scaled[:0])
    return gauge, exact_null_space(probed.exact, scale).without(gauge)


def _in_order(found: Directions, proven: Subspace) -> int:
    """Put what is proven last among the directions not seen, in place, and return how many others there are."""
    unseen = Subspace(found.directions[found.rank :], found.scaled_directions[found.rank :])
    if len(proven):
        ordered = unseen.without(proven).beside(proven)
        unseen.rows[:], unseen.scaled[:] = ordered.rows, ordered.scaled
    return len(unseen) - len(proven)


def _complete(found: Directions) -> None:
    """Have resolved directions of values that are not known span what the others leave, in place."""
    vague = np.isnan(found.singular_values)
    if vague.any():
        found.directions[vague] = complement(found.directions[~vague])


def _beyond_counting(readings: int, directions: int) -> tuple[str, ...]:
    """Say that fewer readings than directions not proven to be unseen leave some unseen, whatever the digits."""
    beyond = directions - readings
    if beyond <= 0:
        return ()
    return (
        f"{readings} readings see at most {readings} directions: at least {beyond} of the unresolved ones are beyond "
        "them, whatever the digits; only other inputs can help.",
    )


def _comparable(norms: Array) -> Array:
    """Return the effect of each parameter; a typical one where it is none or infinite."""
    usable = np.isfinite(norms) & (norms > 0.0)
    return np.where(usable, norms, np.median(norms[usable]) if usable.any() else 1.0)


def with_tolerance(jacobian: Array, error: Array | None, rtol: float | None, atol: float | None) -> Array | None:
    """Return the error of a Jacobian's entries, what a user knows of it included."""
    if rtol is None and atol is None:
        return error
    given = _tolerance(atol, "atol") + _tolerance(rtol, "rtol") * np.abs(jacobian)
    return np.maximum(given, EPS * np.abs(jacobian) if error is None else error)


def _tolerance(value: float | None, argument: str) -> float:
    number = 0.0 if value is None else real_number(value, argument)
    if not 0.0 <= number < np.inf:
        msg = f"{argument} must be finite and not negative; got {value!r}"
        raise ValueError(msg)
    return number


def _smallest_change(smallest: npt.ArrayLike | None, parameters: int) -> Array | None:
    if smallest is None:
        return None
    if is_one_number(smallest):
        smallest = real_number(smallest, "smallest_change")
    sizes = np.atleast_1d(reals(smallest, "smallest_change"))  # a copy, as the record keeps it
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
    """Return the status of each resolved direction: WEAK when its floor 1/s exceeds the change of interest along it.

    With a change for each parameter, s is taken with the parameters in units of these: how many are WEAK then depends
    on no units, and the weakest are.
    """
    if change is None:
        return [Status.SEEN] * found.rank
    if change.size == 1:
        unknown = int(np.isnan(found.singular_values[: found.rank]).sum())
        if unknown:
            msg = (
                f"smallest_change, one number for all, cannot be compared with {unknown} of the floors: they are "
                "not known in the parameters' units; give one for each parameter, or parameters of like units"
            )
            raise ValueError(msg)
        seen = int(np.count_nonzero(found.singular_values[: found.rank] * change[0] >= 1.0))
    else:
        values = found.scaled_singular_values[: found.rank]
        known = int(np.isinf(values).sum())
        rows = values[known:, None] * found.scaled_directions[known : found.rank] * (found.scale * change)
        seen = known + int(np.count_nonzero(np.linalg.svd(rows, compute_uv=False) >= 1.0)) if len(rows) else known
    return [Status.SEEN] * seen + [Status.WEAK] * (found.rank - seen)


def _unseen(found: Directions, gauge: int, names: tuple[str, ...], norms: Array) -> tuple[str, ...]:
    """Put in words what is not seen, so many gauges, the last directions, left out."""
    # In parameters of equal effect: in unit vectors the small entry of a strong parameter can be rounding.
    rows, rank, last = found.scaled_directions, found.rank, len(names) - gauge
    fewer = len(names) - last + rank < last - rank  # only where it is the smaller one is what is seen worth a copy
    beside = joined(rows[:rank], rows[last:]) * found.scale if fewer else None
    return combinations(rows[rank:last] / found.scale, names, _comparable(norms), MOST_PHRASES, beside)


def _identifiable(found: Directions, names: tuple[str, ...], norms: Array) -> tuple[str, ...]:
    """Put in words the seen combinations of several parameters; those of one have a finite standard error."""
    if len(names) > MOST_NAMES:
        return ()
    functionals = found.scaled_directions[: found.rank] * found.scale
    phrases = combinations(functionals, names, 1.0 / _comparable(norms), MOST_PHRASES)
    return tuple(text for text in phrases if " " in text and text not in names)


def certified_directions(model: Any, bank: Any, noise: Whitening, digits: int) -> Directions:
    """Return the directions of a network decided in certified arithmetic; raises TypeError for another model."""
    from estim.attention import Network

    if not isinstance(model, Network):
        kind = type(model).__name__
        msg = f"digits need an attention.Network, or exact entries in Sensitivity.from_jacobian; got {kind}"
        raise TypeError(msg)
    from estim.probe.directions.certified import network_directions

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
    from estim.probe.model.matrix import probe_matrix

    require_order_of_bank(sigma, jacobian)
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
        from estim.probe.directions.certified import matrix_directions

        noise = noise_of(probed, sigma, options["repeats"], options["repeat_correlation"])
        certified = matrix_directions(probed, noise, digits)
    else:
        probed, sigma = without_rough(probed, sigma, options["repeats"], options["repeat_correlation"])
    found = assemble(probed, sigma, certified=certified, **options)
    named = names_of_inputs(jacobian, probed.total) if inputs is None else ()
    return replace(found, input_names=named) if named else found
