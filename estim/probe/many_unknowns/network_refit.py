"""An attention network to be fitted again and again, modulo its gauge."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.arithmetic import as_float
from estim.attention import Network, formula
from estim.attention.bank import Bank, Group, read_bank
from estim.attention.effective import effective, effective_derivative
from estim.attention.layer import FACTORS, unflatten
from estim.probe.derivatives.differentiate import scales_of
from estim.probe.model.networks import nested_parameters
from estim.probe.model.parameters import read_parameters

Array = npt.NDArray[np.float64]
Pull = Callable[[Array], Array]


def network_refit(network: Network, bank: Any) -> "NetworkRefit":
    """Return the network to be fitted; its bank as float64, which each evaluation of exact entries would make anew."""
    read = read_bank(bank, network.width)
    groups = tuple(Group(group.positions, as_float(group.entries)) for group in read.groups)
    return NetworkRefit(network, Bank(groups, read.tokens))


def network_scales(network: Network) -> Array:
    """Return the size of a change that matters for each factor's entry."""
    return scales_of(read_parameters(nested_parameters(network)))


@dataclass(frozen=True)
class NetworkRefit:
    """An attention network: exact derivatives, and products with them at twice the cost of the outputs."""

    network: Network
    bank: Bank
    """In float64."""

    def readings(self, vector: Array) -> Array:
        """Return the outputs of every input, ordered by input, token, channel."""
        return self.pulled(vector)[0]

    def jacobian(self, vector: Array) -> Array:
        """Return the Jacobian."""
        try:
            moved = self.network.with_parameters(vector)
            return np.asarray(moved.jacobian(self.bank), dtype=np.float64)
        except ValueError:  # as in `pulled`, or factors that are no numbers
            return np.full((self.bank.readings(self.network.output_width), len(vector)), np.nan)

    def pulled(self, vector: Array) -> tuple[Array, Pull]:
        """Return the outputs, and the map from their cotangent to that of the parameters."""
        weights = unflatten(self.network.layers, vector, FACTORS)
        outputs = np.full(self.bank.readings(self.network.output_width), np.nan)
        traces = []
        try:
            with np.errstate(all="ignore"):
                for group in self.bank.groups:
                    traces.append(formula.trace(weights, group.entries, self.network.normalizer))
                    outputs[self._rows(group)] = traces[-1][-1].outputs.reshape(len(group.entries), -1)
        except ValueError:  # a row of scores without a usable sum
            outputs[:] = np.nan

        def pull(cotangent: Array) -> Array:
            total = [np.zeros(formula.side_by_side(layer).shape) for layer in weights]
            for group, at in zip(self.bank.groups, traces, strict=True):
                seeds = cotangent[self._rows(group)].reshape(len(group.entries), 1, *at[-1].outputs.shape[1:])
                formula.add_pulled(total, weights, at, seeds)
            parts = [formula.split(part, layer[0].shape[-1]) for part, layer in zip(total, weights, strict=True)]
            return np.concatenate([factor.ravel() for layer in parts for factor in layer])

        return outputs, pull

    def effective(self, vector: Array) -> Array:
        """Return the effective scores and the combined value map, one after the other, row by row."""
        return _flat(effective(unflatten(self.network.layers, vector, FACTORS)))

    def effective_change(self, vector: Array, change: Array) -> Array:
        """Return how a change of the factors moves the effective parameters, small changes without cancellation.

        With all values but the last left as they are, P_l stays and d B_l = P_l (dQ K^T + Q dK^T + dQ dK^T) P_l^T.
        """
        weights, moves = (unflatten(self.network.layers, part, FACTORS) for part in (vector, change))
        if any(move[2].any() for move in moves[:-1]):
            return self.effective(vector + change) - self.effective(vector)
        path, changes = np.eye(self.network.width), []
        for (query, key, value), (d_query, d_key, _) in zip(weights, moves, strict=True):
            changes.append(path @ (d_query @ key.T + query @ d_key.T + d_query @ d_key.T) @ path.T)
            last, path = path, path @ value
        return _flat((changes, last @ moves[-1][2]))

    def gauge_fixed(self, vector: Array, linear: Array) -> Array | None:
        """Return steps with the effect of the columns of `linear` that leave every value but the last as it is.

        None where such steps do not reach all effective parameters. In the factors' own metric weak directions spread
        over all values, where second orders of them are strong: a line along them leaves the linear regime long
        before the function does.
        """
        layers = unflatten(self.network.layers, np.arange(len(vector), dtype=np.float64), FACTORS)
        held = np.concatenate([np.zeros(0), *(layer[2].ravel() for layer in layers[:-1])]).astype(int)
        free = np.setdiff1d(np.arange(len(vector)), held)
        derivative = self.effective_derivative(vector)
        moved = derivative @ linear
        steps = np.zeros_like(linear)
        steps[free] = np.linalg.lstsq(derivative[:, free], moved, rcond=1e-10)[0]
        off = np.linalg.norm(derivative @ steps - moved, axis=0)
        return steps if (off <= 1e-8 * np.linalg.norm(moved, axis=0)).all() else None

    def effective_derivative(self, vector: Array) -> Array:
        """Return the derivatives of the effective parameters with respect to the factors, (coordinates, P)."""
        weights = unflatten(self.network.layers, vector, FACTORS)
        return np.asarray(effective_derivative(weights, FACTORS), dtype=np.float64)

    @property
    def effective_names(self) -> tuple[str, ...]:
        """Names of the effective parameters."""
        layers, width, out = len(self.network.layers), self.network.width, self.network.output_width
        scores = [f"score{n}[{i}, {j}]" for n in range(layers) for i in range(width) for j in range(width)]
        return (*scores, *(f"value_map[{i}, {j}]" for i in range(width) for j in range(out)))

    def _rows(self, group: Any) -> npt.NDArray[np.intp]:
        return self.bank.rows(group, self.network.output_width)


def _flat(effective_parameters: tuple[list[Array], Array]) -> Array:
    scores, values = effective_parameters
    return np.concatenate([*(score.ravel() for score in scores), values.ravel()])
