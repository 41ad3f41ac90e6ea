"""What is asked of a library of models: Gram matrices of the rows of a Jacobian that it never holds whole."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

Array = npt.NDArray[np.float64]


@dataclass
class Grams:
    """The Gram matrix of each group, and how well it is known."""

    groups: dict[str, Any]
    """(M, M) float64 each; M' for M where rows were transformed."""
    rounding: dict[str, float]
    """Norm of the error of each over its trace, seen in a sample."""
    by_rows: tuple[str, ...]
    """Tensors whose rows took a backward pass each, where others did not."""


class Passes(Protocol):
    """A model with its bank: what a pass over the rows of its Jacobian J, (M, P), can give."""

    @property
    def names(self) -> tuple[str, ...]:
        """(tensors,)."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """(tensors,) number of parameters in each."""

    @property
    def norms(self) -> tuple[float, ...]:
        """(tensors,) Frobenius norm of each."""

    @property
    def groups(self) -> tuple[str, ...]:
        """(tensors,) the group of each."""

    @property
    def dtype(self) -> str:
        """In which rows are computed, such as ``float32``."""

    def grams(
        self, *, only: frozenset[str] | None = None, transform: Array | None = None, double: bool = False,
        tick: Any = None,
    ) -> Grams:  # fmt: skip
        """Return J J^T of each group, or of those named; of T J for a transform T, (M', M); products in float64."""

    def combined_rows(self, combinations: Array, tick: Any = None) -> Array:
        """Return combinations (k, M) times J, (k, P), in double precision."""

    def operator(self, scale: Array, tick: Any = None) -> LinearOperator:
        """Return the whitened Jacobian, (M, P), by its products; `tick` is called with 1 after each pass."""


def progress_bar(total: int, shown: bool, unit: str = "parameter") -> Any:
    """Return a bar over parameters, or over passes, which may be more than said."""
    from tqdm import tqdm

    return tqdm(total=total, desc="sensitivity", unit=unit, unit_scale=unit == "parameter", disable=not shown)
