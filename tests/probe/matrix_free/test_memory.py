"""What a record through Gram matrices holds is what was said before the work."""

import tracemalloc

import numpy as np
import pytest

from estim.probe.directions.noise import whitening
from estim.probe.matrix_free.cost import cost, gram_bytes
from estim.probe.matrix_free.large import model_sensitivity
from estim.probe.matrix_free.sums import Sums

READINGS, GROUPS, WIDTH = 300, 20, 40


class Drawn:
    """Blocks of a Jacobian drawn anew at every pass: its columns shrink by decades where it is steep."""

    names = groups = tuple(f"group{k}" for k in range(GROUPS))
    sizes, norms = (WIDTH,) * GROUPS, (1.0,) * GROUPS

    def __init__(self, dtype, decades):
        self.dtype, self.decades = dtype, decades

    def grams(self, *, only=None, transform=None, double=False, tick=None):
        chosen = [name for name in self.groups if only is None or name in only]
        sums = Sums(chosen, READINGS, transform, double)
        for k, name in enumerate(self.groups):
            block = np.random.default_rng(k).standard_normal((READINGS, WIDTH))
            if name in chosen:
                sums.add(name, (block * 10.0 ** -np.linspace(0.0, self.decades, WIDTH)).astype(self.dtype))
        return sums.finished()


@pytest.mark.parametrize(
    ("dtype", "decades", "path"),
    [("float64", 0, "one pass"), ("float64", 10, "shifted Cholesky QR"), ("float32", 10, "multiplied in float64")],
)
def test_no_group_is_held_twice(monkeypatch, dtype, decades, path):
    monkeypatch.setattr("estim.probe.matrix_free.sums._NARROW", 0)
    relative = dict.fromkeys(("", *Drawn.groups), 1e-7 if dtype == "float32" else 1e-14)
    tracemalloc.start()
    found = model_sensitivity(
        Drawn(dtype, decades), whitening(1.0, READINGS), relative, derivative="drawn", repeats=1,
        repeat_correlation=0.0, smallest_change=None, inputs=np.arange(READINGS), keep=0, progress=False, notes=(),
    )  # fmt: skip
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.path.endswith(path)
    assert GROUPS * 8.0 * READINGS**2 < peak < gram_bytes(READINGS, GROUPS) < 2 * GROUPS * 8.0 * READINGS**2


def test_the_cost_says_what_it_counts():
    assert cost(1000, 10**6, 2, 4, 2.0**30, "blocks of rows") == (
        "path: Gram matrix of 1000 readings, 1000000 parameters; about 1.0e+12 operations and 1.1 GiB (122 MiB for "
        "Gram matrices of 2 groups and their singular vectors, 1 GiB for blocks of rows), where the whole Jacobian "
        "would take 3.7 GiB"
    )
