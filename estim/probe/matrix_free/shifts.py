"""Shifts of the readings, as a user gives them, and how far they are along what is resolved."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import numbers
from estim.probe.directions.noise import norms_of

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]


def read_shift(found: "ModelSensitivity", values: Any, argument: str) -> Array:
    """Return a shift of the readings, (readings,), from the forms that `observed_shift` of `judge` takes.

    Any shape with an entry for each reading, complex ones where these are, and of all readings where some are left out.

    Raises
    ------
    TypeError, ValueError
        When it is none: the message names the argument.
    """
    array = numbers(values, argument)
    flat = array.ravel()
    flat = np.concatenate([flat.real, flat.imag]) if array.dtype.kind == "c" else flat.astype(np.float64)
    if len(found.left_out) and flat.size == found.readings + len(found.left_out):
        flat = np.delete(flat, found.left_out)
    if flat.size != found.readings or not np.isfinite(flat).all():
        whole = f" (or of all {found.readings + len(found.left_out)})" if len(found.left_out) else ""
        msg = (
            f"{argument} must be finite, one entry for each of the {found.readings} readings{whole}; got {array!r:.80}"
        )
        raise ValueError(msg)
    return np.asarray(flat)


def length_along(found: "ModelSensitivity", shift: Array) -> float:
    """Return how far a shift is along the resolved directions, in standard deviations of noise."""
    white = found.whitening @ shift if found.whitening.ndim == 2 else found.whitening * shift
    return float(norms_of((found.readout.T @ white)[:, None])[0])
