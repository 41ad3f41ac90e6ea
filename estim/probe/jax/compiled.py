"""Functions of a bank compiled once for all batches that are alike but for the values of their arrays."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from estim.probe.jax.readings import step_by_step

_ready: Callable[[Any], Any] = jax.block_until_ready


class Compiled:
    """A function ``function(bank, *arrays)``, compiled for every kind of bank that it meets.

    What is no array of numbers in a bank may decide on shapes and branches: it is part of the kind.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.steps: dict[Hashable, Callable[..., Any]] = {}

    def __call__(self, bank: Any, *arrays: Any) -> Any:
        """Call the function; what JAX raises where it cannot compile comes through."""
        structure: Any
        entries, structure = jax.tree_util.tree_flatten(bank)
        places = [k for k, entry in enumerate(entries) if _is_numeric(entry)]
        others = tuple((k, type(entry), entry) for k, entry in enumerate(entries) if not _is_numeric(entry))
        step = self._step(structure, places, others)
        return step([jnp.asarray(entries[place]) for place in places], *arrays)

    def _step(self, structure: Any, places: list[int], others: tuple[Any, ...]) -> Callable[..., Any]:
        try:
            known = self.steps.get((structure, others))
        except TypeError:  # something in it has no hash
            return self._made(structure, places, others)
        if known is None:
            known = self.steps[structure, others] = self._made(structure, places, others)
        return known

    def _made(self, structure: Any, places: list[int], others: tuple[Any, ...]) -> Callable[..., Any]:
        def step(arrays: list[Any], *given: Any) -> Any:
            entries: list[Any] = [None] * (len(places) + len(others))
            for place, array in zip(places, arrays, strict=True):
                entries[place] = array
            for place, _, entry in others:
                entries[place] = entry
            return self.function(structure.unflatten(entries), *given)

        compiled: Callable[..., Any] = jax.jit(step)
        return compiled


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufcV")


class CompiledHolding:
    """The same, compiled for one bank at a time, which stays as it is: NumPy may work on it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.bank: Any = None
        self.step: Callable[..., Any] | None = None

    def __call__(self, bank: Any, *arrays: Any) -> Any:
        """Call the function; what JAX raises where it cannot compile comes through."""
        if self.step is None or self.bank is not bank:
            self.bank, self.step = bank, jax.jit(partial(self.function, bank))
        return self.step(*arrays)


class FirstOf:
    """Some ways to compute the same: the first that works is taken, and those before it are not tried again."""

    def __init__(self, compiled: Sequence[Callable[..., Any]], plain: Sequence[Callable[..., Any]]) -> None:
        self.ways = [*compiled, *plain]
        self.plain = len(plain)
        self.why: Exception | None = None
        """What the last of the compiled ways raised, where none works."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the way that is taken."""
        return () if self.why is None else (step_by_step(self.why),)

    def __call__(self, *given: Any) -> Any:
        """Return what the first way that works gives; raises what the last one raises when none does."""
        while len(self.ways) > 1:
            try:
                # What a call raises only when its values are there is raised here.
                return _ready(self.ways[0](*given))
            except Exception as error:
                del self.ways[0]
                if len(self.ways) == self.plain:
                    self.why = error
        return _ready(self.ways[0](*given))


def compiled_or_not(function: Callable[..., Any]) -> FirstOf:
    """Return ``function(bank, *arrays)``, compiled for all banks that are alike, or for each, or not at all."""
    return FirstOf((Compiled(function), CompiledHolding(function)), (function,))
