"""Who carries the information: inputs and readings, groups of parameters."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.condensed import Condensed
from estim.probe.directions import Directions, resolve
from estim.probe.noise import Whitening
from estim.probe.proven import gauge_within

Array = NDArray[np.float64]

#: Readings named for each direction.
CARRIERS = 3
#: Shares that may be off by more than this are not given.
TOLERANCE = 0.01
#: Directions at a time: as many fit in memory beside any Jacobian.
_BLOCK = 64


def shares_of_inputs(
    jacobian: Array, noise: Whitening, found: Directions, inputs: NDArray[np.int64]
) -> tuple[Array, NDArray[np.int64], tuple[str, ...]]:
    """Return each input's share in each resolved direction, the readings that contribute most to it, and notes.

    Shares that are not known are NaN, their readings -1.
    """
    parameters = len(found.scale)
    share = np.zeros((int(inputs.max()) + 1, parameters))
    carriers = np.full((parameters, min(CARRIERS, len(jacobian))), -1, dtype=np.int64)
    # Shares are squares: twice the error of what they are squares of.
    trusted = 2.0 * found.moved.error <= TOLERANCE
    share[:, : found.rank][:, ~trusted] = np.nan
    directions = np.flatnonzero(trusted)
    columns, weights = found.moved.columns, found.moved.weights
    if columns is None:
        columns, weights = jacobian, weights / found.scale[:, None]
    for block in np.split(directions, range(_BLOCK, len(directions), _BLOCK)):
        moved = columns @ weights[:, block]
        known = np.isinf(found.singular_values[block])
        parts = noise.contributions(moved)
        if known.any():
            parts[:, known] = noise.known_contributions(moved[:, known])
        parts /= parts.sum(axis=0)  # one, but for rounding
        share[:, block] = _sums(parts, inputs, len(share))
        carriers[block] = _largest(parts, carriers.shape[1])
    unknown = int(np.count_nonzero(~trusted))
    note = (
        f"{unknown} resolved directions are known too roughly for the shares of inputs in them (NaN), and the readings "
        f"that carry them, to be right to {TOLERANCE:g}.",
    )
    return share, carriers, note if unknown else ()


def _sums(parts: Array, inputs: NDArray[np.int64], count: int) -> Array:
    """Add up the rows of each input."""
    if len(parts) == count and (inputs == np.arange(count)).all():
        return parts
    order = np.argsort(inputs, kind="stable")
    first = np.flatnonzero(np.diff(inputs[order], prepend=-1))
    sums = np.zeros((count, parts.shape[1]))
    sums[inputs[order[first]]] = np.add.reduceat(parts[order], first, axis=0)
    return sums


def _largest(parts: Array, most: int) -> NDArray[np.int64]:
    """Return the rows of the largest entries of each column, (columns, most), largest first."""
    left = np.array(parts.T, order="C")
    found = np.empty((len(left), most), dtype=np.int64)
    for k in range(most):
        found[:, k] = left.argmax(axis=1)
        left[np.arange(len(left)), found[:, k]] = -np.inf
    return found


def groups_alone(
    condensed: Condensed, groups: tuple[str, ...], gauge: Array, whole: Directions
) -> tuple[tuple[str, ...], Array]:
    """Resolve each group of columns by itself, the other parameters held fixed."""
    names = tuple(dict.fromkeys(groups))
    label = np.array(groups, dtype=object)
    table = np.zeros((len(names), 6))
    weight = np.square(whole.scaled_directions[: whole.rank]).sum(axis=0) / max(whole.rank, 1)
    for k, name in enumerate(names):
        member = label == name
        found, size = whole, int(member.sum())
        within = gauge_within(gauge, member)
        inside = len(within)
        if not member.all():
            found = resolve(condensed.columns(member), within)
        values = found.singular_values[: found.rank]
        best = 1.0 / values[0] if found.rank else np.inf
        worst = 1.0 / values[-1] if found.rank == size - inside and found.rank else np.inf
        table[k] = size, found.rank, best, worst, weight[member].sum(), inside
    return names, table
