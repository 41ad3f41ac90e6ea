import math

import numpy as np
import pytest
from numba import njit

from estim.recovery import normals
from estim.recovery.normals import LARGEST_NORMAL, standard_normal

DRAWS = 2_000_000


@njit
def fill(rng, out):
    for i in range(out.size):
        out[i] = standard_normal(rng)


@pytest.mark.parametrize(
    "bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.MT19937, np.random.Philox]
)
def test_the_draws_are_numpys_bit_for_bit_and_leave_the_generator_where_numpy_does(bits):
    """Two million draws: 14,000 leave their layer's rectangle and 540 lie in the tail beyond 3.65."""
    ours, numpys = (np.random.Generator(bits(20261009)) for _ in range(2))
    got = np.empty(DRAWS)
    fill(ours, got)
    expected = numpys.standard_normal(DRAWS)
    assert np.array_equal(got.view(np.int64), expected.view(np.int64))
    assert np.abs(got).max() > normals.ziggurat_nor_r
    assert ours.random() == numpys.random()


def test_the_plain_python_of_the_draw_is_the_same_formula():
    """Uncompiled, so that coverage sees it: on the raw words of a generator, with the rare branches taken."""

    class Bits:
        """What numba's `next_uint64` and `next_double` read, from a list of words."""

        def __init__(self, words):
            self.words = iter(words)

    def next_uint64(bits):
        return np.uint64(next(bits.words))

    def next_double(bits):
        return float(int(next(bits.words)) >> 11) * 2.0**-53

    class Rng:
        pass

    words = np.random.PCG64(3).random_raw(60_000)
    rng = Rng()
    rng.bit_generator = Bits(words.tolist())
    plain, outside = standard_normal.py_func, normals._outside_layer.py_func
    names = {"next_uint64": next_uint64, "next_double": next_double, "_outside_layer": outside}
    kept = {name: getattr(normals, name) for name in names}
    try:
        vars(normals).update(names)
        got = [plain(rng) for _ in range(50_000)]
    finally:
        vars(normals).update(kept)
    assert np.array_equal(got, np.random.Generator(np.random.PCG64(3)).standard_normal(50_000))
    assert max(map(abs, got)) > normals.ziggurat_nor_r  # the tail was reached


def test_no_draw_lies_beyond_the_largest_normal():
    """A draw inside a layer is below its width, r = 3.654 at most. A draw in the tail is r - log1p(-u) / r with u a
    multiple of 2^-53 below 1: at most r - log(2^-53) / r = r + 53 log 2 / r, which is 13.7; the acceptance test can
    only refuse. At u = 1 - 2^-53 the formula gives that bound, and no double lies between it and 1.
    """
    r = normals.ziggurat_nor_r
    largest_uniform = 1.0 - 2.0**-53
    assert np.nextafter(largest_uniform, 2.0) == 1.0
    beyond = -normals.ziggurat_nor_inv_r * np.log1p(-largest_uniform)
    assert r + beyond <= LARGEST_NORMAL * (1 + 4 * np.finfo(float).eps)
    assert pytest.approx(r + 53 * math.log(2) / r, rel=1e-15) == LARGEST_NORMAL
    widths = np.abs(normals._SIGNED_WIDTHS) * 2.0**52
    assert widths.max() < LARGEST_NORMAL
    assert pytest.approx(widths[1:256].max(), rel=1e-12) == r


def test_the_branchless_form_is_in_use_with_this_numba():
    assert normals.BRANCHLESS
