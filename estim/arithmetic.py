"""Number systems: entries kept exactly, and their views as float64 numbers, balls and exact rationals.

An array of *entries* is either a float64 array, whose values mean their exact binary values, or an object
array of :class:`fractions.Fraction`. The formulas of :mod:`estim.attention` are written once in NumPy and
run on whatever array they are given: float64, or object arrays of python-flint ``arb`` (a midpoint with a
proven radius), ``fmpq``, ``fmpq_series``, ``fmpz_mod`` and the like. Only :func:`matmul` and the normalizer
look at the type of an entry.

The precision of balls and the length of series are global: :mod:`estim.precision`.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral, Rational
from operator import itemgetter, methodcaller
from typing import Any

import flint
import mpmath
import numpy as np
from numpy.typing import NDArray

from estim.masks import unmasked

Array = NDArray[Any]

# Below so many multiplications a product costs less than its call, and products that share a factor are merged;
# above, the copies that merging may need cost more than the calls.
_SMALL = 512


def check_positive_integer(value: object, name: str) -> None:
    """Refuse what is no positive integer."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        msg = f"`{name}` must be a positive integer; got {value!r}"
        raise ValueError(msg)


def read_entries(values: Any, name: str, *, ndim: int) -> Array:
    """Read numbers without changing their value.

    Parameters
    ----------
    values : array_like
        Floats, integers, ``Fraction``, ``Decimal``, decimal or fraction strings, flint rationals or mpmath
        numbers, also mixed; dimensionless.
    name : str
        What to call the argument in an error.
    ndim : int
        Number of axes that `values` must have.

    Returns
    -------
    numpy.ndarray
        A new float64 array where every entry is a float64 number, else an object array of ``Fraction``;
        read-only.

    Raises
    ------
    TypeError
        If an entry is not a real number.
    ValueError
        If the number of axes is wrong, an axis is empty, or an entry is not finite or not readable.

    Examples
    --------
    >>> read_entries([0.5, "0.1", 2], "value", ndim=1)
    array([Fraction(1, 2), Fraction(1, 10), Fraction(2, 1)], dtype=object)
    """
    values = unmasked(values)
    array = values if isinstance(values, np.ndarray) else _object_array(values, name)
    if array.ndim != ndim:
        what = f"shape {array.shape}" if array.ndim else f"one {type(values).__name__}"
        hint = ", a sparse matrix: give its .toarray()" if hasattr(values, "toarray") else ""
        msg = f"`{name}` must have {ndim} axes; got {what}{hint}"
        raise ValueError(msg)
    if array.size == 0:
        msg = f"`{name}` must not be empty; got shape {array.shape}"
        raise ValueError(msg)
    entries = _floats(array) if _is_float(array) else _fractions(array, name)
    if entries.dtype != object and not np.isfinite(entries).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(entries))[0])
        msg = f"`{name}` must be finite; got {entries[where]} at index {where}"
        raise ValueError(msg)
    entries.flags.writeable = False
    return entries


def _object_array(values: Any, name: str) -> Array:
    # dtype=object first: NumPy's promotion would turn a float beside a string into a decimal.
    try:
        array = np.array(values, dtype=object)
        ragged = any(isinstance(entry, list | tuple | np.ndarray) for entry in array.flat)
    except ValueError:
        ragged = True
    if ragged:
        msg = f"`{name}` must be a rectangular array; got rows of different lengths"
        raise ValueError(msg)
    return array


def _is_float(array: Array) -> bool:
    if array.dtype != object:
        return array.dtype.kind == "f" and array.dtype.itemsize <= 8
    return all(isinstance(entry, float | np.float32 | np.float16) for entry in array.flat)


def _floats(array: Array) -> Array:
    return np.array(array, dtype=np.float64, order="C")


def _fractions(array: Array, name: str) -> Array:
    entries = np.empty(array.shape, dtype=object)
    for index, entry in np.ndenumerate(array):
        plain = type(entry) is Fraction  # nothing to read, and no place to name
        entries[index] = entry if plain else _fraction(entry, f"{name}[{', '.join(map(str, index))}]")
    return entries


def _fraction(entry: Any, name: str) -> Fraction:
    """Return the exact value of one number."""
    if isinstance(entry, flint.fmpq):
        return Fraction(int(entry.p), int(entry.q))
    if isinstance(entry, flint.fmpz):
        return Fraction(int(entry))
    if isinstance(entry, np.longdouble):
        entry = _longdouble_parts(entry, name)
    if isinstance(entry, mpmath.mpf):
        entry = _mpf_parts(entry, name)
    if isinstance(entry, np.bool_ | np.floating):
        entry = entry.item()
    if not isinstance(entry, Rational | float | Decimal | str):
        kind = type(entry).__name__
        msg = f"`{name}` must be a real number or a decimal string; got {entry!r} of type {kind}"
        raise TypeError(msg)
    try:
        return Fraction(int(entry) if isinstance(entry, Integral) else entry)
    except (ValueError, OverflowError, ZeroDivisionError):
        msg = f"`{name}` must be a finite number; got {entry!r}"
        raise ValueError(msg) from None


def _longdouble_parts(entry: np.longdouble, name: str) -> Fraction:
    if not np.isfinite(entry):
        msg = f"`{name}` must be a finite number; got {entry!r}"
        raise ValueError(msg)
    return Fraction(*entry.as_integer_ratio())


def _mpf_parts(entry: Any, name: str) -> Fraction:
    if not mpmath.isfinite(entry):
        msg = f"`{name}` must be a finite number; got {entry!r}"
        raise ValueError(msg)
    mantissa, exponent = (int(part) for part in entry.man_exp)
    # Whether man_exp carries the sign depends on the version of mpmath.
    return Fraction(-abs(mantissa) if entry < 0 else abs(mantissa)) * Fraction(2) ** exponent


def elementwise(convert: Callable[[Any], Any], entries: Array) -> Array:
    """Convert every entry, into an object array of the same shape."""
    # A ufunc stores what it is given; assigning a list would take a flint series for its coefficients.
    return np.asarray(np.frompyfunc(convert, 1, 1)(entries), dtype=object)


def as_float(entries: Array) -> NDArray[np.float64]:
    """View entries as float64: the values themselves, or fractions correctly rounded; OverflowError beyond it."""
    if entries.dtype != object:
        return entries
    try:
        return entries.astype(np.float64)
    except OverflowError:
        msg = "an entry lies beyond float64, which ends at 1.8e308; give `digits` where the function takes it"
        raise OverflowError(msg) from None


def as_fractions(entries: Array) -> Array:
    """View entries as exact ``Fraction``."""
    return entries if entries.dtype == object else elementwise(Fraction, entries)


def as_rationals(entries: Array) -> Array:
    """View entries as exact flint ``fmpq``, ten times faster to compute with than ``Fraction``."""
    return elementwise(_rational, entries)


def _rational(entry: Any) -> flint.fmpq:
    return flint.fmpq(*entry.as_integer_ratio())


def from_rationals(array: Array) -> Array:
    """Turn flint ``fmpq`` into ``Fraction``, the public type of exact results."""
    return elementwise(lambda entry: Fraction(int(entry.p), int(entry.q)), array)


def as_balls(entries: Array) -> Array:
    """View entries as balls of the present precision that contain the exact values."""
    if entries.dtype == object:
        return elementwise(lambda entry: flint.arb(_rational(entry)), entries)
    return elementwise(lambda entry: flint.arb(float(entry)), entries)


def midpoints(balls: Array) -> Array:
    """Turn the midpoints of balls into ``mpmath.mpf`` without rounding and without a global precision."""
    return elementwise(to_mpf, balls)


def to_mpf(ball: flint.arb) -> Any:
    """Turn the midpoint of a ball into an mpf, without rounding and whatever the precision of mpmath."""
    mantissa, exponent = ball.mid().man_exp()
    number = int(mantissa)
    if number == 0:
        return mpmath.mpf(0)
    # flint's mantissa is odd, as mpmath's must be: (sign, mantissa, exponent, bits) are taken over as they are.
    size = mpmath.libmp.MPZ(abs(number))
    return mpmath.mp.make_mpf((int(number < 0), size, int(exponent), number.bit_length()))


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Multiply stacks of matrices, (..., m, k) by (..., k, n), in any number system, into `out` if given.

    Balls and rationals go through flint's matrix products: a dot product of balls is then rounded once, one of
    rationals is brought to lowest terms once. Every other kind of entry goes through :func:`numpy.matmul`.
    """
    matrix = _flint_matrix(a.flat[0]) if a.dtype == object and a.size else None
    if matrix is not None:
        product = _merged_matmul(partial(_flint_matmul, matrix), a, b)
    elif (b.ndim == 2 and a.flags.c_contiguous) or a.shape[-2] * a.shape[-1] * b.shape[-1] < _SMALL:
        product = _merged_matmul(np.matmul, a, b)
    else:
        return np.asarray(np.matmul(a, b, out=out))
    if out is None:
        return product
    out[...] = product
    return out


def _merged_matmul(product: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """Multiply stacks; where one factor is shared along the last axis of the stack, in one product."""
    if b.ndim == 2:
        return product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if a.ndim == b.ndim > 2 and b.shape[-3] == 1:
        rows = a.reshape(*a.shape[:-3], -1, a.shape[-1])
        return product(rows, b[..., 0, :, :]).reshape(*a.shape[:-1], b.shape[-1])
    if a.ndim == b.ndim > 2 and a.shape[-3] == 1:
        columns = b.swapaxes(-3, -2)
        merged = product(a[..., 0, :, :], columns.reshape(*columns.shape[:-2], -1))
        return merged.reshape(*merged.shape[:-1], *columns.shape[-2:]).swapaxes(-3, -2)
    return product(a, b)


def _flint_matrix(entry: Any) -> Callable[[int, int, list[Any]], Any] | None:
    """Return what makes a flint matrix of such entries."""
    if isinstance(entry, flint.arb):
        return flint.arb_mat
    if isinstance(entry, flint.fmpq):
        return flint.fmpq_mat
    return None


def _flint_matmul(matrix: Callable[[int, int, list[Any]], Any], a: Array, b: Array) -> Array:
    batch, (rows, inner), columns = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2:], b.shape[-1]
    lefts = np.broadcast_to(a, (*batch, rows, inner)).ravel().tolist()
    rights = np.broadcast_to(b, (*batch, inner, columns)).ravel().tolist()
    # Indices made once for the whole stack: entries() of flint makes those of every matrix anew.
    places = list(np.ndindex(rows, columns))
    read = itemgetter(*places) if len(places) > 1 else methodcaller("entries")
    entries: list[Any] = []
    for k in range(math.prod(batch)):
        left = matrix(rows, inner, lefts[k * rows * inner : (k + 1) * rows * inner])
        right = matrix(inner, columns, rights[k * inner * columns : (k + 1) * inner * columns])
        entries += read(left * right)
    # fromiter does not look for arrays inside the entries, as np.array does at four times the cost.
    return np.fromiter(entries, dtype=object, count=len(entries)).reshape(*batch, rows, columns)
