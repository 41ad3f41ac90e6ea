"""A JAX function as a model to be probed: its whole Jacobian, with an error that is honest about its precision."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.differentiate import Derivative
from estim.probe.derivatives.rounding import EPS, MOVED, measured_error
from estim.probe.jax.jacobian import Differentiated, differentiated
from estim.probe.jax.parameters import moved_leaves, read_tree, vector_of
from estim.probe.jax.precision import precision, raised, rounding, word
from estim.probe.jax.readings import Function, require_kept, require_smooth
from estim.probe.model.calls import First, require_inputs
from estim.probe.model.given import check_jacobian
from estim.probe.model.parameters import Parameters

Array = npt.NDArray[np.float64]


def function_of(
    model: Callable[..., Any], params: Any, names: Any = None, groups: Any = None
) -> tuple[Function, Parameters]:
    """Return a JAX function as a model of NumPy arrays, and its parameters as a vector."""
    tree = read_tree(params, groups)
    return Function(model, tree), vector_of(tree, names, groups)


def require_readable(function: Function, bank: Any) -> None:
    """Refuse a function that deletes its arguments, or whose readings are not of floating point."""
    require_inputs(bank)
    require_kept(function, bank)
    try:
        with precision(function.tree.double):
            output = function.called(function.tree.leaves, bank)
    except Exception:  # said in full by the calls that follow
        return
    try:
        require_smooth(output)
    except TypeError:  # no numbers at all, which is said there, too
        return


def derivative_of(function: Function, bank: Any, first: First, parameters: Parameters) -> Derivative:
    """Return the Jacobian of the readings that are left, with its error.

    Raises
    ------
    ValueError
        When JAX cannot differentiate the function, or takes another derivative than the function has.
    """
    finite = len(first.places) == first.total
    with precision(function.tree.double):
        leaves = list(function.tree.leaves)
        eps = max(rounding(function.tree.coarsest), rounding(function.flat(leaves, bank).dtype))
        found = differentiated(function, bank, leaves, not finite)
        double = None if eps <= EPS else _in_double(function, bank, not finite)
        if double is None:
            above_below = _moved_both(found, eps, leaves)
            error = measured_error(found.jacobian, None, above_below, eps)
        else:
            error = measured_error(found.jacobian, *double, eps)
    kind = word(eps)
    notes = (*found.notes, *([] if eps <= EPS else [precision_note(kind, double is not None)]))
    jacobian, error = found.jacobian[first.places], error[first.places]
    relative = _checked(jacobian, first, parameters) if np.isfinite(jacobian).all() else 0.0
    if eps <= EPS:
        error = np.maximum(error, relative * np.abs(jacobian))
    return Derivative(jacobian, error, f"automatic differentiation in {kind}", notes)


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


@dataclass(frozen=True)
class _WithRaised:
    function: Callable[..., Any]

    def __call__(self, params: Any, bank: Any) -> Any:
        return self.function(params, raised(bank))


def in_float64(function: Function, bank: Any) -> Function:
    """Return the function in float64, for what computes in it, where it follows; else itself."""
    with precision(True):
        tree = replace(function.tree, leaves=raised(function.tree.leaves), double=True)
        twin: Function = function.once("in float64", lambda: Function(_WithRaised(function.function), tree))
        try:
            follows = rounding(twin.flat(list(tree.leaves), bank).dtype) <= EPS
        except Exception:  # the function need not be made for it
            return function
    return twin if follows else function


def _in_double(function: Function, bank: Any, forwards: bool) -> tuple[Array, tuple[Array, Array]] | None:
    """Return the Jacobian in float64, and those at moved parameters; None where the function does not follow."""
    twin = in_float64(function, bank)
    if twin is function:
        return None
    with precision(True):
        leaves = list(twin.tree.leaves)
        try:
            found = differentiated(twin, bank, leaves, forwards)
            return found.jacobian, _moved_both(found, EPS, leaves)
        except Exception:  # its derivatives need not follow
            return None


def _moved_both(found: Differentiated, eps: float, leaves: list[Any]) -> tuple[Array, Array]:
    """Return the Jacobian with every parameter some roundings away, on both sides."""
    above, below = (found.take(moved_leaves(leaves, side * MOVED * eps)) for side in (1.0, -1.0))
    return above, below


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
