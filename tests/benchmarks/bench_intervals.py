"""Speed and accuracy of the intervals beside a plain peer: ``python tests/benchmarks/bench_intervals.py``.

The peer does what the definition says, one reading at a time: for each mean the region of smallest likelihood ratio by
`scipy.optimize.brentq`, and around it a second `brentq` for the mean whose region ends at the reading.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from estim import MeanResponse
from estim.recovery.intervals import confidence_interval, coverage

READINGS = 100_000
LEVEL = 0.95


def seconds(work: Callable[[], Any], tries: int = 5) -> float:
    """Return the median duration of the work."""
    work()
    taken = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def region(mean: float) -> tuple[float, float]:
    """Return the accepted readings of a mean >= 0, by one root in the cutoff."""

    def ends(root: float) -> tuple[float, float]:
        return (mean - root if root <= mean else 0.5 * (mean - root * root / mean)), mean + root

    def missing(root: float) -> float:
        low, high = ends(root)
        return float(norm.cdf(high - mean) - norm.cdf(low - mean)) - LEVEL

    return ends(brentq(missing, 1e-9, 10.0, xtol=1e-13))


def peer(reading: float) -> tuple[float, float]:
    """Return the interval of one reading of a mean >= 0."""
    top = max(reading, 0.0) + 5.0
    low = 0.0 if reading <= norm.isf(1.0 - LEVEL) else brentq(lambda m: region(m)[1] - reading, 1e-12, top, xtol=1e-12)
    return low, brentq(lambda m: region(m)[0] - reading, 1e-12, top, xtol=1e-12)


def main() -> None:
    """Print one line for each domain and method, and the peer."""
    y = np.random.default_rng(0).normal(0.0, 3.0, READINGS)
    few = y[:20]
    plain = seconds(lambda: [peer(v) for v in few], tries=3) / few.size
    half_line = MeanResponse.from_excess(lambda t: t)
    found = confidence_interval(half_line, few, 1.0)
    off = np.abs(np.array([peer(v) for v in few]).T - tuple(found)).max()
    print(f"peer, nested brentq: {1e6 * plain:.0f} us a reading; largest difference of a limit {off:.1e}")
    for name, response in (("[0, inf)", half_line), ("[0, 2]", MeanResponse.from_excess(lambda t: t, upper=2.0))):
        for method in ("feldman-cousins", "central", "likelihood-ratio"):
            each = seconds(lambda m=method, r=response: confidence_interval(r, y, 1.0, method=m)) / READINGS
            one = seconds(lambda m=method, r=response: confidence_interval(r, 0.5, 1.0, method=m))
            print(f"{name:<9} {method:<17} {1e6 * each:6.2f} us a reading, {plain / each:8.0f} times the peer's speed; "
                  f"one reading alone {1e3 * one:.1f} ms")  # fmt: skip
    theta = np.linspace(0.0, 2.0, 10_001)
    worst = max(
        np.abs(coverage(response, theta, sigma) - LEVEL).max()
        for sigma in (1e-3, 1.0, 1e3)
        for response in (half_line, MeanResponse.from_excess(lambda t: t, upper=2.0))
    )
    print(f"largest |coverage - level| of Feldman-Cousins over {theta.size} thetas and three sigmas: {worst:.1e}")


if __name__ == "__main__":
    main()
