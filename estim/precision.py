"""How many digits balls, mpmath's numbers and series have, in a block: none of these libraries takes it as an argument.

Each keeps one precision for the whole process. It is changed only here, for one thread at a time, and restored however
the block ends.
"""

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import flint
import mpmath

from estim.arithmetic import check_positive_integer

_BITS_PER_DIGIT = math.log2(10)
# Bits beyond the digits asked for: absorbs the growth of radii through some 10^9 roundings of one ulp each.
_GUARD_BITS = 32

#: python-flint has one precision, and one length of series, for all threads: others wait until it is restored.
_one_thread = threading.RLock()
#: flint's precision, its length of series, and mpmath's precision, before each block that is open.
_before: list[tuple[int, int, int]] = []


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other threads of estim out of the block."""
    with _one_thread:
        _before.append((flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec))
        try:
            yield
        finally:
            _before.pop()


def _start_forked() -> None:
    """Take over from threads that a forked process does not have: they would never leave their blocks."""
    global _one_thread
    if _one_thread.acquire(blocking=False):  # no block is open, or one of the thread that forked, which goes on
        _one_thread.release()
        return
    _one_thread = threading.RLock()
    if _before:
        flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec = _before[0]
        _before.clear()


if hasattr(os, "register_at_fork"):  # there are no forks on Windows
    os.register_at_fork(after_in_child=_start_forked)


@contextmanager
def ball_bits(bits: int) -> Iterator[None]:
    """Work with balls of `bits` bits inside the block, one thread at a time."""
    with _alone():
        before = flint.ctx.prec
        flint.ctx.prec = bits
        try:
            yield
        finally:
            flint.ctx.prec = before


@contextmanager
def ball_digits(digits: int) -> Iterator[None]:
    """Work with balls of `digits` decimal digits (and a few guard bits) inside the block."""
    check_positive_integer(digits, "digits")
    with ball_bits(math.ceil(digits * _BITS_PER_DIGIT) + _GUARD_BITS):
        yield


@contextmanager
def mpmath_bits(bits: int) -> Iterator[None]:
    """Work with mpmath's numbers of `bits` bits inside the block, one thread at a time: its precision is global."""
    with _alone(), mpmath.workprec(bits):
        yield


@contextmanager
def series_terms(terms: int) -> Iterator[None]:
    """Truncate power series after `terms` coefficients inside the block."""
    check_positive_integer(terms, "terms")
    with _alone():
        before = flint.ctx.cap
        flint.ctx.cap = terms
        try:
            yield
        finally:
            flint.ctx.cap = before
