"""Gram matrices as they add up in NumPy."""

import numpy as np
import pytest

from estim.probe.matrix_free.sums import Sums


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-16, 1.0, 1e15, 1e21, 1e30])
def test_products_of_float32_that_leave_its_range_are_formed_in_double(scale):
    block = (scale * np.random.default_rng(0).standard_normal((5, 400))).astype(np.float32)
    sums = Sums(["a", "b"], 5, None, False)
    sums.add("a", block)
    sums.add("b", np.zeros_like(block))
    found = sums.finished()
    exact = block.astype(np.float64) @ block.T.astype(np.float64)
    off = np.linalg.norm(found.groups["a"] - exact)
    assert off <= max(found.rounding["a"], 1e-6) * np.trace(exact)
    assert found.rounding["a"] < 1e-5
    assert not found.groups["b"].any()
