"""Which kind of model was given, told without importing a library that may be missing; what goes with which kind."""

import sys
from numbers import Integral
from typing import Any

from estim.attention import Network


def is_torch_module(model: Any) -> bool:
    """Tell whether a model is a ``torch.nn.Module``."""
    kinds = [(kind.__module__, kind.__name__) for kind in type(model).__mro__]
    return ("torch.nn.modules.module", "Module") in kinds


def holds_jax_arrays(params: Any) -> bool:
    """Tell whether nested parameters of any kind hold arrays of JAX; without it imported, there are none."""
    jax = sys.modules.get("jax")
    if jax is None or params is None:
        return False
    try:
        return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(params))
    except Exception:  # nothing that JAX could take apart
        return False


def has_jacobian(model: Any) -> bool:
    """Tell whether a model holds its parameters, and has derivatives of its own."""
    return hasattr(model, "parameters") and callable(getattr(model, "jacobian", None))


def is_statsmodels(model: Any) -> bool:
    """Recognise a fitted result without importing the library."""
    home = any(kind.__module__.split(".")[0] == "statsmodels" for kind in type(model).__mro__)
    return home and hasattr(model, "params") and hasattr(model, "model")


def is_function_of_jax(model: Any, params: Any) -> bool:
    """Tell whether a model is a callable whose parameters are arrays of JAX."""
    own = isinstance(model, Network) or is_statsmodels(model) or has_jacobian(model)
    return callable(model) and not own and holds_jax_arrays(params)


def require_no_module(model: Any) -> None:
    """Refuse a module of torch where its parameters are moved: only `estim.sensitivity` and `judge_models` take one."""
    if is_torch_module(model):
        msg = (
            "model must be a callable model(params, bank) to be evaluated elsewhere, such as one that calls "
            f"torch.func.functional_call; got the torch.nn.Module {type(model).__name__}, two of which "
            "estim.judge_models compares"
        )
        raise TypeError(msg)


def require_held(model: Any, **arguments: Any) -> None:
    """Refuse parameters and derivatives beside a model that has its own."""
    for argument, value in arguments.items():
        if value is not None:
            msg = f"{argument} must be left out: {type(model).__name__} has its own; got {type(value).__name__}"
            raise ValueError(msg)


def require_left_out(**arguments: Any) -> None:
    """Refuse arguments that another kind of model takes; raises ValueError naming the first."""
    for argument, value in arguments.items():
        if value is not None:
            belongs = "" if argument in ("params", "jac", "digits") else "not "
            msg = f"{argument} must be left out with a model that is {belongs}a torch.nn.Module; got {value!r:.80}"
            raise ValueError(msg)


def require_own_derivatives(jac: Any) -> None:
    """Refuse a Jacobian beside a function that JAX differentiates; raises ValueError."""
    if jac is not None:
        msg = f"jac must be left out: JAX differentiates a model whose params are its arrays; got {jac!r:.60}"
        raise ValueError(msg)


def require_keep(keep: Any) -> int:
    """Return the number of directions to keep; refuse what is none with a ValueError."""
    if isinstance(keep, bool) or not isinstance(keep, Integral) or keep < 0:
        msg = f"keep must be a whole number, at least 0; got {keep!r}"
        raise ValueError(msg)
    return int(keep)
