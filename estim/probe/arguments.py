"""Numbers, names and coefficients that a user gives to the probe, checked; every error names the argument."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.masks import unmasked
from estim.probe.labels import by_name
from estim.real_numbers import real_number, reals, shown

Array = NDArray[np.float64]

#: Largest number of an input, in readings: a table of shares has a row for every number up to the largest.
_INPUTS = 100
#: What to give in place of a function from names to groups.
LIST_OF_FUNCTION = ": [function(name) for name in names] is a list"


def is_one_number(value: Any) -> bool:
    """Tell a number of any kind from a vector, a mapping and the like."""
    return isinstance(value, Number) or (hasattr(value, "ndim") and value.ndim == 0)


def numbers(values: Any, argument: str) -> NDArray[Any]:
    """Return real or complex numbers of any shape as an array, fractions as floats, or raise a TypeError."""
    try:
        array = np.asarray(unmasked(values))
    except ValueError as error:
        msg = f"{argument} must be numbers; got rows of different lengths: {shown(values)}"
        raise TypeError(msg) from error
    if array.dtype == object:
        return reals(values, argument)
    if array.dtype.kind not in "iufc":
        msg = f"{argument} must be numbers; got dtype {array.dtype}"
        raise TypeError(msg)
    return array


def coefficients(values: Any, names: tuple[str, ...], argument: str) -> Array:
    """Return one finite number for each parameter, (P,), from an array or from a mapping of some names to numbers.

    Raises
    ------
    TypeError, ValueError
        When an entry is no finite real number, their number does not fit, or a name is unknown.
    """
    if isinstance(values, str):
        example = {names[0]: 1.0}
        msg = f"{argument} must be numbers, one for each parameter, or a mapping such as {example}; got {values!r}"
        raise TypeError(msg)
    values = by_name(values, names, argument)
    if isinstance(values, Mapping):
        unknown = next((name for name in values if name not in names), None)
        if unknown is not None:
            msg = f"{argument} names {unknown!r}, which is no parameter; the names are {', '.join(names[:8])}"
            raise ValueError(msg)
        values = [real_number(values.get(name, 0.0), f"{argument}[{name!r}]") for name in names]
    vector = reals(values, argument)
    if vector.shape != (len(names),):
        msg = f"{argument} must have one entry for each of the {len(names)} parameters; got shape {vector.shape}"
        raise ValueError(msg)
    if not np.isfinite(vector).all():
        i = int(np.argmin(np.isfinite(vector)))
        msg = f"{argument} must be finite; got {vector[i]} for {names[i]}"
        raise ValueError(msg)
    return vector


def words(given: Any, count: int, argument: str) -> tuple[str, ...]:
    """Return one name for each parameter, in their order."""
    ordered = isinstance(given, Sequence | np.ndarray) or hasattr(given, "to_numpy")  # a pandas Index has an order, too
    msg = f"{argument} must be a list of one word for each of the {count} parameters; got {shown(given)}"
    if isinstance(given, str | bytes) or not ordered:
        raise TypeError(msg + (LIST_OF_FUNCTION if callable(given) else ""))
    if len(given) != count:
        raise ValueError(msg)
    found = tuple(str(word) for word in given)
    if "" in found:
        msg = f"{argument} must not be empty words; got one at place {found.index('')}"
        raise ValueError(msg)
    return found


def numbers_of_inputs(inputs: Any, readings: int) -> NDArray[np.int64]:
    """Return the input that each reading belongs to, (readings,).

    Raises
    ------
    ValueError
        When they are not as many nonnegative integers, or so large that no table could have a row for each input.
    """
    try:
        array = np.asarray(unmasked(inputs))
    except ValueError as error:
        msg = f"inputs must be whole numbers, one for each of the {readings} readings; got {shown(inputs)}"
        raise ValueError(msg) from error
    if array.shape != (readings,) or array.dtype.kind not in "iu":
        msg = (
            f"inputs must be whole numbers, one for each of the {readings} readings; "
            f"got dtype {array.dtype}, shape {array.shape}"
        )
        raise ValueError(msg)
    if array.min() < 0:
        msg = f"inputs must be nonnegative; got {array.min()}"
        raise ValueError(msg)
    if array.max() >= _INPUTS * (readings + 1):
        msg = (
            f"inputs must number the inputs from 0; got {array.max()} for {readings} readings: "
            "numpy.unique(inputs, return_inverse=True) numbers them anew"
        )
        raise ValueError(msg)
    return array.astype(np.int64)
