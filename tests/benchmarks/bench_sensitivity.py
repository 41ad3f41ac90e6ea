"""Cost of the probe beside one SVD, in the same run: ``python tests/benchmarks/bench_sensitivity.py``."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import estim

READINGS, PARAMETERS = 2000, 500
#: For the peak of memory: as tall, and large beside what the imports take. Its square arrays pass the 32 MB from which
#: glibc maps each by itself: below, the heap keeps up to 0.3 J of what was let go (at 6000 x 1500 it read 3.0 to 3.2).
LARGE = (8200, 2050)
COMPLEX = "estim.sensitivity(lambda p, t: np.resize(np.sin(p), t.size) * t, t, 0.1, params=t[:2050])"


def pairs(ours: Callable[[], Any], peer: Callable[[], Any], tries: int = 7) -> tuple[float, float]:
    """Return the median of ours, and the median ratio to the peer, measured in turn."""
    found = []
    for _ in range(tries):
        start = time.perf_counter()
        peer()
        middle = time.perf_counter()
        ours()
        found.append((time.perf_counter() - middle, middle - start))
    return statistics.median(a for a, _ in found), statistics.median(a / b for a, b in found)


def model(design: np.ndarray, readings: np.ndarray) -> Any:
    """Return a model whose Jacobian costs one copy."""

    class Linear:
        parameters = np.zeros(PARAMETERS)

        def jacobian(self, bank: Any) -> np.ndarray:
            return design.copy()

    return Linear()


def peak(code: str) -> float:
    """Return the peak memory, in MB, of a new process that runs the code."""
    setup = f"import numpy as np, estim, resource; J = np.random.default_rng(0).standard_normal({LARGE}); "
    report = "; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    run = [sys.executable, "-c", setup + code + report]
    return float(subprocess.run(run, capture_output=True, check=True, text=True).stdout.split()[-1])


def cases(design: np.ndarray) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """Return matrices that ask for more than one decomposition, with the options that go with them."""
    names = [f"g{j}" for j in range(PARAMETERS)]
    kept = PARAMETERS * 4 // 5
    twice = np.concatenate([design[:, :kept], design[:, : PARAMETERS - kept]], axis=1)
    same = np.eye(PARAMETERS)[:, : PARAMETERS - kept] - np.eye(PARAMETERS)[:, kept:]
    return {
        "Sensitivity.from_jacobian": (design, {}),
        "  rank deficient": (twice, {}),
        "  rank deficient, symmetries declared": (twice, {"symmetry": same}),
        "  columns over 30 decades": (design * 10.0 ** np.linspace(-15, 15, PARAMETERS), {}),
        "  50 groups": (design, {"groups": [names[j // 10] for j in range(PARAMETERS)]}),
        "  500 groups": (design, {"groups": names}),
    }


def main() -> None:
    """Print the overhead in time and memory."""
    # First: a new process starts with the peak of the one that makes it.
    one = LARGE[0] * LARGE[1] * 8 / 2**20
    setup = "e = estim.Sensitivity.from_jacobian(J[:20, :4], 0.1)"
    base = peak(setup)
    for name, code in (
        ("the SVD alone", "np.linalg.svd(J, full_matrices=False)"),
        ("from_jacobian", "estim.Sensitivity.from_jacobian(J, 0.1)"),
        ("  rank deficient", "J[:, 1400:] = J[:, :650]; estim.Sensitivity.from_jacobian(J, 0.1)"),
        # Readings that take no room themselves: the Jacobian that is found stands for J.
        ("  complex step", f"t = J[:, 0].copy(); del J; {COMPLEX}"),
    ):
        print(
            f"peak memory, J included: {name:<20} {1 + (peak(f'{setup}; {code}') - base) / one:5.2f} J   (target: < 3)"
        )
    design = np.random.default_rng(0).standard_normal((READINGS, PARAMETERS))
    linear = model(design, design)
    peer = lambda: np.linalg.svd(linear.jacobian(None), full_matrices=False)  # noqa: E731
    rows: dict[str, Callable[[], Any]] = {
        "sensitivity(model with a Jacobian)": lambda: estim.sensitivity(linear, None, 0.1)
    }
    for name, (matrix, options) in cases(design).items():
        rows[name] = partial(estim.Sensitivity.from_jacobian, matrix, 0.1, **options)
    for name, work in rows.items():
        seconds, ratio = pairs(work, peer)
        print(f"{name:<40} {seconds:7.3f} s   {ratio:5.2f} of J and its SVD   (target: <= 1.5)")
    for decades in (0, 7):
        wide = design.T[:100] * 10.0 ** -np.linspace(0, decades, READINGS)
        basis = partial(np.linalg.svd, wide)
        seconds, ratio = pairs(partial(estim.Sensitivity.from_jacobian, wide, 0.1), basis, 3)
        what = f"100 x 2000, columns over {decades} decades"
        print(f"{what:<40} {seconds:7.3f} s   {ratio:5.2f} of an SVD that completes the basis")


if __name__ == "__main__":
    main()
