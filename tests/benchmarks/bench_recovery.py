"""Speed of the recovery, as ratios to named peers in the same run: ``python tests/benchmarks/bench_recovery.py``.

Times are medians of several short tries, since the speed of a shared machine drifts; the ratios are what counts.
"""

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, optimize, special

import estim
from estim.recovery.local import local_difference
from estim.recovery.moments import exact_moments
from estim.recovery.monte_carlo import prepare
from sims.recovery import SIGMAS
from sims.recovery import response as declared_fixture

TRIALS = 1 << 20
THETA = 0.05


def seconds(work: Callable[[], Any], tries: int = 9) -> float:
    """Return the median duration of the work."""
    work()
    taken = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def line(what: str, ours: float, ratio: float, target: str) -> None:
    """Print one measurement."""
    print(f"{what:<66} {ours:>12.4g}  {ratio:>9.3f}  {target}")


def closed_form(t: Any, lib: Any = math) -> Any:
    """Return the excess of the declared fixture, on Python's math for the scalar peers."""
    d = math.tanh(2 * THETA**2)
    return d / 4 * (lib.tanh(t * t * d / 2) + lib.tanh(t * t * (1 + d) * d / 2))


def responses() -> dict[str, tuple[estim.MeanResponse, float, np.ndarray]]:
    """Return the benchmark's responses with a true theta and thirteen noise levels each."""
    exact = estim.MeanResponse.from_excess
    return {
        "declared fixture": (declared_fixture(), THETA, SIGMAS),
        "saturating t/(1+t), [0, 10]": (exact(lambda t: t / (1.0 + t), upper=10.0), 1.0, np.geomspace(1e-3, 1.0, 13)),
        "cubic t^3, [0, 2], at zero": (exact(lambda t: t**3, upper=2.0), 0.0, np.geomspace(1e-3, 1.0, 13)),
        "decreasing exp(-t), [0, 3]": (exact(lambda t: np.expm1(-t), upper=3.0), 1.0, np.geomspace(1e-3, 1.0, 13)),
    }


def monte_carlo() -> None:
    """Trials a second against NumPy's normals, NumPy + np.interp, and brentq."""
    out = np.empty(TRIALS)
    normal = seconds(lambda: np.random.default_rng(0).standard_normal(out=out)) / TRIALS
    print(f"\nMonte Carlo, one worker, per trial and level; a bare NumPy normal takes {1e9 * normal:.2f} ns")
    print(f"{'':<66} {'ns':>12}  {'ratio':>9}  target")
    for name, (response, theta, sigma) in responses().items():
        local = local_difference(response, theta)
        for levels, target in ((sigma[9:10], 0.6), (sigma, 0.15 if name == "declared fixture" else 0.3)):
            run, _ = prepare(response, theta, local, levels)
            work = [(np.random.default_rng(k), TRIALS // 8) for k in range(8)]
            each = seconds(lambda run=run, work=work: [run(block) for block in work]) / TRIALS / len(levels)
            line(f"{name}, {len(levels)} level(s)", 1e9 * each, each / normal, f"<= {target} normals")
    response, theta, sigma = responses()["declared fixture"]
    grid = np.linspace(0.0, response.upper, 4097)
    mean = response.excess(grid)
    here = response.excess(theta)

    def pipeline() -> None:
        z = np.random.default_rng(0).standard_normal(TRIALS // 8)
        for s in sigma:
            d = np.interp(np.clip(here + s * z, 0.0, mean[-1]), mean, grid) - theta
            d.mean(), (d * d).mean()

    many = 16 * TRIALS
    ours = seconds(lambda: estim.recover(response, theta, sigma, rng=0, trials=many), 3) / many / len(sigma)
    line("whole recover(), 2^24 trials, declared fixture, 13 levels", 1e9 * ours, ours / normal, "(with set-up)")
    peer = seconds(pipeline) / (TRIALS // 8) / len(sigma)
    line("NumPy draw + clip + np.interp + moments is slower by", 1e9 * peer, peer / ours, ">= 30")
    wrong = np.abs(np.interp(mean[1] / 2, mean, grid) / response.invert_excess(mean[1] / 2) - 1.0)
    print(f"    (and its inverse is wrong by {wrong:.1e} of theta half-way to its first node)")
    readings = np.clip(here + sigma[8] * np.random.default_rng(0).standard_normal(200), 1e-12, mean[-1])
    peer = seconds(lambda: [optimize.brentq(lambda t, y=y: closed_form(t) - y, 0.0, 0.15) for y in readings], 3) / 200
    line("SciPy brentq per draw, on Python's math, is slower by", 1e9 * peer, peer / ours, "")


def threads() -> None:
    """Two threads against one, in pairs of short tries."""
    response, theta, sigma = responses()["declared fixture"]
    work = {n: lambda n=n: estim.recover(response, theta, sigma, rng=0, trials=1 << 24, workers=n) for n in (1, 2)}
    pairs = [(seconds(work[1], 1), seconds(work[2], 1)) for _ in range(9)]
    speedup = statistics.median(one / two for one, two in pairs)
    line("two threads against one, 2^24 trials x 13 levels", min(two for _, two in pairs), speedup, "about 1.9")


def exact() -> None:
    """Exact moments of all thirteen levels against scipy.integrate.quad on the same integrals."""
    response, theta, sigma = responses()["declared fixture"]
    closed = estim.MeanResponse.from_excess(lambda t: closed_form(t, np), upper=0.15)
    here = closed_form(theta)

    def by_quad() -> list[float]:
        found = []
        for s in sigma:
            # Split at the truth, and cut where the tail is below 1e-19.
            a, b = closed.invert_excess([here - 9 * s, here + 9 * s])
            for k in (0, 1):

                def integrand(t: float, k: int = k, s: float = s) -> float:
                    return abs(t - theta) ** k * special.ndtr(-abs(closed_form(t) - here) / s)

                found += [
                    integrate.quad(integrand, *ends, epsabs=0.0, epsrel=1e-11)[0] for ends in ((a, theta), (theta, b))
                ]
        return found

    peer = seconds(by_quad, 3)
    print("\nExact moments, 13 levels, error estimate included")
    for name, curve in (("closed form", closed), ("declared fixture", response)):
        local = local_difference(curve, theta)
        ours = seconds(lambda curve=curve, local=local: exact_moments(curve, theta, local, sigma), 25)
        line(f"{name}: moments, ms (ratio: quad / ours)", 1e3 * ours, peer / ours, ">= 30")
    ours = seconds(lambda: estim.recover(response, theta, sigma, method="exact"), 9)
    line("whole recover(), with slope and linear limit, ms", 1e3 * ours, peer / ours, "")
    ours = seconds(lambda: estim.MeanResponse.from_excess(lambda t: closed_form(t, np), upper=0.15))
    line("making the response (3,000 evaluations), ms", 1e3 * ours, peer / ours, "")


def first_calls() -> None:
    """Imports and a cached kernel's first call, in new processes."""
    print("\nNew processes")

    def median_of(code: str) -> float:
        run = [sys.executable, "-c", f"import time; a = time.perf_counter(); {code}; print(time.perf_counter() - a)"]
        return statistics.median(float(subprocess.run(run, capture_output=True, check=True).stdout) for _ in range(7))

    numpy_ = median_of("import numpy")
    line("import estim, s (ratio to import numpy)", ours := median_of("import estim"), ours / numpy_, "<= 1.2")
    setup = "import numpy, numba, estim; r = estim.MeanResponse(lambda t: t, upper=2.0); "
    code = setup + "a = time.perf_counter(); estim.recover(r, 1.0, [0.1], rng=0, trials=1000)"
    ours = median_of(code)
    line("first Monte Carlo recover(), kernel cached, numba imported, s", ours, ours / 0.5, "<= 0.5 s")


if __name__ == "__main__":
    print(f"estim {estim.__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}")
    monte_carlo()
    threads()
    exact()
    first_calls()
