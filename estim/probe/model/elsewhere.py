"""A model of any kind as a function of its parameters, to be called at others than its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.attention import Network
from estim.probe.model.batches import Batches
from estim.probe.model.kinds import has_jacobian, holds_jax_arrays, is_statsmodels, require_held, require_no_module
from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.model.readings import flatten


def as_callable(model: Any, bank: Any, params: Any, names: Any = None) -> tuple[Callable[..., Any], Parameters, Any]:
    """Return a model of any kind as (model(params, bank), its parameters, its bank), to be called elsewhere.

    Raises
    ------
    TypeError
        When the model cannot be evaluated at other parameters than its own.
    """
    if isinstance(model, Network):
        from estim.probe.model.networks import NetworkAt, nested_parameters

        require_held(model, params=params)
        held = read_parameters(nested_parameters(model), names=names, argument="model")
        return _whole(NetworkAt(model), bank), held, bank
    if is_statsmodels(model):
        from estim.probe.model.statsmodels import read_result

        require_held(model, params=params)
        fitted = read_result(model, bank)
        held = read_parameters(fitted.params, names=names or fitted.names, argument="model.params")
        return fitted.mean, held, fitted.exog
    require_no_module(model)
    if has_jacobian(model) or not callable(model):
        msg = f"model must be a callable model(params, bank) to be evaluated elsewhere; got {type(model).__name__}"
        raise TypeError(msg)
    if params is None:
        msg = "params must be given with a callable model; got None"
        raise TypeError(msg)
    if holds_jax_arrays(params):
        from estim.probe.jax.dense import function_of

        function, parameters = function_of(model, params, names)
        return _whole(function, bank), parameters, bank
    return _whole(model, bank), read_parameters(params, names=names), bank


def _whole(model: Callable[..., Any], bank: Any) -> Callable[..., Any]:
    return _OverBatches(model) if isinstance(bank, Batches) else model


@dataclass(frozen=True)
class _OverBatches:
    """A model of one batch as a model of all of them."""

    model: Callable[..., Any]

    def __call__(self, params: Any, bank: Batches) -> NDArray[Any]:
        return np.concatenate([flatten(self.model(params, batch)) for batch in bank])
