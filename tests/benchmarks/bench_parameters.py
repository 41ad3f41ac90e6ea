"""Many unknowns by Monte Carlo, beside SciPy's least squares: ``python tests/benchmarks/bench_parameters.py``.

The matrix fixture at scale 1/2: 768 readings, 96 native and 52 identifiable parameters. The peer estimates the same
parameters from the same noise, in the same coordinates, by `scipy.optimize.least_squares` with its numerical Jacobian.
That needs steps of 1e-4 standard errors or more: with its own of 1.5e-8, rounding is all it sees. At scale 1/2 and
noise 1e-13 no step serves; the distance of the two estimates is therefore measured at scale 1 and noise 1e-8.
"""

import statistics
import time
from fractions import Fraction

import numpy as np
from scipy.optimize import least_squares

import estim
from estim.probe.many_unknowns.least_squares import Problem, fit
from estim.probe.many_unknowns.set_up import set_up
from sims.fixtures import matrix_bank, matrix_network

TRIALS = 10_000
SIGMA = 1e-13
PEER_TRIALS = 5
TOLERANCES = {"xtol": 1e-9, "ftol": 1e-12, "gtol": 1e-6}


def problem(scale: Fraction, sigma: float) -> Problem:
    """Return the fit of one trial, as the Monte Carlo does it."""
    network = matrix_network().scaled(scale)
    return set_up(network, matrix_bank(), sigma, params=None, jac=None, bounds=None, names=None).problem


def main() -> None:
    """Print the ratio to the peer, then the time of the declared number of trials."""
    one = problem(Fraction(1), 1e-8)
    ratios, apart, ours, lower = [], [], [], []
    for seed in range(PEER_TRIALS):
        z = np.random.default_rng(seed).standard_normal(len(one.tangent))
        start = time.perf_counter()
        # From the linear estimate too; the truth's Jacobian makes the coordinates, so that SciPy meets no bad scaling.
        peer = least_squares(lambda c, z=z: one.residual(c, z), one.tangent.T @ z, diff_step=1e-4, **TOLERANCES)
        middle = time.perf_counter()
        found = fit(one, z)
        ours.append(time.perf_counter() - middle)
        ratios.append((middle - start) / ours[-1])
        lower.append(2.0 * peer.cost - float(np.sum(one.residual(found.c, z) ** 2)))
        apart.append(float(np.abs(found.c - peer.x).max()))
    print(
        f"one trial: {1e3 * statistics.median(ours):.2f} ms; SciPy takes {statistics.median(ratios):.0f} times as long"
    )
    print(f"largest distance of the two estimates: {max(apart):.1e} linear standard errors; the sum of squares")
    print(f"of SciPy's lies {min(lower):.1e} to {max(lower):.1e} above ours")
    network, bank = matrix_network().scaled(Fraction(1, 2)), matrix_bank()
    start = time.perf_counter()
    recovery = estim.recover_parameters(network, bank, SIGMA, trials=TRIALS, rng=0, workers=2)
    seconds = time.perf_counter() - start
    holds = recovery.linear
    print(f"{TRIALS:,} trials, two workers: {seconds:.0f} s   (target: <= 300 s); {recovery.failures} did not settle")
    print(f"{recovery.evaluations:.2f} evaluations a trial; linear by theory: {holds.sum()} of 52 directions,")
    print(f"worst of them {np.abs(recovery.z_scores[holds]).max():.2f} Monte Carlo standard errors off 1/s")


if __name__ == "__main__":
    main()
