"""Labels of pandas beside the names of a bank's inputs: numbers in another order are refused, not taken by place."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from estim.probe.labels import require_places
from estim.probe.model.names_of_inputs import names_of_inputs

_REMEDY = "put it into that order with pandas' .loc, or take the labels off with .to_numpy()"


def labels_of(values: Any, readings: int | None = None) -> list[Any]:
    """Return the index of a pandas Series, or index and columns of a DataFrame; none for anything else.

    The rows of a DataFrame with more numbers than there are readings are repeats: their labels do not count.
    """
    axes = list(values.axes) if hasattr(values, "iloc") else []
    return axes[-1:] if readings is not None and axes and np.size(values) > readings else axes


def require_order(labels: Sequence[Any], names: Sequence[str], argument: str, others: str) -> None:
    """Refuse numbers whose labels are the names of others in another order.

    Parameters
    ----------
    labels : sequence of pandas.Index
        From `labels_of`.
    names : sequence of str
        What the others are called, once, or once for each reading; none where they have no names.
    argument, others : str
        What to call the two in an error.

    Raises
    ------
    ValueError
        When the labels of an axis, or of a level of it, are the names in another order, or words of which only some are
        names, or places in another order; unless those of another axis are the names as they are.
    """
    found = [(*_beside(form, names), words) for axis in labels for form, words in _forms(axis)] if names else []
    if not any(form == named for form, named, _ in found):
        for form, named, words in found:
            _refuse(form, named, words, argument, others)
        for axis in labels:
            require_places(axis, argument, others)


def require_order_of_bank(sigma: Any, bank: Any, model: Any = None) -> None:
    """Refuse noise that names the inputs of a bank, or of the model's own data, in another order than these do."""
    labels = labels_of(sigma)
    if not labels:
        return
    own = getattr(getattr(getattr(model, "model", None), "data", None), "row_labels", None) if bank is None else None
    named = own is not None or bool(labels_of(bank))
    if not named and all(type(axis).__name__ == "RangeIndex" and axis.step == 1 for axis in labels):
        return  # places without names are not the doses 2, 0, 1, though they look like these in another order
    try:
        names = names_of_inputs(bank, len(bank)) if own is None else [str(label) for label in own]
    except TypeError:  # a bank of no length: one number, or batches
        names = []
    require_order(labels, names, "sigma", "the bank's inputs")


def require_order_of_pair(before: Any, after: Any, readings: int) -> None:
    """Refuse readings after a change in another order than those before it."""
    first, second = labels_of(before, readings), labels_of(after, readings)
    count = 2 if len(first) == len(second) == 2 else 1
    for one, other in zip(first[-count:], second[-count:], strict=False):
        names = [str(label) for label in one]
        require_order([other], names, "observed_shift, the readings after,", "those before")


def _forms(axis: Any) -> Iterator[tuple[list[str], bool]]:
    """Yield labels as words, and whether they are words: of an axis, and of each of its levels."""
    levels = [axis.get_level_values(k) for k in range(axis.nlevels)] if axis.nlevels > 1 else []
    for level in [axis, *levels]:
        yield [str(label) for label in level], all(isinstance(label, str) for label in level)
        if level.dtype.kind == "f":  # as names_of_inputs writes the numbers of a bank
            yield [f"{label:.6g}" for label in level], False


def _beside(labels: list[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return both as they are where they are as many, or else each of them once."""
    if len(labels) == len(names):
        return labels, list(names)
    return list(dict.fromkeys(labels)), list(dict.fromkeys(names))


def _refuse(labels: list[str], names: list[str], words: bool, argument: str, others: str) -> None:
    if sorted(labels) == sorted(names):
        k = next(k for k, (label, name) in enumerate(zip(labels, names, strict=True)) if label != name)
        msg = f"{argument} must have the order of {others}; place {k} is {labels[k]!r} there, and {names[k]!r} here"
        raise ValueError(f"{msg}: {_REMEDY}")
    known = set(names)
    if words and not known.isdisjoint(labels) and not known.issuperset(labels):
        other = next(label for label in labels if label not in known)
        msg = f"{argument} must have the labels of {others}, or none of them; got {other!r}, which none of those has"
        raise ValueError(f"{msg}: {_REMEDY}")
