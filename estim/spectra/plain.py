"""Exact numbers as plain values: what a record of high-precision results is written with.

A float stays a float, except that infinities and NaN become strings, which JSON lacks; an ``mpmath.mpf`` becomes its
exact binary value as a hexadecimal string, ``"-0x1.8p3"`` without a point: ``"-0xcp0"``.
"""

import math
from dataclasses import fields
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from estim.arithmetic import Array


def frozen(numbers: Any) -> Array:
    """Put numbers in a read-only array: float64 where all are floats, else of objects."""
    items = list(numbers)
    kind = np.float64 if all(isinstance(item, float) for item in items) else object
    array = np.empty(len(items), dtype=kind)
    array[:] = items
    array.flags.writeable = False
    return array


def frozen_rows(rows: Any) -> Array:
    """Put rows of numbers in a read-only array, (rows, columns)."""
    array = np.array([frozen(row) for row in rows])
    array.flags.writeable = False
    return array


def plain_fields(record: Any) -> dict[str, Any]:
    """Write a frozen dataclass as plain values."""
    return {field.name: plain(getattr(record, field.name)) for field in fields(record)}


def plain(value: Any) -> Any:
    """Write a field of a record with JSON's own types."""
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, mpmath.mpf):
        return _hexadecimal(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Fraction):
        return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _hexadecimal(value: Any) -> str:
    if not mpmath.isfinite(value):
        return f"mpf {mpmath.nstr(value)}"
    mantissa, exponent = (int(part) for part in value.man_exp)
    # Whether man_exp carries the sign depends on the version of mpmath.
    return f"{'-' if value < 0 else ''}0x{abs(mantissa):x}p{exponent}"


def number(text: Any) -> Any:
    """Read back a number that :func:`plain` wrote."""
    if isinstance(text, str) and "0x" in text:
        mantissa, exponent = text.split("p")
        return mpmath.mp.make_mpf(mpmath.libmp.from_man_exp(int(mantissa, 16), int(exponent)))
    if isinstance(text, str) and text.startswith("mpf "):
        return mpmath.mpf(text[4:])
    return float(text)
