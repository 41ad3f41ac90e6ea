"""What is proven not to be seen: gauge and null space."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.directions.blas import product
from estim.probe.directions.factored import joined
from estim.probe.directions.graded_svd import complement, orthonormal, svd
from estim.probe.directions.independent import basis_of, independent
from estim.probe.directions.noise import norms_of
from estim.real_numbers import reals

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
#: Readings at a time.
_ROWS = 512


@dataclass(frozen=True)
class Subspace:
    """A subspace of parameter space by two orthonormal bases.

    Where effects are decades apart neither tells the other: rows orthonormal in one kind of units are parallel to
    rounding in the other.
    """

    rows: Array
    """(dimension, parameters), in the parameters' units."""
    scaled: Array
    """(dimension, parameters), in the parameters times their effect."""

    def __len__(self) -> int:
        """Return the dimension."""
        return len(self.rows)

    def beside(self, other: "Subspace") -> "Subspace":
        """Return the sum with another, orthogonal in either kind of units, whose rows come last."""
        return Subspace(joined(self.rows, other.rows), joined(self.scaled, other.scaled))

    def without(self, removed: "Subspace") -> "Subspace":
        """Return what is left when another, inside it, is taken out."""
        return Subspace(without(self.rows, removed.rows), without(self.scaled, removed.scaled))

    def rescaled(self, factor: Array) -> "Subspace":
        """Return the same where effects are so many times as large; all about as many."""
        return Subspace(self.rows, orthonormal(self.scaled * factor))


def spanned(rows: Array, scale: Array) -> Subspace:
    """Return the span of independent rows."""
    return Subspace(basis_of(rows), basis_of(rows * scale))


def gauge_of(
    jacobian: Array,
    error: Array | None,
    tangents: Array | None,
    symmetry: npt.ArrayLike | None,
    scale: Array,
    idle: npt.NDArray[np.bool_],
) -> Subspace:
    """Return the gauge: proven tangents of the model, and symmetries declared by the user.

    Whether declared ones are independent is decided in parameters of equal effect, `scale`; `idle` are those without
    any. Tangents of a model are right to rounding of the largest, which other units would make of any size.
    """
    parameters = jacobian.shape[1]
    columns = [np.zeros((parameters, 0))] if tangents is None else [tangents]
    if symmetry is not None:
        declared = declared_symmetries(symmetry, parameters)
        for start in range(0, len(jacobian), _ROWS):
            part = slice(start, start + _ROWS)
            numbers = range(start, len(jacobian))
            require_still(jacobian[part], None if error is None else error[part], declared, numbers)
        columns.append(declared)
    rows, units = np.concatenate(columns, axis=1).T, scale
    if tangents is not None:
        units, idle = np.ones(parameters), np.zeros(parameters, dtype=bool)
    return spanned(independent(rows, units, idle), scale)


def declared_symmetries(symmetry: npt.ArrayLike, parameters: int) -> Array:
    """Return tangents that a user declares, (parameters, symmetries); raises ValueError when they do not fit."""
    declared = reals(symmetry, "symmetry")
    declared = declared[:, None] if declared.ndim == 1 else declared
    if declared.ndim != 2 or len(declared) != parameters or not np.isfinite(declared).all():
        msg = f"symmetry must be finite, of shape ({parameters}, symmetries); got shape {declared.shape}"
        raise ValueError(msg)
    return declared


def require_still(
    jacobian: Array, error: Array | None, declared: Array, numbers: Sequence[int] | npt.NDArray[np.int64]
) -> None:
    """Refuse a symmetry that moves readings of some numbers by more than their error."""
    moved, size = np.abs(product(jacobian, declared)), np.abs(declared)
    reach = product(np.abs(jacobian), size)
    allowed = len(declared) * EPS * reach + (EPS * reach if error is None else product(error, size))
    if (moved > allowed).any():
        row, k = (int(i) for i in np.argwhere(moved > allowed)[0])
        msg = f"symmetry {k} is none: a unit step along it moves reading {numbers[row]} by {moved[row, k]:.3g}"
        raise ValueError(msg)


def without(rows: Array, removed: Array) -> Array:
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
    kept = product(complement(product(removed, rows.T)), rows)
    return orthonormal(kept - product(product(kept, removed.T), removed))


def exact_null_space(exact: npt.NDArray[np.object_], scale: Array) -> Subspace:
    """Return the null space of exact entries, found in rational arithmetic.

    Each row of it frees one parameter. Which ones is chosen in parameters of equal effect, `scale`: rows that free
    strong ones beside the same weak one, decades apart, would be parallel to rounding.
    """
    from scipy.linalg import qr

    from estim.arithmetic import as_float, as_rationals, from_rationals
    from estim.attention.effective import null_space

    columns = as_float(exact) / scale
    sizes = norms_of(columns.T)
    *_, order = qr(columns / np.where(sizes > 0.0, sizes, 1.0)[:, None], mode="r", pivoting=True)
    found = as_float(from_rationals(null_space(as_rationals(exact[:, order])))).T
    rows = np.empty_like(found)
    rows[:, order] = found
    return spanned(rows, scale)


def gauge_within(gauge: Subspace, member: npt.NDArray[np.bool_], scale: Array) -> Subspace:
    """Return, over the members alone, the gauge directions that touch no other parameter.

    What counts as touching depends on no units: it is decided in parameters of equal effect.
    """
    scaled = inside(gauge.scaled, member, 1e-8)[:, member]
    return Subspace(orthonormal(scaled / scale[member]), scaled)


def inside(rows: Array, members: npt.NDArray[np.bool_], tolerance: float, beside: Array | None = None) -> Array:
    """Return orthonormal rows spanning the part of a subspace, of such rows, that touches the members alone.

    `beside`, orthonormal rows that span the orthogonal complement, save work where they are fewer: by the CS
    decomposition the members' part of these is as small as the others' part of `rows`.
    """
    if members.all() or not len(rows):
        return rows
    if beside is not None and len(beside) < len(rows):
        _, values, right = svd(beside[:, members])
        alone = complement(right[values > tolerance])
        found = -product(product(alone, beside[:, members].T), beside)
        found[:, members] += alone
        return found
    others = rows[:, ~members]
    left, outside, _ = svd(others)
    left = np.concatenate([left, complement(left.T).T], axis=1)
    touching = int(np.count_nonzero(outside > tolerance))
    return product(left[:, touching:].T, rows)
