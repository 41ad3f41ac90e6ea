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

from estim.arithmetic import Array, as_rationals, check_positive_integer, elementwise, read_entries
from estim.precision import series_terms
from estim.spectra.contact_record import ContactOrders, proven_orders


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


def smith_orders(matrix: Any, *, terms: int | None = None) -> ContactOrders:
    """Return the orders of the singular values of a matrix of power series, as its variable goes to zero.

    Parameters
    ----------
    matrix : (rows, columns) nested sequence
        Each entry the coefficients of a power series in s, from the constant on: a sequence of floats (exact
        binary values), integers, ``Fraction`` or decimal strings, or a python-flint polynomial or series;
        dimensionless.
    terms : int, optional
        How many coefficients are known; when left out the entries are polynomials, and complete.

    Returns
    -------
    ContactOrders
        Of polynomials all orders, by proof; of series all orders below `terms`.

    Raises
    ------
    TypeError
        If a coefficient is not a real number.
    ValueError
        If the matrix is empty or not rectangular, a coefficient is not finite, or `terms` is not positive.

    Examples
    --------
    Scores W_Q W_K^T at W_Q = s (1, 2), W_K = s (3, 1), derived by the four entries: three orders and an exact null.

    >>> jacobian = [
    ...     [[0, 3], [0], [0, 1], [0]],
    ...     [[0, 1], [0], [0], [0, 1]],
    ...     [[0], [0, 3], [0, 2], [0]],
    ...     [[0], [0, 1], [0], [0, 2]],
    ... ]
    >>> smith_orders(jacobian).orders
    (1, 1, 1)
    """
    if terms is not None:
        check_positive_integer(terms, "terms")
        terms = int(terms)
    polynomials = _polynomials(matrix)
    rows, columns = polynomials.shape
    degrees = [max(0, *(entry.degree() for entry in column)) for column in polynomials.T]
    # No minor has a larger degree: one that vanishes to this order vanishes.
    known = 1 + sum(sorted(degrees)[-rows:]) if terms is None else terms
    ring = rational_series(known)
    orders = [half // 2 for half in exponents(ring.reduced(polynomials), [0] * columns, ring)]
    shape, most = (rows, columns), min(rows, columns)
    if terms is None:
        return proven_orders(orders, shape, len(orders), "the degrees of the polynomials allow no further one")
    if len(orders) == most:
        return proven_orders(orders, shape, most, "the size of the matrix allows no further one")
    return proven_orders(orders, shape, most, f"a further one would be at least {terms}", beyond=terms)


def _polynomials(matrix: Any) -> Array:
    rows = [[_polynomial(entry, f"matrix[{i}][{j}]") for j, entry in enumerate(row)] for i, row in enumerate(matrix)]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1 or lengths == [0]:
        msg = f"`matrix` must have rows of one positive length; got lengths {lengths}"
        raise ValueError(msg)
    result = np.empty((len(rows), lengths[0]), dtype=object)
    for i, j in np.ndindex(*result.shape):
        result[i, j] = rows[i][j]
    return result


def _polynomial(entry: Any, name: str) -> flint.fmpq_poly:
    coefficients = entry.coeffs() if hasattr(entry, "coeffs") else entry
    if len(coefficients) == 0:
        return flint.fmpq_poly([])
    return flint.fmpq_poly(as_rationals(read_entries(coefficients, name, ndim=1)).tolist())
