"""Readings and derivatives that are not finite: refused with a sentence, or left out."""

from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.model.calls import First

Array = npt.NDArray[np.float64]

#: Rows at a time.
_BLOCK = 256


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
