"""`estim.sensitivity` of a JAX function whose Jacobian is not held, for its parameters or for its readings."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import numbers_of_inputs
from estim.probe.derivatives.rounding import EPS
from estim.probe.directions.noise import Whitening
from estim.probe.jax.bank import Read, read_parts
from estim.probe.jax.dense import precision_note
from estim.probe.jax.error import relative_errors
from estim.probe.jax.gram import JaxPasses
from estim.probe.jax.groups import require_groups_of_leaves
from estim.probe.jax.parameters import Tree, read_tree, require_finite_leaves, vector_of
from estim.probe.jax.precision import rounding, word
from estim.probe.jax.readings import Function, require_kept
from estim.probe.jax.slopes import require_derivative
from estim.probe.jax.streamed import stream_of
from estim.probe.matrix_free.large import at_least, noise_of, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.streamed import streamed_sensitivity
from estim.probe.matrix_free.way import record_of
from estim.probe.model.batches import Batches
from estim.probe.model.calls import require_inputs
from estim.probe.model.readings import complex_note, flatten
from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

#: Parameters up to which each has its own name, column and direction, and entries of a Jacobian that is held.
DENSE = 3000
ENTRIES = 20_000_000


def is_large(params: Any) -> bool:
    """Tell whether a pytree has too many parameters for a column each."""
    return read_tree(params).size > DENSE


def outputs_of_long(model: Callable[..., Any], bank: Any, params: Any) -> tuple[Any, ...]:
    """Return what the model gives for the first batches, so many that a Jacobian has too many entries to be held.

    Nothing where it has not; what is wrong with the bank is not said here.
    """
    function, total = Function(model, read_tree(params)), 0
    outputs: list[Any] = []
    try:
        for batch in bank if isinstance(bank, Batches) else [bank]:
            require_inputs(batch)
            outputs.append(require_kept(function, batch))
            readings = flatten(outputs[-1])
            total += readings.size * (2 if readings.dtype.kind == "c" else 1)
            if total * function.tree.size > ENTRIES:
                return tuple(outputs)
    except (TypeError, ValueError):
        return ()
    return ()


@dataclass(frozen=True)
class Asked:
    """The arguments of `estim.sensitivity` that such a function takes beyond sigma and the noise of repeats."""

    names: Any
    groups: Any
    inputs: Any
    nan_policy: str
    keep: int
    progress: bool


@dataclass(frozen=True)
class _Opened:
    """A function with its bank, read."""

    function: Function
    read: Read
    noise: Whitening
    eps: float
    """Rounding of the readings or parameters, whichever is coarser."""
    inputs: npt.NDArray[np.int64]
    """(M,) the input of each reading that is left, as they come."""
    notes: tuple[str, ...]

    @property
    def derivative(self) -> str:
        return f"automatic differentiation in {word(self.eps)}"


def _opened(
    model: Callable[..., Any], bank: Any, sigma: Any, tree: Tree, asked: Asked, repeats: int, repeat_correlation: float,
    outputs: Sequence[Any] = (),
) -> _Opened:  # fmt: skip
    function = Function(model, tree, by_input=True)
    read = read_parts(function, bank, asked.nan_policy == "omit", outputs)
    noise = noise_of(sigma, read.places[read.kept], len(read.kept), repeats, repeat_correlation)
    inputs = read.inputs
    if asked.inputs is not None:
        inputs = numbers_of_inputs(asked.inputs, len(read.kept))[read.places][read.kept]
    notes = (*tree.notes, *([complex_note(len(read.kept))] if read.complex else []))
    eps = max(rounding(tree.coarsest), read.rounding)
    return _Opened(function, read, noise, eps, inputs, notes)


def sensitivity_of_large(
    model: Callable[..., Any], bank: Any, sigma: Any, params: Any, asked: Asked, *,
    symmetry: Any, repeats: int, repeat_correlation: float, smallest_change: Any, rtol: float | None,
    atol: float | None,
) -> ModelSensitivity:  # fmt: skip
    """Make the record of a function of too many parameters."""
    require_large(asked.names, symmetry, atol, rtol, smallest_change)
    tree = read_tree(params, asked.groups)
    require_groups_of_leaves(asked.groups, len(tree.names), tree.size)
    require_finite_leaves(tree)
    given = _opened(model, bank, sigma, tree, asked, repeats, repeat_correlation)
    function, parts, noise, eps = given.function, given.read.parts, given.noise, given.eps
    passes = JaxPasses(function, parts, word(eps))
    way = passes.way(asked.keep, noise)
    if asked.progress:
        print(way.said, file=sys.stderr)
    unknown = require_derivative(function, parts, eps)
    relative, measured = relative_errors(function, parts, noise.weights, eps)
    said = [] if eps <= EPS else [precision_note(word(eps), measured)]
    found = record_of(
        passes, way, noise, at_least(relative, rtol), derivative=given.derivative, repeats=repeats,
        repeat_correlation=repeat_correlation, inputs=given.inputs, places=given.read.places, kept=given.read.kept,
        keep=asked.keep, smallest_change=smallest_change, progress=asked.progress,
        notes=(*given.notes, *said, *unknown, way.said),
    )  # fmt: skip
    return replace(found, notes=(*found.notes, *passes.notes))


def sensitivity_of_long(
    model: Callable[..., Any], bank: Any, sigma: Any, params: Any, asked: Asked, *, outputs: Sequence[Any],
    repeats: int, repeat_correlation: float, **options: Any,
) -> Sensitivity:  # fmt: skip
    """Make the record of a function of few parameters with too many readings, the first of which are known."""
    tree = read_tree(params, asked.groups)
    vector = vector_of(tree, asked.names, asked.groups)
    given = _opened(model, bank, sigma, tree, asked, repeats, repeat_correlation, outputs)
    unknown = require_derivative(given.function, given.read.parts, given.eps)
    notes: dict[str, None] = {}
    return streamed_sensitivity(
        stream_of(given.function, replace(given.read, inputs=given.inputs), given.eps, notes), vector, sigma,
        given.noise, derivative=given.derivative, notes=lambda: (*given.notes, *unknown, *notes),
        progress=asked.progress, repeats=repeats, repeat_correlation=repeat_correlation, **options,
    )  # fmt: skip
