"""Gram matrices of the rows of a Jacobian as they add up, block of columns after block, in NumPy's arrays.

Blocks are multiplied in their own precision and added up in double precision.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS
from estim.probe.matrix_free.passes import Grams

Array = npt.NDArray[np.float64]

#: Rows of the first blocks whose products are formed again in double precision, to see what rounding does.
SAMPLE = 48
#: Times what the sample shows.
_MARGIN = 3.0
#: Columns up to which a product is formed in double precision: it costs nothing, and may be what is hard to see.
_NARROW = 256


class Sums:
    """Gram matrices of some groups of tensors."""

    def __init__(self, names: Iterable[str], readings: int, transform: Array | None, double: bool) -> None:
        size = readings if transform is None else len(transform)
        self.transform, self.double = transform, double or transform is not None
        self.totals = {name: np.zeros((size, size)) for name in names}
        self.errors, self.sizes = dict.fromkeys(self.totals, 0.0), dict.fromkeys(self.totals, 0.0)

    def add(self, group: str, block: npt.NDArray[Any]) -> None:
        """Add the product with itself of some columns, (M, columns)."""
        narrow = block.shape[1] <= _NARROW
        given = block.astype(np.float64) if self.double or narrow else block
        if self.transform is not None:
            given = self.transform @ given
        product = _product(given)
        if given.dtype != np.float64:
            if out_of_range(product, float(np.finfo(given.dtype).tiny), given.shape[1]) and given.any():
                product = _product(given.astype(np.float64))
            else:
                self._look(group, given, product)
        self.totals[group] += product

    def _look(self, group: str, block: npt.NDArray[Any], product: npt.NDArray[Any]) -> None:
        """Compare a few products with double precision."""
        few = block[:SAMPLE].astype(np.float64)
        exact = few @ few.T
        off = np.triu(product[: len(few), : len(few)] - exact)
        self.errors[group] += float(np.linalg.norm(off + np.triu(off, 1).T))
        self.sizes[group] += float(np.trace(exact))

    def finished(self) -> Grams:
        """Return all."""
        return Grams(self.totals, rounding_seen(self.errors, self.sizes), ())


def rounding_seen(errors: dict[str, float], sizes: dict[str, float]) -> dict[str, float]:
    """Return the rounding of Gram matrices from errors seen in samples of some sizes (traces), by group."""
    # Sums of many products in double precision have nothing better to be compared with.
    return {group: 8.0 * EPS + (_MARGIN * errors[group] / size if size else 0.0) for group, size in sizes.items()}


def out_of_range(product: npt.NDArray[Any], tiny: float, columns: int) -> bool:
    """Tell whether products of rows with that many columns are too large, or too small for numbers whose least is tiny.

    Squares are: rows of 1e-20 are numbers of float32, their products none. What each loses of small ones is below a
    rounding of the least normal number.
    """
    return not columns * tiny <= float(np.diagonal(product).max()) < np.inf


def _product(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return block times its transpose, for which NumPy takes BLAS's symmetric product: half the work."""
    with np.errstate(over="ignore", invalid="ignore"):  # see out_of_range
        return np.asarray(block @ block.T)
