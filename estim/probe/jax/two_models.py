"""Two sets of parameters of a JAX function that are too many for a Jacobian, compared along the way between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.along import noisy
from estim.probe.derivatives.rounding import EPS, MOVED, error_by_moving
from estim.probe.directions.noise import Whitening
from estim.probe.jax.bank import read_parts
from estim.probe.jax.other import Other, read_argument, read_other
from estim.probe.jax.parameters import Tree, leaves_like, moved_leaves, read_tree, vector_of_leaves
from estim.probe.jax.pieces import Parts, Piece, all_pieces
from estim.probe.jax.precision import in_double, precision, raised, rounding
from estim.probe.jax.products import INPUTS, Products
from estim.probe.jax.readings import Function
from estim.probe.jax.slopes import require_derivative
from estim.probe.jax.twin import in_float64
from estim.probe.model.calls import Calls
from estim.probe.model.elsewhere import as_callable
from estim.probe.model.readings import complex_note
from estim.probe.two_models.pair import (
    DIRECTIONS,
    Pair,
    blocks_of,
    require_finite,
    third_margin,
    typical_margin,
    whole_change,
    worst_margin,
)
from estim.probe.verdict.any_change import AnyChange, relative_size
from estim.probe.verdict.margin import Margin

Array = npt.NDArray[np.float64]

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
    tree = read_argument(before, "before")
    end = read_other(tree, after, "after")
    delta = vector_of_leaves(end.leaves) - vector_of_leaves(tree.leaves)
    if not delta.any() and not end.held:
        msg = "after must differ from before; all parameters are the same"
        raise ValueError(msg)
    function = Function(model, tree, by_input=True)
    read = read_parts(function, bank, False)
    line, eps = _Line(function, read.parts, np.argsort(read.places)), max(rounding(tree.coarsest), read.rounding)
    unknown = require_derivative(function, read.parts, eps)
    start = np.concatenate([part.readings for part in read.parts.known])[line.order]
    noise = noisy(sigma, len(start))
    whole = partial(whole_change, noise=noise)
    ahead = line.holding(end, "after")
    changed, expected = ahead.at(end.leaves) - start, line.derivative(delta)
    require_finite(changed, "after")

    def margin(smallest: Any, rng: np.random.Generator) -> Margin:
        if isinstance(smallest, AnyChange):
            return _margin(line, smallest, noise, rng)
        other = read_other(tree, smallest, "smallest_change")
        return third_margin(line.holding(other, "smallest_change").at(other.leaves) - start, whole)

    return Pair(
        expected=expected, changed=changed,
        error=_error(line, ahead, end.leaves, delta, (start, expected, changed), eps),
        partly=lambda t: ahead.partly(t * delta) - start if t < 1.0 else changed,
        noise=noise, project=whole, margin=margin,
        delta=np.array([np.linalg.norm(delta), np.linalg.norm(vector_of_leaves(tree.leaves))]),
        parameters=int(np.count_nonzero(delta)),
        notes=(*tree.notes, *end.notes, *unknown, *([complex_note(len(start))] if read.complex else [])),
    )  # fmt: skip


def calls_of_other(
    calls: Calls, model: Callable[..., Any], before: Any, given: Any, bank: Any, argument: str
) -> tuple[Array, Calls, tuple[str, ...]]:
    """Return another pytree of few parameters as a vector, (P,), the model with what it holds, and notes on that.

    Raises
    ------
    TypeError, ValueError
        When it does not fit the first, or the model does not take it.
    """
    tree = read_tree(before)
    other = read_other(tree, given, argument)
    vector = vector_of_leaves(other.leaves)
    if not other.held:
        return vector, calls, ()
    there = replace(calls, model=as_callable(model, bank, other.tree.rebuild(other.leaves))[0])
    try:
        there.raw(vector)
    except Exception as error:
        msg = f"the model must take {argument} as it takes before; it raised {error!r}"
        raise ValueError(msg) from error
    return vector, there, other.notes


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

    def holding(self, other: Other, argument: str) -> "_Line":
        """Return the same function with what another pytree holds; raises ValueError where it cannot be called."""
        if not other.held:
            return self
        # Inputs that do not depend on each other may do so with it: each batch is read whole.
        parts = replace(self.parts, known=tuple(replace(part, apart=0) for part in self.parts.known))
        found = replace(self, function=self.function.holding(other.tree), parts=parts)
        try:
            found.at(other.leaves)
        except Exception as error:
            msg = f"the model must take {argument} as it takes before; it raised {error!r}"
            raise ValueError(msg) from error
        return found

    def at(self, leaves: Sequence[Any]) -> Array:
        """Return the readings at some leaves, (M,)."""

        def read(piece: Piece) -> Array:
            found = in_double(self.function.flat(list(leaves), piece.bank))
            if len(found) != piece.size:
                msg = f"the model must always return the same number of readings; got {piece.size}, then {len(found)}"
                raise ValueError(msg)
            return found

        return self._collected(read)

    def partly(self, change: Array) -> Array:
        """Return the readings after a change of all parameters, (M,); NaN where the function fails."""
        with precision(self.function.tree.double):
            steps = leaves_like(self.leaves, change)
            leaves = [leaf + step for leaf, step in zip(self.leaves, steps, strict=True)]
        try:
            return self.at(leaves)
        except Exception:
            return np.full(len(self.order), np.nan)

    def derivative(self, change: Array, leaves: Sequence[Any] | None = None) -> Array:
        """Return J times a change, (M,), at the function's own parameters or others."""
        products, given = Products(self.function), self.leaves if leaves is None else leaves
        return self._collected(lambda piece: products.forth(given, piece, change))

    def _collected(self, take: Callable[[Piece], Array]) -> Array:
        found = np.empty(len(self.order))
        with precision(self.function.tree.double):
            for piece in all_pieces(self.parts, INPUTS):
                found[piece.rows] = take(piece)[: piece.rows.stop - piece.rows.start]
        return found[self.order]


def _error(
    line: _Line, ahead: _Line, end: list[Any], delta: Array, found: tuple[Array, Array, Array], eps: float
) -> Array:
    """Return how far both changes of the readings may be off, (M,): measured beside a copy in double precision."""
    start, expected, changed = found
    function = line.function
    twin = function if eps <= EPS else in_float64(function, next(all_pieces(line.parts, INPUTS)).bank)
    if twin is not function:
        double = replace(line, function=twin)
        with precision(True):
            after = replace(ahead, function=twin.holding(ahead.function.tree))
            truth = after.at(raised(end)) - double.at(double.leaves)
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
    start = vector_of_leaves(line.leaves)
    changes = (_drawn(start, members, smallest, rng) for _ in range(DIRECTIONS))
    return typical_margin(smallest, map(line.derivative, changes), noise)


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
