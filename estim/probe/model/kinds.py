"""Models of libraries that are imported only when one of theirs is given: told apart without importing any."""

import sys
from numbers import Integral
from typing import Any


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
