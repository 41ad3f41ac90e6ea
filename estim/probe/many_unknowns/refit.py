"""A model to be fitted again and again: readings, Jacobian and pull-back at any parameters, without checks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from estim.attention import Network
from estim.probe.derivatives.differentiate import scales_of
from estim.probe.many_unknowns.network_refit import Pull, network_refit, network_scales
from estim.probe.model.batches import Batches
from estim.probe.model.calls import Calls, First, first_calls
from estim.probe.model.elsewhere import as_callable
from estim.probe.model.given import read_jacobian
from estim.probe.model.kinds import holds_jax_arrays

Array = npt.NDArray[np.float64]

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
        return network_refit(model, whole), _wide(network_scales(model), standard_errors)
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
