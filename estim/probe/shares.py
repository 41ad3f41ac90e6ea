"""Who carries the information: parameters one by one, inputs and readings, groups of parameters."""

import numpy as np
import numpy.typing as npt

from estim.probe.directions import BLOCK, Directions, resolve
from estim.probe.noise import Whitening, norms_of
from estim.probe.proven import gauge_within, in_own_units

Array = npt.NDArray[np.float64]

#: Readings named for each direction.
CARRIERS = 3
#: Singular values farther apart than this leave less than six digits of what the weak ones move.
GRADED_SHARES = 1e-9


def column_norms(jacobian: Array, noise: Whitening) -> Array:
    """Return how far one unit of each parameter moves the whitened readings; infinite where a noiseless one moves."""
    norms = norms_of(np.array([norms_of(block) for block in noise.blocks(jacobian, BLOCK)]))
    moved = np.abs(noise.noiseless @ jacobian).max(axis=0, initial=0.0)
    return np.where(moved > 0.0, np.inf, norms)


def shares_of_inputs(
    jacobian: Array, noise: Whitening, found: Directions, inputs: npt.NDArray[np.int64], parameters: int
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return each input's share in each resolved direction, and the readings that contribute most to it."""
    count = int(inputs.max()) + 1
    share = np.zeros((count, parameters))
    carriers = np.full((parameters, min(CARRIERS, len(jacobian))), -1, dtype=np.int64)
    most = carriers.shape[1]
    cleaned = _cleaned(jacobian, noise, found)
    for start in range(0, found.rank, 32):
        part = slice(start, min(start + 32, found.rank))
        moved = jacobian @ found.directions[part].T if cleaned is None else cleaned[:, part].copy()
        known = np.isinf(found.singular_values[part])
        moved /= np.maximum(np.abs(moved).max(axis=0), np.finfo(float).tiny)  # shares are relative: nothing overflows
        parts = noise.contributions(moved)
        if known.any():
            rows = noise.noiseless @ moved[:, known]
            parts[:, known] = np.abs(noise.noiseless.T) @ np.square(rows)
        total = parts.sum(axis=0)
        parts /= np.where(total > 0.0, total, 1.0)
        np.add.at(share[:, part], inputs, parts)
        carriers[part] = _largest(parts, most).T
    return share, carriers


def _cleaned(jacobian: Array, noise: Whitening, found: Directions) -> Array | None:
    """Return what resolved directions move, (readings, resolved), where strong ones drown weak ones; else None.

    A direction is known to rounding, and times the strongest singular value that can exceed a weak one. What the
    directions move is orthogonal once whitened: made so from the strongest on, each is freed of those before it.
    """
    values = found.singular_values[: found.rank]
    finite = values[np.isfinite(values)]
    if len(noise.noiseless) or not finite.size or finite.min() > GRADED_SHARES * finite.max():
        return None
    from scipy.linalg import solve_triangular

    moved = jacobian @ found.directions[: found.rank].T
    whitened = moved * noise.scale[:, None] if noise.forward is None else noise.forward @ moved
    triangle = np.linalg.qr(whitened, mode="r")
    return np.asarray(solve_triangular(triangle, moved.T, trans="T").T)


def _largest(parts: Array, most: int) -> npt.NDArray[np.int64]:
    """Return the rows of the largest entries of each column, largest first."""
    first = np.argpartition(-parts, most - 1, axis=0)[:most]
    order = np.argsort(-np.take_along_axis(parts, first, axis=0), axis=0, kind="stable")
    return np.asarray(np.take_along_axis(first, order, axis=0), dtype=np.int64)


def groups_alone(
    jacobian: Array,
    error: Array | None,
    noise: Whitening,
    groups: tuple[str, ...],
    gauge: Array,
    whole: Directions,
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
            part = jacobian[:, member]
            found = resolve(part, None if error is None else error[:, member], noise)
            found, _ = in_own_units(found, part, noise, within, False)
        values = found.singular_values[: found.rank]
        best = 1.0 / values[0] if found.rank else np.inf
        worst = 1.0 / values[-1] if found.rank == size - inside and found.rank else np.inf
        table[k] = size, found.rank, best, worst, weight[member].sum(), inside
    return names, table
