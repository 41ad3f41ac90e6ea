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
ROUNDS = 3


def rounds(works: dict[str, Callable[[], Any]], peer: Callable[[], Any]) -> tuple[dict[str, float], float]:
    """Return the median seconds of each work and of the peer, measured in turn, round by round."""
    seconds: dict[str, list[float]] = {name: [] for name in ("peer", *works)}
    for _ in range(ROUNDS):
        for name, work in {"peer": peer, **works}.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {name: medians[name] for name in works}, medians["peer"]


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
        "random changes, noise estimated": lambda: found.judge(
            (np.zeros(READINGS), repeats),
            smallest_change=estim.AnyChange(0.001, case="typical"),
            rng=0,
            absolute_sigma=False,
        ),
        "one change, a rule's exact power": lambda: found.judge(
            shift, smallest_change=single, statistic=weights, threshold=9.0
        ),
    }
    for work in forms.values():
        work()  # what is imported on first use is no cost of a verdict
    ours, peer = rounds(forms, lambda: np.linalg.svd(design, full_matrices=False))
    for name, seconds in ours.items():
        ratio = f"{seconds / peer:6.3f} of one SVD ({1e3 * peer:.0f} ms)"
        print(f"{name:<34} {1e3 * seconds:8.1f} ms   {ratio}   (target: < 50 ms)", flush=True)


if __name__ == "__main__":
    main()
