"""Slopes of the singular values between scales of all queries and keys, which approach the exact contact orders."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath

from estim.arithmetic import Array, as_fractions, read_entries
from estim.attention.layer import FACTORS
from estim.attention.network import Network
from estim.precision import MOST_DIGITS, check_digits, mpmath_bits
from estim.spectra.contact_orders import contact_orders
from estim.spectra.contact_record import ContactSlopes
from estim.spectra.plain import frozen_rows
from estim.spectra.singular_values import spectrum
from estim.spectra.spectrum_record import Spectrum

# A slope over a factor of two then carries 19 digits.
_WANTED_ERROR = 1e-20


def contact_slopes(
    network: Network, bank: Any, scales: Any, *, digits: int = 110, factors: Sequence[str] = FACTORS
) -> ContactSlopes:
    """Return singular values at several scales of all queries and keys, and the slopes between them.

    Parameters
    ----------
    network : Network
        As for :func:`contact_orders`.
    bank : (inputs, tokens, width) array_like or list of (tokens, width) array_like
        Inputs; dimensionless.
    scales : (scales,) array_like
        Two or more positive numbers, each different from the one before: floats (exact binary values),
        ``Fraction`` or decimal strings; dimensionless.
    digits : int, default: 110
        Of the first ball Jacobian, from 15 to 10000; more are taken until every value is proven to 20 digits.
    factors : sequence of {"query", "key", "value"}
        Which factors count as parameters.

    Returns
    -------
    ContactSlopes
        As many values at each scale as there are orders, with proven bounds.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, or the bank leaves every reading constant; and as :func:`contact_orders`.
    ArithmeticError
        If 10000 digits do not part a value from zero.

    Examples
    --------
    >>> import estim
    >>> from estim.attention import Layer, Network
    >>> chain = Network([Layer([[1]], [[1]], [[1]])] * 2)
    >>> bank = [[[0], [1]], [[0], [2]]]
    >>> found = estim.contact_slopes(chain, bank, ["0.04", "0.02"], factors=("query", "key"))
    >>> found.orders
    (1, 5)
    >>> found.slopes.astype(float).round(6)
    array([[0.999993, 5.00194 ]])
    """
    check_digits(digits)
    exact = as_fractions(read_entries(scales, "scales", ndim=1))
    if len(exact) < 2 or min(exact) <= 0 or any(a == b for a, b in pairwise(exact)):
        msg = f"`scales` must be two or more positive numbers, each different from the one before; got {scales!r}"
        raise ValueError(msg)
    orders = contact_orders(network, bank, factors=factors).orders
    if not orders:
        msg = "`bank` must let some reading vary; got one on which every reading is constant"
        raise ValueError(msg)
    spectra = [_resolved(network.scaled(scale), bank, digits, factors, len(orders)) for scale in exact]
    values, lower, upper = (
        frozen_rows([getattr(one, name)[: len(orders)] for one in spectra])
        for name in ("singular_values", "lower", "upper")
    )
    used = max(one.digits for one in spectra if one.digits is not None)
    errors = [one.relative_error[: len(orders)] for one in spectra]
    between = zip(pairwise(values), pairwise(errors), pairwise(exact), strict=True)
    slopes, slope_error = zip(*(_slopes(*pair, used) for pair in between), strict=True)
    return ContactSlopes(
        scales=tuple(exact),
        singular_values=values,
        lower=lower,
        upper=upper,
        slopes=frozen_rows(slopes),
        slope_error=frozen_rows(slope_error),
        orders=orders,
        digits=used,
    )


def _resolved(network: Network, bank: Any, digits: int, factors: Sequence[str], count: int) -> Spectrum:
    """Raise the digits until the first `count` values are known."""
    while True:
        found = spectrum(network, bank, digits=digits, factors=factors)
        worst = float(found.relative_error[:count].max())
        if worst <= _WANTED_ERROR:
            return found
        if digits == MOST_DIGITS:
            msg = f"{digits} digits leave a value of the {count} with a relative error of {worst:.1e}"
            raise ArithmeticError(msg)
        more = 2 * digits if worst >= 1 else digits + math.ceil(math.log10(worst / _WANTED_ERROR)) + 5
        digits = min(more, MOST_DIGITS)


def _slopes(
    values: tuple[Array, Array], errors: tuple[Array, Array], scales: tuple[Fraction, Fraction], digits: int
) -> tuple[list[Any], list[float]]:
    """Return log(value ratio) / log(scale ratio) of two consecutive scales, and bounds of the errors.

    |d log x| <= 2 |d x| / x for relative errors below one half. Scales may be closer than float64 tells, or farther.
    """
    ratio = scales[0] / scales[1]
    with mpmath_bits(mpmath.libmp.dps_to_prec(digits + 10)):
        step = mpmath.log1p(mpmath.mpf(ratio.numerator - ratio.denominator) / ratio.denominator)
        slopes = [mpmath.log(before / after) / step for before, after in zip(*values, strict=True)]
        return slopes, [float(2 * bound / abs(step)) for bound in errors[0] + errors[1]]
