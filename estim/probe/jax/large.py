"""`estim.sensitivity` of a JAX function with too many parameters for a Jacobian: the record by matrix-free passes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import numbers_of_inputs
from estim.probe.derivatives.rounding import EPS
from estim.probe.jax.bank import Part, Read, pieces, read_parts
from estim.probe.jax.dense import precision_note
from estim.probe.jax.error import relative_errors, require_derivative
from estim.probe.jax.gram import JaxPasses
from estim.probe.jax.parameters import Tree, read_tree
from estim.probe.jax.precision import precision, rounding, word
from estim.probe.jax.products import Products
from estim.probe.jax.readings import Function
from estim.probe.jax.top import strongest_of_function, way_of_function
from estim.probe.matrix_free.large import in_order, model_sensitivity, noise_of, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.model.readings import complex_note

Array = npt.NDArray[np.float64]

#: Parameters up to which each has its own name, column and direction.
DENSE = 3000


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
    require_large(asked.names, symmetry, atol, smallest_change)
    tree = read_tree(params, asked.groups)
    _require_finite(tree)
    function = Function(model, tree)
    read = read_parts(function, bank, asked.nan_policy == "omit")
    noise = noise_of(sigma, read.places[read.kept], len(read.kept), repeats, repeat_correlation)
    products, eps = Products(function), _rounding(function, read.parts[0])
    passes = JaxPasses(function, read.parts, word(eps))
    way = way_of_function(passes, asked.keep, noise)
    if asked.progress:
        print(way.said, file=sys.stderr)
    require_derivative(products, read.parts, eps)
    relative, measured = relative_errors(products, read.parts, noise.weights, eps)
    if rtol is not None:
        relative = {name: max(value, float(rtol)) for name, value in relative.items()}
    said = [] if eps <= EPS else [precision_note(word(eps), measured)]
    common: dict[str, Any] = {
        "derivative": f"automatic differentiation in {word(eps)}", "repeats": repeats,
        "repeat_correlation": repeat_correlation, "inputs": _inputs_of(asked, read), "keep": asked.keep,
        "smallest_change": None if smallest_change is None else float(smallest_change), "progress": asked.progress,
        "notes": (*tree.notes, *([complex_note(len(read.kept))] if read.complex else []), *said, way.said),
    }  # fmt: skip
    if way.strongest:
        found = strongest_of_function(passes, noise, relative, way=way, **common)
    else:
        found = model_sensitivity(passes, noise, relative, **common)
    found = in_order(found, read.places, read.kept)
    by_steps = products.notes if way.strongest else tuple(passes.notes)
    return replace(found, notes=(*found.notes, *by_steps))


def _rounding(function: Function, part: Part) -> float:
    """Return the rounding of parameters or readings, whichever is coarser; the first readings stand for the rest."""
    with precision(function.tree.double):
        first = function.flat(list(function.tree.leaves), next(pieces(part, 1)).bank)
        return max(rounding(function.tree.coarsest), rounding(first.dtype))


def _inputs_of(asked: Asked, read: Read) -> npt.NDArray[np.int64]:
    """Return the input of each reading that is kept, as they come."""
    if asked.inputs is None:
        return np.concatenate([part.inputs for part in read.parts])
    return numbers_of_inputs(asked.inputs, len(read.kept))[read.places][read.kept]


def _require_finite(tree: Tree) -> None:
    for name, leaf in zip(tree.names, tree.leaves, strict=True):
        values = np.asarray(leaf).astype(np.float64).ravel()
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            msg = f"params must be finite; got {values[place]} for {name}, entry {place}"
            raise ValueError(msg)
