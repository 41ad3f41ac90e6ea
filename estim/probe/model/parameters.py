"""Parameters of any shape as one float64 vector, and back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.masks import unmasked
from estim.probe.arguments import words
from estim.probe.labels import in_order

Array = npt.NDArray[np.float64]

ROOT = "theta"


@dataclass(frozen=True)
class Leaf:
    """One number or array among nested parameters, and its place in the vector."""

    name: str
    group: str
    value: Any
    """What was given; its shape and kind are restored."""
    places: npt.NDArray[np.intp]
    """Place of each entry in the vector, in the shape of the value."""

    def rebuild(self, vector: npt.NDArray[Any]) -> Any:
        """Return the value with entries of the vector, as a fresh number or array."""
        if hasattr(self.value, "columns"):
            return type(self.value)(vector[self.places], index=self.value.index, columns=self.value.columns)
        if hasattr(self.value, "index") and hasattr(self.value, "to_numpy"):
            return type(self.value)(vector[self.places], index=self.value.index, name=self.value.name)
        entries = vector[self.places]
        return np.asarray(entries) if isinstance(self.value, np.ndarray) else entries


@dataclass(frozen=True)
class Parameters:
    """Parameters as a vector that remembers the structure it came from."""

    values: Array
    """(P,), read-only."""
    names: tuple[str, ...]
    groups: tuple[str, ...]
    notes: tuple[str, ...]
    tree: Any
    """The nested structure, with a `Leaf` in place of every number or array."""

    def rebuild(self, vector: npt.NDArray[Any]) -> Any:
        """Return fresh parameters, structured as given, with the entries of a (P,) vector."""
        return _map_leaves(self.tree, lambda leaf: leaf.rebuild(vector))


def read_parameters(
    params: Any, *, names: Sequence[str] | None = None, groups: Any = None, argument: str = "params"
) -> Parameters:
    """Flatten numbers, arrays and nested dicts, lists and tuples of them.

    Parameters
    ----------
    params : number, array_like, or nested dict, list or tuple of them
        Real; integers and short floats are raised to float64. Entries that share memory (the same array twice, a
        transposed view) are one parameter.
    names : sequence of str, optional
        A name for each parameter; keys and indices when left out.
    groups : sequence of str, or mapping from group to names, optional
        A group for each parameter; the top-level key, or ``theta`` for one array, when left out.
    argument : str
        What to call `params` in an error.

    Raises
    ------
    TypeError, ValueError
        If there is no parameter, or one is not a finite real number, or `names` or `groups` does not fit.
    """
    reader = _Reader(argument)
    tree = reader.read(params, "", "")
    values = np.array(reader.values, dtype=np.float64)
    if not values.size:
        msg = f"{argument} must hold at least one parameter; got none"
        raise ValueError(msg)
    chosen = _labels(names, reader.names, "names")
    repeated = sorted({name for name in chosen if chosen.count(name) > 1}) if len(set(chosen)) < len(chosen) else []
    if repeated:
        msg = f"names must be distinct; got {repeated[0]!r} more than once"
        raise ValueError(msg)
    for name, value in zip(chosen, values, strict=True):
        if not np.isfinite(value):
            msg = f"{argument} must be finite; got {value} for {name}"
            raise ValueError(msg)
    values.flags.writeable = False
    return Parameters(values, chosen, _groups(groups, reader.groups, chosen), tuple(reader.notes), tree)


def _labels(given: Sequence[str] | None, default: list[str], argument: str) -> tuple[str, ...]:
    return words(default if given is None else given, len(default), argument)


def _groups(given: Any, default: list[str], names: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(given, Mapping):
        return _labels(in_order(given, names, "groups"), default, "groups")
    for group, members in given.items():
        if isinstance(members, str) or not isinstance(members, Iterable):
            msg = f"groups must map each group to a list of names; got {members!r:.60} for {group!r}"
            raise TypeError(msg)
    home = {str(name): str(group) for group, members in given.items() for name in members}
    if "" in home.values():
        msg = "groups must have names; got an empty one"
        raise ValueError(msg)
    wrong = sorted(set(names) ^ set(home))
    if wrong or sum(len(members) for members in given.values()) != len(names):
        what = f"missing or unknown: {', '.join(wrong)}" if wrong else "a name is in two groups"
        msg = f"groups must hold every parameter once; {what}"
        raise ValueError(msg)
    return tuple(home[name] for name in names)


class _Reader:
    """Collects the entries of nested parameters, one after the other."""

    def __init__(self, argument: str) -> None:
        self.argument = argument
        self.values: list[float] = []
        self.names: list[str] = []
        self.groups: list[str] = []
        self.notes: list[str] = []
        self._seen: dict[tuple[int, int], int] = {}

    def read(self, value: Any, name: str, group: str) -> Any:
        """Return the structure with a Leaf for each number or array."""
        if isinstance(value, Mapping):
            if "" in value:
                msg = f"{self.argument} must have a name for every entry; got an empty key{name and f' in {name}'}"
                raise ValueError(msg)
            return {key: self.read(item, _join(name, str(key)), group or str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            base = name or ROOT
            flat = all(isinstance(item, Number) for item in value)
            items = [
                self.read(item, f"{base}[{i}]", group or (base if flat else f"{base}[{i}]"))
                for i, item in enumerate(value)
            ]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return self._leaf(value, name or ROOT, group or ROOT)

    def _leaf(self, value: Any, name: str, group: str) -> Leaf:
        if is_dataclass(value) and not hasattr(value, "__array__"):
            kind = type(value).__name__
            msg = (
                f"{self.argument} must be real numbers, or nested dicts, lists or tuples of them; got the dataclass "
                f"{kind} for {name}: vars(...) of it is a dict; with arrays of JAX in it, "
                f"jax.tree_util.register_dataclass({kind}) makes it a pytree"
            )
            raise TypeError(msg)
        labels = _labels_of(value)
        array = np.asarray(unmasked(value))
        numbers = self._numbers(array, name)
        # Only memory that the caller holds can be shared; a number has none.
        keys = _addresses(array) if isinstance(value, np.ndarray) else [None] * array.size
        places, first = [], len(self.values)
        for key, number, index in zip(keys, numbers, np.ndindex(array.shape), strict=True):
            place = self._seen.get(key) if key is not None else None
            if place is None:
                place = len(self.values)
                self.values.append(number)
                self.names.append(_entry_name(name, index, labels))
                self.groups.append(str(labels[1][index[1]]) if len(labels) == 2 and group == ROOT else group)
                if key is not None:
                    self._seen[key] = place
            places.append(place)
        tied = array.size - (len(self.values) - first)
        if tied:
            again = next(place for place in places if places.count(place) > 1 or place < first)
            self.notes.append(
                f"{name}: {tied} of {array.size} entries share memory with others "
                f"(such as {self.names[again]}) and are counted once"
            )
        return Leaf(name, group, value, np.array(places, dtype=np.intp).reshape(array.shape))

    def _numbers(self, array: npt.NDArray[Any], name: str) -> list[float]:
        where = f"{self.argument} must be real numbers, or nested dicts, lists or tuples of them"
        if array.dtype.kind not in "iufO":
            msg = f"{where}; got dtype {array.dtype} for {name}"
            raise TypeError(msg)
        try:
            return [float(entry) for entry in array.ravel().tolist()]
        except (TypeError, ValueError, OverflowError) as error:
            msg = f"{where}; got {array!r:.80} for {name}"
            raise TypeError(msg) from error


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _labels_of(value: Any) -> list[Any]:
    """Return the labels of a pandas Series, or of the rows and the columns of a DataFrame; nothing for the rest."""
    if not (hasattr(value, "to_numpy") and hasattr(value, "index")):
        return []
    return [value.index, value.columns] if hasattr(value, "columns") else [value.index]


def _entry_name(name: str, index: tuple[int, ...], labels: list[Any]) -> str:
    if not labels:
        return f"{name}[{', '.join(map(str, index))}]" if index else name
    words = [str(axis[i]) for axis, i in zip(labels, index, strict=True)]
    return ".".join(words) if name == ROOT else f"{name}[{', '.join(words)}]"


def _addresses(array: npt.NDArray[Any]) -> list[tuple[int, int] | None]:
    """Return where each entry lies in memory, in C order: entries that share it are one parameter."""
    place = np.full(array.shape, array.__array_interface__["data"][0], dtype=np.int64)
    for axis, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        shape = [1] * array.ndim
        shape[axis] = length
        place += (np.arange(length) * stride).reshape(shape)
    return [(address, array.itemsize) for address in place.ravel().tolist()]


def _map_leaves(tree: Any, function: Callable[[Leaf], Any]) -> Any:
    if isinstance(tree, Leaf):
        return function(tree)
    if isinstance(tree, dict):
        return {key: _map_leaves(item, function) for key, item in tree.items()}
    items = [_map_leaves(item, function) for item in tree]
    return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
