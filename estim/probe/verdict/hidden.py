"""What of a set of changes is not seen: subspaces of directions that lie within some parameters, gauge left out."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.probe.directions.graded_svd import orthonormal
from estim.probe.directions.proven import inside, without

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

# Parts of a direction not seen that lie outside a group, by rounding and at most by doubt.
INSIDE = 1e-6
_MOST_DOUBT = 1e-3


def unseen_of(found: "Sensitivity", members: npt.NDArray[np.bool_]) -> tuple[Array, int]:
    """Return what of the members' changes is not seen, gauge left out, and how many of these are null.

    Rows in the parameters' units. What lies inside is decided in parameters of equal effect, so that units do not.
    """
    resolved = found.resolved
    rows = found.scaled_directions[resolved:]
    if not len(rows):
        return np.zeros((0, len(members))), 0
    # By Wedin's theorem the unseen subspace is known to the resolution over the weakest value that is resolved.
    values = found.scaled_singular_values[:resolved]
    values = values[np.isfinite(values)]
    doubt = 8.0 * found.resolution / float(values.min()) if values.size else 0.0
    tolerance = max(INSIDE, min(doubt, _MOST_DOUBT))
    gauge = inside(of_equal_effect(found, "gauge"), members, INSIDE)
    within = inside(rows, members, tolerance, found.scaled_directions[:resolved])
    free = without(within, gauge) if len(within) > len(gauge) else within[:0]
    proven = inside(of_equal_effect(found, "null", "gauge"), members, INSIDE)
    return free / found.scale, min(len(free), len(proven) - len(gauge))


def rows_of(found: "Sensitivity", *status: str) -> Array:
    """Return the directions of some statuses, (directions, parameters)."""
    return found.directions[[str(word) in status for word in found.status]]


def of_equal_effect(found: "Sensitivity", *status: str) -> Array:
    """Return orthonormal rows that span the directions of some statuses, in parameters of equal effect."""
    return found.scaled_directions[[str(word) in status for word in found.status]]


def free_of_gauge(gauge: Array, members: npt.NDArray[np.bool_], weights: Array) -> npt.NDArray[np.bool_]:
    """Return members whose changes stand for those of all, modulo gauge; `weights` measure a change.

    Left out are those that gauges within the members take up most: a change of such a one alone is nearly gauge, and
    what rounding would leave of it is not known, but together with that gauge it is a change of the others.
    """
    from scipy.linalg import qr

    rows = inside(orthonormal(gauge * weights), members, INSIDE)
    free = members.copy()
    if len(rows):
        *_, order = qr(rows, mode="r", pivoting=True)
        free[order[: len(rows)]] = False
    return free


def phrases(found: "Sensitivity", rows: Array) -> tuple[str, ...]:
    """Return rows, in the parameters' units, in words: the first six, or two where parameters are too many to read."""
    from estim.probe.words import combinations
    from estim.report import MOST_ROWS

    usable = np.isfinite(found.column_norms) & (found.column_norms > 0.0)
    return combinations(
        rows, found.names, np.where(usable, found.column_norms, 1.0), most=6 if rows.shape[1] <= MOST_ROWS else 2
    )
