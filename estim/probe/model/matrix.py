"""A Jacobian given as a matrix, floats or exact entries, seen as a probed model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.probe.arguments import numbers_of_inputs, words
from estim.probe.labels import in_order
from estim.probe.model.finite import require_nan_policy
from estim.probe.model.probed import Probed
from estim.probe.model.short_floats import rounding_of, short_note
from estim.real_numbers import reals

Array = npt.NDArray[np.float64]

#: Rows looked through at a time.
_ROWS = 256


def probe_matrix(
    jacobian: Any,
    *,
    jac_error: npt.ArrayLike | None,
    parameters: npt.ArrayLike | None,
    names: Sequence[str] | None,
    groups: Sequence[str] | None,
    inputs: npt.ArrayLike | None,
    nan_policy: str,
) -> Probed:
    """Check the matrix and what goes with it; parameters and errors as for `Sensitivity.from_jacobian`."""
    values, exact = _read(jacobian)
    readings, count = values.shape
    error, notes = _error(values, exact, jac_error, jacobian)
    owner = np.arange(readings) if inputs is None else numbers_of_inputs(inputs, readings)
    kept = _kept(values, nan_policy)
    named = _named(jacobian, count) if names is None else words(names, count, "names")
    if len(set(named)) < count:
        twice = next(name for name in named if named.count(name) > 1)
        msg = f"names must differ; got {twice!r} twice"
        raise ValueError(msg)
    parameters = in_order(parameters, named, "parameters")
    point = np.full(count, np.nan) if parameters is None else _parameters(parameters, count)
    groups = groups if isinstance(groups, Mapping) else in_order(groups, named, "groups")
    dropped = readings - int(np.count_nonzero(kept))
    notes += (f"{dropped} readings that are NaN were left out.",) if dropped else ()
    whole = bool(kept.all())
    return Probed(
        readings=np.full(int(kept.sum()), np.nan), jacobian=values if whole else values[kept],
        error=None if error is None else error[kept], parameters=point,
        names=named, groups=("all",) * count if groups is None else words(groups, count, "groups"), inputs=owner[kept],
        derivative="given", tangents=None, exact=None if exact is None else exact[kept], notes=notes,
        kept=np.flatnonzero(kept), total=readings,
    )  # fmt: skip


def _named(jacobian: Any, count: int) -> tuple[str, ...]:
    """Return the columns' names of a DataFrame that has any, or numbers."""
    labels = getattr(jacobian, "columns", None)
    if labels is not None and type(labels).__name__ != "RangeIndex":
        return words(labels, count, "names, the jacobian's columns,")
    return tuple(f"theta[{j}]" for j in range(count))


def _error(
    values: Array, exact: npt.NDArray[np.object_] | None, jac_error: npt.ArrayLike | None, jacobian: Any
) -> tuple[Array | None, tuple[str, ...]]:
    """Return the error of the entries, None for their rounding in float64, and what to say of it."""
    if jac_error is None:
        short = rounding_of(jacobian) if exact is None else 0.0
        return (short * np.abs(values), (short_note(short),)) if short else (None, ())
    if exact is not None:
        msg = f"jac_error must be left out with exact entries, which have none; got {jac_error!r:.60}"
        raise ValueError(msg)
    error = _errors(jac_error, values.shape)
    wrong = ~(error >= 0.0)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        msg = f"jac_error must not be negative or NaN; got {error[row, column]} in row {row}, column {column}"
        raise ValueError(msg)
    return error, ()


def _errors(jac_error: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    given = reals(jac_error, "jac_error")
    try:
        return np.broadcast_to(given, shape)
    except ValueError as error:
        msg = f"jac_error must have the jacobian's shape {shape}, or be broadcast to it; got shape {given.shape}"
        raise ValueError(msg) from error


def _read(jacobian: Any) -> tuple[Array, npt.NDArray[np.object_] | None]:
    """Return the float64 view, and the exact entries where there are any that are not floats."""
    try:
        jacobian = unmasked(jacobian)
        array = np.asarray(jacobian)
    except ValueError as error:
        msg = f"jacobian must have shape (readings, parameters), its rows of one length; got {jacobian!r:.60}"
        raise ValueError(msg) from error
    if array.dtype.kind in "OUS":
        from estim.arithmetic import as_float, read_entries

        exact = read_entries(jacobian, "jacobian", ndim=2)
        if exact.dtype == object:
            return _nonempty(as_float(exact)), exact
        array = exact
    if array.dtype.kind == "c":
        msg = f"jacobian must be real; got dtype {array.dtype}: stack real and imaginary parts of complex readings"
        raise TypeError(msg)
    if array.dtype.kind not in "biuf":
        msg = f"jacobian must be real numbers; got dtype {array.dtype}"
        raise TypeError(msg)
    return _nonempty(array.astype(np.float64, copy=False)), None


def _nonempty(values: Array) -> Array:
    if values.ndim != 2 or 0 in values.shape:
        msg = f"jacobian must have shape (readings, parameters), at least one of each; got {values.shape}"
        raise ValueError(msg)
    return values


def _kept(values: Array, nan_policy: str) -> npt.NDArray[np.bool_]:
    require_nan_policy(nan_policy)
    kept = np.empty(len(values), dtype=np.bool_)
    for start in range(0, len(values), _ROWS):
        part = values[start : start + _ROWS]
        finite = np.isfinite(part)
        kept[start : start + _ROWS] = finite.all(axis=1)
        if not finite.all() and np.isinf(part).any():
            row, column = (int(i) for i in np.argwhere(np.isinf(part))[0])
            msg = f"jacobian must be finite; got {part[row, column]} in row {start + row}, column {column}"
            raise ValueError(msg)
    if not kept.all() and nan_policy == "raise":
        msg = f"jacobian has NaN in row {int(np.argmin(kept))}; nan_policy='omit' leaves such readings out"
        raise ValueError(msg)
    if not kept.any():
        msg = "jacobian has NaN in every row: no reading is left"
        raise ValueError(msg)
    return kept


def _parameters(parameters: npt.ArrayLike, count: int) -> Array:
    point = reals(parameters, "parameters").ravel()  # a copy: the record must not follow the caller's array
    if point.shape != (count,):
        msg = f"parameters must have one entry for each of the {count} columns; got {point.size}"
        raise ValueError(msg)
    if not (np.isfinite(point).all() or np.isnan(point).all()):  # NaN is how a record says not known
        j = int(np.argmin(np.isfinite(point)))
        msg = f"parameters must be finite, or left out where they are not known; got {point[j]} at {j}"
        raise ValueError(msg)
    return point
