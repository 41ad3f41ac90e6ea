"""A Jacobian given as a matrix, floats or exact entries, seen as a probed model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.models import Probed

Array = npt.NDArray[np.float64]


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
    if jac_error is None:
        error = None
    else:
        error = np.broadcast_to(np.asarray(jac_error, dtype=np.float64), values.shape)
        if not (error >= 0.0).all():
            msg = "jac_error must not be negative or NaN"
            raise ValueError(msg)
    if error is not None and exact is not None:
        msg = "jac_error is for floats; exact entries have none"
        raise ValueError(msg)
    owner = np.arange(readings) if inputs is None else _labels(inputs, readings)
    kept = _kept(values, nan_policy)
    point = np.full(count, np.nan) if parameters is None else _parameters(parameters, count)
    named = _words(names, count, "names") or tuple(f"theta[{j}]" for j in range(count))
    if len(set(named)) < count:
        twice = next(name for name in named if named.count(name) > 1)
        msg = f"names must differ; got {twice!r} twice"
        raise ValueError(msg)
    dropped = readings - int(np.count_nonzero(kept))
    notes = (f"{dropped} readings that are NaN were left out.",) if dropped else ()
    whole = bool(kept.all())
    return Probed(
        readings=np.full(int(kept.sum()), np.nan), jacobian=values if whole else values[kept],
        error=None if error is None else error[kept], parameters=point,
        names=named, groups=_words(groups, count, "groups") or ("all",) * count, inputs=owner[kept],
        derivative="given", tangents=None, exact=None if exact is None else exact[kept], notes=notes,
        kept=np.flatnonzero(kept), total=readings,
    )  # fmt: skip


def _read(jacobian: Any) -> tuple[Array, npt.NDArray[np.object_] | None]:
    """Return the float64 view, and the exact entries where there are any that are not floats."""
    array = np.asarray(jacobian)
    if array.dtype.kind in "OUS":
        from estim.arithmetic import as_float, read_entries

        exact = read_entries(jacobian, "jacobian", ndim=2)
        if exact.dtype == object:
            return _nonempty(as_float(exact)), exact
        array = exact
    if array.dtype.kind == "c":
        msg = "jacobian must be real: stack the real and the imaginary parts of complex readings"
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
    if nan_policy not in ("raise", "omit"):
        msg = f"nan_policy must be 'raise' or 'omit'; got {nan_policy!r}"
        raise ValueError(msg)
    if np.isinf(values).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(values))[0])
        msg = f"jacobian must be finite; got {values[row, column]} in row {row}, column {column}"
        raise ValueError(msg)
    kept = np.asarray(~np.isnan(values).any(axis=1))
    if not kept.all() and nan_policy == "raise":
        msg = f"jacobian has NaN in row {int(np.argmin(kept))}; nan_policy='omit' leaves such readings out"
        raise ValueError(msg)
    if not kept.any():
        msg = "jacobian has NaN in every row: no reading is left"
        raise ValueError(msg)
    return kept


def _labels(inputs: npt.ArrayLike, readings: int) -> npt.NDArray[np.int64]:
    labels = np.asarray(inputs)
    if labels.shape != (readings,) or labels.dtype.kind not in "iu" or (labels < 0).any():
        got = f"{labels.dtype} {labels.shape}"
        msg = f"inputs must have one nonnegative integer for each of the {readings} readings; got {got}"
        raise ValueError(msg)
    return labels.astype(np.int64)


def _parameters(parameters: npt.ArrayLike, count: int) -> Array:
    point = np.array(parameters, dtype=np.float64).ravel()  # a copy: the record must not follow the caller's array
    if point.shape != (count,):
        msg = f"parameters must have one entry for each of the {count} columns; got {point.size}"
        raise ValueError(msg)
    return point


def _words(words: Sequence[str] | None, count: int, argument: str) -> tuple[str, ...]:
    if words is None:
        return ()
    if isinstance(words, str) or len(words) != count:
        msg = f"{argument} must have one word for each of the {count} parameters; got {words!r}"
        raise ValueError(msg)
    return tuple(str(word) for word in words)
