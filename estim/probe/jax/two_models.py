"""Two sets of parameters of a JAX function that are too many for a Jacobian, compared along the way between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.along import absolute, noisy, whitened
from estim.probe.derivatives.rounding import EPS, MOVED, error_by_moving
from estim.probe.directions.noise import Whitening
from estim.probe.jax.bank import read_parts
from estim.probe.jax.parameters import Tree, moved_leaves, read_tree, require_finite_leaves
from estim.probe.jax.pieces import Parts, all_pieces
from estim.probe.jax.precision import precision, raised, rounding
from estim.probe.jax.products import INPUTS, Products
from estim.probe.jax.readings import Function
from estim.probe.jax.slopes import require_derivative
from estim.probe.jax.twin import in_float64
from estim.probe.model.readings import complex_note
from estim.probe.two_models.pair import (
    Pair,
    blocks_of,
    relative_size,
    require_finite,
    third_margin,
    whole_change,
    worst_margin,
)
from estim.probe.verdict.any_change import AnyChange
from estim.probe.verdict.margin import Margin

Array = npt.NDArray[np.float64]

#: Random directions drawn for a typical change: a Jacobian product each.
DIRECTIONS = 16
#: Times the error that was measured: it is one draw of rounding.
_MARGIN = 2.0


def pair_of_large(model: Callable[..., Any], before: Any, after: Any, bank: Any, sigma: Any) -> Pair:
    """Return two sets of parameters as a pair.

    Raises
    ------
    TypeError, ValueError
        When they do not fit each other, or are the same, or the model cannot be read or differentiated, or has other
        derivatives than JAX takes of it.
    """
    tree = read_tree(before)
    require_finite_leaves(tree)
    end = _leaves_like(tree, after, "after")
    delta = _vector(end) - _vector(tree.leaves)
    if not delta.any():
        msg = "after must differ from before; all parameters are the same"
        raise ValueError(msg)
    function = Function(model, tree, by_input=True)
    read = read_parts(function, bank, False)
    line, eps = _Line(function, read.parts, np.argsort(read.places)), max(rounding(tree.coarsest), read.rounding)
    require_derivative(function, read.parts, eps)
    start = np.concatenate([part.readings for part in read.parts.known])[line.order]
    noise = noisy(sigma, len(start))
    changed, expected = line.at(end) - start, line.derivative(delta)
    require_finite(changed, "after")

    def margin(smallest: Any, rng: np.random.Generator) -> Margin:
        if isinstance(smallest, AnyChange):
            return _margin(line, smallest, noise, rng)
        third = line.at(_leaves_like(tree, smallest, "smallest_change")) - start
        require_finite(third, "smallest_change")
        return third_margin(float(np.linalg.norm(whitened(noise, third))))

    return Pair(
        expected=expected, changed=changed, error=_error(line, end, delta, (start, expected, changed), eps),
        partly=lambda t: line.partly(t * delta) - start if t < 1.0 else changed,
        whiten=lambda change: whitened(noise, change), absolute=lambda bound: absolute(noise, bound),
        project=lambda change: whole_change(whitened(noise, change)), margin=margin,
        delta=np.array([np.linalg.norm(delta), np.linalg.norm(_vector(tree.leaves))]),
        parameters=int(np.count_nonzero(delta)),
        notes=(*tree.notes, *([complex_note(len(start))] if read.complex else [])),
    )  # fmt: skip


@dataclass(frozen=True)
class _Line:
    """A function on a bank, at parameters along the way from its own."""

    function: Function
    parts: Parts
    order: npt.NDArray[np.int64]
    """(M,) the readings as they come, in the order that a user sees."""

    @property
    def leaves(self) -> list[Any]:
        return list(self.function.tree.leaves)

    def at(self, leaves: Sequence[Any]) -> Array:
        """Return the readings at some leaves, (M,)."""
        return self._collected(
            lambda piece: np.asarray(self.function.flat(list(leaves), piece.bank)).astype(np.float64)
        )

    def partly(self, change: Array) -> Array:
        """Return the readings after a change of all parameters, (M,); NaN where the function fails."""
        with precision(self.function.tree.double):
            leaves = [leaf + part for leaf, part in zip(self.leaves, self._split(change), strict=True)]
        try:
            return self.at(leaves)
        except Exception:
            return np.full(len(self.order), np.nan)

    def derivative(self, change: Array, leaves: Sequence[Any] | None = None) -> Array:
        """Return J times a change, (M,), at the function's own parameters or others."""
        products, given = Products(self.function), self.leaves if leaves is None else leaves
        return self._collected(lambda piece: products.forth(given, piece, change))

    def _collected(self, take: Callable[[Any], Array]) -> Array:
        found = np.empty(len(self.order))
        with precision(self.function.tree.double):
            for piece in all_pieces(self.parts, INPUTS):
                found[piece.rows] = take(piece)[: piece.rows.stop - piece.rows.start]
        return found[self.order]

    def _split(self, change: Array) -> list[Any]:
        stops = np.cumsum(self.function.tree.sizes)[:-1]
        pairs = zip(self.leaves, np.split(change, stops), strict=True)
        return [jnp.asarray(part.reshape(leaf.shape), leaf.dtype) for leaf, part in pairs]


def _vector(leaves: Sequence[Any]) -> Array:
    return np.concatenate([np.asarray(leaf).astype(np.float64).ravel() for leaf in leaves])


def _leaves_like(tree: Tree, given: Any, argument: str) -> list[Any]:
    """Return the leaves of another pytree in the dtypes of the first; raises ValueError when they do not fit."""
    try:
        other = read_tree(given)
    except (TypeError, ValueError) as error:
        msg = str(error).replace("params must", f"{argument} must", 1)
        raise type(error)(msg) from error
    shapes = {name: leaf.shape for name, leaf in zip(other.names, other.leaves, strict=True)}
    for name, leaf in zip(tree.names, tree.leaves, strict=True):
        if shapes.pop(name, None) != leaf.shape:
            got = next((one.shape for key, one in zip(other.names, other.leaves, strict=True) if key == name), "none")
            msg = f"{argument} must have the parameters of before; {name} has shape {leaf.shape}; got {got}"
            raise ValueError(msg)
    if shapes:
        msg = f"{argument} must have the parameters of before; it has {next(iter(shapes))} besides"
        raise ValueError(msg)
    require_finite_leaves(other, argument)
    found = dict(zip(other.names, other.leaves, strict=True))
    with precision(tree.double):
        return [jnp.asarray(found[name], leaf.dtype) for name, leaf in zip(tree.names, tree.leaves, strict=True)]


def _error(line: _Line, end: list[Any], delta: Array, found: tuple[Array, Array, Array], eps: float) -> Array:
    """Return how far both changes of the readings may be off, (M,): measured beside a copy in double precision."""
    start, expected, changed = found
    function = line.function
    twin = function if eps <= EPS else in_float64(function, next(all_pieces(line.parts, INPUTS)).bank)
    if twin is not function:
        double = replace(line, function=twin)
        with precision(True):
            truth = double.at(raised(end)) - double.at(double.leaves)
        off = np.abs(expected - double.derivative(delta)) + np.abs(changed - truth)
        return np.asarray(_MARGIN * off + 2.0 * EPS * np.abs(start))
    with precision(function.tree.double):
        sides = [moved_leaves(line.leaves, side * MOVED * eps) for side in (1.0, -1.0)]
    above, below = (line.derivative(delta, leaves) for leaves in sides)
    own = 8.0 * eps * (np.abs(expected) + np.abs(start) + np.abs(changed))
    return np.asarray(error_by_moving(expected, above, below) + own)


def _margin(line: _Line, smallest: AnyChange, noise: Whitening, rng: np.random.Generator) -> Margin:
    members = _members(line.function.tree, smallest.group)
    if smallest.case == "worst":
        size = sum(block.stop - block.start for blocks in members.values() for block in blocks)
        return worst_margin(smallest, size, len(line.order))
    start = _vector(line.leaves)
    changes = (_drawn(start, members, smallest, rng) for _ in range(DIRECTIONS))
    shifts = [float(np.linalg.norm(whitened(noise, line.derivative(change)))) for change in changes]
    return Margin(str(smallest), np.sort(shifts), None)


def _members(tree: Tree, group: str | None) -> dict[str, list[slice]]:
    """Return what changes, in the blocks to which a change is relative."""
    stops = np.cumsum(tree.sizes).tolist()
    blocks = blocks_of(tree.names, tree.groups, group)
    return {home: [slice(stops[k] - tree.sizes[k], stops[k]) for k in places] for home, places in blocks.items()}


def _drawn(start: Array, members: dict[str, list[slice]], change: AnyChange, rng: np.random.Generator) -> Array:
    """Return a change of random direction, uniform on the unit sphere of the norm that measures it."""
    found, total = np.zeros(len(start)), 0.0
    for name, blocks in members.items():
        norm = np.sqrt(sum(float(np.square(start[block]).sum()) for block in blocks))
        size = relative_size(name, norm) if change.relative else 1.0
        for block in blocks:
            normal = rng.standard_normal(block.stop - block.start)
            total += float(np.square(normal).sum())
            found[block] = size * normal
    return np.asarray(found * (change.size / np.sqrt(total)))
