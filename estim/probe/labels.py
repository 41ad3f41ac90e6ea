"""Labels of pandas and keys of dicts: numbers that carry names go by them, not by their places."""

from collections.abc import Mapping, Sequence
from typing import Any

from estim.probe.model.names_of_inputs import names_of_inputs


def by_name(values: Any, names: Sequence[str], argument: str) -> Any:
    """Return a pandas Series whose labels are words, or names of parameters, as a mapping; anything else as it is.

    Raises
    ------
    ValueError
        When a label stands twice.
    """
    if not _is_series(values):
        return values
    labels = [str(label) for label in values.index]
    if not (all(isinstance(label, str) for label in values.index) or set(labels) <= set(names)):
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


def require_order(values: Any, names: Sequence[str], argument: str, others: str) -> None:
    """Refuse numbers of pandas whose labels are those of others in another order: they would be taken by their places.

    Parameters
    ----------
    values : any
        A Series, or a DataFrame with a column for each; anything else has no labels.
    names : sequence of str
        What the others are called.
    argument, others : str
        What to call the two in an error.

    Raises
    ------
    ValueError
        When the labels are the names, but in another order.
    """
    labels = labels_of(values)
    if labels != list(names) and sorted(labels) == sorted(names):
        k = next(k for k, (label, name) in enumerate(zip(labels, names, strict=True)) if label != name)
        msg = (
            f"{argument} must have the order of {others}; place {k} is {labels[k]!r} there, and {names[k]!r} here: "
            "put it into that order with pandas' .loc, or take the labels off with .to_numpy()"
        )
        raise ValueError(msg)


def require_order_of_bank(sigma: Any, bank: Any) -> None:
    """Refuse noise that names the inputs of a bank in another order than the bank does."""
    labels = labels_of(sigma)
    require_order(sigma, names_of_inputs(bank, len(labels)) if labels else (), "sigma", "the bank's inputs")


def labels_of(values: Any) -> list[str]:
    """Return the labels of a pandas Series, or of the columns of a DataFrame; none for anything else."""
    if not hasattr(values, "iloc"):
        return []
    return [str(label) for label in (values.columns if hasattr(values, "columns") else values.index)]


def _is_series(values: Any) -> bool:
    return hasattr(values, "iloc") and hasattr(values, "index") and not hasattr(values, "columns")


def _twice(labels: Sequence[str]) -> str | None:
    if len(set(labels)) == len(labels):
        return None
    return next(label for label in labels if labels.count(label) > 1)
