"""Banks of inputs, also ragged ones: inputs of the same number of tokens are evaluated together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, as_fractions, read_entries


@dataclass(frozen=True, eq=False)
class Group:
    """The inputs of a bank that have one number of tokens."""

    positions: NDArray[np.intp]
    """Place of each input in the bank, (inputs,)."""
    entries: Array
    """The inputs, (inputs, tokens, width), as :func:`estim.arithmetic.read_entries` returns them."""


@dataclass(frozen=True, eq=False)
class Bank:
    """Inputs read once; accepted wherever a bank is."""

    groups: tuple[Group, ...]
    tokens: NDArray[np.intp]
    """Number of tokens of each input, (inputs,)."""

    def readings(self, width: int) -> int:
        """Count the readings of outputs with `width` channels."""
        return int(self.tokens.sum()) * width

    def rows(self, group: Group, width: int) -> NDArray[np.intp]:
        """Return the place of each reading of a group among all, (inputs, tokens * width)."""
        sizes = self.tokens * width
        starts = np.cumsum(sizes) - sizes
        return np.asarray(starts[group.positions, None] + np.arange(group.entries.shape[1] * width))

    def assemble(self, outputs: Iterable[Array]) -> Array | list[Array]:
        """Put the outputs of the groups, (inputs, tokens, width) each, in the order of the bank."""
        parts = list(outputs)
        if len(parts) == 1:
            return parts[0]
        items: list[Array] = [np.empty(0)] * len(self.tokens)
        for group, part in zip(self.groups, parts, strict=True):
            for position, item in zip(group.positions, part, strict=True):
                items[position] = item
        return items


def read_bank(bank: Any, width: int) -> Bank:
    """Read a bank for a network whose inputs have `width` channels.

    Parameters
    ----------
    bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
        Entries as in :func:`estim.arithmetic.read_entries`; dimensionless.
    width : int
        Channels of an input.

    Raises
    ------
    TypeError, ValueError
        If an entry, the number of axes or the width does not fit.
    """
    if isinstance(bank, Bank):
        groups = bank.groups
    elif isinstance(bank, np.ndarray) and bank.dtype != object:
        entries = read_entries(bank, "bank", ndim=3)
        groups = (Group(np.arange(len(entries)), entries),)
    else:
        groups = _grouped(bank)
    for group in groups:
        if group.entries.shape[-1] != width:
            shape = group.entries.shape[1:]
            msg = f"`bank` must have width {width}, that of the first layer; got inputs of shape {shape}"
            raise ValueError(msg)
    tokens = np.empty(sum(len(group.positions) for group in groups), dtype=np.intp)
    for group in groups:
        tokens[group.positions] = group.entries.shape[1]
    return Bank(groups, tokens)


def _grouped(bank: Any) -> tuple[Group, ...]:
    if isinstance(bank, str) or not isinstance(bank, Iterable):
        msg = f"`bank` must be an array (inputs, tokens, width) or a list of inputs; got {bank!r}"
        raise TypeError(msg)
    items = [read_entries(item, f"bank[{number}]", ndim=2) for number, item in enumerate(bank)]
    if not items:
        msg = "`bank` must hold at least one input; got none"
        raise ValueError(msg)
    widths = sorted({item.shape[1] for item in items})
    if len(widths) > 1:
        msg = f"`bank` must have inputs of one width; got widths {widths}"
        raise ValueError(msg)
    exact = any(item.dtype == object for item in items)
    by_tokens: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        by_tokens.setdefault(item.shape[0], []).append(number)
    return tuple(
        Group(np.array(numbers), _stacked([items[number] for number in numbers], exact))
        for numbers in by_tokens.values()
    )


def _stacked(items: list[Array], exact: bool) -> Array:
    return np.stack([as_fractions(item) for item in items] if exact else items)
