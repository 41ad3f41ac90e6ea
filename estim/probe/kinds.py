"""Models of libraries that are imported only when one of theirs is given: told apart without importing any."""

from typing import Any


def is_torch_module(model: Any) -> bool:
    """Tell whether a model is a ``torch.nn.Module``."""
    kinds = [(kind.__module__, kind.__name__) for kind in type(model).__mro__]
    return ("torch.nn.modules.module", "Module") in kinds


def require_left_out(**arguments: Any) -> None:
    """Refuse arguments that another kind of model takes; raises ValueError naming the first."""
    for argument, value in arguments.items():
        if value is not None:
            belongs = "" if argument in ("params", "jac", "digits") else "not "
            msg = f"{argument} must be left out with a model that is {belongs}a torch.nn.Module; got {value!r:.80}"
            raise ValueError(msg)
