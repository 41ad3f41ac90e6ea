"""Whether the inputs of a batch depend on each other: read in parts, they must read as in the whole of it."""

from typing import Any

import torch

from estim.probe.torch.bank import in_parts, length, mapped, selected, spread
from estim.probe.torch.readings import Subject
from estim.probe.torch.slopes import line_of

#: Inputs in a part of the bank, whose graph is held.
INPUTS = 32
#: Inputs that stand for a whole bank.
SAMPLED = 8
#: A rounding that leaves few digits: more than that of float32.
_FEW = 1e-4


def separable(subject: Subject, batch: Any, whole: torch.Tensor) -> bool:
    """Tell whether parts of a batch, and an input alone, read as in the whole of it.

    They must read so at other parameters, too: of a mean over the batch with a weight of zero only these tell, and
    derivatives.
    """
    with torch.no_grad():
        if not _in_parts_alike(subject, batch, whole):
            return False
        with line_of(subject)[1](0.0):
            try:
                elsewhere = subject.values(batch)
                digits = torch.finfo(elsewhere.dtype).eps < _FEW
                return _in_parts_alike(subject, batch, elsewhere) and (digits or _beside_copies(subject, batch))
            except (TypeError, ValueError):  # not at those parameters
                return False


def _in_parts_alike(subject: Subject, batch: Any, whole: torch.Tensor) -> bool:
    size = min(INPUTS, -(-len(whole) // 2))
    return _read_apart(subject, [selected(batch, slice(0, 1))], whole[:1]) and _read_apart(
        subject, list(in_parts(batch, size)), whole
    )


def _read_apart(subject: Subject, parts: list[Any], whole: torch.Tensor) -> bool:
    """Tell whether inputs read in parts of a batch as in the whole of it; a model may refuse batches of other sizes."""
    try:
        each = [subject.values(part) for part in parts]
    except (TypeError, ValueError):
        return False
    readings = torch.cat(each) if len({part.shape[1] for part in each}) == 1 else each[0]
    slack = 100.0 * torch.finfo(whole.dtype).eps ** 0.75 * whole.abs().nan_to_num(0.0).max()
    return readings.shape == whole.shape and bool(((readings - whole).abs().nan_to_num(0.0) <= slack).all())


def _beside_copies(subject: Subject, batch: Any) -> bool:
    """Tell whether the first and last of some inputs read the same beside copies of themselves.

    Parts of a batch take other roundings than the whole of it: where digits are few, these hide what the others do.
    """
    some = spread(batch, length(batch) or 1, SAMPLED)
    whole = subject.values(some)
    slack = torch.finfo(whole.dtype).eps * whole.abs().nan_to_num(0.0).max()

    def changed(place: int) -> torch.Tensor:
        copies = mapped(some, lambda tensor: tensor[place].expand_as(tensor))
        return (subject.values(copies)[place] - whole[place]).abs().nan_to_num(0.0)

    return all(bool((changed(place) <= slack).all()) for place in (0, -1))
