"""The readings of a small torch module with their whole Jacobian, name by name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.model.finite import require_finite_derivatives
from estim.probe.model.probed import Probed
from estim.probe.torch.apart import INPUTS
from estim.probe.torch.asked import Asked, Double, vector_of
from estim.probe.torch.bank import Bank, in_parts
from estim.probe.torch.jacobian import jacobian_with_error
from estim.probe.torch.parameters import name_of
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Survey

Array = npt.NDArray[np.float64]


def probed(subject: Subject, bank: Bank, seen: Survey, double: Double | None, asked: Asked) -> Probed:
    """Return the readings of a small module with their whole Jacobian; `double` is its copy in float64 with its bank.

    Raises
    ------
    ValueError
        When torch cannot differentiate the readings, or a derivative is not finite and not to be left out.
    """
    order, vector = np.argsort(seen.places), vector_of(subject.parameters, asked)
    found = zip(*_by_batch(subject, bank, seen, double), strict=True)
    jacobian, error = (np.concatenate(parts)[order] for parts in found)
    readings, inputs = seen.readings[order], seen.inputs[order]
    if asked.nan_policy != "omit":
        cause = "; nan_policy='omit' of estim.sensitivity leaves such readings out"
        require_finite_derivatives(jacobian, vector.names, np.arange(len(order)), inputs, cause)
    kept = np.flatnonzero(np.isfinite(readings) & np.isfinite(jacobian).all(axis=1))
    if not len(kept):
        msg = f"readings and derivatives must be finite; none of {len(order)} is"
        raise ValueError(msg)
    left_out = len(order) - len(kept)
    said = (f"{left_out} of {len(order)} readings are not finite and were left out",) if left_out else ()
    return Probed(
        readings=readings[kept],
        jacobian=jacobian[kept] if left_out else jacobian,
        error=error[kept] if left_out else error,
        parameters=vector.values,
        names=vector.names,
        groups=vector.groups,
        inputs=inputs[kept],
        derivative=f"autograd in {name_of(subject.parameters.dtype)}",
        tangents=None,
        exact=None,
        notes=(*vector.notes, *subject.notes, *said),
        kept=kept,
        total=len(order),
        complex=subject.complex,
        bank_size=seen.count,
    )


def _by_batch(subject: Subject, bank: Bank, seen: Survey, double: Double | None) -> Iterator[tuple[Array, Array]]:
    """Yield the Jacobian of each batch and its error, those of inputs with a reading that is not finite included."""
    others: Iterator[Any] = iter(()) if double is None else double.bank.batches()
    for number, (where, batch) in enumerate(bank.numbered()):
        beside = None if double is None else (double.subject, _pieces(next(others), seen, number))
        yield jacobian_with_error(subject, _pieces(batch, seen, number), beside, where)


def _pieces(batch: Any, seen: Survey, number: int) -> list[Any]:
    if not seen.separable[number]:
        return [batch]
    # A reading that is NaN makes the gradients of its neighbours NaN, too: 0 times NaN.
    return list(in_parts(batch, INPUTS if seen.dropped[number] is None else 1))
