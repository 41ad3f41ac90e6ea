"""The resolved part of a Jacobian in the parameters' units: what of it is known there, and what is not seen."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.probe.directions.factored import EPS, Factored, joined, rest_of
from estim.probe.directions.graded_svd import complement, orthonormal
from estim.probe.directions.noise import norms_of
from estim.probe.directions.proven import Subspace, without

Array = NDArray[np.float64]

#: Part of a value that what is not seen may change before it is not given.
TOLERANCE = 0.01
# Of a direction that is seen along what is proven not to be: units have let it in.
_ACROSS = 1e-10


def in_units(found: Factored, scale: Array, proven: Subspace | None) -> tuple[Array, Array, Array]:
    """Return weights, values, NaN where they are not known, and directions of the resolved part, then what is not seen.

    What is `proven` not to be seen stays so.
    """
    weights, values, right = found.times(scale)
    still = None
    if proven is not None and len(proven) and np.abs(product(right, proven.rows.T)).max(initial=0.0) > _ACROSS:
        still = complement(proven.rows)
        weights, values, right = found.times(scale, still)
    if len(found.unseen):
        values = _above_rounding(values, found, scale if still is None else scale * norms_of(still))
        values = _above_doubt(values, right, found, scale, proven)
    return weights, values, _with_unseen(right, values, found.unseen / scale)


def beside_known(
    found: Factored, scale: Array, fixed: Array, still: Array, proven: Subspace | None
) -> tuple[Array, Array, Array]:
    """Return the same beside orthonormal directions that noiseless readings fix, which come first.

    Others lie in the span of `still`, orthonormal rows along which those readings stay: which are at right angles to
    what is fixed depends on units.
    """
    weights, values, right = found.times(scale, still)
    values = _above_rounding(values, found, scale * norms_of(still))
    values = _above_doubt(values, right, found, scale, proven)
    return weights, values, _with_unseen(np.concatenate([fixed, right]), values, found.unseen / scale)


def _with_unseen(seen: Array, values: Array, unseen: Array) -> Array:
    """Put under orthonormal seen directions such unseen ones: seen ones whose value is not known tell nothing."""
    return joined(seen, orthonormal(unseen) if np.isnan(values).any() else rest_of(seen, unseen))


def _above_rounding(values: Array, found: Factored, effects: Array) -> Array:
    """Make NaN of values that are rounding, where the unseen space is known to that only.

    Strong parameters, by their `effects`, have a part in it, over the weakest value free of units.
    """
    if not len(values):
        return values
    largest = max(float(values[0]), float(effects.max()))
    return np.where(values < 64.0 * EPS * len(effects) * largest / found.weakest, np.nan, values)


def _above_doubt(values: Array, right: Array, found: Factored, scale: Array, proven: Subspace | None) -> Array:
    """Make NaN of values that what is not seen may change, by the error of the Jacobian.

    In parameters of equal effect a step along it moves the readings by up to the resolution times its length. Of weak
    steps in the parameters' units a large part may lie along it, which changes values in first order; of its own, which
    join them, some may be strong.
    """
    sure = 2.0 / TOLERANCE * found.resolution * float(scale.max())
    if not len(values) or not len(found.unseen) or not (values < sure).any():
        return values
    hidden, apart = found.unseen, orthonormal(found.unseen / scale)
    if proven is not None and len(proven):
        hidden, apart = without(hidden, proven.scaled), without(apart, proven.rows)
    hidden = hidden * scale
    along = found.resolution * norms_of(product(hidden, right.T)) / values
    beside = found.resolution * float(np.linalg.norm(product(hidden, apart.T), 2)) / values
    return np.where(along + 0.5 * np.square(beside) <= TOLERANCE, values, np.nan)
