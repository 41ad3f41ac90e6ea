"""The readings of a small torch module with their whole Jacobian, name by name."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.model.calls import Calls, First, restricted
from estim.probe.model.given import finite_rows
from estim.probe.model.parameters import Parameters
from estim.probe.model.probed import Probed
from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.torch.asked import Asked, name_of, opened, precision_note, vector_of
from estim.probe.torch.dense import batches_of, jacobian_of, measured_error, moved_jacobian
from estim.probe.torch.readings import Subject
from estim.probe.torch.uses import require_reached


def probe_module(module: Any, bank: Any, asked: Asked) -> Probed:
    """Return the readings of a small module with their whole Jacobian.

    In float64 the error of the Jacobian is estimated from two more at moved parameters; in a lower precision it is
    measured beside a copy of the module in float64, entry by entry.
    """
    with opened(module, bank, asked) as (subject, batches):
        kind = subject.parameters.tensors[0].dtype
        parts, complex_ones = [], []
        for where, batch in batches_of(batches):
            parts.append(_differentiated(subject, batch, where))
            complex_ones.append(subject.complex)
        places = places_of_parts([part[0].shape for part in parts], require_one_kind(complex_ones))
        doubled = None if kind == torch.float64 else _doubled(module, bank, asked, parts)
        notes = subject.notes
        if kind != torch.float64:
            notes.append(precision_note(kind, doubled is not None))
        vector = vector_of(subject.parameters, asked)
    double: list[tuple[Any, Any]] = [(None, part[2]) for part in parts] if doubled is None else doubled
    error = np.concatenate([measured_error(part[1], *twin, kind) for part, twin in zip(parts, double, strict=True)])
    order = np.argsort(places)
    error, jacobian = error[order], np.concatenate([part[1] for part in parts])[order]
    first = _first(vector, [part[0] for part in parts], order, tuple(notes))
    omit = asked.nan_policy == "omit"
    left = restricted(first, finite_rows(first.readings[:, None], first, ("the reading",), omit))
    columns = tuple(f"the derivative with respect to {name}" for name in vector.names)
    left = restricted(left, finite_rows(jacobian[left.places], left, columns, omit))
    return Probed(
        readings=left.readings,
        jacobian=jacobian[left.places],
        error=error[left.places],
        parameters=vector.values,
        names=vector.names,
        groups=vector.groups,
        inputs=left.inputs,
        derivative=f"autograd in {name_of(kind)}",
        tangents=None,
        exact=None,
        notes=(*vector.notes, *notes, *_said_of(complex_ones[0], len(left.readings), first.total)),
        kept=left.places.astype(np.int64),
        total=first.total,
        complex=complex_ones[0],
        bank_size=first.bank_size,
    )


def _said_of(is_complex: bool, left: int, total: int) -> tuple[str, ...]:
    notes = [complex_note(total)] if is_complex else []
    if left < total:
        notes.append(f"{total - left} of {total} readings are not finite and were left out")
    return tuple(notes)


def _differentiated(subject: Subject, batch: Any, where: str) -> tuple[Any, Any, Any]:
    """Return readings, Jacobian, and its twins at parameters moved to both sides."""
    subject.checked(batch, where)
    readings, jacobian = jacobian_of(subject, batch, where)
    return readings, jacobian, tuple(moved_jacobian(subject, batch, side, where) for side in (1.0, -1.0))


def _doubled(module: Any, bank: Any, asked: Asked, parts: list[Any]) -> list[Any] | None:
    """Return (Jacobian, its moved twins) for each batch of a copy in float64; None where the copy does not follow."""
    double = replace(asked, dtype=torch.float64)
    found = []
    try:
        with opened(module, bank, double) as (subject, batches):
            for where, batch in batches_of(batches):
                require_reached(subject.readings(batch, where), subject.parameters.tensors)
                _, jacobian, moved = _differentiated(subject, batch, where)
                found.append((jacobian, moved))
    except (TypeError, ValueError):
        return None
    alike = all(one[0].shape == part[1].shape for one, part in zip(found, parts, strict=True))
    return found if alike else None


def _first(vector: Parameters, readings: list[Any], order: npt.NDArray[np.int64], notes: tuple[str, ...]) -> First:
    values = np.concatenate([part.ravel() for part in readings])
    starts = np.cumsum([0, *(len(part) for part in readings)]).tolist()
    inputs = np.concatenate(
        [np.repeat(start + np.arange(len(part)), part.shape[1]) for start, part in zip(starts, readings, strict=False)]
    )
    calls = Calls(_not_called, None, vector, len(values), np.arange(len(values)))
    return First(
        calls=calls, readings=values[order], inputs=inputs[order].astype(np.int64), complex=False, spread=0.0,
        bank_size=starts[-1], notes=notes,
    )  # fmt: skip


def _not_called(params: Any, bank: Any) -> Any:
    raise NotImplementedError
