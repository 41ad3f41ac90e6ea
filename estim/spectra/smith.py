"""Elementary divisors of a matrix over a ring in which every number is a unit times a power of one element t.

Two such rings: Q[[t]] truncated at a number of terms, and Z/p^N with t = p. The exponents of the Smith form are the
valuations of the pivots when the pivot is, at each step, an entry of least valuation. Division by a pivot then costs
no precision: an entry known modulo t^N stays known modulo t^N, so that every exponent below the truncation is right,
and the exponents beyond it are known to be beyond.

The map t -> p from power series whose coefficients have no p in their denominators to p-adic numbers can
raise the valuation of a minor and never lower it. The sum of the k least exponents, which is the least valuation of
the k x k minors, found in Z/p^N is therefore at least the true one, and equal to it unless p divides a leading
coefficient. Multiplying by any matrix from the left, as to compress rows, can only raise valuations as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, elementwise
from estim.precision import series_terms


@dataclass(frozen=True)
class Ring:
    """What the elimination asks of a ring of numbers known modulo t**terms."""

    terms: int
    """Truncation N: entries are known modulo t^N."""
    starts_at: Callable[[Array, int], NDArray[np.bool_]]
    """(entries divisible by t^v, v) -> whether t^(v+1) does not divide them."""
    quotient: Callable[[Array, Any, int], Array]
    """(entries divisible by t^v, pivot of valuation v, v) -> their ratios."""
    reduced: Callable[[Array], Array]
    """Entries -> the same modulo t^N."""


def rational_series(terms: int) -> Ring:
    """Return Q[t] / t^terms; entries are ``fmpq_poly``."""

    def starts_at(entries: Array, order: int) -> NDArray[np.bool_]:
        return elementwise(lambda entry: entry[order] != 0, entries).astype(bool)

    def quotient(entries: Array, pivot: Any, order: int) -> Array:
        with series_terms(terms):
            unit = flint.fmpq_series(pivot.right_shift(order))
            inverse = flint.fmpq_poly((1 / unit).coeffs())
        return elementwise(lambda entry: entry.right_shift(order).mul_low(inverse, terms), entries)

    def reduced(entries: Array) -> Array:
        return elementwise(lambda entry: entry.truncate(terms), entries)

    return Ring(terms, starts_at, quotient, reduced)


def residues(prime: int, terms: int) -> Ring:
    """Return Z / prime^terms; entries are ``fmpz`` from 0 to the modulus."""
    powers = [flint.fmpz(prime) ** k for k in range(terms + 1)]
    modulus = powers[terms]

    def starts_at(entries: Array, order: int) -> NDArray[np.bool_]:
        return np.asarray(entries % powers[order + 1] != 0, dtype=bool)

    def quotient(entries: Array, pivot: Any, order: int) -> Array:
        inverse = pow(pivot // powers[order], -1, modulus)
        return np.asarray(entries // powers[order] * inverse % modulus)

    def reduced(entries: Array) -> Array:
        return np.asarray(entries % modulus)

    return Ring(terms, starts_at, quotient, reduced)


def exponents(matrix: Array, shifts: Sequence[int], ring: Ring) -> list[int]:
    """Return the exponents of the Smith form in half powers of t, ascending.

    Parameters
    ----------
    matrix : (rows, columns) array
        Entries of the ring.
    shifts : (columns,) sequence of int
        Half powers of t, from -1 to 1, by which each column is to be multiplied.
    ring : Ring

    Returns
    -------
    list of int
        All exponents below ``2 * ring.terms + min(shifts)``.
    """
    rest, half = matrix.copy(), np.asarray(shifts)
    found: list[int] = []
    for order in range(int(half.min()), 2 * ring.terms + int(half.min())):
        while rest.size:
            (columns,) = np.nonzero((order - half) % 2 == 0)
            at = _pivot(rest, columns, half, order, ring)
            if at is None:
                break
            found.append(order)
            row, column = at
            pivot, shift = rest[row, column], half[column]
            line = np.delete(rest[row], column)
            below = np.delete(rest, row, axis=0)
            ratio = ring.quotient(below[:, column], pivot, (order - int(shift)) // 2)
            half = np.delete(half, column)
            rest = ring.reduced(np.delete(below, column, axis=1) - np.multiply.outer(ratio, line))
    return found


def _pivot(
    rest: Array, columns: NDArray[np.intp], half: NDArray[np.int64], order: int, ring: Ring
) -> tuple[int, int] | None:
    """Find an entry of the given valuation, in half powers, among the columns that can hold one."""
    for column in columns:
        valuation = (order - int(half[column])) // 2
        if 0 <= valuation < ring.terms:
            (rows,) = np.nonzero(ring.starts_at(rest[:, column], valuation))
            if len(rows):
                return int(rows[0]), int(column)
    return None
