"""Contact orders: seconds, and beside the fit of slopes that they replace, in the same run.

    python tests/benchmarks/bench_contact.py

The peer of the chain of depth four is what a slope fit needs at least: the Jacobian at two scales and mpmath's
``svd_r(compute_uv=False)`` of both, at 110 digits. It gives four decimals where the orders are exact. Times are of the
process, since a shared machine stretches the clock. Nothing here is a test.
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath

sys.path.insert(0, str(Path(__file__).parents[2]))

import estim
from sims.contact_orders import CHAIN_FACTORS, SCALES, chain_orders, token_pairs
from sims.fixtures import chain_bank, matrix_bank, matrix_network, scalar_chain


def seconds(work: Callable[[], Any], tries: int = 5) -> tuple[float, Any]:
    """Return the least processor time of several tries, and the result."""
    taken = []
    for _ in range(tries):
        start = time.process_time()
        result = work()
        taken.append(time.process_time() - start)
    return min(taken), result


def fitted_slopes(depth: int) -> list[Any]:
    """Return the slopes between two scales by mpmath's SVD."""
    with mpmath.workdps(110):
        values = []
        for scale in SCALES:
            jacobian = scalar_chain(depth, scale).jacobian(chain_bank(), digits=150, factors=CHAIN_FACTORS)
            values.append(sorted(mpmath.svd_r(mpmath.matrix(jacobian.tolist()), compute_uv=False), reverse=True))
        step = mpmath.log(mpmath.mpf(SCALES[0]) / mpmath.mpf(SCALES[1]))
        return [mpmath.log(a / b) / step for a, b in zip(values[0][:depth], values[1][:depth], strict=True)]


def main() -> None:
    """Print the times, the ring of each, and the ratio."""
    cases = (
        ("chain of depth four", lambda: chain_orders(4, chain_bank()), 0.5),
        ("chain of depth six, orders to 485", lambda: chain_orders(6, token_pairs(8)), 5.0),
        ("matrix fixture, 48 inputs", lambda: estim.contact_orders(matrix_network(), matrix_bank()), 2.0),
        ("matrix fixture, 12 inputs", lambda: estim.contact_orders(matrix_network(), matrix_bank(12)), None),
    )
    taken = {}
    for what, work, promised in cases:
        taken[what], orders = seconds(work, tries=3)
        limit = "" if promised is None else f" (promised below {promised} s)"
        print(f"{what}: {taken[what]:.3f} s{limit}, {orders.ring}, {orders.counts}")
    peer, slopes = seconds(lambda: fitted_slopes(4), tries=3)
    shown = ", ".join(mpmath.nstr(slope, 8) for slope in slopes)
    print(f"two mpmath SVDs for the slopes {shown}: {peer:.3f} s; ratio {peer / taken['chain of depth four']:.1f}")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB (promised below 1)")


if __name__ == "__main__":
    main()
