"""What the changes of a set move, and how much of that the Jacobian's own error may have added."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.probe.directions.graded_svd import svd
from estim.probe.directions.independent import basis_of, freed, strength
from estim.probe.directions.noise import norms_of
from estim.probe.verdict.hardest import Coordinates, most_doubt

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

#: Random directions drawn for a typical change.
DIRECTIONS = 500
#: Part of a shift that its doubt must exceed to be worth a note, or a closer look.
NOTABLE = 0.01
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)


def doubt_of_set(found: "Sensitivity", where: Coordinates, matrix: Array, basis: Array | None, value: float) -> float:
    """Return how much less the Jacobian's own error lets changes move: not the hardest alone, another may become it."""
    if not np.isfinite(found.resolution):
        return np.inf
    seen = found.scaled_singular_values[: found.resolved]
    part = found.resolution / float(seen.min())
    if part <= NOTABLE:
        return part * value
    scaled = _of_equal_effect(found, where)
    if basis is None:
        return most_doubt(value, matrix, scaled, found.resolution)
    scaled = np.diag(scaled) if scaled.ndim == 1 else scaled
    return most_doubt(value, matrix @ basis, scaled @ basis, found.resolution)


def _of_equal_effect(found: "Sensitivity", where: Coordinates) -> Array:
    """Return the coordinates in parameters of equal effect: as `Coordinates.to_change`."""
    scale = found.scale[where.members]
    return scale * where.to_change if where.to_change.ndim == 1 else scale[:, None] * where.to_change


def moved_by(found: "Sensitivity", where: Coordinates) -> tuple[Array, Array]:
    """Return what coordinates move, noisy directions (in standard deviations) and those known without noise."""
    resolved = found.resolved
    along = where.moved(found.scaled_directions[:resolved] * found.scale)
    values = found.scaled_singular_values[:resolved]
    known = np.isinf(values)
    if not known.any():
        along *= values[:, None]
        return along, along[:0]
    return values[~known, None] * along[~known], along[known]


def inverse_of(found: "Sensitivity", where: Coordinates) -> Array | None:
    """Return the inverse of what coordinates move, where all parameters change and all directions are resolved."""
    count = len(found.names)
    if not found.resolved == where.dimension == count or where.to_change.ndim == 2:
        return None
    directions = found.scaled_directions / found.scaled_singular_values[:, None]
    return np.asarray(directions.T / (found.scale[where.members] * where.to_change)[:, None])


def without_known(found: "Sensitivity", where: Coordinates, known: Array) -> Array:
    """Return an orthonormal basis of the coordinates that move nothing known without noise.

    Found in coordinates of equal effect: in others what is known may be parallel to rounding.
    """
    from scipy.linalg import qr

    scaled = _of_equal_effect(found, where)
    sizes = np.abs(scaled) if scaled.ndim == 1 else norms_of(scaled)
    rows = known / sizes
    count = int(np.count_nonzero(svd(rows.copy()).values > _ROUNDING * len(rows)))
    *_, chosen = qr(rows.T, mode="r", pivoting=True)
    rows = rows[chosen[:count]]
    *_, order = qr(rows * strength(sizes), mode="r", pivoting=True)
    return basis_of(freed(rows, order[:count], order[count:]) / sizes).T


def random_shifts(
    found: "Sensitivity", where: Coordinates, size: float, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return the shifts of random directions, uniform on the unit sphere of the norm, ascending, and the most doubt."""
    drawn = rng.standard_normal((where.dimension, DIRECTIONS))
    drawn /= np.linalg.norm(drawn, axis=0)
    matrix, known = moved_by(found, where)
    shifts = size * norms_of(matrix @ drawn)
    if len(known) and np.abs(known).max() > _ROUNDING:
        return np.full(DIRECTIONS, np.inf), 0.0
    scaled = _of_equal_effect(found, where)
    doubts = size * norms_of(scaled[:, None] * drawn if scaled.ndim == 1 else scaled @ drawn)
    doubts = found.resolution * doubts if np.isfinite(found.resolution) else np.full(DIRECTIONS, np.inf)
    return np.sort(np.maximum(shifts - doubts, 0.0)), float(doubts.max())
