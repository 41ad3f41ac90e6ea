"""The leaves of a pytree by their paths: their names, and the groups that they are in."""

from collections.abc import Sequence
from typing import Any

from estim.probe.matrix_free.groups import given_groups
from estim.probe.model.parameters import ROOT


def name_of(path: Sequence[Any]) -> str:
    """Return a name such as ``layers[0].weight`` for the path of a leaf."""
    name = ""
    for step in path:
        if hasattr(step, "idx") or type(step).__name__ == "FlattenedIndexKey":
            name = f"{name or ROOT}[{getattr(step, 'idx', getattr(step, 'key', ''))}]"
        else:
            key = str(getattr(step, "name", getattr(step, "key", step)))
            if not key:
                msg = f"params must have a name for every entry; got an empty key{name and f' in {name}'}"
                raise ValueError(msg)
            name = f"{name}.{key}" if name else key
    return name or ROOT


def leaf_groups(groups: Any, names: tuple[str, ...], paths: list[Any], size: int) -> tuple[str, ...]:
    """Return the group of each leaf; raises TypeError or ValueError when `groups` does not fit."""
    if isinstance(groups, str):
        if groups != "layers":
            msg = (
                f"groups must be 'layers', one group for each of the {len(names)} leaves, or a mapping from groups to "
                f"names of leaves; got {groups!r}"
            )
            raise ValueError(msg)
        return tuple(name_of(_layer(path)) for path in paths)
    if groups is not None and not for_each_entry(groups, len(names), size):
        return given_groups(groups, names)
    alone = len({name_of(path[:1]) for path in paths}) == 1
    depth = 2 if alone and all(len(path) > 2 for path in paths) else 1
    return tuple(name_of(path[:depth]) for path in paths)


def require_groups_of_leaves(groups: Any, leaves: int, size: int) -> None:
    """Refuse a group for each parameter, where these are too many to have one of their own."""
    if groups is not None and for_each_entry(groups, leaves, size):
        msg = (
            f"groups must have one entry for each of the {leaves} leaves of a model this large; "
            f"got {len(groups)}, one for each parameter"
        )
        raise ValueError(msg)


def _layer(path: Any) -> Any:
    """Return a path without its last key; what a variable of Flax wraps is its `value`."""
    wrapped = len(path) > 1 and getattr(path[-1], "name", None) == "value"
    return path[: -2 if wrapped else -1]


def for_each_entry(groups: Any, leaves: int, size: int) -> bool:
    """Tell whether groups are given for each parameter, not for each leaf."""
    return isinstance(groups, Sequence) and not isinstance(groups, str) and len(groups) == size != leaves
