"""What a monitor can see: recovery error, sensitivity and blindness of a known response under noise.

What to call, by the question:

- Which directions of a model's parameters do these readings see? `sensitivity`, or `Sensitivity.from_jacobian`.
- The monitor read no change: may that be believed? `Sensitivity.judge`, with `AnyChange` for a set of changes.
- Would it see the change from one given model to another? `judge_models`.
- How far does the linear picture hold? `linearity`, `response_along`.
- How wrong are many parameters refitted to noisy readings? `recover_parameters`.
- How wrong is one parameter read off a curve? `MeanResponse`, then `recover`; `pool` for several jobs.
- Which parameters agree with a reading? `confidence_interval`, `coverage`.
- Singular values with proofs, and how fast they vanish: `spectrum`, `contact_orders`, `contact_slopes`, `smith_orders`.
- Exact networks of normalized attention: `estim.attention`.

What these return are frozen records: print them, and look at ``summary()``, ``to_frame()``, ``plot()``,
``report(path)`` and ``to_json()``, of which each has those that fit it. Public names are loaded on first use: ``import
estim`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estim import attention as attention
    from estim.pooling import pool as pool
    from estim.probe.along import Linearity as Linearity
    from estim.probe.along import linearity as linearity
    from estim.probe.along import response_along as response_along
    from estim.probe.many_unknowns.record import ParameterRecovery as ParameterRecovery
    from estim.probe.many_unknowns.trials import recover_parameters as recover_parameters
    from estim.probe.matrix_free.record import ModelSensitivity as ModelSensitivity
    from estim.probe.model.batches import Batches as Batches
    from estim.probe.record import Sensitivity as Sensitivity
    from estim.probe.record import Status as Status
    from estim.probe.sensitivity import sensitivity as sensitivity
    from estim.probe.two_models.judge_models import judge_models as judge_models
    from estim.probe.two_models.model_change import ModelChange as ModelChange
    from estim.probe.verdict.any_change import AnyChange as AnyChange
    from estim.probe.verdict.record import Outcome as Outcome
    from estim.probe.verdict.record import Verdict as Verdict
    from estim.recovery.interval_record import ConfidenceInterval as ConfidenceInterval
    from estim.recovery.intervals import confidence_interval as confidence_interval
    from estim.recovery.intervals import coverage as coverage
    from estim.recovery.recovery import recover as recover
    from estim.recovery.recovery_record import Recovery as Recovery
    from estim.recovery.response import MeanResponse as MeanResponse
    from estim.spectra.contact_orders import contact_orders as contact_orders
    from estim.spectra.contact_record import ContactOrders as ContactOrders
    from estim.spectra.contact_record import ContactSlopes as ContactSlopes
    from estim.spectra.contact_slopes import contact_slopes as contact_slopes
    from estim.spectra.singular_values import spectrum as spectrum
    from estim.spectra.smith import smith_orders as smith_orders
    from estim.spectra.spectrum_record import RankTable as RankTable
    from estim.spectra.spectrum_record import Spectrum as Spectrum

_HOME = {
    "AnyChange": "probe.verdict.any_change",
    "Batches": "probe.model.batches",
    "ConfidenceInterval": "recovery.interval_record",
    "ContactOrders": "spectra.contact_record",
    "ContactSlopes": "spectra.contact_record",
    "Linearity": "probe.along",
    "MeanResponse": "recovery.response",
    "ModelChange": "probe.two_models.model_change",
    "ModelSensitivity": "probe.matrix_free.record",
    "Outcome": "probe.verdict.record",
    "ParameterRecovery": "probe.many_unknowns.record",
    "RankTable": "spectra.spectrum_record",
    "Recovery": "recovery.recovery_record",
    "Sensitivity": "probe.record",
    "Spectrum": "spectra.spectrum_record",
    "Status": "probe.record",
    "Verdict": "probe.verdict.record",
    "confidence_interval": "recovery.intervals",
    "contact_orders": "spectra.contact_orders",
    "contact_slopes": "spectra.contact_slopes",
    "coverage": "recovery.intervals",
    "judge_models": "probe.two_models.judge_models",
    "linearity": "probe.along",
    "pool": "pooling",
    "recover": "recovery.recovery",
    "recover_parameters": "probe.many_unknowns.trials",
    "response_along": "probe.along",
    "sensitivity": "probe.sensitivity",
    "smith_orders": "spectra.smith",
    "spectrum": "spectra.singular_values",
}
_SUBPACKAGES = ("attention",)

__all__ = [*_HOME, *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    """Load a public name, or a subpackage, when it is first asked for."""
    if name == "__version__":
        from importlib.metadata import version  # costs more than all the rest here

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
