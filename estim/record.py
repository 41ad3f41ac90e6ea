"""Frozen results of plain arrays and names that round-trip through JSON."""

import ast
import dataclasses
import html
import inspect
import itertools
import json
import math
import textwrap
from types import NoneType, UnionType
from typing import Any, Self, cast, get_args, get_origin

import numpy as np

_CALLED: dict[Any, str] = {int: "a whole number", bool: "true or false", str: "text"}


class Record:
    """Base of frozen dataclasses whose fields are numbers, strings, arrays, tuples of them, and records.

    JSON holds floats exactly (17 digits) and infinities and NaN as the strings "inf", "-inf" and "nan"; arrays are
    nested lists, but for those of several axes and no entries, of which lists would lose the shape.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Show the documentation under each field in `help`, as numpydoc's Attributes."""
        super().__init_subclass__(**options)
        cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), *_attributes(cls)])

    def __post_init__(self) -> None:
        """Make the arrays of a frozen record read-only."""
        for name in self._declared():
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                # In one order: a product of the same record read back has then the same bits.
                view = np.asarray(value, order="C").view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    # Not named `_fields`: pydoc takes what has these for a named tuple, and shows its private methods.
    @classmethod
    def _declared(cls) -> dict[str, Any]:
        return {field.name: field.type for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as numbers, strings and lists, ready for JSON."""
        return {name: _plain(getattr(self, name)) for name in self._declared()}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the record as a JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a record from `to_dict`.

        Raises
        ------
        TypeError, ValueError
            When `fields` is no dict, or a field is missing, unknown or not of its kind: the message names it.
        """
        if not isinstance(fields, dict):
            msg = f"{cls.__name__} must come from a dict of its fields; got {type(fields).__name__}"
            raise TypeError(msg)
        known = cls._declared()
        # What a later version has added has a default, so that records of an earlier one are still read.
        needed = [field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING]  # type: ignore[arg-type]
        missing = [name for name in needed if name not in fields]
        unknown = [str(name) for name in fields if name not in known]
        if missing or unknown:
            said = [
                f"{what} {', '.join(names)}" for what, names in (("lacks", missing), ("has no field", unknown)) if names
            ]
            msg = f"{cls.__name__} {' and '.join(said)}"
            raise ValueError(msg)
        return cls(**{name: _read(cls, name, value, known[name]) for name, value in fields.items()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild a record from `to_json`; raises ValueError as `from_dict`, and when the text is no JSON object."""
        try:
            fields = json.loads(text)
        except TypeError as error:
            msg = f"{cls.__name__} must come from JSON text; got {type(text).__name__}"
            raise TypeError(msg) from error
        except ValueError as error:
            msg = f"{cls.__name__} must come from JSON text; got {text!r:.60}: {error}"
            raise ValueError(msg) from error
        if not isinstance(fields, dict):
            msg = f"{cls.__name__} must come from a JSON object; got {type(fields).__name__}"
            raise ValueError(msg)
        return cls.from_dict(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy through `to_dict`, which is exact; mpmath would round on unpickling."""
        return _rebuilt, (type(self), self.to_dict())

    def __repr__(self) -> str:
        """Show the fields, arrays shortened."""
        with np.printoptions(threshold=6, edgeitems=2, precision=4):
            fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._declared())
        return f"{type(self).__name__}({fields})"

    def __str__(self) -> str:
        """Show the summary, where there is one; else the fields."""
        return str(self.summary()) if hasattr(self, "summary") else repr(self)

    def _repr_html_(self) -> str | None:
        """Show the summary, where there is one, in a notebook."""
        if not hasattr(self, "summary"):
            return None
        found = self.summary()
        return f"<pre>{html.escape(found)}</pre>" if isinstance(found, str) else str(found.as_html())

    def __eq__(self, other: object) -> bool:
        """Compare all fields; NaN equals NaN."""
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash the JSON text."""
        return hash(self.to_json())


def _attributes(kind: type[Record]) -> list[str]:
    """Return an Attributes section from the strings under the fields, inherited ones first."""
    bases = [base for base in reversed(kind.__mro__) if issubclass(base, Record) and base is not Record]
    found = [line for base in bases for line in _documented(base)]
    return ["", "Attributes", "----------", *found] if found else []


def _documented(kind: type[Record]) -> list[str]:
    """Return the fields that a class itself declares; nothing where there is no source to read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return []
    lines = []
    body = cast(ast.ClassDef, tree.body[0]).body
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            words = " ".join(str(text.value.value).split())
            lines += [f"{ast.unparse(field.target)} : {ast.unparse(field.annotation)}", f"    {words}"]
    return lines


def _rebuilt(kind: type[Record], fields: dict[str, Any]) -> Record:
    return kind.from_dict(fields)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist()) if value.size or value.ndim == 1 else {"shape": list(value.shape)}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def _read(record: type[Record], name: str, value: Any, kind: Any) -> Any:
    """Read one field, and name it where it is not of its kind."""
    try:
        return _restored(value, kind)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{record.__name__}: {name} cannot be read from {value!r:.60}: {error}"
        raise ValueError(msg) from error


def _restored(value: Any, kind: Any) -> Any:
    """Turn lists into arrays or tuples, and strings for infinities and NaN into floats, by the field's annotation."""
    if isinstance(kind, UnionType):
        first, other = get_args(kind)
        if other is NoneType and value is None:
            return None
        several = other is NoneType or isinstance(value, list | dict | np.ndarray)  # an array, or one entry of it
        return _restored(value, first if several else other)
    if kind is float:
        return float(value)
    if kind in _CALLED and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        msg = f"it must be {_CALLED[kind]}"
        raise TypeError(msg)
    if get_origin(kind) is tuple:
        return _tuple(value, get_args(kind))
    if np.ndarray in (kind, get_origin(kind)):
        return _array(value, np.int64 if "int64" in str(kind) else np.float64)
    if isinstance(kind, type) and issubclass(kind, Record):
        return value if isinstance(value, kind) else kind.from_dict(value)
    return value  # the word of an enumeration, of which the record makes a member


def _tuple(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make a tuple of entries of one kind, as many as the annotation has where it does not end in dots."""
    if not isinstance(value, list | tuple) or (kinds[-1] is not Ellipsis and len(value) != len(kinds)):
        msg = "it must be a list" if kinds[-1] is Ellipsis else f"it must be a list of {len(kinds)}"
        raise TypeError(msg)
    return tuple(_restored(entry, kinds[0]) for entry in value)


def _array(value: Any, dtype: Any) -> Any:
    """Make an array of any depth; strings stand for infinities and NaN. One of another number type is left as it is."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, dict) and set(value) == {"shape"}:
        return _without_entries(value["shape"], dtype)
    if not isinstance(value, list):
        msg = "it must be a list"
        raise TypeError(msg)
    nested = np.array(value, dtype=object)
    numbers = [float(entry) for entry in nested.flat]  # of None NumPy would make NaN
    if dtype is np.int64 and not all(map(float.is_integer, numbers)):
        msg = "its entries must be whole numbers"
        raise ValueError(msg)
    return np.array(list(nested.flat) if dtype is np.int64 else numbers, dtype=dtype).reshape(nested.shape)


def _without_entries(shape: Any, dtype: Any) -> Any:
    """Make an array of which only the shape was written; zeros stand for no entries that are lost."""
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape) or 0 not in shape:
        msg = f"shape must be that of an array without entries, such as [0, 3]; got {shape!r:.60}"
        raise ValueError(msg)
    return np.empty(shape, dtype=dtype)
