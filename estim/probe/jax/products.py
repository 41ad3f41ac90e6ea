"""Products of the Jacobian of a JAX function with vectors, on one bank and, whitened, on all parts of one.

J^T u is a vector-Jacobian product, J v a Jacobian-vector product; where a function has none (``jax.custom_vjp``), J v
is the derivative by u of J^T u. All are compiled where JAX can compile the function.

notation: W (M, P) = D J, D = 1 / sd of the readings; v (P,), u (M,).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from estim.probe.jax.compiled import Compiled, FirstOf
from estim.probe.jax.parameters import leaves_like, vector_of_leaves
from estim.probe.jax.pieces import Parts, Piece, all_pieces, sampled
from estim.probe.jax.precision import in_double, precision, rounding
from estim.probe.jax.readings import Function, explained
from estim.probe.matrix_free.top import of_unit_size

Array = npt.NDArray[np.float64]

#: Inputs that go through together.
INPUTS = 32


class Products:
    """Products at any leaves of a function's pytree."""

    def __init__(self, function: Function) -> None:
        self.function = function
        back, forth = (self._taken_back,), (self._pushed, self._pushed_by_two_pulls)
        self._back: FirstOf = function.once("back", lambda: FirstOf([Compiled(way) for way in back], back))
        self._forth: FirstOf = function.once("forth", lambda: FirstOf([Compiled(way) for way in forth], forth))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the ways that were taken."""
        return tuple(dict.fromkeys((*self._back.notes, *self._forth.notes)))

    def back(self, leaves: Sequence[Any], piece: Piece, weights: Array) -> Array:
        """Return J^T u, (P,), for weights of the readings of a piece.

        Raises
        ------
        ValueError
            When JAX cannot differentiate the function backwards, or its derivatives are not finite.
        """
        self.function.require_end(leaves, piece.bank)

        def product(seed: Array) -> Array:
            try:
                found = self._back(piece.bank, list(leaves), jnp.asarray(seed))
            except Exception as error:
                raise ValueError(explained(error)) from error
            return vector_of_leaves(found)

        return of_unit_size(product)(np.pad(weights, (0, piece.size - len(weights))))

    def forth(self, leaves: Sequence[Any], piece: Piece, vector: Array) -> Array:
        """Return J v, one for each reading of a piece; raises ValueError when JAX cannot."""
        self.function.require_end(leaves, piece.bank)
        tangents = leaves_like(leaves, vector)
        try:
            found = in_double(self._forth(piece.bank, list(leaves), tangents))
        except Exception as error:
            raise ValueError(explained(error)) from error
        return found[: piece.rows.stop - piece.rows.start]

    def _taken_back(self, bank: Any, leaves: list[Any], seed: Any) -> Any:
        readings, pull = jax.vjp(lambda given: self.function.flat(given, bank), leaves)
        return pull(seed.astype(readings.dtype))[0]

    def _pushed(self, bank: Any, leaves: list[Any], tangents: list[Any]) -> Any:
        return jax.jvp(lambda given: self.function.flat(given, bank), (leaves,), (tangents,))[1]

    def _pushed_by_two_pulls(self, bank: Any, leaves: list[Any], tangents: list[Any]) -> Any:
        readings, pull = jax.vjp(lambda given: self.function.flat(given, bank), leaves)
        return jax.vjp(lambda seed: pull(seed)[0], jnp.zeros_like(readings))[1](tangents)[0]


def jacobian_operator(function: Function, parts: Parts, scale: Array, tick: Any = None) -> LinearOperator:
    """Return W, (M, P), of parameters as one vector, leaf after leaf.

    Parameters
    ----------
    function : Function
    parts : Parts
    scale : ndarray, shape (M,)
        1 / sd of each reading.
    tick : callable, optional
        Called with 1 after every pass over the bank.

    Raises
    ------
    ArithmeticError
        When W v and W^T u contradict each other: a custom derivative is none.
    ValueError
        When JAX cannot differentiate the function both ways.
    """
    products, size, leaves = Products(function), function.tree.size, list(function.tree.leaves)
    done = tick if tick is not None else (lambda passes: None)

    def forward(vector: Array) -> Array:
        found = np.empty(len(scale))
        with precision(function.tree.double):
            for piece in all_pieces(parts, INPUTS):
                found[piece.rows] = scale[piece.rows] * products.forth(leaves, piece, np.ravel(vector))
        done(1)
        return found

    def backward(vector: Array) -> Array:
        weights, found = scale * np.ravel(vector), np.zeros(size)
        with precision(function.tree.double):
            for piece in all_pieces(parts, INPUTS):
                found += products.back(leaves, piece, weights[piece.rows])
        done(1)
        return found

    _require_agreement(products, sampled(parts, INPUTS), leaves)
    return LinearOperator((len(scale), size), matvec=forward, rmatvec=backward, dtype=np.float64)


def _require_agreement(products: Products, sample: Sequence[Piece], leaves: list[Any]) -> None:
    """Hold u . J v against v . J^T u on some pieces of the bank."""
    rng, tree = np.random.default_rng(2), products.function.tree
    left, right = rng.standard_normal(sample[-1].rows.stop), rng.standard_normal(tree.size)
    with precision(tree.double):
        terms = right * sum(products.back(leaves, piece, left[piece.rows]) for piece in sample)
        forth = sum(float(left[piece.rows] @ products.forth(leaves, piece, right)) for piece in sample)
    back = float(terms.sum())
    if not abs(forth - back) <= rounding(tree.coarsest) ** 0.5 * np.linalg.norm(terms) + np.finfo(np.float64).tiny:
        msg = (
            "products with the Jacobian and with its transpose must agree; "
            f"u . J v is {forth:.6g}, and v . J^T u {back:.6g}: a custom_vjp that is no derivative?"
        )
        raise ArithmeticError(msg)
