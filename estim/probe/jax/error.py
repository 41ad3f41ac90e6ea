"""How well the Jacobian of a large JAX function is known, from combinations of its rows: see `matrix_free.error`."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS, MOVED, generic_signs
from estim.probe.jax.bank import Part, all_pieces
from estim.probe.jax.parameters import moved_leaves
from estim.probe.jax.precision import precision, raised, rounding
from estim.probe.jax.products import INPUTS, Products
from estim.probe.matrix_free.error import error_of_combinations, relative_norms
from estim.probe.matrix_free.slopes import AWAY, require_slopes, sizes_of_steps, weights_of

Array = npt.NDArray[np.float64]

#: Combinations of the rows.
_DRAWS = 4


def relative_errors(
    products: Products, parts: Sequence[Part], weights: Array, eps: float
) -> tuple[dict[str, float], bool]:
    """Return |E|_F / |J|_F of each group, and whether it was measured beside a copy in float64."""
    tree = products.function.tree
    with precision(tree.double):
        plain = _combined(products, list(tree.leaves), parts, weights, False)
        # What fails in float64 says nothing of the function itself.
        double = None if eps <= EPS else _in_double(Products(products.function, raised=True), parts, weights)
        sides = (1.0, -1.0) if double is None else ()
        moved = [moved_leaves(tree.leaves, side * MOVED * eps) for side in sides]
        above_below = [_combined(products, leaves, parts, weights, False) for leaves in moved]
    errors, truth = error_of_combinations(plain, double, above_below, tree.sizes, eps)
    return relative_norms(errors, truth, tree.groups, tree.sizes, 0.5 * eps), double is not None


def _in_double(products: Products, parts: Sequence[Part], weights: Array) -> list[Array] | None:
    """Return combinations of rows in float64; None where the function does not follow."""
    with precision(True):
        leaves = list(raised(products.function.tree.leaves))
        try:
            piece = next(all_pieces(parts, 1))
            if rounding(products.function.flat(leaves, raised(piece.bank)).dtype) > EPS:
                return None
            return _combined(products, leaves, parts, weights, True)
        except Exception:  # the function need not be made for it
            return None


def _combined(
    products: Products, leaves: list[Any], parts: Sequence[Part], weights: Array, double: bool
) -> list[Array]:
    """Return combinations of all rows with random signs, (P,) each; the same signs on every call."""
    rng = np.random.default_rng(0)
    found = [np.zeros(sum(leaf.size for leaf in leaves)) for _ in range(_DRAWS)]
    for piece in all_pieces(parts, INPUTS):
        weight = weights[piece.rows]
        given = piece._replace(bank=raised(piece.bank)) if double else piece
        for total in found:
            total += products.back(leaves, given, weight * rng.choice((-1.0, 1.0), len(weight)))
    return found


def require_derivative(products: Products, parts: Sequence[Part], eps: float) -> None:
    """Hold the derivatives that JAX takes of some inputs' readings against differences; raises ValueError if wrong."""
    tree, piece = products.function.tree, next(all_pieces(parts, INPUTS))
    count = piece.rows.stop - piece.rows.start
    with precision(tree.double):
        squares = [float(jnp.square(leaf.astype(jnp.float32)).mean()) if leaf.size else 0.0 for leaf in tree.leaves]
        direction = generic_signs(tree.size) * np.repeat(sizes_of_steps(squares), tree.sizes)
        parts_of_it = np.split(direction, np.cumsum(tree.sizes)[:-1])
        pairs = list(zip(tree.leaves, parts_of_it, strict=True))
        steps = [jnp.asarray(part.reshape(leaf.shape), leaf.dtype) for leaf, part in pairs]

        def moved(step: float) -> list[Any]:
            return [leaf + (AWAY + step) * one for leaf, one in zip(tree.leaves, steps, strict=True)]

        def at(step: float) -> Array:
            try:
                return np.asarray(products.function.flat(moved(step), piece.bank)).astype(np.float64)[:count]
            except Exception:  # not at these parameters
                return np.array(np.nan)

        start = at(0.0)
        if not np.isfinite(start).all():
            return
        terms = np.stack([products.back(moved(0.0), piece, weights) * direction for weights in weights_of(count)])
        require_slopes(
            at, start, terms.sum(axis=1), np.linalg.norm(terms, axis=1), eps=eps,
            library="JAX (a stop_gradient, a custom_vjp, or a rounding that derivatives pass through?)",
        )  # fmt: skip
