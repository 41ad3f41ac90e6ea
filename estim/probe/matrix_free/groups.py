"""Groups of whole tensors of parameters, as a user gives them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from estim.probe.arguments import LIST_OF_FUNCTION
from estim.probe.labels import in_order, is_of


def given_groups(groups: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the group of each tensor; raises TypeError or ValueError when `groups` does not fit.

    Parameters
    ----------
    groups : sequence of str, or mapping
        A group for each tensor, or a mapping from a group to names of tensors, or beginnings of names up to a dot or a
        bracket.
    names : tuple of str
        Of the tensors.
    """
    if isinstance(groups, Mapping):
        members = {group: _members(group, given) for group, given in groups.items()}
        _require_known(members, names)
        return named(tuple(_home(name, members) for name in names))
    if hasattr(groups, "iloc"):
        groups = list(in_order(groups, names, "groups"))
    if isinstance(groups, Sequence | np.ndarray) and not isinstance(groups, str) and len(groups) == len(names):
        return named(tuple(str(group) for group in groups))
    got = len(groups) if hasattr(groups, "__len__") and not isinstance(groups, str) else repr(groups)
    msg = f"groups must have one entry for each of the {len(names)} tensors of parameters; got {got}"
    raise ValueError(msg + (LIST_OF_FUNCTION if callable(groups) else ""))


def named(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return groups that all have a name; raises ValueError for one without, which would stand for all parameters."""
    if "" in groups:
        msg = "groups must have names; got an empty one"
        raise ValueError(msg)
    return groups


def sizes_of_groups(groups: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    """Return the number of parameters in each group, in the order in which they first come."""
    found = dict.fromkeys(groups, 0)
    for group, size in zip(groups, sizes, strict=True):
        found[group] += size
    return found


def norms_of_groups(groups: Sequence[str], norms: Sequence[float]) -> dict[str, float]:
    """Return the Euclidean norm of all parameters of each group, in the order in which they first come."""
    found = dict.fromkeys(groups, 0.0)
    for group, norm in zip(groups, norms, strict=True):
        found[group] = math.hypot(found[group], norm)
    return found


def _members(group: Any, given: Any) -> Sequence[str]:
    listed = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(member, str) for member in listed):
        msg = f"groups must map each group to a name of tensors, or several; got {given!r:.60} for {group!r:.60}"
        raise TypeError(msg)
    return listed


def _require_known(members: Mapping[Any, Sequence[str]], names: tuple[str, ...]) -> None:
    """Refuse what names no tensor."""
    for group, listed in members.items():
        for member in listed:
            if not any(is_of(name, member) for name in names):
                msg = f"groups names {member!r} for {group!r:.60}, which is no tensor; there are {', '.join(names[:8])}"
                raise ValueError(msg)


def _home(name: str, groups: Mapping[Any, Sequence[str]]) -> str:
    homes = [str(group) for group, members in groups.items() for member in members if is_of(name, member)]
    if len(homes) != 1:
        msg = f"groups must hold every parameter once; {name} is in {', '.join(homes) or 'none'}"
        raise ValueError(msg)
    return homes[0]
