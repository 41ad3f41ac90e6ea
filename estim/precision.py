"""How many digits balls, mpmath's numbers and series have, in a block: none of these libraries takes it as an argument.

Each keeps one precision for the whole process. It is changed only here, for one thread at a time, and restored however
the block ends.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from numbers import Integral
from typing import Any

import flint
import mpmath

from estim.arithmetic import check_positive_integer
from estim.one_thread import OneThread

#: Decimal digits that proven results may be asked for.
FEWEST_DIGITS, MOST_DIGITS = 15, 10_000
_BITS_PER_DIGIT = math.log2(10)
# Bits beyond the digits asked for: absorbs the growth of radii through some 10^9 roundings of one ulp each.
_GUARD_BITS = 32

#: flint's precision, its length of series, and mpmath's precision, before each block that is open.
_before: list[tuple[int, int, int]] = []


def _put_back() -> None:
    flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec = _before[0]
    _before.clear()


#: python-flint has one precision, and one length of series, for all threads: others wait until it is restored.
_one_thread = OneThread(_put_back)


def check_digits(digits: Any) -> None:
    """Refuse what is no number of digits that proven results may be asked for."""
    whole = isinstance(digits, Integral) and not isinstance(digits, bool)
    if not whole or not FEWEST_DIGITS <= digits <= MOST_DIGITS:
        msg = f"`digits` must be an integer from {FEWEST_DIGITS} to {MOST_DIGITS}; got {digits!r}"
        raise ValueError(msg)


@contextmanager
def _held(context: Any, name: str, value: int) -> Iterator[None]:
    """Hold one of these numbers at a value inside the block."""
    with _one_thread:
        _before.append((flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec))
        own = getattr(context, name)
        setattr(context, name, value)
        try:
            yield
        finally:
            setattr(context, name, own)
            _before.pop()


def ball_bits(bits: int) -> AbstractContextManager[None]:
    """Work with balls of `bits` bits inside the block, one thread at a time."""
    return _held(flint.ctx, "prec", bits)


def ball_digits(digits: int) -> AbstractContextManager[None]:
    """Work with balls of `digits` decimal digits (and a few guard bits) inside the block."""
    check_positive_integer(digits, "digits")
    return ball_bits(math.ceil(digits * _BITS_PER_DIGIT) + _GUARD_BITS)


def mpmath_bits(bits: int) -> AbstractContextManager[None]:
    """Work with mpmath's numbers of `bits` bits inside the block, one thread at a time: its precision is global."""
    return _held(mpmath.mp, "prec", bits)


def series_terms(terms: int) -> AbstractContextManager[None]:
    """Truncate power series after `terms` coefficients inside the block."""
    check_positive_integer(terms, "terms")
    return _held(flint.ctx, "cap", terms)
