"""What a monitor can see: recovery error, sensitivity and blindness of a known response under noise.

Public names are loaded on first use, so that ``import estim`` costs next to nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estim import attention as attention
    from estim.contact import ContactOrders as ContactOrders
    from estim.contact import contact_orders as contact_orders
    from estim.contact import contact_slopes as contact_slopes
    from estim.probe.along import linearity as linearity
    from estim.probe.along import response_along as response_along
    from estim.probe.batches import Batches as Batches
    from estim.probe.record import Sensitivity as Sensitivity
    from estim.probe.record import Status as Status
    from estim.probe.sensitivity import sensitivity as sensitivity
    from estim.recovery.recovery import Recovery as Recovery
    from estim.recovery.recovery import recover as recover
    from estim.recovery.response import MeanResponse as MeanResponse
    from estim.singular_values import Spectrum as Spectrum
    from estim.singular_values import spectrum as spectrum

_HOME = {
    "Batches": "probe.batches",
    "ContactOrders": "contact",
    "MeanResponse": "recovery.response",
    "Recovery": "recovery.recovery",
    "Sensitivity": "probe.record",
    "Spectrum": "singular_values",
    "Status": "probe.record",
    "contact_orders": "contact",
    "contact_slopes": "contact",
    "linearity": "probe.along",
    "recover": "recovery.recovery",
    "response_along": "probe.along",
    "sensitivity": "probe.sensitivity",
    "spectrum": "singular_values",
}
_SUBPACKAGES = ("attention",)

__all__ = [*_HOME, *_SUBPACKAGES]


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
