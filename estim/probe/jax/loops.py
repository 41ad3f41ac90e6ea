"""Loops of a JAX function that end by a condition, counted: one whose tolerance is never reached would run for ever.

Nothing stops a compiled loop, not even the keyboard, and an absolute tolerance that float32 reaches float64 may not.
Where a function has such loops, its steps are first counted by a copy whose loops end after some steps all the same.

notation: n, the steps of the longest loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

_number: Callable[[int], Any] = jnp.int32
#: Steps that any loop may take, and times those that the longest one takes at the user's own parameters.
LEAST = 2**12
TIMES = 64


def has_loops(jaxpr: Any) -> bool:
    """Tell whether a loop that ends by a condition is in a traced function, or in what it calls."""
    return any(eqn.primitive.name == "while" or any(map(has_loops, _inner(eqn))) for eqn in jaxpr.eqns)


def counted(closed: Any, arrays: Sequence[Any], limit: Any) -> tuple[list[Any], Any]:
    """Evaluate a traced function with loops of at most `limit` steps; return what it returns, and n."""
    return _evaluated(closed.jaxpr, closed.consts, arrays, limit)


def _inner(eqn: Any) -> list[Any]:
    """Return what an operation calls."""
    found = []
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                found.append(part)
    return found


def _evaluated(jaxpr: Any, consts: Sequence[Any], arrays: Sequence[Any], limit: Any) -> tuple[list[Any], Any]:
    known = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, arrays, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else known[atom]

    most = _number(0)
    for eqn in jaxpr.eqns:
        given = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name == "while" or any(map(has_loops, _inner(eqn))):
            found, steps = _WAYS.get(eqn.primitive.name, _call)(eqn.params, given, limit)
            most = jnp.maximum(most, steps)
        else:
            found = _alone(eqn, given)
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars], most


def _alone(eqn: Any, given: list[Any]) -> Any:
    """Return what one operation makes of its arguments."""
    found = eqn.primitive.get_bind_params(eqn.params)
    functions, params = found if isinstance(found, tuple) else ((), found)  # before jax 0.10, and since
    with eqn.ctx.manager:
        made = eqn.primitive.bind(*functions, *given, **params)
    return made if eqn.primitive.multiple_results else [made]


def _loop(params: Any, given: list[Any], limit: Any) -> tuple[list[Any], Any]:
    head, tail = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    for_cond, for_body, start = given[:head], given[head:tail], given[tail:]

    def going(state: Any) -> Any:
        (go,), _ = counted(params["cond_jaxpr"], [*for_cond, *state[0]], limit)
        return go

    def step(state: Any) -> Any:
        found, inside = counted(params["body_jaxpr"], [*for_body, *state[0]], limit)
        go = going(state)
        if go.ndim:  # a loop for each of several, of which those that ended stay as they are
            pairs = zip(found, state[0], strict=True)
            found = [jnp.where(go.reshape(go.shape + (1,) * (one.ndim - go.ndim)), one, old) for one, old in pairs]
        return found, state[1] + 1, jnp.maximum(state[2], inside)

    def goes_on(state: Any) -> Any:
        return going(state).any() & (state[1] < limit)

    found, steps, inside = jax.lax.while_loop(goes_on, step, (start, _number(0), _number(0)))
    return found, jnp.maximum(steps, inside)


def _scan(params: Any, given: list[Any], limit: Any) -> tuple[list[Any], Any]:
    head, carry = _constants_and_carry(params)
    consts, start, along = given[:head], given[head : head + carry], given[head + carry :]

    def step(state: Any, row: Any) -> Any:
        found, inside = counted(params["jaxpr"], [*consts, *state[0], *row], limit)
        carried = len(start)
        return (found[:carried], jnp.maximum(state[1], inside)), found[carried:]

    (last, most), rows = jax.lax.scan(
        step, (start, _number(0)), along, length=params["length"], reverse=params["reverse"]
    )
    return [*last, *rows], most


def _constants_and_carry(params: Any) -> tuple[int, int]:
    """Return how many arguments of a scan are its constants, and how many come back from its steps."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carry, _ = params["ft_in"].unpack()  # jax 0.12
    return len(list(constants)), len(list(carry))


def _choice(params: Any, given: list[Any], limit: Any) -> tuple[list[Any], Any]:
    ways = [lambda *arrays, one=one: counted(one, arrays, limit) for one in params["branches"]]
    found: tuple[list[Any], Any] = jax.lax.switch(given[0], ways, *given[1:])
    return found


def _call(params: Any, given: list[Any], limit: Any) -> tuple[list[Any], Any]:
    """Evaluate what is only wrapped: compiled by itself, or with derivatives of its own, which readings do not need."""
    (inner,) = [params[name] for name in ("jaxpr", "call_jaxpr") if name in params]
    return _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), given, limit)


_WAYS = {"while": _loop, "scan": _scan, "cond": _choice}


@dataclass
class Ends:
    """Whether the loops of a function end: `flat` takes leaves and a bank to readings."""

    flat: Callable[[Any, Any], Any]
    limit: int | None = None
    """Steps that a loop may take; 0 where there is none, None where that is not known yet."""
    steps: tuple[Any, Callable[..., Any]] | None = None
    """A bank, and what counts on it."""

    def limited(self, leaves: Sequence[Any], bank: Any) -> int:
        """Return the limit, found the first time at leaves where the function is known to end."""
        if self.limit is None:
            most = self._count(leaves, bank, 2**31 - 1) if self._has_loops(leaves, bank) else None
            self.limit = 0 if most is None else max(LEAST, TIMES * most)
        return self.limit

    def _count(self, leaves: Sequence[Any], bank: Any, limit: int) -> int | None:
        """Return n at some leaves, at most `limit`; None where an operation has its loops in a way not known here."""
        if self.steps is None or self.steps[0] is not bank:
            flat = lambda given: self.flat(given, bank)  # noqa: E731
            count = jax.jit(lambda given, most: counted(jax.make_jaxpr(flat)(given), given, most)[1])
            self.steps = bank, count
        try:
            return int(np.asarray(self.steps[1](list(leaves), _number(limit))))
        except Exception:  # which says nothing of the function: its own calls do
            return None

    def require(self, leaves: Sequence[Any], bank: Any) -> None:
        """Refuse leaves at which a loop goes on to the limit; raises ValueError."""
        if self.limit and (self._count(leaves, bank, self.limit) or 0) >= self.limit:
            msg = (
                f"a loop of the model must end; it goes on after {self.limit} steps in other floats, or at other "
                "parameters: its tolerance may be below their rounding; make it relative, or end it after some steps"
            )
            raise ValueError(msg)

    def _has_loops(self, leaves: Sequence[Any], bank: Any) -> bool:
        try:
            return has_loops(jax.make_jaxpr(lambda given: self.flat(given, bank))(list(leaves)).jaxpr)
        except Exception:  # what it says, it says when it is called
            return False
