"""Labels of pandas and keys of dicts: numbers of parameters that carry names go by them, not by their places."""

from collections.abc import Mapping, Sequence
from typing import Any

from estim.order_of_labels import require_places


def by_name(values: Any, names: Sequence[str], argument: str) -> Any:
    """Return a pandas Series whose labels are words, or one of them a name, as a mapping; anything else as it is.

    Raises
    ------
    ValueError
        When a label stands twice, or labels are the parameters' places in another order.
    """
    if not _is_series(values):
        return values
    labels = [str(label) for label in values.index]
    if not (all(isinstance(label, str) for label in values.index) or set(labels) & set(names)):
        require_places(values.index, argument, "the parameters")
        return values
    twice = _twice(labels)
    if twice is not None:
        msg = f"{argument} must name a parameter once; got {twice!r} twice"
        raise ValueError(msg)
    return dict(zip(labels, values.tolist(), strict=True))


def in_order(values: Any, names: Sequence[str], argument: str) -> Any:
    """Return what a mapping or a Series has for every name, as a list in the order of the names; the rest as it is.

    Raises
    ------
    ValueError
        When a name is unknown or missing.
    """
    values = by_name(values, names, argument)
    if not isinstance(values, Mapping):
        return values
    wrong = sorted(set(names) ^ {str(name) for name in values})
    if wrong:
        msg = f"{argument} must have an entry for every parameter; missing or unknown: {', '.join(wrong[:8])}"
        raise ValueError(msg)
    found = {str(name): value for name, value in values.items()}
    return [found[name] for name in names]


def is_of(name: str, group: str) -> bool:
    """Tell whether a parameter has a name, or stands under it: w.bias and w[0, 1] are of w."""
    return name == group or name.startswith((f"{group}.", f"{group}["))


def _is_series(values: Any) -> bool:
    return hasattr(values, "iloc") and hasattr(values, "index") and not hasattr(values, "columns")


def _twice(labels: Sequence[str]) -> str | None:
    if len(set(labels)) == len(labels):
        return None
    return next(label for label in labels if labels.count(label) > 1)
