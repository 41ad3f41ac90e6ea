"""The difference of two networks as a change of factors, whatever factors each writes its function with."""

from typing import Any

import numpy as np
import numpy.typing as npt

from estim.arithmetic import as_float
from estim.attention import Network
from estim.probe.model.networks import MOST_BALLS

Array = npt.NDArray[np.float64]

# Rounding of the factors that a change of gauge has been through, in units of the products of their sizes.
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
# Where the factors' difference, linearised, misses more of the effective parameters' change, it is no small change.
_MISSED = 0.1


def comparable(before: Any, after: Any) -> bool:
    """Whether both are networks of the same shapes, and few enough parameters for the effective ones."""
    if not (isinstance(before, Network) and isinstance(after, Network)):
        return False
    shapes = [[factor.shape for layer in part.layers for factor in layer.float64] for part in (before, after)]
    rows = len(before.layers) * before.width**2 + before.width * before.output_width
    alike = shapes[0] == shapes[1] and before.normalizer == after.normalizer
    return alike and rows * before.parameters.size <= MOST_BALLS


def change_between(before: Network, after: Network) -> Array | None:
    """Return the change of the factors, (parameters,); None for networks whose effective parameters are the same.

    The difference of the factors where that is small enough for its linearisation to give the change of the effective
    parameters. Else, as between networks that write nearly the same function in another gauge, the smallest change
    that gives it to first order.
    """
    from estim.attention.effective import effective, effective_derivative
    from estim.attention.layer import FACTORS

    weights = [[layer.factors_in(as_float) for layer in network.layers] for network in (before, after)]
    blocks = [_flat(effective(part)) for part in weights]
    sizes = [_flat(effective([(np.abs(q), np.abs(k), np.abs(v)) for q, k, v in part])) for part in weights]
    moved = blocks[1] - blocks[0]
    if (np.abs(moved) <= _ROUNDING * before.width * np.maximum(*sizes)).all():
        return None
    delta = np.asarray(after.parameters - before.parameters)
    derivative = np.asarray(effective_derivative(weights[0], FACTORS), dtype=np.float64)
    if np.linalg.norm(derivative @ delta - moved) <= _MISSED * np.linalg.norm(moved):
        return delta
    return np.asarray(np.linalg.lstsq(derivative, moved)[0])


def _flat(blocks: tuple[list[Array], Array]) -> Array:
    scores, value_map = blocks
    return np.concatenate([np.ravel(block) for block in (*scores, value_map)]).astype(np.float64)
