"""Certified spectra beside mpmath's uncertified SVD, in the same run.

    python tests/benchmarks/bench_spectrum.py

The peer is ``mpmath.svd_r(compute_uv=False)`` at 120 digits on the same 768 x 96 matrix, about a minute with gmpy2.
Times are of the process, since a shared machine stretches the clock; the ratios are what counts. Pin BLAS to one
thread (OPENBLAS_NUM_THREADS=1): idle threads of it count as work. Nothing here is a test.
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
from estim.attention.bank import read_bank
from estim.attention.jacobian import ball_jacobian
from sims.fixtures import matrix_bank, matrix_network

DIGITS = 120


def seconds(work: Callable[[], Any], tries: int = 5) -> tuple[float, Any]:
    """Return the least processor time of several tries, and the result."""
    taken = []
    for _ in range(tries):
        start = time.process_time()
        result = work()
        taken.append(time.process_time() - start)
    return min(taken), result


def mpmath_values(jacobian: Any) -> list[Any]:
    """Return mpmath's singular values, descending."""
    with mpmath.workdps(DIGITS):
        return sorted(mpmath.svd_r(mpmath.matrix(jacobian.tolist()), compute_uv=False), reverse=True)


def main() -> None:
    """Print the ratios."""
    network, bank = matrix_network().scaled("0.06"), matrix_bank()
    read = read_bank(bank, network.width)
    balls, _ = seconds(lambda: ball_jacobian(network.layers, read, network.normalizer, DIGITS))
    whole, spectrum = seconds(lambda: estim.spectrum(network, bank, digits=DIGITS))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    jacobian = network.jacobian(bank, digits=DIGITS)
    peer, values = seconds(lambda: mpmath_values(jacobian), tries=1)
    print(f"{spectrum}\n")
    print(f"mpmath {mpmath.__version__} ({mpmath.libmp.BACKEND}), svd_r at {DIGITS} digits: {peer:.1f} s")
    print(f"ball Jacobian and certified spectrum: {whole:.2f} s; ratio {peer / whole:.0f} (promised 40)")
    print(f"certified spectrum alone: {whole - balls:.2f} s; ratio {peer / (whole - balls):.0f} (promised 70)")
    print(f"largest memory before mpmath: {memory:.2f} GiB (promised below 1)")
    with mpmath.workdps(DIGITS):
        apart = abs(values[51] / spectrum.singular_values[51] - 1)
    print(f"weakest value: mpmath off by {mpmath.nstr(apart, 2)}, ours proven to {spectrum.relative_error[51]:.1e}")


if __name__ == "__main__":
    main()
