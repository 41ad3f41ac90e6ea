"""What was found of a model: readings, their derivatives, and how well these are known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.probe.derivatives.rounding import EPS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Probed:
    """Readings of a model, their derivatives, and how well these are known."""

    readings: Array
    """(M,), in their units; complex ones as real parts, then imaginary parts. NaN where a model only has a Jacobian."""
    jacobian: Array
    """(M, P), readings per unit of the parameter."""
    error: Array | None
    """(M, P), nonnegative: bound or estimate of |jacobian - truth|, from rounding and differentiation; None stands for
    the rounding of given entries, eps |jacobian|."""
    parameters: Array
    """(P,)."""
    names: tuple[str, ...]
    """(P,), such as ``a``, ``layer1.weight[0, 1]``, ``theta[3]``."""
    groups: tuple[str, ...]
    """(P,)."""
    inputs: NDArray[np.int64]
    """(M,), the input of the bank that each reading belongs to."""
    derivative: str
    """"given", "exact", "complex step", "differences" or "arithmetic in balls"."""
    tangents: Array | None
    """(P, g), gauge tangents of an attention network, else None."""
    exact: NDArray[Any] | None
    """(M, P), the exact entries where the Jacobian has them, else None."""
    notes: tuple[str, ...]
    kept: NDArray[np.int64]
    """(M,), the place of each reading among all, before any were left out for being NaN."""
    total: int
    """Number of readings before any were left out."""
    complex: bool = False
    """Whether the readings were complex: the second half of all are then imaginary parts."""
    bank_size: int | None = None
    """Number of inputs in the bank, with those whose readings were left out; None when not known."""
    relative_norm: Array | None = None
    """(rows, P), what measures the relative change of an attention network's effective parameters, else None."""

    def take_error(self) -> Array | None:
        """Return the error and hold it no longer: it is as large as the Jacobian, and others hold this record."""
        error = self.error
        object.__delattr__(self, "error")
        return error

    @property
    def bound(self) -> Array:
        """The error, (M, P), with the rounding of given entries written out."""
        return EPS * np.abs(self.jacobian) if self.error is None else self.error
