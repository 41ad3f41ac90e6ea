"""Cost of a verdict on a result already computed, beside one SVD of its Jacobian in the same run.

``python tests/benchmarks/bench_verdict.py``
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import estim

READINGS, PARAMETERS = 2000, 500


def pairs(ours: Callable[[], Any], peer: Callable[[], Any], tries: int = 7) -> tuple[float, float, float]:
    """Return the medians of ours and of the peer, and the median ratio, measured in turn."""
    found = []
    for _ in range(tries):
        start = time.perf_counter()
        peer()
        middle = time.perf_counter()
        ours()
        found.append((time.perf_counter() - middle, middle - start))
    first, second = (statistics.median(pair[k] for pair in found) for k in (0, 1))
    return first, second, statistics.median(a / b for a, b in found)


def main() -> None:
    """Print the cost of each form of the smallest change."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((READINGS, PARAMETERS))
    groups = [f"layer{j // 100}" for j in range(PARAMETERS)]
    found = estim.Sensitivity.from_jacobian(design, 0.1, parameters=np.ones(PARAMETERS), groups=groups)
    shift = 0.1 * rng.standard_normal(READINGS)
    repeats = 0.1 * rng.standard_normal((4, READINGS))
    weights = rng.standard_normal(READINGS)
    single = np.zeros(PARAMETERS)
    single[3] = 0.02
    forms = {
        "one change": lambda: found.judge(shift, smallest_change=single),
        "any change of a size": lambda: found.judge(shift, smallest_change=0.1),
        "any relative change": lambda: found.judge(shift, smallest_change=estim.AnyChange(0.01)),
        "any relative change of a group": lambda: found.judge(
            shift, smallest_change=estim.AnyChange(0.01, group="layer3")
        ),
        "random relative changes": lambda: found.judge(
            shift, smallest_change=estim.AnyChange(0.001, case="typical"), rng=0
        ),
        "one change, noise estimated": lambda: found.judge(
            (np.zeros(READINGS), repeats), smallest_change=single, absolute_sigma=False
        ),
        "one change, a rule's exact power": lambda: found.judge(
            shift, smallest_change=single, statistic=weights, threshold=9.0
        ),
    }
    for name, work in forms.items():
        work()  # what is imported on first use is no cost of a verdict
        ours, peer, ratio = pairs(work, lambda: np.linalg.svd(design, full_matrices=False))
        print(f"{name:<34} {1e3 * ours:8.1f} ms   {ratio:6.3f} of one SVD ({1e3 * peer:.0f} ms)   (target: < 50 ms)")


if __name__ == "__main__":
    main()
