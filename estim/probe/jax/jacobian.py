"""The whole Jacobian of a JAX function: by rows or by columns, whichever are fewer, compiled where it can be."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.jax.compiled import FirstOf, compiled_or_not
from estim.probe.jax.precision import in_double
from estim.probe.jax.readings import Function, explained

Array = npt.NDArray[np.float64]
#: Leaves to the Jacobian, (M, P).
Take = Callable[[list[Any]], Array]

#: Rows, or columns, taken at a time.
_BLOCK = 64
_FORWARDS = (
    "the model was differentiated forwards, as more of its derivatives are finite that way: backwards, an infinite "
    "slope of a branch that jax.numpy.where leaves out, or of another reading, is multiplied by 0"
)
_OTHER = "the model was not differentiated the cheaper way, forwards or backwards, which JAX cannot here"


@dataclass(frozen=True)
class Differentiated:
    """What takes the Jacobian of a function, compiled once."""

    take: Take
    jacobian: Array
    """(M, P) at the leaves that it was made for."""
    notes: tuple[str, ...]
    """On how it had to be found."""


def differentiated(function: Function, bank: Any, leaves: Sequence[Any], forwards: bool = False) -> Differentiated:
    """Return what takes the Jacobian of a function for a bank, with the one at some leaves.

    A function that JAX cannot compile, as for a branch on a value, is differentiated step by step; one that it cannot
    go back through, as for a while loop, forwards; so is one more of whose derivatives are finite that way, as
    backwards an infinite slope that is left out is multiplied by 0. `forwards` is for readings some of which are NaN:
    backwards, they make derivatives of others NaN, too.

    Raises
    ------
    ValueError
        When JAX cannot differentiate the function either way: the message says why.
    """
    leaves = list(leaves)
    rows = function.flat(leaves, bank).size
    rowwise = not forwards and rows <= sum(leaf.size for leaf in leaves)
    errors: list[Exception] = []
    lost: Differentiated | None = None
    for way in (_by_rows, _by_columns) if rowwise else (_by_columns, _by_rows):
        step = _step(function, way)
        take = _ending(function, bank, way(partial(step, bank), leaves, rows))
        try:
            found = Differentiated(take, take(leaves), (*step.notes, *([_OTHER] if errors else [])))
        except Exception as error:
            errors.append(error)
            continue
        if lost is None and (way is _by_columns or np.isfinite(found.jacobian).all()):
            return found
        if lost is not None:
            forth, back = (int(np.isfinite(one.jacobian).all(axis=1).sum()) for one in (found, lost))
            return replace(found, notes=(*found.notes, _FORWARDS)) if forth > back else lost
        lost = found
    if lost is not None:
        return lost
    # The cheaper way, step by step, is what a user would have tried.
    raise ValueError(explained(errors[0])) from errors[0]


def _ending(function: Function, bank: Any, take: Take) -> Take:
    """Return what takes the Jacobian where loops of the function end."""

    def checked(leaves: list[Any]) -> Array:
        function.require_end(leaves, bank)
        return take(leaves)

    return checked


def _step(function: Function, way: Callable[..., Take]) -> FirstOf:
    """Return what takes rows back, or columns forwards."""
    plain = partial(_back if way is _by_rows else _push, function)
    made: FirstOf = function.once(way.__name__, lambda: compiled_or_not(plain))
    return made


def _back(function: Function, bank: Any, leaves: list[Any], seeds: Any) -> Any:
    readings, pull = jax.vjp(lambda given: function.flat(given, bank), leaves)
    return jax.vmap(pull)(seeds.astype(readings.dtype))[0]


def _by_rows(step: Callable[..., Any], leaves: list[Any], rows: int) -> Take:
    """Take rows back, some at a time."""
    size = sum(leaf.size for leaf in leaves)

    def take(leaves: list[Any]) -> Array:
        jacobian = np.empty((rows, size))
        for start, seeds in _seeds(rows):
            found = step(leaves, jnp.asarray(seeds, dtype=jnp.float32))
            block = np.concatenate([in_double(part).reshape(len(seeds), -1) for part in found], axis=1)
            jacobian[start : start + _BLOCK] = block[: rows - start]
        return jacobian

    return take


def _push(function: Function, bank: Any, leaves: list[Any], seeds: Any) -> Any:
    stops = np.cumsum([leaf.size for leaf in leaves])[:-1].tolist()
    parts = zip(jnp.split(seeds, stops, axis=1), leaves, strict=True)
    tangents = [part.reshape(len(part), *leaf.shape).astype(leaf.dtype) for part, leaf in parts]
    return jax.vmap(lambda one: jax.jvp(lambda given: function.flat(given, bank), (leaves,), (one,))[1])(tangents)


def _by_columns(step: Callable[..., Any], leaves: list[Any], rows: int) -> Take:
    """Push columns forwards, some at a time."""
    size = sum(leaf.size for leaf in leaves)

    def take(leaves: list[Any]) -> Array:
        jacobian = np.empty((rows, size))
        for start, seeds in _seeds(size):
            found = in_double(step(leaves, jnp.asarray(seeds, dtype=jnp.float32))).T
            jacobian[:, start : start + _BLOCK] = found[:, : size - start]
        return jacobian

    return take


def _seeds(count: int) -> Iterator[tuple[int, Array]]:
    """Yield blocks of the identity, all of one shape so that one compilation does."""
    size = min(_BLOCK, count)
    for start in range(0, count, _BLOCK):
        yield start, np.eye(size, count, start, dtype=np.float64)
