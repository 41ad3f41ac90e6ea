"""What a monitor can see: recovery error, sensitivity and blindness of a known response under noise.

Public names are loaded on first use, so that ``import estim`` costs next to nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estim import attention as attention
    from estim.recovery import Recovery as Recovery
    from estim.recovery import recover as recover
    from estim.response import MeanResponse as MeanResponse

_HOME = {
    "MeanResponse": "response",
    "Recovery": "recovery",
    "recover": "recovery",
}
_SUBPACKAGES = ("attention",)

__all__ = [*_HOME, *_SUBPACKAGES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Load a public name, or a subpackage, when it is first asked for."""
    if name == "__version__":
        return version("estim")
    if name in _SUBPACKAGES:
        return import_module(f"estim.{name}")
    if name in _HOME:
        value = getattr(import_module(f"estim.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    msg = f"module 'estim' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, "__version__"])
