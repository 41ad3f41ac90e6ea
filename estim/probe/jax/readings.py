"""The readings of a JAX function: called with arrays of the right kind, and what goes wrong put in a sentence."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from estim.probe.jax.loops import Ends
from estim.probe.jax.parameters import Tree
from estim.probe.jax.precision import precision, rounding
from estim.probe.model.readings import leaves_of


@dataclass(frozen=True)
class Function:
    """A JAX function of a pytree as a function of arrays by the names of its leaves: a model like all others."""

    function: Callable[..., Any]
    tree: Tree
    by_input: bool = False
    """Whether complex readings in an array come input after input, the first axis, real parts and imaginary ones."""
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: what was compiled is not."""
        return {**self.__dict__, "made": {}}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was made under a name, so that it is compiled once for all banks; make it the first time."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def holding(self, other: Tree) -> "Function":
        """Return it with what another pytree holds beside the leaves that readings are differentiated by."""
        tree = replace(self.tree, held=other.held, every=other.every, places=other.places, structure=other.structure)
        return replace(self, tree=tree, made={})

    def __call__(self, params: dict[str, Any], bank: Any) -> Any:
        """Return the readings as the function gives them, in NumPy arrays."""
        with precision(self.tree.double):
            return _in_numpy(self.called(self.leaves(params), bank))

    def leaves(self, params: dict[str, Any]) -> list[Any]:
        """Return arrays of JAX, in the dtypes of the pytree."""
        pairs = zip(self.tree.names, self.tree.leaves, strict=True)
        return [jnp.asarray(params[name], dtype=leaf.dtype) for name, leaf in pairs]

    @property
    def ends(self) -> Ends:
        """What tells whether its loops end."""
        found: Ends = self.once("ends", lambda: Ends(self.flat))
        return found

    def require_end(self, leaves: Sequence[Any], bank: Any) -> None:
        """Refuse leaves, other than its own, at which a loop goes on and on; raises ValueError."""
        own = self.tree.leaves
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if not traced and any(a is not b for a, b in zip(leaves, own, strict=True)) and self.ends.limited(own, bank):
            self.ends.require(leaves, bank)

    def called(self, leaves: Sequence[Any], bank: Any) -> Any:
        """Call the function; raises ValueError with a sentence for what JAX itself says."""
        self.require_end(leaves, bank)
        try:
            return _nested(self.function(self.tree.rebuild(leaves), bank))
        except _OF_JAX as error:
            raise ValueError(explained(error)) from error

    def flat(self, leaves: Sequence[Any], bank: Any) -> Any:
        """Return the readings as one vector, (M,), complex ones as real parts, then imaginary ones; can be traced."""
        self.require_end(leaves, bank)
        output = _nested(self.function(self.tree.rebuild(leaves), bank))
        parts = [jnp.ravel(jnp.asarray(leaf)) for leaf in leaves_of(output)]
        whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        if jnp.issubdtype(whole.dtype, jnp.complexfloating):
            rows = whole.reshape(self.rows_of(output), -1)
            return jnp.concatenate([rows.real, rows.imag], axis=1).ravel()
        return whole

    def rows_of(self, output: Any) -> int:
        """Return in how many rows complex readings are parted, each into real parts and imaginary ones."""
        return len(output) if self.by_input and getattr(output, "ndim", False) and len(output) else 1


def _nested(output: Any, inside: bool = False) -> Any:
    """Return readings in any pytree, such as a dataclass, as dicts, lists and tuples; None in one is nothing."""
    if isinstance(output, Mapping):
        return {key: _nested(part, True) for key, part in output.items()}
    if isinstance(output, list | tuple):
        parts = [_nested(part, True) for part in output]
        return parts if isinstance(output, list) else tuple(parts)
    if (output is None and not inside) or jax.tree_util.all_leaves([output]):
        return output
    return tuple(_nested(part, True) for part in jax.tree_util.tree_leaves(output))


def _in_numpy(leaf: Any) -> Any:
    """Return nested arrays of JAX as NumPy's, in float64 where NumPy itself has no such floats, in their own order."""
    if isinstance(leaf, Mapping):
        return {key: _in_numpy(part) for key, part in leaf.items()}
    if isinstance(leaf, list | tuple):
        return list(map(_in_numpy, leaf)) if isinstance(leaf, list) else tuple(map(_in_numpy, leaf))
    if not isinstance(leaf, jax.Array):
        return leaf
    known = np.dtype(leaf.dtype).kind in "biufc"
    return np.asarray(leaf) if known else np.asarray(leaf).astype(np.float64)


def require_smooth(output: Any) -> None:
    """Refuse readings that JAX has no derivative of; raises ValueError."""
    for leaf in leaves_of(output):
        kind = jnp.result_type(leaf)
        if not jnp.issubdtype(kind, jnp.inexact):
            msg = (
                "readings must be of floating point, and change smoothly with the parameters; "
                f"got {kind} (an argmax, a comparison, or a cast to whole numbers?)"
            )
            raise ValueError(msg)


def coarsest_of(output: Any) -> float:
    """Return the rounding of the readings with the fewest digits."""
    return max((rounding(jnp.result_type(leaf)) for leaf in leaves_of(output)), default=0.0)


def require_kept(function: Function, bank: Any) -> Any:
    """Refuse a function that deletes its arguments; raises ValueError. It is called with copies of them.

    Returns
    -------
    any
        Its readings; None where it raises, which the call that follows says in full.
    """
    require_values(bank, "bank")
    with precision(function.tree.double), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arguments that are donated in vain
        given = jax.tree_util.tree_map(_copied, (function.tree.rebuild(function.tree.leaves), bank))
        try:
            output = _nested(function.function(*given))
        except Exception:
            return None
    for argument, part in zip(("params", "bank"), given, strict=True):
        if any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(part)):
            msg = (
                f"the model must not donate its arguments: it deleted a copy of {argument} (jit with donate_argnums); "
                "yours are as they were; jit it without"
            )
            raise ValueError(msg)
    return output


def require_values(tree: Any, argument: str) -> None:
    """Refuse nested arrays one of which holds no values: a mere shape, or an array deleted; raises TypeError."""
    for leaf in jax.tree_util.tree_leaves(tree):
        lost = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and leaf.is_deleted()
        if lost or isinstance(leaf, jax.ShapeDtypeStruct):
            what = "an array that was deleted, as by a function that donates its arguments" if lost else f"{leaf}"
            msg = f"{argument} must hold values; got {what}"
            raise TypeError(msg)


def _copied(leaf: Any) -> Any:
    return jnp.array(leaf, copy=True) if isinstance(leaf, jax.Array) else leaf


#: Why a derivative of finite readings may be none, and what to do.
NOT_FINITE = (
    "a slope that is infinite (a root or a norm at 0), or one in a branch that jax.numpy.where leaves out, which is "
    "multiplied by 0: give that branch a safe argument, as in where(x > 0, sqrt(where(x > 0, x, 1)), 0)"
)


def explained(error: Exception) -> str:
    """Return what an error of JAX means."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    for kind, sentence in _MEANINGS:
        if isinstance(error, kind):
            return f"{sentence}; jax says: {said:.200}"
    return f"JAX cannot differentiate the readings: {type(error).__name__}: {said:.300}"


def step_by_step(error: Exception) -> str:
    """Say that a function is differentiated without being compiled, and why."""
    return f"the model was differentiated step by step, as it cannot be compiled: {explained(error)}"


_OF_JAX = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
_MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (
        jax.errors.UnexpectedTracerError,
        "the model keeps an intermediate array from one call to the next (a global, an attribute, a cache): return it "
        "instead",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "the model makes a NumPy array of one of JAX on the way (numpy in place of jax.numpy, or .item()): use "
        "jax.numpy for all that depends on the parameters",
    ),
    (
        jax.errors.JAXIndexError,
        "the model takes entries by a mask whose values it needs to know: use jax.numpy.where with three arguments",
    ),
    (
        jax.errors.JAXTypeError,
        "the model needs the value of an array that depends on the parameters (an if or while, float(), int(), a "
        "shape): use jax.numpy.where, jax.lax.cond or jax.lax.while_loop",
    ),
)
