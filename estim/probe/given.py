"""Jacobians that come with a model: read, checked against the model, and told exact or not."""

from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.calls import First
from estim.probe.derivatives import along, scales_of
from estim.probe.parameters import Parameters
from estim.probe.readings import split_complex
from estim.probe.rounding import generic_signs

Array = npt.NDArray[np.float64]


def read_jacobian(given: Any, parameters: Parameters, first: First) -> tuple[Array, npt.NDArray[Any] | None]:
    """Return a Jacobian as float64, (M, P), and its entries where all of them are exact (integers, fractions)."""
    matrix = split_complex(parameters.columns(given, first.calls.size))
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


def check_jacobian(jacobian: Array, first: First, parameters: Parameters) -> None:
    """Refuse a Jacobian that the model's own change along one direction of all parameters contradicts.

    Raises
    ------
    ValueError
        Naming a reading, with both changes.
    """
    direction = scales_of(parameters) * generic_signs(len(parameters.values))
    with np.errstate(all="ignore"):
        size, said = np.abs(jacobian) @ np.abs(direction), jacobian @ direction
        if _roughly(said, size, first, parameters, direction):
            return
        found = along(first, parameters, direction)
        off = np.abs(found.values - said) > 1e-4 * size + 10.0 * found.error
    if off.any() and not found.kinked:
        i = int(np.argmax(off))
        msg = (
            f"jac must be the derivative of the model; along one direction of all parameters reading {first.places[i]} "
            f"changes by {found.values[i]:.6g}, jac says {said[i]:.6g}"
        )
        raise ValueError(msg)


def _roughly(said: Array, size: Array, first: First, parameters: Parameters, direction: Array) -> bool:
    """Tell whether one small step along the direction bears the Jacobian out."""
    step = 2.0**-17 * direction
    change = 2.0**16 * (first.calls(parameters.values + step) - first.calls(parameters.values - step))
    return bool((np.abs(change - said) <= 1e-3 * size).all())


class NotFiniteError(ValueError):
    """No reading of a bank is finite, or no derivative; a batch of a larger bank may be like that."""

    def __init__(self, rows: int, first: First) -> None:
        super().__init__(f"readings and derivatives must be finite; none of {rows} is")
        self.total, self.complex = first.total, first.complex
        self.bank_size: int | None = first.bank_size


def finite_rows(values: Array, first: First, columns: tuple[str, ...], omit: bool) -> npt.NDArray[np.intp]:
    """Return the rows without NaN and infinities, (rows,); refuse such rows unless they are to be omitted.

    Raises
    ------
    ValueError
        Naming the first reading and its input.
    NotFiniteError
        When no reading is left.
    """
    finite = np.isfinite(values)
    rows = np.asarray(finite.all(axis=1))
    if not rows.all() and not omit:
        i = int(np.argmin(rows))
        j = int(np.argmin(finite[i]))
        msg = (
            f"readings and derivatives must be finite; {columns[j]} in row {first.places[i]} "
            f"(input {first.inputs[i]}) is {values[i, j]}; nan_policy='omit' leaves such rows out"
        )
        raise ValueError(msg)
    if not rows.any():
        raise NotFiniteError(len(rows), first)
    return np.flatnonzero(rows)
