"""The factors of one attention layer, kept exactly, and their place in the parameter vector."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, as_float, as_fractions, read_entries

FACTORS = ("query", "key", "value")
Convert = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Layer:
    """Factors of one single-head attention layer: X -> A(X Q K^T X^T) X V.

    Parameters
    ----------
    query, key : (width, rank) array_like
        Q and K; floats, integers, ``Fraction`` or decimal strings, also mixed; dimensionless. Their exact
        values are kept, a float meaning its exact binary value.
    value : (width, output width) array_like
        V, likewise.

    Attributes
    ----------
    query, key, value : numpy.ndarray
        Read-only: float64, or an object array of ``Fraction`` where an entry is not a float.
    width, rank, output_width : int
        Equal layers have equal exact entries.

    Raises
    ------
    TypeError
        If an entry is not a real number.
    ValueError
        If an entry is not finite or the shapes do not fit.

    Examples
    --------
    >>> layer = Layer(query=[["1/3"], [2]], key=[[0.5], [1]], value=[[1, 0], [0, 1]])
    >>> layer.query
    array([[Fraction(1, 3)],
           [Fraction(2, 1)]], dtype=object)
    >>> layer
    Layer(width=2, rank=1, output_width=2)
    """

    query: Array
    key: Array
    value: Array

    def __init__(self, query: Any, key: Any, value: Any) -> None:
        for name, factor in zip(FACTORS, (query, key, value), strict=True):
            object.__setattr__(self, name, read_entries(factor, name, ndim=2))
        if self.query.shape != self.key.shape:
            shapes = f"{self.query.shape} and {self.key.shape}"
            msg = f"`query` and `key` must have one shape (width, rank); got {shapes}"
            raise ValueError(msg)
        if self.value.shape[0] != self.query.shape[0]:
            msg = (
                f"`value` must have as many rows as `query`, the width of the layer; "
                f"got {self.value.shape} and {self.query.shape}"
            )
            raise ValueError(msg)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layer):
            return NotImplemented
        return all(
            getattr(self, name).shape == getattr(other, name).shape
            and bool((as_fractions(getattr(self, name)) == as_fractions(getattr(other, name))).all())
            for name in FACTORS
        )

    def __hash__(self) -> int:
        return hash(tuple(tuple(as_fractions(getattr(self, name)).flat) for name in FACTORS))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles of arrays can be written to; the factors of a copied layer cannot either.
        return type(self), (self.query, self.key, self.value)

    def __repr__(self) -> str:
        return f"Layer(width={self.width}, rank={self.rank}, output_width={self.output_width})"

    @property
    def width(self) -> int:
        """Channels of an input token."""
        return int(self.query.shape[0])

    @property
    def rank(self) -> int:
        """Columns of query and key."""
        return int(self.query.shape[1])

    @property
    def output_width(self) -> int:
        """Channels of an output token."""
        return int(self.value.shape[1])

    @cached_property
    def float64(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Query, key and value as float64 numbers, correctly rounded; read-only."""
        return read_only(as_float(self.query)), read_only(as_float(self.key)), read_only(as_float(self.value))

    def factors_in(self, convert: Convert) -> tuple[Array, Array, Array]:
        """Query, key and value in the number system that `convert` leads to."""
        return convert(self.query), convert(self.key), convert(self.value)

    def scaled(self, scale: Any) -> "Layer":
        """Multiply query and key, exactly, by one number, read as their entries are."""
        factor = as_fractions(read_entries([scale], "scale", ndim=1))[0]
        return Layer(as_fractions(self.query) * factor, as_fractions(self.key) * factor, self.value)


def read_only(array: Array) -> Array:
    """Return an array that is held, and would take what holds it along if it were written to."""
    array.flags.writeable = False
    return array


def check_layers(layers: Iterable[object]) -> tuple[Layer, ...]:
    """Return the layers of a network, each as wide as what the one before puts out."""
    if not isinstance(layers, Iterable):
        msg = f"`layers` must be a sequence of Layer; got {layers!r}"
        raise TypeError(msg)
    checked: list[Layer] = []
    for number, layer in enumerate(layers):
        if not isinstance(layer, Layer):
            msg = f"`layers[{number}]` must be a Layer; got {layer!r}"
            raise TypeError(msg)
        if checked and layer.width != checked[-1].output_width:
            msg = (
                f"`layers[{number}]` must have the width {checked[-1].output_width} that layer {number - 1} "
                f"puts out; got width {layer.width}"
            )
            raise ValueError(msg)
        checked.append(layer)
    if not checked:
        msg = "`layers` must hold at least one Layer; got none"
        raise ValueError(msg)
    return tuple(checked)


def check_factors(factors: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen factors in the order of the parameters."""
    several = isinstance(factors, Iterable) and not isinstance(factors, str)
    chosen = tuple(factors) if several else (factors,)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(FACTORS):
        msg = f"`factors` must be one or more of {', '.join(FACTORS)}, each once; got {factors!r}"
        raise ValueError(msg)
    return tuple(name for name in FACTORS if name in chosen)


def parameter_count(layers: Sequence[Layer], factors: Sequence[str]) -> int:
    """Count the parameters of the chosen factors."""
    return sum(getattr(layer, name).size for layer in layers for name in factors)


def places_of(weights: Sequence[tuple[Array, Array, Array]], factors: Sequence[str]) -> list[dict[str, slice]]:
    """Return the place of each chosen factor of each layer in the parameter vector."""
    places: list[dict[str, slice]] = []
    start = 0
    for layer in weights:
        place = {}
        for name, factor in zip(FACTORS, layer, strict=True):
            if name in factors:
                place[name] = slice(start, start + factor.size)
                start += factor.size
        places.append(place)
    return places


def flatten(layers: Sequence[Layer], factors: Sequence[str]) -> NDArray[np.float64]:
    """Return the chosen factors as one float64 vector: by layer, then query, key, value, row by row."""
    parts = [as_float(getattr(layer, name)).ravel() for layer in layers for name in factors]
    return np.concatenate(parts)


def unflatten(layers: Sequence[Layer], vector: Array, factors: Sequence[str]) -> list[tuple[Array, Array, Array]]:
    """Cut a parameter vector into (query, key, value) of each layer; a factor not chosen is zero."""
    zero = vector[:1] * 0
    pieces: list[tuple[Array, Array, Array]] = []
    start = 0
    for layer in layers:
        cut: dict[str, Array] = {}
        for name in FACTORS:
            shape = getattr(layer, name).shape
            size = shape[0] * shape[1] if name in factors else 0
            part = vector[start : start + size] if size else np.repeat(zero, shape[0] * shape[1])
            cut[name] = part.reshape(shape)
            start += size
        pieces.append((cut["query"], cut["key"], cut["value"]))
    return pieces


def read_vector(values: Any, name: str, size: int, what: str) -> Array:
    """Read the entries of a vector that has one for each of `size` things."""
    entries = read_entries(values, name, ndim=1)
    if len(entries) != size:
        msg = f"`{name}` must have one entry for each {what}, {size}; got {len(entries)}"
        raise ValueError(msg)
    return entries


def with_vector(layers: Sequence[Layer], vector: Any, factors: Sequence[str]) -> list[Layer]:
    """Return the layers with the chosen factors replaced by the entries of a parameter vector."""
    entries = read_vector(vector, "parameters", parameter_count(layers, factors), "parameter")
    pieces = unflatten(layers, entries, factors)
    chosen = [dict(zip(FACTORS, piece, strict=True)) for piece in pieces]
    return [
        Layer(*(cut[name] if name in factors else getattr(layer, name) for name in FACTORS))
        for layer, cut in zip(layers, chosen, strict=True)
    ]
