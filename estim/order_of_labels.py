"""Labels of pandas: numbers in another order than those they belong to are refused, not taken by place."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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


def require_one_order(one: Any, other: Any, arguments: tuple[str, str], readings: int | None = None) -> None:
    """Refuse two of pandas' objects with the same labels in another order; all else has none to compare."""
    first, second = labels_of(one, readings), labels_of(other, readings)
    count = 2 if len(first) == len(second) == 2 else 1
    for labels, own in zip(first[-count:], second[-count:], strict=False):
        require_order([own], [str(label) for label in labels], arguments[1], arguments[0])


def require_places(axis: Any, argument: str, others: str) -> None:
    """Refuse labels that are the places 0, 1, 2, ... in another order, as `sort_values` of pandas leaves them.

    Whether the labels count there or the order is not known: pandas goes by the one, NumPy by the other.
    """
    labels = np.asarray(axis)
    places = np.arange(len(labels))
    if labels.dtype.kind not in "iu" or (labels == places).all() or (np.sort(labels) != places).any():
        return
    first = ", ".join(map(str, labels[:3])) + (", ..." if len(labels) > 3 else "")
    msg = (
        f"{argument} must have the order of {others}; got the labels {first}: places in another order. Put it into "
        "that order with pandas' .sort_index(), or take the labels off with .to_numpy()"
    )
    raise ValueError(msg)


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
