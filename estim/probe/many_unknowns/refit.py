"""A model to be fitted again and again: readings, Jacobian and pull-back at any parameters, without checks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from estim.arithmetic import as_float
from estim.attention import Network, formula
from estim.attention.bank import Bank, Group, read_bank
from estim.attention.effective import effective, effective_derivative
from estim.attention.layer import FACTORS, unflatten
from estim.probe.derivatives.differentiate import scales_of
from estim.probe.model.batches import Batches
from estim.probe.model.calls import Calls, First, first_calls
from estim.probe.model.elsewhere import as_callable
from estim.probe.model.given import read_jacobian
from estim.probe.model.kinds import holds_jax_arrays

Array = npt.NDArray[np.float64]
Pull = Callable[[Array], Array]

#: Least and largest step of differences, in parts of a parameter: the cube root of the model's rounding is best.
_STEP, _LONGEST = 2.0**-17, 2.0**-5


class Refit(Protocol):
    """What a fit needs of a model; pickles when the model does."""

    def readings(self, vector: Array) -> Array:
        """Return the readings, (M,); not finite where the model cannot be evaluated."""

    def jacobian(self, vector: Array) -> Array:
        """Return the Jacobian, (M, P); not finite where there is none."""

    def pulled(self, vector: Array) -> tuple[Array, Pull] | None:
        """Return the readings and the map from a cotangent (M,) to cotangent @ Jacobian; None when there is none."""


def refit_of(
    model: Any,
    bank: Any,
    params: Any,
    names: Any,
    jac: Any,
    derivative: str,
    box: tuple[Array, Array],
    standard_errors: Array,
) -> tuple[Refit, Array]:
    """Return the model to be fitted, and the size of a change that matters for each of its parameters.

    `derivative` is how the probe found the Jacobian at `params`; differences stay in the box, where they can. A
    parameter smaller than its standard error, (P,), is moved by that, or by the size of the others.
    """
    if isinstance(model, Network):
        whole = [entry for batch in bank for entry in batch] if isinstance(bank, Batches) else bank
        found = NetworkRefit(model, _in_floats(read_bank(whole, model.width)))
        return found, _wide(_network_scales(model), standard_errors)
    called, parameters, whole = as_callable(model, bank, params, names)
    first = first_calls(called, whole, parameters)
    scales = _wide(scales_of(parameters), standard_errors)
    if jac is not None:
        return GivenRefit(first, jac), scales
    if holds_jax_arrays(params) and not isinstance(bank, Batches):
        from estim.probe.jax.dense import jacobian_at
        from estim.probe.jax.twin import in_float64

        function: Any = called
        function = in_float64(function, bank)  # what moves by less than a rounding cannot be fitted
        calls = first_calls(function, bank, parameters).calls
        return FittedRefit(calls, jacobian_at(function, bank, parameters)), scales
    if derivative == "exact":
        from estim.probe.model.statsmodels import read_result

        exact = read_result(model, bank).jacobian
        if exact is not None:
            return FittedRefit(first.calls, exact), scales
    return CallableRefit(first.calls, scales, derivative == "complex step", *box), scales


def _wide(scales: Array, standard_errors: Array) -> Array:
    """Return sizes of changes at least as large as the noise makes them, up to the size that parameters have."""
    noise = np.where(np.isfinite(standard_errors), standard_errors, 0.0)
    return np.maximum(scales, np.minimum(noise, np.median(scales)))


def _in_floats(bank: Bank) -> Bank:
    """Return the bank as float64, which each evaluation of exact entries would make of it anew."""
    return Bank(tuple(Group(group.positions, as_float(group.entries)) for group in bank.groups), bank.tokens)


def _network_scales(network: Network) -> Array:
    from estim.probe.model.networks import nested_parameters
    from estim.probe.model.parameters import read_parameters

    return scales_of(read_parameters(nested_parameters(network)))


@dataclass(frozen=True)
class CallableRefit:
    """Any callable: complex steps where the probe found them right, elsewhere differences of second order."""

    calls: Calls
    scales: Array
    complex_step: bool
    lower: Array
    upper: Array
    step: float = _STEP
    """Of differences, in parts of a parameter."""

    def in_rounding(self, rounding: Array, readings: Array) -> "CallableRefit":
        """Return the same with steps for readings of a known rounding, (M,)."""
        size = float(np.median(np.abs(readings)))
        relative = float(np.median(rounding)) / size if size > 0.0 else 0.0
        return replace(self, step=min(max(_STEP, math.cbrt(relative)), _LONGEST))

    def readings(self, vector: Array) -> Array:
        """Return the readings."""
        return self.calls(vector)

    def jacobian(self, vector: Array) -> Array:
        """Return the Jacobian, a column at a time; NaN where the model fails."""
        return np.stack([self._column(vector, j) for j in range(len(vector))], axis=1)

    def _column(self, vector: Array, j: int) -> Array:
        if self.complex_step:
            moved = vector.astype(np.complex128)
            step = 1e-100 * self.scales[j]
            moved[j] += 1j * step
            try:
                return np.asarray(self.calls.at_complex(moved).imag / step, dtype=np.float64)
            except Exception:
                return np.full(len(self.calls.kept), np.nan)
        step = self.step * max(abs(vector[j]), self.scales[j])
        step = (vector[j] + step) - vector[j]  # so that the step taken is the step divided by
        inside = [side for side in (1.0, -1.0) if self.lower[j] <= vector[j] + 2.0 * side * step <= self.upper[j]]
        if len(inside) == 1:
            # At a bound a model may have no other side.
            near, far = (self._moved(vector, j, times * inside[0] * step) for times in (1.0, 2.0))
            return np.asarray((4.0 * near - far - 3.0 * self.calls(vector)) / (2.0 * inside[0] * step))
        return np.asarray((self._moved(vector, j, step) - self._moved(vector, j, -step)) / (2.0 * step))

    def _moved(self, vector: Array, j: int, by: float) -> Array:
        """Return the readings with one parameter moved."""
        moved = vector.copy()
        moved[j] += by
        return self.calls(moved)

    def pulled(self, vector: Array) -> None:
        """Return None: there is no cheaper product."""


@dataclass(frozen=True)
class GivenRefit:
    """A callable with the Jacobian that the user gave."""

    first: First
    jac: Callable[..., Any]

    def readings(self, vector: Array) -> Array:
        """Return the readings."""
        return self.first.calls(vector)

    def jacobian(self, vector: Array) -> Array:
        """Return the Jacobian as the user's function gives it; NaN where that fails, an answer at a trial step."""
        calls = self.first.calls
        with np.errstate(all="ignore"):
            try:
                given = self.jac(calls.parameters.rebuild(vector), calls.bank)
                return np.asarray(read_jacobian(given, calls.parameters, self.first)[0], dtype=np.float64)
            except Exception:
                return np.full((len(calls.kept), len(vector)), np.nan)

    def pulled(self, vector: Array) -> None:
        """Return None: there is no cheaper product."""


@dataclass(frozen=True)
class FittedRefit:
    """A model whose mean function has exact derivatives: a fitted statsmodels result, a function of JAX."""

    calls: Calls
    exact: Callable[[Array], tuple[Array, Array]]

    def readings(self, vector: Array) -> Array:
        """Return the means."""
        return self.calls(vector)

    def jacobian(self, vector: Array) -> Array:
        """Return the exact derivatives of the means; NaN where there are none, an answer at a trial step."""
        with np.errstate(all="ignore"):
            try:
                return self.exact(vector)[0]
            except Exception:
                return np.full((len(self.calls.kept), len(vector)), np.nan)

    def pulled(self, vector: Array) -> None:
        """Return None: there is no cheaper product."""


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
                _add_pulled(total, weights, at, cotangent[self._rows(group)])
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


def _add_pulled(total: list[Array], weights: formula.Weights, traces: list[formula.Trace], cotangent: Array) -> None:
    shaped = cotangent.reshape(len(cotangent), 1, *traces[-1].outputs.shape[1:])

    def add(number: int, pulled: Array) -> None:
        x = traces[number].inputs
        total[number] += x.reshape(-1, x.shape[-1]).T @ pulled.reshape(-1, pulled.shape[-1])

    formula.pull_back(weights, traces, shaped, add)
