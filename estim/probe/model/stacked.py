"""Batches of a bank put together: what comes out is what the whole bank would give, order included."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.probe.model.batches import Batches
from estim.probe.model.finite import NotFiniteError
from estim.probe.model.probed import Probed
from estim.probe.model.readings import require_one_kind

#: From the surest to the least sure.
_METHODS = ("exact", "arithmetic in balls", "given", "complex step", "differences")
#: Notes of batches that are kept: they may differ in a number each.
_MOST_NOTES = 12


def _rank(method: str) -> int:
    """Return the place of a method among the others; automatic differentiation is exact, in the floats it is in."""
    return _METHODS.index(method) if method in _METHODS else 1


def by_batch(one: Callable[[Any], Probed], bank: Batches) -> Probed:
    """Probe a bank batch after batch."""
    parts: list[Probed | NotFiniteError] = []
    for number, batch in enumerate(bank):
        try:
            parts.append(one(batch))
        except NotFiniteError as error:  # other batches may have finite readings
            parts.append(error)
        except (TypeError, ValueError) as error:
            msg = f"batch {number}: {error}"
            raise type(error)(msg) from error
    next(iter(bank))  # once more: of what is shuffled, a single pass would say nothing
    return stacked(parts)


def stacked(batches: Sequence[Probed | NotFiniteError]) -> Probed:
    """Put batches one after the other; of complex readings all real parts, then all imaginary parts.

    Raises
    ------
    ValueError
        When no batch has a finite reading, or only some have complex readings.
    """
    total = sum(part.total for part in batches)
    before = np.cumsum([0, *(part.total for part in batches)])
    inputs = np.cumsum([0, *(_bank_size(part) for part in batches)])
    left = [(part, k) for k, part in enumerate(batches) if not isinstance(part, NotFiniteError)]
    if not left:
        msg = f"readings and derivatives must be finite; none of {total} is"
        raise ValueError(msg)
    require_one_kind([part.complex for part in batches])
    parts = [part for part, _ in left]
    places = np.concatenate([_places(part, int(before[k]), total) for part, k in left])
    order = None if (np.diff(places) > 0).all() else np.argsort(places)
    exact = [part.exact for part in parts if part.exact is not None]
    return replace(
        parts[0],
        readings=_joined([part.readings for part in parts], order),
        jacobian=_joined([part.jacobian for part in parts], order),
        error=None if all(part.error is None for part in parts) else _joined([part.bound for part in parts], order),
        inputs=_joined([part.inputs + inputs[k] for part, k in left], order),
        derivative=max((part.derivative for part in parts), key=_rank),
        exact=_joined(exact, order) if len(exact) == len(parts) else None,
        notes=_notes(parts),
        kept=places if order is None else places[order],
        total=total,
        bank_size=int(inputs[-1]),
    )


def _joined(rows: list[NDArray[Any]], order: NDArray[np.intp] | None) -> NDArray[Any]:
    return np.concatenate(rows) if order is None else np.concatenate(rows)[order]


def _places(part: Probed, before: int, total: int) -> NDArray[np.int64]:
    """Return the place of each reading of a batch among all, (M,)."""
    if not part.complex:
        return part.kept + before
    imaginary = part.kept >= part.total // 2
    return part.kept + before // 2 + np.where(imaginary, (total - part.total) // 2, 0)


def _bank_size(part: Probed | NotFiniteError) -> int:
    return int(part.inputs.max(initial=-1)) + 1 if part.bank_size is None else part.bank_size  # type: ignore[union-attr]


def _notes(parts: list[Probed]) -> tuple[str, ...]:
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    if len(notes) <= _MOST_NOTES:
        return notes
    return (*notes[:_MOST_NOTES], f"{len(notes) - _MOST_NOTES} more notes, on other batches, are left out")
