"""Who carries the information: inputs and readings, groups of parameters."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.condensed import Condensed
from estim.probe.directions.factored import ROUNDING
from estim.probe.directions.noise import norms_of
from estim.probe.directions.proven import Subspace, gauge_within
from estim.probe.directions.resolve import Directions, resolve

Array = NDArray[np.float64]

#: Readings named for each direction.
CARRIERS = 3
#: Shares that may be off by more than this are not given.
TOLERANCE = 0.01
#: Directions at a time: four copies of their readings are held beside the whole readout.
_BLOCK = 8


def carriers_of(found: Directions, readout: dict[str, Array]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the readings that contribute most to each resolved direction, (directions, up to 3), and notes.

    They are -1 where shares are not known, and for directions not resolved. `readout` holds the fields of the record
    by `estim.probe.directions.readout.measured`.
    """
    readings = readout["whitening"].shape[-1]
    carriers = np.full((len(found.scale), min(CARRIERS, readings)), -1, dtype=np.int64)
    # Shares are squares: twice the error of what they are squares of.
    trusted = 2.0 * found.moved.error <= TOLERANCE
    for block, parts in _contributions(np.flatnonzero(trusted), **readout):
        carriers[block] = largest(parts, carriers.shape[1])
    unknown = int(np.count_nonzero(~trusted))
    note = (
        f"{unknown} resolved directions are known too roughly for the shares of inputs in them (NaN), and the readings "
        f"that carry them, to be right to {TOLERANCE:g}.",
    )
    return carriers, note if unknown else ()


def shares_of_inputs(inputs: NDArray[np.int64], trusted: NDArray[np.bool_], readout: dict[str, Array]) -> Array:
    """Return each input's share in each resolved direction, (inputs, resolved); NaN where not to be trusted."""
    share = np.full((int(inputs.max()) + 1, len(trusted)), np.nan)
    for block, parts in _contributions(np.flatnonzero(trusted), **readout):
        share[:, block] = _sums(parts, inputs, len(share))
    return share


def _contributions(
    directions: NDArray[np.intp], *, readout: Array, known_readout: Array, whitening: Array, noiseless: Array
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Yield some directions at a time with each reading's part in what they move, (readings, some), adding up to 1."""
    fixed = known_readout.shape[1] if known_readout.size else 0
    for block in _blocks(directions[directions < fixed]):
        parts = _parts_without_noise(known_readout[:, block], whitening, noiseless)
        yield block, parts / parts.sum(axis=0)
    noisy = directions[directions >= fixed]
    back = None if whitening.ndim == 1 or not len(noisy) else _unwhitened(readout, whitening, noiseless)
    for block in _blocks(noisy):
        moved = readout[:, block - fixed]
        # Of correlated readings: the movement of each, times its weight in all that is moved; it can be negative.
        parts = np.square(moved) if back is None else back[:, block - fixed] * (whitening.T @ moved)
        yield block, parts / parts.sum(axis=0)


def _blocks(directions: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return np.split(directions, range(_BLOCK, len(directions), _BLOCK)) if len(directions) else []


def _parts_without_noise(known: Array, whitening: Array, noiseless: Array) -> Array:
    if whitening.ndim == 2:
        return np.asarray(np.abs(noiseless.T) @ np.square(known))
    parts = np.zeros((len(whitening), known.shape[1]))
    parts[whitening == 0.0] = np.square(known)
    return parts


def _unwhitened(readout: Array, whitening: Array, noiseless: Array) -> Array:
    """Return what moves correlated readings so, and nothing that is known without noise."""
    if not len(noiseless):
        return np.asarray(np.linalg.solve(whitening, readout))
    still = np.zeros((len(noiseless), readout.shape[1]))
    everything = np.concatenate([whitening, noiseless])
    return np.asarray(np.linalg.solve(everything, np.concatenate([readout, still])))


def _sums(parts: Array, inputs: NDArray[np.int64], count: int) -> Array:
    """Add up the rows of each input."""
    if len(parts) == count and (inputs == np.arange(count)).all():
        return parts
    order = np.argsort(inputs, kind="stable")
    first = np.flatnonzero(np.diff(inputs[order], prepend=-1))
    sums = np.zeros((count, parts.shape[1]))
    sums[inputs[order[first]]] = np.add.reduceat(parts[order], first, axis=0)
    return sums


def largest(parts: Array, most: int) -> NDArray[np.int64]:
    """Return the rows of the largest entries of each column, (columns, most), largest first."""
    left = np.array(parts.T, order="C")
    found = np.empty((len(left), most), dtype=np.int64)
    for k in range(most):
        found[:, k] = left.argmax(axis=1)
        left[np.arange(len(left)), found[:, k]] = -np.inf
    return found


class Alone(NamedTuple):
    """What is seen of a group of parameters, the others held fixed."""

    size: int
    seen: int
    best: float
    worst: float
    gauge: int
    """Dimension of the gauge inside."""
    doubt: float = 0.0
    """Relative error of the worst floor, at most."""


def groups_alone(condensed: Condensed, groups: tuple[str, ...], gauge: Subspace) -> dict[str, Alone]:
    """Resolve each group of columns by itself, the other parameters held fixed: the group's row of `group_table`.

    Nothing for a group of all parameters.
    """
    floors, scale = _floors_alone(condensed), condensed.scale
    rows: dict[str, Alone] = {}
    for name, places in _places(groups).items():
        if len(places) == len(groups):
            continue
        member = np.zeros(len(groups), dtype=bool)
        member[places] = True
        within = gauge_within(gauge, member, scale)
        if len(places) == 1:  # nothing to decompose
            floor = float(floors[places[0]])
            rows[name] = Alone(1, int(floor < np.inf), floor, floor, len(within))
        else:
            rows[name] = _row(resolve(condensed.columns(member), within), len(within))
    return rows


def _floors_alone(condensed: Condensed) -> Array:
    """Return the floor of each parameter, all others held fixed; infinite where its column is lost in its error."""
    noisy, known = norms_of(condensed.noisy), norms_of(condensed.noiseless)
    with np.errstate(divide="ignore"):
        floors = np.where(noisy * (1.0 - ROUNDING) > condensed.slack, 1.0 / noisy, np.inf)
    return np.where(known * (1.0 - ROUNDING) > condensed.noiseless_slack, 0.0, floors)


def group_table(
    alone: dict[str, Alone], groups: tuple[str, ...], gauge: int, whole: Directions
) -> tuple[tuple[str, ...], Array]:
    """Return the names of the groups, and what is seen of each alone with its share in the directions of all.

    `gauge` is the dimension of the whole gauge.
    """
    places = _places(groups)
    along = whole.scaled_directions[: whole.rank]
    weight = np.einsum("ij,ij->j", along, along) / max(whole.rank, 1)
    rows = alone or {name: _row(whole, gauge) for name in places}
    table = [(*rows[name][:4], weight[places[name]].sum(), rows[name].gauge) for name in places]
    return tuple(places), np.array(table)


def _places(groups: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the places of each group's parameters."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(groups):
        places.setdefault(name, []).append(place)
    return places


def _row(found: Directions, inside: int) -> Alone:
    size, values = len(found.scale), found.singular_values[: found.rank]
    best = 1.0 / values[0] if found.rank else np.inf
    worst = 1.0 / values[-1] if found.rank == size - inside and found.rank else np.inf
    weakest = found.scaled_singular_values[: found.rank].min(initial=np.inf)
    return Alone(size, found.rank, best, worst, inside, found.resolution / weakest if np.isfinite(weakest) else 0.0)
