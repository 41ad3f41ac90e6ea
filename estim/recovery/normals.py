"""Standard normals inside compiled loops: NumPy's ziggurat on NumPy's bit generators, bit for bit.

``Generator.standard_normal``, in NumPy and in numba alike, takes the sign of a draw by a branch that no processor can
predict; it costs more than all the rest (9 of 12 ns where this was measured). Here the sign is a table look-up, and
nothing else differs: a test holds the two streams together. The tables and the access to the bit generator are
numba's own; should they move in a later numba, its plain method serves, slower, with the same numbers.

notation: ``ki``, ``wi``, ``fi`` thresholds, widths and densities of the 256 layers, as in NumPy's ``distributions.c``;
Doornik (2005), An Improved Ziggurat Method to Generate Normal Random Samples.
"""

import math
from typing import Any

import numpy as np
from numba import njit

try:
    from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r
    from numba.np.random.generator_core import next_double, next_uint64
except ImportError:  # pragma: no cover - a future numba
    BRANCHLESS = False
else:
    BRANCHLESS = True

#: No draw is farther out: in the tail, x = r - log1p(-u) / r with u <= 1 - 2^-53.
LARGEST_NORMAL = 3.6541528853610088 + 53 * math.log(2.0) / 3.6541528853610088

if BRANCHLESS:
    _SIGNED_WIDTHS = np.concatenate([wi_double, -np.asarray(wi_double)])
    _THRESHOLDS = np.asarray(ki_double).astype(np.int64)
    _DENSITIES = np.asarray(fi_double)

    @njit(inline="never", nogil=True, error_model="numpy")
    def _outside_layer(bits: Any, layer: int, magnitude: int, x: float) -> float:
        """Return the draw for the 1 % that miss the rectangle of their layer; NaN asks for a new one."""
        if layer == 0:
            while True:
                beyond = -ziggurat_nor_inv_r * np.log1p(-next_double(bits))
                height = -np.log1p(-next_double(bits))
                if height + height > beyond * beyond:
                    far = ziggurat_nor_r + beyond
                    return -far if (magnitude >> 8) & 1 else far
        step = _DENSITIES[layer - 1] - _DENSITIES[layer]
        if step * next_double(bits) + _DENSITIES[layer] < np.exp(-0.5 * x * x):
            return x
        return np.nan

    @njit(nogil=True, error_model="numpy")
    def standard_normal(rng: Any) -> float:
        """Return one draw of ``rng.standard_normal()``."""
        bits = rng.bit_generator
        while True:
            raw = next_uint64(bits)
            layer = np.int64(raw & np.uint64(0xFF))
            sign = np.int64((raw >> np.uint64(8)) & np.uint64(1))
            magnitude = np.int64((raw >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
            x = np.float64(magnitude) * _SIGNED_WIDTHS[layer + 256 * sign]
            if magnitude < _THRESHOLDS[layer]:
                return x
            x = _outside_layer(bits, layer, magnitude, x)
            if x == x:
                return x
else:  # pragma: no cover - a future numba

    @njit(nogil=True, error_model="numpy")
    def standard_normal(rng: Any) -> float:
        """Return one draw of ``rng.standard_normal()``."""
        return rng.standard_normal()
