"""The parameters of a JAX function: the leaves of a pytree that are of floating point, with names and groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.probe.derivatives.rounding import generic_signs
from estim.probe.jax.groups import for_each_entry, leaf_groups, name_of
from estim.probe.jax.precision import SHORTEST, in_double, is_floating, precision, rounding
from estim.probe.model.parameters import Parameters, read_parameters


@dataclass(frozen=True)
class Tree:
    """A pytree, with the leaves that readings are differentiated by apart from what is held."""

    leaves: tuple[Any, ...]
    """(leaves,) arrays of real floating point."""
    names: tuple[str, ...]
    """(leaves,) such as ``layers[0].weight``."""
    groups: tuple[str, ...]
    """(leaves,)."""
    held: tuple[Any, ...]
    """All leaves, those to be differentiated included, in the order of the pytree."""
    every: tuple[str, ...]
    """The names of all leaves."""
    places: tuple[int, ...]
    """(leaves,) where they are among all."""
    structure: Any
    double: bool
    """Whether one is in float64, which JAX must be told to allow."""
    notes: tuple[str, ...]

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """Return the pytree with other leaves."""
        every = list(self.held)
        for place, leaf in zip(self.places, leaves, strict=True):
            every[place] = leaf
        return self.structure.unflatten(every)

    @property
    def sizes(self) -> tuple[int, ...]:
        """(leaves,) number of parameters in each."""
        return tuple(leaf.size for leaf in self.leaves)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(self.sizes)

    @property
    def coarsest(self) -> Any:
        """The dtype of the leaf with the fewest digits."""
        return max((leaf.dtype for leaf in self.leaves), key=rounding)


def read_tree(params: Any, groups: Any = None) -> Tree:
    """Take a pytree apart.

    Parameters
    ----------
    params : pytree
        Leaves that are no arrays of floating point are held: whole numbers, truth values, keys of random numbers,
        functions and words.
    groups : "layers", sequence of str or mapping, optional
        "layers" groups by the path of a leaf without its last key. Else a group for each leaf, or for each parameter,
        or a mapping from a group to names of leaves or their beginnings. By default the top-level key, or the one below
        it where all is under one key, as in Flax.

    Raises
    ------
    TypeError
        When a leaf is complex, in floats of fewer than 16 bits, or has no value, or none is of floating point.
    ValueError
        When two leaves have the same name, or `groups` does not fit.
    RuntimeError
        Where JAX is told to allow no transfers from the host.
    """
    _require_transfers()
    paths, structure = jax.tree_util.tree_flatten_with_path(params)
    paths = [(path, unmasked(leaf) if isinstance(leaf, np.ma.MaskedArray) else leaf) for path, leaf in paths]
    places = tuple(k for k, (_, leaf) in enumerate(paths) if is_floating(leaf))
    names = {k: name_of(paths[k][0]) for k in range(len(paths))}
    for k, (_, leaf) in enumerate(paths):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            msg = f"params must hold values; {names[k]} is a {type(leaf).__name__}"
            raise TypeError(msg)
    if not places:
        msg = f"params must hold at least one array of floating point; got {_kinds(paths)}"
        raise TypeError(msg)
    for k in places:
        _check(names[k], paths[k][1])
    double = any(isinstance(paths[k][1], jax.Array) and paths[k][1].dtype == np.float64 for k in places)
    with precision(double):
        leaves = tuple(jnp.asarray(paths[k][1]) for k in places)
    chosen = tuple(names[k] for k in places)
    _require_apart(chosen)
    return Tree(
        leaves=leaves,
        names=chosen,
        groups=leaf_groups(groups, chosen, [paths[k][0] for k in places], sum(leaf.size for leaf in leaves)),
        held=tuple(leaf for _, leaf in paths),
        every=tuple(names.values()),
        places=places,
        structure=structure,
        double=double,
        notes=(*_left_out(paths, places, names), *_same_arrays(paths, places, names)),
    )


def _require_transfers() -> None:
    config: Any = jax.config  # its fields are not typed
    guard = config.jax_transfer_guard_host_to_device
    if guard in ("disallow", "disallow_explicit"):
        msg = (
            "estim must be called where JAX may move numbers from the host to the device, as steps of parameters and "
            f"weights of readings are; got jax.transfer_guard({guard!r}): with jax.transfer_guard('allow') around "
            "the call lets it"
        )
        raise RuntimeError(msg)


def vector_of(tree: Tree, names: Any = None, groups: Any = None) -> Parameters:
    """Return the parameters as one vector, with a name for each entry; raises ValueError when one is not finite."""
    nested = {name: np.array(leaf, dtype=np.float64) for name, leaf in zip(tree.names, tree.leaves, strict=True)}
    if not for_each_entry(groups, len(tree.names), tree.size):
        groups = [group for group, size in zip(tree.groups, tree.sizes, strict=True) for _ in range(size)]
    return read_parameters(nested, names=names, groups=groups)


def require_finite_leaves(tree: Tree, argument: str = "params") -> None:
    """Refuse parameters that are not finite; raises ValueError naming the first."""
    for name, leaf in zip(tree.names, tree.leaves, strict=True):
        values = in_double(leaf).ravel()
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            msg = f"{argument} must be finite; got {values[place]} for {name}, entry {place}"
            raise ValueError(msg)


def moved_leaves(leaves: Sequence[Any], step: float) -> list[Any]:
    """Return leaves every entry of which is moved by about a relative step, some up and some down."""
    factors = leaves_like(leaves, 1.0 + step * generic_signs(sum(leaf.size for leaf in leaves)))
    return [leaf * factor for leaf, factor in zip(leaves, factors, strict=True)]


def vector_of_leaves(leaves: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Return all entries of some leaves, (P,)."""
    return np.concatenate([in_double(leaf).ravel() for leaf in leaves])


def leaves_like(leaves: Sequence[Any], vector: npt.NDArray[np.float64]) -> list[Any]:
    """Return a vector, (P,), as arrays of the shapes and dtypes of some leaves."""
    parts = np.split(vector, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return [jnp.asarray(part.reshape(leaf.shape), leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]


def _check(name: str, leaf: Any) -> None:
    if isinstance(leaf, jax.core.Tracer):
        msg = (
            f"params must hold values; {name} is a tracer: call estim outside of functions that jax transforms "
            "(jit, grad, vmap)"
        )
        raise TypeError(msg)
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        msg = f"params must hold values; {name} was deleted, as by a function that donates its arguments"
        raise TypeError(msg)
    if rounding(jnp.result_type(leaf)) > SHORTEST:
        msg = (
            f"params must be in floats of 16 bits at least; got {jnp.result_type(leaf)} for {name}: cast it to "
            "float32, or keep it out of params"
        )
        raise TypeError(msg)
    if jnp.issubdtype(jnp.result_type(leaf), jnp.complexfloating):
        msg = (
            f"params must be real; got {jnp.result_type(leaf)} for {name}: hold its real and imaginary parts as "
            "parameters"
        )
        raise TypeError(msg)


def _require_apart(names: tuple[str, ...]) -> None:
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        msg = f"params must have a name for each leaf; two are called {twice}, as by a key with a dot or a bracket"
        raise ValueError(msg)


def _kinds(paths: list[Any]) -> str:
    found = sorted({str(getattr(leaf, "dtype", type(leaf).__name__)) for _, leaf in paths})
    return f"{len(paths)} leaves of {', '.join(found)}" if found else "no leaf"


def _left_out(paths: list[Any], places: tuple[int, ...], names: dict[int, str]) -> tuple[str, ...]:
    """Say which numbers are held; functions and words are nobody's parameters."""
    numbers = jax.Array | np.ndarray | np.generic | int
    rest = [names[k] for k, (_, leaf) in enumerate(paths) if k not in set(places) and isinstance(leaf, numbers)]
    if not rest:
        return ()
    listed = ", ".join(rest[:6]) + (f" and {len(rest) - 6} more" if len(rest) > 6 else "")
    return (f"{len(rest)} leaves that are not of floating point are held as they are: {listed}",)


def _same_arrays(paths: list[Any], places: tuple[int, ...], names: dict[int, str]) -> tuple[str, ...]:
    first: dict[int, str] = {}
    notes = []
    for k in places:
        leaf = paths[k][1]
        if isinstance(leaf, jax.Array | np.ndarray) and id(leaf) in first:
            notes.append(f"{names[k]} is the same array as {first[id(leaf)]}; as in JAX, the two are two parameters")
        first.setdefault(id(leaf), names[k])
    return tuple(notes)
