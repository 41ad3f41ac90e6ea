"""`estim.sensitivity` of a JAX function with too many parameters for a Jacobian: the record by matrix-free passes."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from estim.probe.arguments import numbers_of_inputs
from estim.probe.derivatives.rounding import EPS, MOVED
from estim.probe.jax.bank import Part, pieces, read_parts
from estim.probe.jax.dense import precision_note
from estim.probe.jax.gram import BLOCK, JaxPasses
from estim.probe.jax.parameters import Tree, moved_leaves, read_tree
from estim.probe.jax.precision import precision, raised, rounding, word
from estim.probe.jax.readings import Function, explained
from estim.probe.matrix_free.cost import cost, require_room
from estim.probe.matrix_free.error import error_of_combinations, relative_norms
from estim.probe.matrix_free.large import model_sensitivity, noise_of
from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]

#: Parameters up to which each has its own name, column and direction.
DENSE = 3000
#: Combinations of the rows, and inputs that go back together, for the error of the Jacobian.
_DRAWS = 4
_INPUTS = 32


def is_large(params: Any) -> bool:
    """Tell whether a pytree has too many parameters for a column each."""
    return read_tree(params).size > DENSE


@dataclass(frozen=True)
class Asked:
    """The arguments of `estim.sensitivity` that a large function takes beyond sigma and the noise of repeats."""

    names: Any
    groups: Any
    inputs: Any
    nan_policy: str
    keep: int
    progress: bool


def sensitivity_of_large(
    model: Callable[..., Any], bank: Any, sigma: Any, params: Any, asked: Asked, *,
    symmetry: Any, repeats: int, repeat_correlation: float, smallest_change: Any, rtol: float | None,
    atol: float | None,
) -> ModelSensitivity:  # fmt: skip
    """Make the record of a function whose Jacobian is not held."""
    _refuse(asked, symmetry, atol, smallest_change)
    tree = read_tree(params, asked.groups)
    _require_finite(tree)
    function = Function(model, tree)
    parts, kept = read_parts(function, bank, asked.nan_policy == "omit")
    noise = noise_of(sigma, kept, repeats, repeat_correlation)
    with precision(tree.double):
        # The first of all readings have the precision of the rest.
        eps = max(rounding(tree.coarsest), rounding(_dtype(function, parts[0])))
    passes = JaxPasses(function, parts, word(eps))
    element, groups = (8 if eps <= EPS else 4), len(set(tree.groups))
    require_room(passes.readings, groups)
    plan = cost(passes.readings, tree.size, groups, element, min(BLOCK, passes.readings * tree.size * element))
    if asked.progress:
        print(plan, file=sys.stderr)
    weights = noise.scale if noise.forward is None else np.sqrt(np.square(noise.forward).sum(axis=0))
    relative, measured = _relative(function, parts, weights, eps)
    if rtol is not None:
        relative = {name: max(value, float(rtol)) for name, value in relative.items()}
    notes = (*tree.notes, *([] if eps <= EPS else [precision_note(word(eps), measured)]), plan)
    inputs = np.concatenate([part.inputs for part in parts])
    if asked.inputs is not None:
        inputs = numbers_of_inputs(asked.inputs, len(kept))[kept]
    found = model_sensitivity(
        passes, noise, relative, derivative=f"automatic differentiation in {word(eps)}", repeats=repeats,
        repeat_correlation=repeat_correlation,
        smallest_change=None if smallest_change is None else float(smallest_change), inputs=inputs, keep=asked.keep,
        progress=asked.progress, notes=notes
    )  # fmt: skip
    return replace(found, notes=(*found.notes, *passes.notes))


def _dtype(function: Function, part: Part) -> Any:
    return function.flat(list(function.tree.leaves), next(pieces(part, 1))[1]).dtype


def _require_finite(tree: Tree) -> None:
    for name, leaf in zip(tree.names, tree.leaves, strict=True):
        values = np.asarray(leaf).astype(np.float64).ravel()
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            msg = f"params must be finite; got {values[place]} for {name}, entry {place}"
            raise ValueError(msg)


def _refuse(asked: Asked, symmetry: Any, atol: Any, change: Any) -> None:
    """Refuse what needs single parameters."""
    for argument, value in (("names", asked.names), ("symmetry", symmetry), ("atol", atol)):
        if value is not None:
            msg = f"{argument} must be left out: the model is too large for single parameters; got {value!r:.80}"
            raise ValueError(msg)
    if not isinstance(asked.keep, int) or asked.keep < 0:
        msg = f"keep must be a whole number, at least 0; got {asked.keep!r}"
        raise ValueError(msg)
    if change is not None and (np.ndim(change) or not 0.0 < float(change) < np.inf):
        msg = f"smallest_change must be one positive number for a model this large; got {change!r:.80}"
        raise ValueError(msg)


def _relative(function: Function, parts: list[Part], weights: Array, eps: float) -> tuple[dict[str, float], bool]:
    """Return |E|_F / |J|_F of each group, and whether it was measured beside a copy in float64."""
    tree = function.tree
    with precision(tree.double):
        pull = _puller(function)
        plain = _combined(pull, list(tree.leaves), parts, weights, False)
        double = None if eps <= EPS else _in_double(function, parts, weights)
        sides = (1.0, -1.0) if double is None else ()
        moved = [moved_leaves(tree.leaves, side * MOVED * eps) for side in sides]
        above_below = [_combined(pull, leaves, parts, weights, False) for leaves in moved]
    errors, truth = error_of_combinations(plain, double, above_below, tree.sizes, eps)
    return relative_norms(errors, truth, tree.groups, tree.sizes, 0.5 * eps), double is not None


def _in_double(function: Function, parts: list[Part], weights: Array) -> list[Array] | None:
    """Return combinations of rows in float64; None where the function does not follow."""
    with precision(True):
        leaves = list(raised(function.tree.leaves))
        try:
            piece = raised(next(pieces(parts[0], 1))[1])
            if rounding(function.flat(leaves, piece).dtype) > EPS:
                return None
            return _combined(_puller(function), leaves, parts, weights, True)
        except Exception:  # the function need not be made for it
            return None


def _puller(function: Function) -> Callable[[list[Any], Any, Any], Any]:
    """Return what takes a cotangent of the readings of a bank back to all leaves."""

    def pull(leaves: list[Any], bank: Any, seed: Any) -> Any:
        readings, back = jax.vjp(lambda given: function.flat(given, bank), leaves)
        return back(seed.astype(readings.dtype))[0]

    return pull


def _combined(
    pull: Callable[..., Any], leaves: list[Any], parts: Sequence[Part], weights: Array, double: bool
) -> list[Array]:
    """Return combinations of all rows with random signs, (P,) each; the same signs on every call."""
    rng, start = np.random.default_rng(0), 0
    found = [np.zeros(sum(leaf.size for leaf in leaves)) for _ in range(_DRAWS)]
    for part in parts:
        for rows, bank in pieces(part, _INPUTS):
            weight = weights[start + rows.start : start + rows.stop]
            given = raised(bank) if double else bank
            for total in found:
                seed = jnp.asarray(weight * rng.choice((-1.0, 1.0), len(weight)))
                try:
                    gradients = pull(leaves, given, seed)
                except Exception as error:
                    raise ValueError(explained(error)) from error
                total += np.concatenate([np.asarray(one).astype(np.float64).ravel() for one in gradients])
        start += len(part.readings)
    return found
