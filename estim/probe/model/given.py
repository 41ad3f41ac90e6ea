"""Jacobians that come with a model: read, checked against the model, and told exact or not."""

from collections.abc import Iterator, Mapping
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.probe.derivatives.differentiate import along, scales_of
from estim.probe.derivatives.rounding import EPS, generic_signs
from estim.probe.model.calls import First
from estim.probe.model.parameters import Parameters
from estim.probe.model.readings import split_complex

Array = npt.NDArray[np.float64]

#: Times their error estimate that differences must be away from a Jacobian to tell of its error.
_SURE = 4.0
#: Times the error along one direction: entries of either sign may nearly cancel in it.
_MARGIN = 3.0
#: Units in the last place up to which a disagreement is rounding.
_ROUNDING = 64.0
#: Rounding of short floats, as NumPy's ``finfo`` has it; bfloat16 is of torch and JAX.
_SHORT = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
#: Rows at a time.
_BLOCK = 256
#: Entries at a time.
_ENTRIES = 2**16


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


def short_floats(jacobian: Any) -> float:
    """Return the relative rounding of a Jacobian in short floats, also of one that was only stored in long ones.

    Entries with few digits, as of whole numbers or of halves, tell nothing: zero.
    """
    parts = list(_parts(jacobian))
    short = max(map(rounding_of, parts), default=0.0)
    if short:
        return short
    arrays = [np.asarray(unmasked(part)) for part in parts]
    if not arrays or any(array.dtype != np.float64 or not array.size for array in arrays):
        return 0.0
    blocks = [block for array in arrays for block in np.array_split(array.reshape(-1), -(-array.size // _ENTRIES))]
    with np.errstate(over="ignore"):
        held = all((block == block.astype(np.float32)).all() for block in blocks)
        if not held or all((block * 2.0**12 == np.round(block * 2.0**12)).all() for block in blocks):
            return 0.0
    return float(np.finfo(np.float32).eps)


def _parts(jacobian: Any) -> Iterator[Any]:
    """Yield the matrices of a Jacobian that is nested like parameters, or the one that it is."""
    if isinstance(jacobian, Mapping):
        jacobian = list(jacobian.values())
    elif not (isinstance(jacobian, list | tuple) and any(isinstance(part, np.ndarray | Mapping) for part in jacobian)):
        yield jacobian
        return
    for part in jacobian:
        yield from _parts(part)


def rounding_of(array: Any) -> float:
    """Return the relative rounding of numbers whose type says that they are short floats, of any library; else zero."""
    if isinstance(array, list | tuple):
        array = np.asarray(unmasked(array))
    kinds = list(array.dtypes) if hasattr(array, "columns") else [getattr(array, "dtype", None)]
    return max((_SHORT.get(getattr(kind, "name", str(kind)).rpartition(".")[2], 0.0) for kind in kinds), default=0.0)


def short_note(relative: float) -> str:
    """Say what the error of a Jacobian in short floats is taken to be."""
    return f"the Jacobian is in short floats: its error is taken to be {relative:.1g} of its entries"


def require_nan_policy(nan_policy: Any) -> None:
    """Refuse what is no policy for readings that are NaN; raises ValueError."""
    if not isinstance(nan_policy, str) or nan_policy not in ("raise", "omit"):
        msg = f"nan_policy must be 'raise' or 'omit'; got {nan_policy!r}"
        raise ValueError(msg)


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
    blocks = (values[start : start + _BLOCK] for start in range(0, max(len(values), 1), _BLOCK))
    rows = np.concatenate([np.isfinite(block).all(axis=1) for block in blocks])
    if not rows.all() and not omit:
        i = int(np.argmin(rows))
        j = int(np.argmin(np.isfinite(values[i])))
        msg = (
            f"readings and derivatives must be finite; {columns[j]} in row {first.places[i]} "
            f"(input {first.inputs[i]}) is {values[i, j]}; nan_policy='omit' of "
            "estim.sensitivity leaves such rows out"
        )
        raise ValueError(msg)
    if not rows.any():
        raise NotFiniteError(len(rows), first)
    return np.flatnonzero(rows)


def require_finite_derivatives(
    jacobian: Array, names: tuple[str, ...], places: npt.NDArray[Any], inputs: npt.NDArray[Any], cause: str = ""
) -> None:
    """Refuse a Jacobian, (M, P), of readings at some places, (M,), with an entry that is not finite; ValueError."""
    finite = np.isfinite(jacobian)
    if not finite.all():
        i, j = (int(place) for place in np.argwhere(~finite)[0])
        msg = (
            f"derivatives must be finite; that by {names[j]} of reading {places[i]} (input {inputs[i]}) is "
            f"{jacobian[i, j]}{cause}"
        )
        raise ValueError(msg)
