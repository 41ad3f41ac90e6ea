"""Singular values and the growth of the RMSE: every direction of declared studies, from small noise to large.

Scalar chains of depth two, three and four (softmax, values 1, tokens (0, 2); all layers but the last 0.05, the last
theta = 0.05 in [0, 0.15]) read by the mean of the outputs; the powers theta^2 and theta^3 at their minimum, theta = 0
in [0, 1]; a sum of three exponentials with amplitudes in [0, 5] and rates in [0, 20]; and the matrix fixture, all 52
identifiable parameters at once, at three scales. Fixtures are ours; the note's own are not disclosed.
"""

import sys
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import estim
from sims.fixtures import chain_bank, matrix_bank, matrix_network, recovery_bank, scalar_chain

DEPTHS, THETA, UPPER, FIRST = (2, 3, 4), 0.05, 0.15, Fraction(1, 20)
#: Noise of the chains over slope times theta, so that each starts deep in the linear regime and ends on the plateau.
RATIOS, CURVE = np.geomspace(1e-3, 1e2, 21), np.geomspace(1e-3, 1e2, 101)
POWERS, POWER_SIGMAS = (2, 3), np.geomspace(1e-6, 1e-3, 7)
#: Replications of one fitted exponent, and the trials of each level in them: what its interval covers.
REPLICATIONS, REPLICATED_TRIALS = 400, 2000
TIMES = np.linspace(0.0, 4.0, 25)
DECAYS = {"amplitude": [1.0, 0.8, 0.6], "rate": [0.3, 1.0, 3.0]}
DECAY_BOUNDS = (0.0, [5.0] * 3 + [20.0] * 3)
DECAY_SIGMAS, DECAY_TRIALS = np.geomspace(1e-8, 1e-2, 7), 200
#: Scale, and noise levels around the breakdown of its weak directions.
MATRIX = (("1", (1e-10, 1e-9, 1e-8, 1e-7)), ("7/10", (1e-12, 1e-11, 1e-10)), ("1/2", (1e-13, 3e-13, 1e-12)))
MATRIX_TRIALS = 400

Array = NDArray[np.float64]


def chain_response(depth: int, first: Fraction = FIRST) -> estim.MeanResponse:
    """Return the mean of the outputs against theta, the factors of the last layer."""
    chain = scalar_chain(depth, first, last=1)
    return chain.mean_response(recovery_bank(), layer=-1, upper=Fraction(3) * first)


def decays(params: dict[str, Array], times: Array) -> Array:
    """Return a sum of exponentials, the classical sloppy model."""
    return np.asarray(np.exp(-np.outer(times, params["rate"])) @ np.asarray(params["amplitude"]))


def decays_jacobian(params: dict[str, Array], times: Array) -> Array:
    """Return its derivatives, (times, amplitudes then rates)."""
    fall = np.exp(-np.outer(times, params["rate"]))
    return np.concatenate([fall, -np.asarray(params["amplitude"]) * times[:, None] * fall], axis=1)


def run(*, rng: int = 0, trials: int = 20_000, workers: int = 1, progress: bool = False) -> dict[str, Any]:
    """Compute all studies; return them, ready for JSON."""
    source = np.random.default_rng(rng)

    def say(what: str) -> None:
        if progress:
            print(f"growth: {what}", file=sys.stderr)

    chains = []
    for depth in DEPTHS:
        say(f"chain of depth {depth}")
        chains.append(chain(depth, source, trials, workers))
    powers = []
    for power in POWERS:
        say(f"theta^{power}")
        powers.append(degenerate(power, source, trials, workers))
    say("coverage of the fitted exponents")
    replicated = coverage(source)
    say("sum of exponentials")
    sloppy = [many(decays, TIMES, s, source, DECAY_TRIALS, workers, params=DECAYS, jac=decays_jacobian,
                   bounds=DECAY_BOUNDS) for s in DECAY_SIGMAS]  # fmt: skip
    matrices = []
    for scale, sigmas in MATRIX:
        say(f"matrix fixture at scale {scale}")
        network = matrix_network().scaled(Fraction(scale))
        found = [many(network, matrix_bank(), s, source, MATRIX_TRIALS, workers) for s in sigmas]
        matrices.append({"scale": scale, "levels": found})
    return {
        "fixture": {
            "what": (__doc__ or "").split("\n\n")[1].replace("\n", " "),
            "theta": THETA,
            "upper": UPPER,
        },
        "rng": rng,
        "trials": trials,
        "chains": chains,
        "powers": powers,
        "replications": replicated,
        "exponentials": sloppy,
        "matrices": matrices,
    }


def chain(depth: int, source: np.random.Generator, trials: int, workers: int) -> dict[str, Any]:
    """Follow one chain from contact order to singular value to the curve of the RMSE."""
    response = chain_response(depth)
    slope = float(response.slope(THETA))
    half = chain_response(depth, FIRST / 2)
    orders = estim.contact_orders(scalar_chain(depth, 1), chain_bank(), factors=("query", "key")).orders
    unit = slope * THETA
    return {
        "depth": depth,
        "order": int(orders[-1]),
        "singular_value": slope,
        "singular_value_at_half_scale": float(half.slope(THETA / 2)),
        "exact": estim.recover(response, THETA, unit * CURVE, method="exact").to_dict(),
        "exact_at_levels": estim.recover(response, THETA, unit * RATIOS, method="exact").to_dict(),
        "monte_carlo": [one.to_dict() for one in levels(response, THETA, unit * RATIOS, source, trials, workers)],
    }


def degenerate(power: int, source: np.random.Generator, trials: int, workers: int) -> dict[str, Any]:
    """Recover theta^power at its minimum, where the singular value is zero."""
    response = power_response(power)
    return {
        "power": power,
        "exact_at_levels": estim.recover(response, 0.0, POWER_SIGMAS, method="exact").to_dict(),
        "monte_carlo": [one.to_dict() for one in levels(response, 0.0, POWER_SIGMAS, source, trials, workers)],
    }


def power_response(power: int) -> estim.MeanResponse:
    """Return theta^power on [0, 1]."""
    return estim.MeanResponse.from_excess(lambda t: t**power, upper=1.0, derivative=lambda t: power * t ** (power - 1))


def levels(
    response: estim.MeanResponse, theta: float, sigmas: Array, source: np.random.Generator, trials: int, workers: int
) -> list[estim.Recovery]:
    """Recover at each level with draws of its own: a fit along sigma then knows its error."""
    return [estim.recover(response, theta, s, trials=trials, rng=source.spawn(1)[0], workers=workers) for s in sigmas]


def coverage(source: np.random.Generator) -> list[dict[str, Any]]:
    """Repeat the data of one fit many times: in the linear regime, at both degenerate minima, and into the plateau.

    One recovery of many equal levels would share its draws; here every level of every replication has its own.
    """
    identity = estim.MeanResponse(lambda t: t, upper=1.0)
    small = np.geomspace(1e-6, 1e-3, 5)
    found = []
    for name, response, theta, sigmas in (
        ("linear", identity, 0.5, small),
        ("theta^2", power_response(2), 0.0, small),
        ("theta^3", power_response(3), 0.0, small),
        ("clipped", identity, 0.25, np.geomspace(0.2, 2.0, 5)),
    ):
        rmse, se = np.empty((REPLICATIONS, len(sigmas))), np.empty((REPLICATIONS, len(sigmas)))
        for k, s in enumerate(sigmas):
            z = source.standard_normal((REPLICATIONS, REPLICATED_TRIALS))
            square = (response.invert(response(theta) + s * z) - theta) ** 2
            rmse[:, k] = np.sqrt(square.mean(axis=1))
            se[:, k] = 0.5 * square.std(axis=1, ddof=1) / np.sqrt(REPLICATED_TRIALS) / rmse[:, k]
        exact = estim.recover(response, theta, sigmas, method="exact").rmse
        found.append({"name": name, "sigma": sigmas.tolist(), "exact": exact.tolist(), "rmse": rmse.tolist(),
                      "rmse_se": se.tolist()})  # fmt: skip
    return found


def many(
    model: Any, bank: Any, sigma: float, source: np.random.Generator, trials: int, workers: int, **given: Any
) -> dict[str, Any]:
    """Recover all parameters at one level; return sigma and the record, the bulky directions left out."""
    found = estim.recover_parameters(
        model, bank, sigma, trials=trials, rng=source.spawn(1)[0], workers=workers, **given
    )
    resolved = np.isfinite(found.linear_rmse)
    fields = ("singular_values", "linear_rmse", "rmse", "rmse_se", "bias", "predicted_bias", "breakdown")
    return {
        "sigma": float(sigma),
        **{name: np.minimum(getattr(found, name)[resolved], 1e300).tolist() for name in fields},  # JSON has no infinity
        "clipped": float(max(found.clipped_low.max(), found.clipped_high.max())),
        "trials": found.trials,
        "failures": found.failures,
        "evaluations": found.evaluations,
        "notes": list(found.notes),
    }
