"""The derivatives that JAX takes held against differences of the readings: see `matrix_free.slopes`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS, generic_signs
from estim.probe.jax.parameters import Tree, leaves_like, vector_of_leaves
from estim.probe.jax.pieces import Parts, sampled
from estim.probe.jax.precision import SINGLE, in_double, precision, word
from estim.probe.jax.products import INPUTS, Products
from estim.probe.jax.readings import Function
from estim.probe.jax.twin import in_float64
from estim.probe.matrix_free.coarse import COMBINATIONS, require_coarse_slopes
from estim.probe.matrix_free.slopes import AWAY, require_slopes, sizes_of_steps, weights_of

Array = npt.NDArray[np.float64]

_LIBRARY = "JAX (a stop_gradient, a custom_vjp, or a rounding that derivatives pass through?)"


def require_derivative(function: Function, parts: Parts, eps: float) -> tuple[str, ...]:
    """Hold the derivatives of some inputs all over a bank against differences.

    Where the function follows in float64, its copy there stands for it: differences say more of that.

    Returns
    -------
    tuple of str
        A note, where differences in short floats do not say enough.

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
            found[rows] = in_double(twin.flat(leaves, bank))[: rows.stop - rows.start]
        return found

    def pulled(leaves: list[Any], weights: Array) -> Array:
        found = np.zeros((len(weights), twin.tree.size))
        for total, combination in zip(found, weights, strict=True):
            for piece in sample:
                total += products.back(leaves, piece, combination[piece.rows])
        return found

    return hold(twin.tree, readings, pulled, eps if twin is function else EPS)


def line_of(tree: Tree) -> tuple[Array, Callable[[float], list[Any]]]:
    """Return a direction that moves all parameters, (P,), and the leaves moved along it by `AWAY` and a step."""
    squares = [float(jnp.square(leaf.astype(jnp.float32)).mean()) if leaf.size else 0.0 for leaf in tree.leaves]
    direction = generic_signs(tree.size) * np.repeat(sizes_of_steps(squares), tree.sizes)
    steps = leaves_like(tree.leaves, direction)
    return direction, lambda step: [leaf + (AWAY + step) * one for leaf, one in zip(tree.leaves, steps, strict=True)]


def hold(
    tree: Tree, readings: Callable[[list[Any]], Array], pulled: Callable[[list[Any], Array], Array], eps: float
) -> tuple[str, ...]:
    """Hold derivatives against differences a little away from a pytree.

    Parameters
    ----------
    tree : Tree
    readings, pulled : callable
        Leaves to readings, (M,); leaves and weights of the readings, (k, M), to their products with the Jacobian,
        (k, P).
    eps : float
        Rounding of the readings, or of the leaves, whichever is coarser.

    Returns
    -------
    tuple of str
        A note, where differences in short floats do not say enough.

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
        unknown = () if eps <= SINGLE else (unchecked(word(eps)),)
        if not np.isfinite(start).all():
            return unknown
        weights = weights_of(len(start)) if eps <= SINGLE else weights_of(len(start), COMBINATIONS)
        try:
            slopes = pulled(moved(0.0), weights)
        except ValueError:  # said in full of those at the parameters themselves
            return unknown
        terms = slopes * direction
        if eps > SINGLE:
            center = vector_of_leaves(moved(0.0))
            enough = require_coarse_slopes(
                lambda step: weights @ (at(step) - start),
                lambda step: slopes @ (vector_of_leaves(moved(step)) - center),
                np.linalg.norm(terms, axis=1), _LIBRARY,
            )  # fmt: skip
            return () if enough else unknown
        require_slopes(at, start, terms.sum(axis=1), np.linalg.norm(terms, axis=1), eps=eps, library=_LIBRARY)
        return ()


def unchecked(kind: str) -> str:
    """Say that derivatives may be another's."""
    return (
        f"derivatives were not held against differences of the readings, which say too little in {kind}: one that is "
        "not the model's, as of a stop_gradient or a custom_vjp, would not show; a float32 or float64 model tells"
    )
