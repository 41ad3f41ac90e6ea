"""What can be probed: any model, as readings, Jacobian and a bound of its error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.attention import Network
from estim.probe.arguments import numbers_of_inputs
from estim.probe.derivatives.differentiate import Derivative, Workers, differentiate
from estim.probe.model.batches import Batches
from estim.probe.model.calls import First, first_calls, require_inputs, restricted, without_readings
from estim.probe.model.finite import finite_rows, require_nan_policy
from estim.probe.model.given import check_jacobian, derivatives_of, read_jacobian, rows_of
from estim.probe.model.kinds import (
    has_jacobian,
    is_function_of_jax,
    is_statsmodels,
    require_held,
    require_no_module,
    require_own_derivatives,
)
from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.model.probed import Probed
from estim.probe.model.readings import complex_note
from estim.probe.model.short_floats import short_floats, short_note
from estim.probe.model.stacked import by_batch

Array = NDArray[np.float64]


def probe(
    model: Any,
    bank: Any,
    *,
    params: Any = None,
    jac: Callable[..., Any] | None = None,
    names: Sequence[str] | None = None,
    groups: Any = None,
    inputs: Any = None,
    nan_policy: str = "raise",
    workers: Workers = 1,
    progress: bool = False,
) -> Probed:
    """Evaluate a model of any kind and its derivatives.

    Parameters
    ----------
    model : callable, Network, object with ``parameters`` and ``jacobian(bank)``, or fitted statsmodels result
        A callable is called as ``model(params, bank)`` and returns readings: a number, an array or nested arrays.
    bank : any
        What the model takes, passed whole; `Batches` for one too large to hold.
    params, jac, names, groups, inputs, nan_policy, workers, progress
        As for `estim.sensitivity`.

    Returns
    -------
    Probed

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit, the model refuses the bank, is not deterministic, or gives readings or
        derivatives that are not finite under ``nan_policy="raise"``: the message says which.
    """
    require_nan_policy(nan_policy)
    if jac is not None and not callable(jac):
        msg = f"jac must be a callable jac(params, bank) -> derivatives; got {jac!r:.60}"
        raise TypeError(msg)
    options = _Options(params, jac, names, groups, nan_policy == "omit", workers, progress)
    one = _choose(model, options)
    found = _with_notes(by_batch(one, bank) if isinstance(bank, Batches) else one(bank))
    return found if inputs is None else replace(found, inputs=numbers_of_inputs(inputs, found.total)[found.kept])


def _with_notes(found: Probed) -> Probed:
    """Say what holds of all readings together, however many batches they came in."""
    notes, omitted = list(found.notes), found.total - len(found.kept)
    if found.complex:
        notes.append(complex_note(found.total))
    if omitted:
        notes.append(f"{omitted} of {found.total} readings are not finite and were left out")
    return replace(found, notes=tuple(notes))


@dataclass(frozen=True)
class _Options:
    """Arguments of `probe`, but for model and bank."""

    params: Any
    jac: Callable[..., Any] | None
    names: Sequence[str] | None
    groups: Any
    omit: bool
    workers: Workers
    progress: bool

    def read(self, params: Any, argument: str = "params") -> Parameters:
        return read_parameters(params, names=self.names, groups=self.groups, argument=argument)


def _choose(model: Any, options: _Options) -> Callable[[Any], Probed]:
    """Return what probes such a model on one bank, or on one batch of it."""
    if isinstance(model, Network):
        require_held(model, params=options.params, jac=options.jac)
        return lambda bank: _probe_network(model, bank, options)
    if is_statsmodels(model):
        require_held(model, params=options.params, jac=options.jac)
        return lambda bank: _probe_fitted(model, bank, options)
    if has_jacobian(model):
        require_held(model, params=options.params, jac=options.jac)
        return lambda bank: _probe_exact(model, bank, options)
    if not callable(model):
        raise TypeError(_unknown(model))
    require_no_module(model)
    if options.params is None:
        msg = "params must be given with a callable model; got None"
        raise TypeError(msg)
    if is_function_of_jax(model, options.params):
        return _prober_of_jax(model, options)
    parameters = options.read(options.params)
    return lambda bank: _probe_callable(model, bank, parameters, options)


def _prober_of_jax(model: Callable[..., Any], options: _Options) -> Callable[[Any], Probed]:
    """Return what probes a function of JAX, which has exact derivatives of its own."""
    from estim.probe.jax.dense import derivative_of, function_of, rounding_of_readings

    require_own_derivatives(options.jac)
    function, parameters = function_of(model, options.params, options.names, options.groups)
    parameters = replace(parameters, notes=(*parameters.notes, *function.tree.notes))

    def one(bank: Any) -> Probed:
        eps = rounding_of_readings(function, bank)
        first = _first(function, bank, parameters, options)
        derivative = derivative_of(function, bank, first, parameters, eps, options.omit)
        return _finished(first, derivative, None, parameters, options)

    return one


def _unknown(model: Any) -> str:
    msg = (
        "model must be a callable model(params, bank), an attention Network, an object with parameters and "
        f"jacobian(bank), or a fitted statsmodels result; got {type(model).__name__}"
    )
    return f"{msg}; for a matrix use Sensitivity.from_jacobian" if isinstance(model, np.ndarray | list) else msg


def _probe_callable(model: Callable[..., Any], bank: Any, parameters: Parameters, options: _Options) -> Probed:
    first = _first(model, bank, parameters, options)
    if options.jac is None:
        derivative = differentiate(first, parameters, options.workers, options.progress)
        return _finished(first, derivative, None, parameters, options)
    jac = options.jac
    given = derivatives_of(jac, bank, "jac", parameters)
    jacobian, exact = read_jacobian(given, parameters, first)
    relative, notes = check_jacobian(jacobian, first, parameters)
    relative = max(relative, 0.0 if exact is not None else short_floats(given))
    return _finished(first, _with_error(jacobian, relative, "given", notes), exact, parameters, options)


def _probe_exact(model: Any, bank: Any, options: _Options) -> Probed:
    held = model.parameters() if callable(model.parameters) else model.parameters
    parameters = options.read(held, "model.parameters")
    own = f"{type(model).__name__}.jacobian"
    if callable(model):
        first = _first(_Evaluated(model), bank, parameters, options)
        given = derivatives_of(model.jacobian, bank, own)
    else:
        require_inputs(bank)
        given = derivatives_of(model.jacobian, bank, own)
        first = without_readings(rows_of(given), parameters)
    jacobian, exact = read_jacobian(given, parameters, first)
    relative = 0.0 if exact is not None else short_floats(given)
    return _finished(first, _with_error(jacobian, relative, "exact", ()), exact, parameters, options)


def _with_error(jacobian: Array, relative: float, how: str, notes: tuple[str, ...]) -> Derivative:
    """Return given derivatives with their relative error, where it is more than rounding to float64."""
    if not relative:
        return Derivative(jacobian, None, how, notes)
    if not notes:
        notes = (short_note(relative),)
    return Derivative(jacobian, relative * np.abs(jacobian), how, notes)


def _probe_network(network: Network, bank: Any, options: _Options) -> Probed:
    from estim.probe.directions.gauge import proven_tangents
    from estim.probe.model.networks import jacobian_with_error, nested_parameters, relative_norm

    parameters = options.read(nested_parameters(network), "model")
    first = _first(_Evaluated(network), bank, parameters, options)
    jacobian, error, how, notes = jacobian_with_error(network, bank)
    rows = first.places
    tangents, unproven = proven_tangents(network)
    derivative = Derivative(jacobian[rows], error[rows], how, (*notes, *unproven))
    probed = _finished(first, derivative, None, parameters, options)
    return replace(probed, tangents=tangents, relative_norm=relative_norm(network))


def _probe_fitted(result: Any, bank: Any, options: _Options) -> Probed:
    from estim.probe.model.statsmodels import read_result

    fitted = read_result(result, bank)
    parameters = replace(options, names=options.names or fitted.names).read(fitted.params, "model.params")
    first = _first(fitted.mean, fitted.exog, parameters, options)
    if fitted.jacobian is None:
        derivative = differentiate(first, parameters, options.workers, options.progress)
    else:
        jacobian, error = (part[first.places] for part in fitted.jacobian(parameters.values))
        derivative = Derivative(jacobian, error, "exact", ())
    return _finished(first, derivative, None, parameters, options)


def _first(model: Callable[..., Any], bank: Any, parameters: Parameters, options: _Options) -> First:
    """Call a model twice, and leave out readings that are not finite."""
    first = first_calls(model, bank, parameters)
    return restricted(first, finite_rows(first.readings[:, None], first, ("the reading",), options.omit))


@dataclass(frozen=True)
class _Evaluated:
    """A model that holds its parameters, called like one that takes them."""

    model: Callable[[Any], Any]

    def __call__(self, params: Any, bank: Any) -> Any:
        return self.model(bank)


def _finished(
    first: First, derivative: Derivative, exact: NDArray[Any] | None, parameters: Parameters, options: _Options
) -> Probed:
    """Put the parts together, without the readings whose derivatives are not finite."""
    names = tuple(f"the derivative with respect to {name}" for name in parameters.names)
    rows = finite_rows(derivative.jacobian, first, names, options.omit)
    left = restricted(first, rows)
    whole = len(rows) == first.total
    return Probed(
        readings=left.readings,
        jacobian=derivative.jacobian if whole else derivative.jacobian[rows],
        error=derivative.error if whole or derivative.error is None else derivative.error[rows],
        parameters=parameters.values,
        names=parameters.names,
        groups=parameters.groups,
        inputs=left.inputs,
        derivative=derivative.method,
        tangents=None,
        exact=exact if exact is None or whole else exact[rows],
        notes=(*parameters.notes, *first.notes, *derivative.notes),
        kept=left.places.astype(np.int64),
        total=first.total,
        complex=first.complex,
        bank_size=first.bank_size,
    )
