"""A Jacobian condensed: no more rows than parameters, yet all that a verdict on directions needs.

W = Q R with orthonormal Q: R has the singular values, right singular vectors and column norms of the whitened
Jacobian W, and so has every selection of columns. Householder's factorisation knows each column to rounding of its own
norm, however far apart the norms are (Higham, Accuracy and Stability of Numerical Algorithms, 2002, theorem 19.4):
nothing is squared, and no strong column's rounding enters a weak one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.noise import Whitening, norms_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# Columns that LAPACK factors together.
_WIDTH = 32


@dataclass(frozen=True)
class Condensed:
    """What noisy readings and noiseless ones say of the parameters, with bounds of the errors."""

    noisy: Array
    """(rows, parameters), at most as many rows as parameters, with the Gram matrix of the whitened Jacobian."""
    slack: Array
    """(parameters,) bound on the norm of each column's error."""
    noiseless: Array
    """(rows, parameters), the same of the combinations of readings known without noise."""
    noiseless_slack: Array
    """(parameters,)."""

    def columns(self, member: NDArray[np.bool_]) -> "Condensed":
        """Select parameters, the others held fixed."""
        return Condensed(
            _short(self.noisy[:, member]), self.slack[member],
            _short(self.noiseless[:, member]), self.noiseless_slack[member],
        )  # fmt: skip

    @cached_property
    def scale(self) -> Array:
        """How far one unit of each parameter moves noisy readings, else others; 1 where there is no effect."""
        scale = norms_of(self.noisy)
        if len(self.noiseless):
            scale = np.where(scale > 0.0, scale, norms_of(self.noiseless))
        return np.where(scale > 0.0, scale, 1.0)

    def idle(self) -> NDArray[np.bool_]:
        """Return which parameters have no effect that stands out of its error, (parameters,)."""
        noisy, known = norms_of(self.noisy), norms_of(self.noiseless)
        return np.asarray((noisy <= self.slack) & (known <= self.noiseless_slack))

    def column_norms(self) -> Array:
        """Return how far one unit of each parameter moves the whitened readings; infinite if a noiseless one moves."""
        return np.where(self.noiseless.any(axis=0), np.inf, norms_of(self.noisy))


def condense(jacobian: Array, error: Array | None, noise: Whitening) -> Condensed:
    """Whiten and condense a Jacobian (readings, parameters); error None stands for the rounding of its entries."""
    parameters = jacobian.shape[1]
    if len(noise.scale) > parameters:
        noisy = triangle(noise.blocks(jacobian), parameters)
    else:
        noisy = np.concatenate([np.zeros((0, parameters)), *noise.blocks(jacobian)])
    if error is None and noise.forward is None:
        slack = EPS * norms_of(noisy)
    else:
        slack = noise.error_norms(jacobian, EPS * np.abs(jacobian) if error is None else error)
    known = noise.known(jacobian)
    known_error = noise.known_error(EPS * np.abs(jacobian) if error is None else error) if len(known) else known
    return Condensed(noisy, slack, _short(known), norms_of(known_error))


def triangle(blocks: Iterable[Array], columns: int) -> Array:
    """Return R of the QR factorisation of stacked blocks of rows, never held together.

    Blocks are taken in one by one (LAPACK's tpqrt; Elmroth and Gustavson 2000, doi:10.1147/rd.444.0605).
    """
    from scipy.linalg import lapack

    factor = np.zeros((columns, columns), order="F")
    for block in blocks:
        rows = np.array(block, order="F")
        factor, *_, info = lapack.dtpqrt(0, min(_WIDTH, columns), factor, rows, overwrite_a=1, overwrite_b=1)
        if info != 0:
            msg = f"the QR factorisation failed (LAPACK dtpqrt, info = {info})"
            raise ArithmeticError(msg)
    return np.asarray(factor)


def _short(matrix: Array) -> Array:
    return triangle([matrix], matrix.shape[1]) if len(matrix) > matrix.shape[1] else matrix
