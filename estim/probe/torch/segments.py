"""The factors of the Jacobian's rows for the whole bank, of some tensors at a time, from the last to the first.

What gradients have become where all of them leave one segment of tensors for those before is kept: they go on from
there, not from the readings.
"""

import math
from collections.abc import Collection, Iterator
from typing import Any

from torch.autograd.graph import GradientEdge

from estim.probe.torch.capture import Factors, edges_of, factors_of
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject, explained
from estim.probe.torch.source import Source, digits_of, gate_to, goes_on, source_of
from estim.probe.torch.uses import uses_of

#: What is kept may take this part of the factors of a segment.
_PART = 0.25


def captured(
    subject: Subject, layout: Layout, only: Collection[int] | None = None
) -> Iterator[tuple[int, list[Factors] | None]]:
    """Yield each tensor's number with the factors of every part of the bank; None where they are not known.

    Parameters
    ----------
    subject, layout
    only : collection of int, optional
        Numbers of tensors to go through; all of them when left out.
    """
    segments = [[k for k in every if only is None or k in only] for every in layout.segments]
    segments = [segment for segment in segments if segment]
    kept: dict[int, list[Any]] = {}
    while segments:
        segment = segments.pop()
        before = [k for some in segments for k in some]
        # Nothing here holds the factors of a segment when those of the next come.
        every = [
            _of_part(subject, layout, place, part, segment, before, kept) for place, part in enumerate(layout.parts())
        ]
        for k in segment:
            yield k, _known([part.pop(0) for part in every])


def _known(parts: list[Factors | None]) -> list[Factors] | None:
    known = [part for part in parts if part is not None]
    mixed = len({part.kind for part in known} - {"unused"}) > 1  # one batch uses it in this way, another in that
    return None if mixed or len(known) < len(parts) else known


def _of_part(
    subject: Subject, layout: Layout, place: int, part: Any, segment: list[int], before: list[int],
    kept: dict[int, list[Any]],
) -> list[Factors | None]:  # fmt: skip
    """Return the factors of a segment for a part of the bank; keep, by its place, what those before it go on from."""
    readings = subject.readings(part)
    uses, others = (uses_of(readings, tuple(subject.parameters.tensors[k] for k in some)) for some in (segment, before))
    known, further = ([one or [] for one in some] for some in (uses, others))
    source = source_of(readings)
    if place in kept:
        seeds = kept.pop(place)
        source = Source(gate_to(readings, edges_of([*known, *further])), lambda: iter(seeds))
    gate = gate_to(readings, edges_of(further))
    if (
        gate is not None
        and (1 + digits_of(readings) + readings.shape[1]) * _bytes(gate) > _PART * layout.held / layout.count
    ):
        gate = None
    try:
        factors, through = factors_of(readings, known, source, gate)
    except RuntimeError as error:
        raise ValueError(explained(error)) from error
    if gate is not None and all(gradient is not None for gradient in through) and goes_on(gate, through[0]):
        kept[place] = through
    return [None if use is None else one for use, one in zip(uses, factors, strict=True)]


def _bytes(gate: GradientEdge) -> float:
    held = gate.node._input_metadata[gate.output_nr]
    return float(math.prod(held.shape) * held.dtype.itemsize)
