"""Another pytree for the function of a first one: its leaves, and what it holds besides, which may differ, too."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.jax.parameters import Tree, read_tree, require_finite_leaves
from estim.probe.jax.precision import precision

#: Names listed in a note.
_LISTED = 6


@dataclass(frozen=True)
class Other:
    """A pytree with the leaves of a first one, in the order and the dtypes of that."""

    tree: Tree
    held: tuple[str, ...]
    """Names of what is held that differs from the first."""

    @property
    def leaves(self) -> list[Any]:
        """Its leaves of floating point."""
        return list(self.tree.leaves)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the shift from the first to this."""
        if not self.held:
            return ()
        more = f" and {len(self.held) - _LISTED} more" if len(self.held) > _LISTED else ""
        return (
            f"after differs from before in more than numbers of floating point: {', '.join(self.held[:_LISTED])}"
            f"{more}; the actual shift has that in it at every fraction of the change, the predicted one has not, as "
            "there is no derivative by it",
        )


def read_argument(given: Any, argument: str) -> Tree:
    """Take a pytree apart; raises TypeError or ValueError that names the argument it was given as."""
    try:
        tree = read_tree(given)
    except (TypeError, ValueError) as error:
        msg = str(error).replace("params must", f"{argument} must", 1)
        raise type(error)(msg) from error
    require_finite_leaves(tree, argument)
    return tree


def read_other(tree: Tree, given: Any, argument: str) -> Other:
    """Take another pytree apart; raises TypeError or ValueError when its leaves are not those of the first."""
    other = read_argument(given, argument)
    _require_alike(tree, other, argument)
    place = {name: k for k, name in enumerate(other.names)}
    order = [place[name] for name in tree.names]
    with precision(tree.double):
        leaves = tuple(jnp.asarray(other.leaves[k], leaf.dtype) for k, leaf in zip(order, tree.leaves, strict=True))
    places = tuple(other.places[k] for k in order)
    like = replace(tree, leaves=leaves, held=other.held, every=other.every, places=places, structure=other.structure)
    return Other(like, _differing(tree, other))


def _require_alike(tree: Tree, other: Tree, argument: str) -> None:
    shapes = {name: leaf.shape for name, leaf in zip(other.names, other.leaves, strict=True)}
    for name, leaf in zip(tree.names, tree.leaves, strict=True):
        got = shapes.pop(name, None)
        if got != leaf.shape:
            held = _held(other).get(name)
            kind = "none" if held is None else f"{getattr(held, 'dtype', type(held).__name__)}, no floating point"
            msg = (
                f"{argument} must have the parameters of before; {name} has shape {leaf.shape}; "
                f"got {kind if got is None else got}"
            )
            raise ValueError(msg)
    if shapes:
        msg = f"{argument} must have the parameters of before; it has {next(iter(shapes))} besides"
        raise ValueError(msg)


def _held(tree: Tree) -> dict[str, Any]:
    """Return what is held by its names."""
    moved = set(tree.places)
    pairs = zip(tree.every, tree.held, strict=True)
    return {name: leaf for k, (name, leaf) in enumerate(pairs) if k not in moved}


def _differing(tree: Tree, other: Tree) -> tuple[str, ...]:
    one, two = _held(tree), _held(other)
    found = [name for name in (*one, *(set(two) - set(one))) if not _same(one.get(name, _NONE), two.get(name, _NONE))]
    if not found and set(one) == set(two) and not _equal(tree.structure, other.structure):
        found.append("what the pytree itself is made of, such as fields that are static")
    return tuple(found)


_NONE = object()


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    arrays = [leaf for leaf in (one, two) if isinstance(leaf, jax.Array | np.ndarray | np.generic)]
    if not arrays:
        return _equal(one, two)
    if any(not isinstance(leaf, jax.Array | np.ndarray | np.generic | int) for leaf in (one, two)):
        return False
    return np.array_equal(_numbers(one), _numbers(two))


def _numbers(leaf: Any) -> npt.NDArray[Any]:
    """Return an array of JAX, keys of random numbers included, in NumPy."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def _equal(one: Any, two: Any) -> bool:
    """Tell whether two things call themselves equal; what cannot be compared is not."""
    try:
        return bool(one == two)
    except Exception:
        return False
