"""Jacobians that come with a model: read, checked against the model, and told exact or not."""

from collections.abc import Callable, Iterator, Mapping
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.probe.derivatives.differentiate import along, scales_of
from estim.probe.derivatives.rounding import EPS, generic_signs
from estim.probe.model.calls import First
from estim.probe.model.missing import missing_key
from estim.probe.model.parameters import Leaf, Parameters
from estim.probe.model.readings import split_complex
from estim.probe.model.untouched import call_with_copy

Array = npt.NDArray[np.float64]

#: Times their error estimate that differences must be away from a Jacobian to tell of its error.
_SURE = 4.0
#: Times the error along one direction: entries of either sign may nearly cancel in it.
_MARGIN = 3.0
#: Units in the last place up to which a disagreement is rounding.
_ROUNDING = 64.0
#: Rows at a time.
_BLOCK = 256


def read_jacobian(given: Any, parameters: Parameters, first: First) -> tuple[Array, npt.NDArray[Any] | None]:
    """Return a Jacobian as float64, (M, P), and its entries where all of them are exact (integers, fractions)."""
    matrix = split_complex(columns_of(given, first.calls.size, parameters))
    if len(matrix) != first.total:  # real derivatives of complex readings: the imaginary parts are missing
        msg = f"jac must return complex derivatives, as the readings are complex; got dtype {matrix.dtype}"
        raise ValueError(msg)
    matrix = matrix if len(first.places) == len(matrix) else matrix[first.places]
    if matrix.dtype != object:
        return matrix, None
    exact = matrix if all(isinstance(entry, Rational) for entry in matrix.flat) else None
    try:
        return np.array([float(entry) for entry in matrix.flat]).reshape(matrix.shape), exact
    except (TypeError, ValueError) as error:
        msg = f"jac must return real numbers; {error}"
        raise TypeError(msg) from error


def check_jacobian(jacobian: Array, first: First, parameters: Parameters) -> tuple[float, tuple[str, ...]]:
    """Hold a Jacobian against the model's own change along one direction of all parameters.

    Returns
    -------
    float
        Relative error of its entries, dimensionless: what is between it and accurate differences beyond their error;
        zero where that is no more than rounding.
    tuple of str
        A note, where there is an error.

    Raises
    ------
    ValueError
        When the two contradict each other, naming a reading with both changes.
    """
    direction = scales_of(parameters) * generic_signs(len(parameters.values))
    found = along(first, parameters, direction)
    with np.errstate(all="ignore"):
        said, size = jacobian @ direction, np.abs(jacobian) @ np.abs(direction)
        apart = np.abs(found.values - said)
        off = apart > 1e-4 * size + 10.0 * found.error
    if found.kinked:
        return 0.0, ()
    if off.any():
        i = int(np.argmax(off))
        msg = (
            f"jac must be the derivative of the model; along one direction of all parameters reading {first.places[i]} "
            f"changes by {found.values[i]:.6g}, jac says {said[i]:.6g}"
        )
        raise ValueError(msg)
    beyond = np.where(apart > _SURE * found.error, apart, 0.0)
    # Errors of either sign add up like this, and so does a typical reading where one hardly moves.
    typical = _root_sum(jacobian, direction)
    typical = np.maximum(typical, np.median(typical))
    relative = float(_MARGIN * (beyond / np.where(typical > 0.0, typical, 1.0)).max())
    if relative <= _ROUNDING * EPS:
        return 0.0, ()
    return relative, (f"jac agrees with differences of the model only to {relative:.1g}, which is taken as its error",)


def _root_sum(jacobian: Array, direction: Array) -> Array:
    """Return sqrt(sum_j (J_ij d_j)^2), (M,), in blocks, so that no second Jacobian is held."""
    blocks = (jacobian[start : start + _BLOCK] for start in range(0, len(jacobian), _BLOCK))
    return np.concatenate([np.linalg.norm(block * direction, axis=1) for block in blocks])


def derivatives_of(function: Callable[..., Any], bank: Any, name: str, parameters: Parameters | None = None) -> Any:
    """Return what a function for derivatives, at parameters if any, gives for a bank, its errors explained."""

    def explained(copy: Any) -> Any:
        try:
            return function(copy) if parameters is None else function(parameters.rebuild(parameters.values), copy)
        except Exception as error:
            absent = ""
            if parameters is not None:
                given = parameters.rebuild(parameters.values)
                absent = missing_key(lambda watched: function(watched, copy), given, error)
            msg = f"{name} raised {error!r}{f': {absent}' if absent else ' for this bank'}"
            raise ValueError(msg) from error

    return call_with_copy(explained, bank, name)


def rows_of(jacobian: Any) -> int:
    """Return how many readings a Jacobian, a matrix or nested like the parameters, has derivatives of."""
    while isinstance(jacobian, Mapping) and jacobian:
        jacobian = next(iter(jacobian.values()))
    try:
        return len(jacobian)
    except TypeError as error:
        msg = f"jacobian(bank) must return (readings, P) or be nested like the parameters; got {jacobian!r:.60}"
        raise TypeError(msg) from error


def columns_of(derivative: Any, rows: int, parameters: Parameters) -> npt.NDArray[Any]:
    """Return a Jacobian, nested like the parameters or already a matrix, as (rows, P).

    The columns of a parameter that stands in several places are added up.
    """
    size = len(parameters.values)
    if not is_nested(derivative):
        matrix = _as_array(derivative)
        if matrix.shape == (rows, size):
            return matrix
        if not isinstance(parameters.tree, Leaf):
            msg = f"jac must return shape ({rows}, {size}), readings by parameters; got {matrix.shape}"
            raise ValueError(msg)
    pairs = list(_pairs(parameters.tree, derivative))
    kind = object if any(entries.dtype == object for _, entries in pairs) else np.float64
    if any(entries.dtype.kind == "c" for _, entries in pairs):
        kind = np.complex128
    total = np.zeros((rows, size), dtype=kind)
    for leaf, entries in pairs:
        if entries.size != rows * leaf.places.size:
            shape = (rows, *leaf.places.shape)
            msg = f"jac must return shape {shape} for {leaf.name}, readings first; got {entries.shape}"
            raise ValueError(msg)
        np.add.at(total.T, leaf.places.ravel(), entries.reshape(rows, -1).T)
    return total


def _pairs(tree: Any, nested: Any) -> Iterator[tuple[Leaf, npt.NDArray[Any]]]:
    """Yield every leaf with its part of a structure nested in the same way."""
    if isinstance(tree, Leaf) and not isinstance(nested, Mapping):
        yield tree, _as_array(nested)
        return
    if not _nested_alike(tree, nested):
        msg = f"jac must return (readings, P) or be nested like params; got {nested!r:.80}"
        raise ValueError(msg)
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        yield from _pairs(tree[key], nested[key])


def _nested_alike(tree: Any, nested: Any) -> bool:
    if isinstance(tree, dict):
        return isinstance(nested, Mapping) and set(nested) == set(tree)
    return isinstance(tree, list | tuple) and isinstance(nested, list | tuple) and len(nested) == len(tree)


def is_nested(derivative: Any) -> bool:
    """Tell a structure of arrays from a matrix, which may be written as a list of lists of numbers."""
    if isinstance(derivative, Mapping):
        return True
    return isinstance(derivative, list | tuple) and any(isinstance(part, np.ndarray | Mapping) for part in derivative)


def _as_array(values: Any) -> npt.NDArray[Any]:
    array = np.asarray(unmasked(values))
    if array.dtype.kind not in "biufcO":
        msg = f"jac must return numbers; got dtype {array.dtype}"
        raise TypeError(msg)
    if array.dtype.kind in "iu":
        return array.astype(object)  # whole numbers are exact entries
    return array if array.dtype.kind in "cO" else array.astype(np.float64, copy=False)
