"""The derivatives that JAX takes held against differences of the readings: see `matrix_free.slopes`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS, generic_signs
from estim.probe.jax.parameters import Tree
from estim.probe.jax.pieces import Parts, sampled
from estim.probe.jax.precision import precision
from estim.probe.jax.products import INPUTS, Products
from estim.probe.jax.readings import Function
from estim.probe.jax.twin import in_float64
from estim.probe.matrix_free.slopes import AWAY, CLOSE, require_slopes, sizes_of_steps, weights_of

Array = npt.NDArray[np.float64]

#: Part of a slope up to which it is agreed with in float64.
_CLOSE = 2e-3


def require_derivative(function: Function, parts: Parts, eps: float) -> None:
    """Hold the derivatives of some inputs all over a bank against differences.

    Where the function follows in float64, its copy there stands for it: differences say more of that.

    Raises
    ------
    ValueError
        When they are not those of the readings.
    """
    sample = sampled(parts, INPUTS)
    twin = function if eps <= EPS else in_float64(function, sample[0].bank)
    products, count = Products(twin), sample[-1].rows.stop

    def readings(leaves: list[Any]) -> Array:
        found = np.empty(count)
        for rows, bank, _ in sample:
            found[rows] = np.asarray(twin.flat(leaves, bank)).astype(np.float64)[: rows.stop - rows.start]
        return found

    def pulled(leaves: list[Any], weights: Array) -> Array:
        found = np.zeros((len(weights), twin.tree.size))
        for total, combination in zip(found, weights, strict=True):
            for piece in sample:
                total += products.back(leaves, piece, combination[piece.rows])
        return found

    hold(twin.tree, readings, pulled, eps if twin is function else EPS)


def line_of(tree: Tree) -> tuple[Array, Callable[[float], list[Any]]]:
    """Return a direction that moves all parameters, (P,), and the leaves moved along it by `AWAY` and a step."""
    squares = [float(jnp.square(leaf.astype(jnp.float32)).mean()) if leaf.size else 0.0 for leaf in tree.leaves]
    direction = generic_signs(tree.size) * np.repeat(sizes_of_steps(squares), tree.sizes)
    pairs = zip(tree.leaves, np.split(direction, np.cumsum(tree.sizes)[:-1]), strict=True)
    steps = [jnp.asarray(part.reshape(leaf.shape), leaf.dtype) for leaf, part in pairs]
    return direction, lambda step: [leaf + (AWAY + step) * one for leaf, one in zip(tree.leaves, steps, strict=True)]


def hold(
    tree: Tree, readings: Callable[[list[Any]], Array], pulled: Callable[[list[Any], Array], Array], eps: float
) -> None:
    """Hold derivatives against differences a little away from a pytree.

    Parameters
    ----------
    tree : Tree
    readings, pulled : callable
        Leaves to readings, (M,); leaves and weights of the readings, (k, M), to their products with the Jacobian,
        (k, P).
    eps : float
        Rounding of the readings, or of the leaves, whichever is coarser.

    Raises
    ------
    ValueError
        When they contradict each other.
    """
    with precision(tree.double):
        direction, moved = line_of(tree)

        def at(step: float) -> Array:
            try:
                return readings(moved(step))
            except Exception:  # not at these parameters
                return np.array(np.nan)

        start = at(0.0)
        if not np.isfinite(start).all():
            return
        try:
            terms = pulled(moved(0.0), weights_of(len(start))) * direction
        except ValueError:  # said in full of those at the parameters themselves
            return
        require_slopes(
            at, start, terms.sum(axis=1), np.linalg.norm(terms, axis=1), eps=eps,
            library="JAX (a stop_gradient, a custom_vjp, or a rounding that derivatives pass through?)",
            close=_CLOSE if eps <= EPS else CLOSE,
        )  # fmt: skip
