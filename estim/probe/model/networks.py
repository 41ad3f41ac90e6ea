"""An attention network as a model: exact derivatives with a proven error, and its gauge."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.arithmetic import as_balls, as_float, elementwise
from estim.attention import Layer, Network
from estim.attention.bank import Bank, read_bank
from estim.attention.jacobian import jacobian_in
from estim.attention.layer import FACTORS
from estim.precision import ball_bits
from estim.probe.derivatives.rounding import EPS, error_by_moving, moved

Array = npt.NDArray[np.float64]

#: Bits of the balls. With the 53 of float64 their radii exceed the error a thousand times and more; these cost no more.
_BITS = 113
#: The precision is doubled until the radii no longer matter, this often at most.
_DOUBLINGS = 4
#: Entries of a Jacobian computed in balls: they take a few microseconds each.
MOST_BALLS = 5_000_000
# Covers the rounding to float64 of the bound itself.
_INFLATE = 1.0 + 2.0**-50


@dataclass(frozen=True)
class NetworkAt:
    """A network at other parameters, nested like its own."""

    network: Network

    def __call__(self, params: dict[str, dict[str, Any]], bank: Any) -> Any:
        """Return the outputs of every input."""
        return Network([Layer(**factors) for factors in params.values()], self.network.normalizer)(bank)


def nested_parameters(network: Network) -> dict[str, dict[str, Array]]:
    """Return the factors as nested parameters, in the order of ``network.parameters``.

    Copies: a Layer that stands in two places has parameters of its own in each.
    """
    return {
        f"layer{number}": {name: factor.copy() for name, factor in zip(FACTORS, layer.float64, strict=True)}
        for number, layer in enumerate(network.layers)
    }


def jacobian_with_error(network: Network, bank: Any) -> tuple[Array, Array, str, tuple[str, ...]]:
    """Return the Jacobian, a bound of its error, (M, P) each, how it was found, and notes.

    It is found in balls and rounded to float64, so that every entry is right to its last bit: the columns of a deep
    layer near collapse, computed in float64, would be nothing but rounding. A Jacobian too large for that, or a
    normalizer that balls cannot have, is computed in float64, and its error estimated by moving the parameters by
    units in the last place.
    """
    inputs = read_bank(bank, network.width)
    note = ""
    if inputs.readings(network.output_width) * network.parameters.size > MOST_BALLS:
        note = "the Jacobian is too large for balls: it is float64's, and its error an estimate"
    else:
        try:
            return *_rounded_balls(network, inputs), "arithmetic in balls", ()
        except ValueError as error:
            note = f"the error of the Jacobian is an estimate: {error}"
    jacobian = np.asarray(network.jacobian(inputs), dtype=np.float64)
    above, below = (network.with_parameters(moved(network.parameters, side)).jacobian(inputs) for side in (1.0, -1.0))
    return jacobian, error_by_moving(jacobian, above, below), "exact", (note,)


def _rounded_balls(network: Network, inputs: Bank) -> tuple[Array, Array]:
    """Round the ball Jacobian to float64, and bound the distance to the far end of every ball."""
    bits = _BITS
    for _ in range(_DOUBLINGS):
        with ball_bits(bits):
            balls = jacobian_in(network.layers, inputs, as_balls, network.normalizer)
            jacobian = elementwise(lambda ball: ball.mid(), balls).astype(np.float64)
            far = elementwise(lambda ball: ball.abs_upper(), balls - as_balls(jacobian)).astype(np.float64)
            radii = elementwise(lambda ball: ball.rad(), balls).astype(np.float64)
        if (np.linalg.norm(radii, axis=0) <= EPS * np.linalg.norm(jacobian, axis=0)).all():
            break
        bits *= 2
    return jacobian, np.asarray(far * _INFLATE)


def relative_norm(network: Network) -> Array | None:
    """Return the derivative of the effective parameters, each block over its Frobenius norm, (rows, P).

    Its product with a change of the factors has the norm of the relative change of all blocks together: effective
    scores B_l and combined value map. None where a block is zero, for nothing is relative to that, or where the rows
    are too many to hold.
    """
    from estim.attention.effective import effective, effective_derivative

    width = network.layers[0].width
    rows = len(network.layers) * width**2 + width * network.output_width
    if rows * network.parameters.size > MOST_BALLS:
        return None
    weights = [layer.factors_in(as_float) for layer in network.layers]
    scores, value_map = effective(weights)
    sizes = [float(np.linalg.norm(block)) for block in (*scores, value_map)]
    if min(sizes) == 0.0:
        return None
    per_row = np.repeat(sizes, [block.size for block in (*scores, value_map)])
    return np.asarray(effective_derivative(weights, FACTORS) / per_row[:, None])
