"""How well the Jacobian of a large JAX function is known, from combinations of its rows: see `matrix_free.error`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS, MOVED
from estim.probe.jax.parameters import moved_leaves
from estim.probe.jax.pieces import Parts, all_pieces
from estim.probe.jax.precision import precision
from estim.probe.jax.products import INPUTS, Products
from estim.probe.jax.readings import NOT_FINITE, Function
from estim.probe.jax.twin import in_float64
from estim.probe.matrix_free.error import error_of_combinations, relative_norms
from estim.probe.matrix_free.top import NotFiniteProductError

Array = npt.NDArray[np.float64]

#: Combinations of the rows.
_DRAWS = 4


def relative_errors(function: Function, parts: Parts, weights: Array, eps: float) -> tuple[dict[str, float], bool]:
    """Return |E|_F / |J|_F of each group, and whether it was measured beside a copy in float64."""
    tree = function.tree
    with precision(tree.double):
        plain = _combined(function, tree.leaves, parts, weights)
        double = None if eps <= EPS else _in_double(function, parts, weights)
        sides = (1.0, -1.0) if double is None else ()
        moved = [moved_leaves(tree.leaves, side * MOVED * eps) for side in sides]
        above_below = [_combined(function, leaves, parts, weights) for leaves in moved]
    errors, truth = error_of_combinations(plain, double, above_below, tree.sizes, eps)
    return relative_norms(errors, truth, tree.groups, tree.sizes, 0.5 * eps), double is not None


def _in_double(function: Function, parts: Parts, weights: Array) -> list[Array] | None:
    """Return combinations of rows in float64; None where the function does not follow."""
    twin = in_float64(function, next(all_pieces(parts, INPUTS)).bank)
    if twin is function:
        return None
    try:
        with precision(True):
            return _combined(twin, twin.tree.leaves, parts, weights)
    except Exception:  # its derivatives need not follow
        return None


def _combined(function: Function, leaves: Sequence[Any], parts: Parts, weights: Array) -> list[Array]:
    """Return combinations of all rows with random signs, (P,) each; the same signs on every call."""
    rng, products = np.random.default_rng(0), Products(function)
    found = [np.zeros(sum(leaf.size for leaf in leaves)) for _ in range(_DRAWS)]
    for piece in all_pieces(parts, INPUTS):
        weight = weights[piece.rows]
        for total in found:
            try:
                total += products.back(leaves, piece, weight * rng.choice((-1.0, 1.0), len(weight)))
            except NotFiniteProductError as error:
                raise ValueError(_culprit(products, leaves, parts)) from error
    return found


def _culprit(products: Products, leaves: Sequence[Any], parts: Parts) -> str:
    """Say which input's readings have derivatives that are not finite."""
    inputs = np.concatenate([part.inputs for part in parts.known])
    for piece in all_pieces(parts, 1):
        try:
            products.back(leaves, piece, np.ones(piece.rows.stop - piece.rows.start))
        except NotFiniteProductError:
            first, last = inputs[piece.rows][[0, -1]]
            which = f"input {first}" if first == last else f"inputs {first} to {last}, which depend on each other,"
            return f"derivatives must be finite; those of the readings of {which} are not: {NOT_FINITE}"
    return f"derivatives must be finite; those of several inputs together are not: {NOT_FINITE}"
