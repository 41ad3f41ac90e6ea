"""Matrix products by the library that factors.

The wheels of NumPy and SciPy bring a BLAS each, with threads of its own. These spin for a tenth of a second after work,
and hold up those of the other: decompositions take twice as long beside products by NumPy.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def product(left: Array, right: Array) -> Array:
    """Return ``left @ right``, (rows, columns), in Fortran's order; neither is copied if contiguous."""
    from scipy.linalg import blas

    (a, turned_a), (b, turned_b) = _of_fortran(left), _of_fortran(right)
    return np.asarray(blas.dgemm(1.0, a, b, trans_a=turned_a, trans_b=turned_b))


def _of_fortran(matrix: Array) -> tuple[Array, bool]:
    """Return a matrix in Fortran's order, and whether it is the transpose."""
    return (matrix, False) if matrix.flags.f_contiguous else (np.ascontiguousarray(matrix).T, True)
