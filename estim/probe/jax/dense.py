"""A JAX function as a model to be probed: its whole Jacobian, with an error that is honest about its precision."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.differentiate import Derivative
from estim.probe.derivatives.rounding import EPS, MOVED, measured_error
from estim.probe.jax.jacobian import Differentiated, differentiated
from estim.probe.jax.parameters import moved_leaves, read_tree, vector_of
from estim.probe.jax.precision import SINGLE, in_double, precision, rounding, word
from estim.probe.jax.readings import NOT_FINITE, Function, coarsest_of, require_kept, require_smooth
from estim.probe.jax.slopes import hold, unchecked
from estim.probe.jax.twin import in_float64
from estim.probe.model.calls import First, require_inputs
from estim.probe.model.finite import require_finite_derivatives
from estim.probe.model.given import check_jacobian
from estim.probe.model.parameters import Parameters

Array = npt.NDArray[np.float64]


def function_of(
    model: Callable[..., Any], params: Any, names: Any = None, groups: Any = None
) -> tuple[Function, Parameters]:
    """Return a JAX function as a model of NumPy arrays, and its parameters as a vector."""
    tree = read_tree(params, groups)
    return Function(model, tree), vector_of(tree, names, groups)


def rounding_of_readings(function: Function, bank: Any) -> float:
    """Return the rounding of the readings, or of the parameters, whichever is coarser.

    Raises
    ------
    TypeError, ValueError
        When the function deletes its arguments, or its readings are not of floating point.
    """
    require_inputs(bank)
    output = require_kept(function, bank)
    try:
        require_smooth(output)
        return max(rounding(function.tree.coarsest), coarsest_of(output))
    except TypeError:  # no numbers at all, which is said in full by the calls that follow
        return EPS


def derivative_of(
    function: Function, bank: Any, first: First, parameters: Parameters, eps: float, omit: bool = False
) -> Derivative:
    """Return the Jacobian of the readings that are left, of floats of rounding `eps`, with its error.

    Raises
    ------
    ValueError
        When JAX cannot differentiate the function, or takes another derivative than the function has; or when one is
        not finite, and such readings are not to be omitted.
    """
    finite = len(first.places) == first.total
    found = jacobian_of(function, bank, eps, forwards=not finite)
    jacobian, error = found.jacobian[first.places], found.error[first.places]
    notes = found.notes
    if not omit:
        cause = f": {NOT_FINITE}; nan_policy='omit' of estim.sensitivity leaves such readings out"
        require_finite_derivatives(jacobian, parameters.names, first.places, first.inputs, cause)
    if np.isfinite(jacobian).all():
        one, taken = found.best
        known = eps if one is function else EPS
        if known <= SINGLE:
            seen = first if one is function else _read_in(one, first, parameters)
            relative = _checked(taken.jacobian[first.places], seen, parameters)
            if eps <= EPS:
                error = np.maximum(error, relative * np.abs(jacobian))
        if finite:
            notes += _held(one, bank, taken, known)
        elif known > SINGLE:
            notes += (unchecked(word(known)),)
    return Derivative(jacobian, error, f"automatic differentiation in {word(eps)}", notes)


class Found(NamedTuple):
    """A Jacobian and how well it is known."""

    jacobian: Array
    """(M, P)."""
    error: Array
    """(M, P)."""
    notes: tuple[str, ...]
    best: tuple[Function, Differentiated]
    """What differences say most of: the function in float64, where it follows, or itself."""


def jacobian_of(
    function: Function, bank: Any, eps: float, *, forwards: bool = False, count: int | None = None
) -> Found:
    """Return the Jacobian for a bank with its error, of floats of rounding `eps`.

    Only the first `count` rows are returned, where that is given; `forwards` is as for `differentiated`.

    Raises
    ------
    ValueError
        When JAX cannot differentiate the function.
    """
    with precision(function.tree.double):
        leaves = list(function.tree.leaves)
        found = differentiated(function, bank, leaves, forwards)
        twin = function if eps <= EPS else in_float64(function, bank)
        double = None if twin is function else _in_double(twin, bank, forwards)
        exact, above_below = double if double is not None else (None, _moved_both(found, eps, leaves))
    jacobian, above, below = (rows[:count] for rows in (found.jacobian, *above_below))
    truth = None if exact is None else exact.jacobian[:count]
    with np.errstate(invalid="ignore"):  # infinite slopes
        error = measured_error(jacobian, truth, (above, below), eps)
    notes = () if eps <= EPS else (precision_note(word(eps), exact is not None),)
    best = (twin, exact) if exact is not None else (function, found)
    return Found(jacobian, error, (*found.notes, *notes), best)


def jacobian_at(function: Function, bank: Any, parameters: Parameters) -> Callable[[Array], tuple[Array, Array]]:
    """Return what takes the Jacobian at any parameter vector, with the rounding of its entries."""
    with precision(function.tree.double):
        found = differentiated(function, bank, function.tree.leaves)

    def take(vector: Array) -> tuple[Array, Array]:
        given = parameters.rebuild(vector)
        with precision(function.tree.double):
            jacobian = found.take(function.leaves(given))
        return jacobian, EPS * np.abs(jacobian)

    return take


def _in_double(twin: Function, bank: Any, forwards: bool) -> tuple[Differentiated, tuple[Array, Array]] | None:
    """Return the Jacobian in float64, and those at moved parameters; None where there is none."""
    with precision(True):
        leaves = list(twin.tree.leaves)
        try:
            found = differentiated(twin, bank, leaves, forwards)
            return found, _moved_both(found, EPS, leaves)
        except Exception:  # its derivatives need not follow
            return None


def _moved_both(found: Differentiated, eps: float, leaves: list[Any]) -> tuple[Array, Array]:
    """Return the Jacobian with every parameter some roundings away, on both sides."""
    above, below = (found.take(moved_leaves(leaves, side * MOVED * eps)) for side in (1.0, -1.0))
    return above, below


def _read_in(twin: Function, first: First, parameters: Parameters) -> First:
    """Return what the first calls would have shown in float64."""
    calls = replace(first.calls, model=twin)
    return replace(first, calls=calls, readings=calls(parameters.values), spread=0.0)


def _held(function: Function, bank: Any, found: Differentiated, eps: float) -> tuple[str, ...]:
    """Hold all readings together against differences, too, which see past the steps of a rounding; a note if vain."""

    def readings(leaves: list[Any]) -> Array:
        return in_double(function.flat(leaves, bank))

    return hold(function.tree, readings, lambda leaves, weights: np.asarray(weights @ found.take(leaves)), eps)


def _checked(jacobian: Array, first: First, parameters: Parameters) -> float:
    """Return the relative error that differences show; raises ValueError where these contradict the derivatives."""
    try:
        return check_jacobian(jacobian, first, parameters)[0]
    except ValueError as error:
        said = str(error).removeprefix("jac must be the derivative of the model; ").replace("jac says", "JAX says")
        msg = (
            f"the derivative that JAX takes must be that of the model; {said} (a stop_gradient, a custom_vjp, or a "
            "rounding that derivatives pass through?)"
        )
        raise ValueError(msg) from error


def precision_note(kind: str, measured: bool) -> str:
    """Say in what the derivatives were taken, and how it is known how well."""
    how = "beside a copy in float64" if measured else "by moving the parameters a little, as float64 is out of reach"
    return f"derivatives are {kind}'s, their error measured {how}; params in float64 (jax_enable_x64) take more digits"
