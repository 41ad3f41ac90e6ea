"""One unknown under noise: the declared fixture at thirteen noise levels.

Depth two, scalar softmax, tokens (0, 2), values 1; the first layer's query and key are 0.05, those of the last are
theta = 0.05, with theta in [0, 0.15] attainable. A reading is the mean of the two output tokens plus Gaussian noise.
"""

from fractions import Fraction
from typing import Any

import numpy as np

import estim
from sims.fixtures import recovery_bank, scalar_chain

THETA, UPPER, FIRST = "0.05", "0.15", Fraction(1, 20)
SIGMAS = np.geomspace(1.57e-10, 1.57e-7, 13)


def response() -> estim.MeanResponse:
    """Return the mean response of the fixture, from its exact excess."""
    return scalar_chain(2, FIRST, last=1).mean_response(recovery_bank(), layer=-1, upper=float(UPPER))


def run(*, rng: int = 0, trials: int = 1_000_000, workers: int = 1, progress: bool = False) -> dict[str, Any]:
    """Recover by Monte Carlo and exactly; return the study, ready for JSON."""
    curve = response()
    theta = float(THETA)
    simulated = estim.recover(curve, theta, SIGMAS, trials=trials, rng=rng, workers=workers, progress=progress)
    exact = estim.recover(curve, theta, SIGMAS, method="exact")
    between = estim.recover(curve, theta, np.geomspace(SIGMAS[0], SIGMAS[-1], 121), method="exact")
    return {
        "fixture": {
            "what": (__doc__ or "").split("\n\n")[1].replace("\n", " "),
            "theta": THETA,
            "upper": UPPER,
            "first_layer": str(FIRST),
            "excess_at_theta": curve.excess(theta),
        },
        "rng": rng,
        "trials": trials,
        "monte_carlo": simulated.to_dict(),
        "exact": exact.to_dict(),
        "exact_curve": between.to_dict(),
    }
