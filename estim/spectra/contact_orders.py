"""Contact orders: how fast the singular values vanish as all queries and keys are scaled to zero.

Multiply every query and key of a network by s. A singular value of the Jacobian then behaves like a constant times
s^k as s -> 0, and the integers k are the exponents of the Smith form of the Jacobian over the ring of power series in
s: exact, and free of a fit.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from estim.arithmetic import Array, as_rationals, check_positive_integer, matmul
from estim.attention.bank import Bank, read_bank
from estim.attention.effective import effective
from estim.attention.layer import FACTORS, check_factors, parameter_count
from estim.attention.network import Network
from estim.spectra import series_jacobian as series
from estim.spectra.contact_record import ContactOrders, proven_orders
from estim.spectra.rank_bound import rank_bound
from estim.spectra.singular_values import spectrum
from estim.spectra.smith import exponents, rational_series, residues

# Coefficients of rational series grow with the terms and with each pivot: beyond this many parameters squared times
# terms residues take over. Ten parameters and 82 terms take a second, 96 parameters and ten terms seven minutes.
_RATIONAL_LIMIT = 10_000
# Digits that show, at one or two scales, how many orders there are at least.
_WITNESS_DIGITS = 120


def contact_orders(
    network: Network,
    bank: Any,
    *,
    factors: Sequence[str] = FACTORS,
    ring: str = "auto",
    max_order: int = 2000,
) -> ContactOrders:
    """Return the exact orders of all positive singular values as the scale of queries and keys goes to zero.

    Parameters
    ----------
    network : Network
        Its entries are taken as they are, a float as its exact binary value; the normalizer needs Taylor coefficients.
    bank : (inputs, tokens, width) array_like or list of (tokens, width) array_like
        Inputs, also exact; dimensionless.
    factors : sequence of {"query", "key", "value"}
        Which factors count as parameters.
    ring : {"auto", "rational", "residues"}, default: "auto"
        Where to compute: rational power series, which prove every order, or Z/p^N, with s^2 = p and a prime near 2^61,
        which takes large cases. "auto" prefers the first where it is a matter of a second.
    max_order : int, default: 2000
        Where to stop looking for orders that may not exist.

    Returns
    -------
    ContactOrders
        ``complete`` where the gauge, or the bank, leaves no room for a further order: the truncation is raised
        until then. Where it never happens ``beyond`` bounds any further order, and ``proof`` says what speaks
        against one.

    Raises
    ------
    TypeError
        If `network` is not a Network, or an entry is not a real number.
    ValueError
        If the bank, `factors`, `ring` or `max_order` does not fit, or the series of the normalizer is not known, or
        not rational where that is asked for.
    ArithmeticError
        If orders above `max_order` are known to exist.

    Notes
    -----
    Over Z/p^N the sum of the k least orders found is, for every k, at least the true one, and equal to it unless p
    divides a leading coefficient by accident, an event of odds about 1e-15 for each of them. log 2, the value of
    softplus at zero, is transcendental: a fixed random residue stands in for it.

    Why these integers: after layer l the differences of tokens scale like s^(3^l - 1), a score acts on the mean of
    the outputs through the variance of its tokens, and the other factor of the score adds one power. So layer l of a
    scalar softmax chain has order 2 3^(l - 1) - 1, where the bank is large enough: 1, 5, 17, 53.

    References
    ----------
    The Identifiability and Observability of Deep Normalized Attention, arXiv:2610.09620.

    Examples
    --------
    >>> import estim
    >>> from estim.attention import Layer, Network
    >>> chain = Network([Layer([[1]], [[1]], [[1]])] * 3)
    >>> orders = estim.contact_orders(chain, [[[0], [1]], [[0], [2]], [[0], [3]]], factors=("query", "key"))
    >>> orders.orders, orders.complete
    ((1, 5, 17), True)
    """
    if not isinstance(network, Network):
        msg = f"`network` must be a Network; for a matrix use `smith_orders`; got {type(network).__name__}"
        raise TypeError(msg)
    if ring not in ("auto", "rational", "residues"):
        msg = f"`ring` must be 'auto', 'rational' or 'residues'; got {ring!r}"
        raise ValueError(msg)
    check_positive_integer(max_order, "max_order")
    chosen = check_factors(factors)
    _check_normalizer(network, ring)
    return _network_orders(network, read_bank(bank, network.width), chosen, ring, max_order)


def _check_normalizer(network: Network, ring: str) -> None:
    normalizer = network.normalizer
    if normalizer.taylor is None:
        msg = f"normalizer {normalizer.name!r} has no `taylor` coefficients; contact orders need them"
        raise ValueError(msg)
    if ring == "rational" and not series.has_rational_series(normalizer):
        msg = f"normalizer {normalizer.name!r} is irrational at zero; `ring` must be 'residues'; got 'rational'"
        raise ValueError(msg)


def _network_orders(network: Network, bank: Bank, factors: tuple[str, ...], ring: str, max_order: int) -> ContactOrders:
    """Double the truncation until the orders are as many as can be, or as many as are seen."""
    bound, by = rank_bound(network, bank, factors)
    shape = (bank.readings(network.output_width), parameter_count(network.layers, factors))
    # Enough for the orders 2 3^(l - 1) - 1 of a large bank.
    terms = 3 ** (len(network.layers) - 1) + 1
    seen: int | None = None
    while True:
        orders, prime = _orders(network, bank, factors, ring, terms, bound)
        beyond = 2 * terms - 1
        if len(orders) == bound:
            return proven_orders(orders, shape, bound, f"{by} allows no further one", prime=prime)
        seen = _seen_orders(network, bank, factors) if seen is None else seen
        if len(orders) >= seen and beyond > 2 * max(orders, default=1):
            closure = (
                f"a further one, of which {by} allows {bound - len(orders)}, would be at least {beyond}; "
                f"at scale {' and '.join(map(str, _witness_scales(network, bank)))} none shows in "
                f"{_WITNESS_DIGITS} digits"
            )
            return proven_orders(orders, shape, bound, closure, prime=prime, beyond=beyond)
        if beyond > max_order:
            msg = (
                f"`max_order` is too small: {seen} orders or more exist, {len(orders)} are below {beyond}; "
                f"got {max_order}"
            )
            raise ArithmeticError(msg)
        terms *= 2


def _seen_orders(network: Network, bank: Bank, factors: tuple[str, ...]) -> int:
    """Count singular values proven positive at some scale: there are at least as many orders."""
    spectra = (
        spectrum(network.scaled(scale), bank, digits=_WITNESS_DIGITS, factors=factors)
        for scale in _witness_scales(network, bank)
    )
    return max(one.rank_bounds(0)[0] for one in spectra)


def _witness_scales(network: Network, bank: Bank) -> list[Fraction]:
    """Return the network's own scale and, where scores exceed one, a smaller one at which none does.

    Large scores saturate a normalizer: what the outputs still show of the weaker parameters then falls exponentially.
    Tokens stay mixtures of those of the input, so no layer has a score beyond the largest x_i B x_j of its B.
    """
    scores, _ = effective([layer.factors_in(as_rationals) for layer in network.layers])
    tokens = [as_rationals(group.entries) for group in bank.groups]
    largest = max(
        max(abs(entry) for entry in matmul(matmul(x, b), x.swapaxes(-1, -2)).flat) for x in tokens for b in scores
    )
    halvings = (int(largest.ceil()) - 1).bit_length() if largest > 1 else 0
    return [Fraction(1), Fraction(1, 2 ** ((halvings + 1) // 2))] if halvings else [Fraction(1)]


def _orders(
    network: Network, bank: Bank, factors: tuple[str, ...], ring: str, terms: int, most: int
) -> tuple[list[int], int | None]:
    """Return the orders below 2 terms - 1, and the prime where one was used."""
    if most == 0:
        return [], None
    shifts = series.half_powers(network, factors)
    small = len(shifts) ** 2 * terms <= _RATIONAL_LIMIT and series.has_rational_series(network.normalizer)
    prime: int | None = None
    if ring == "rational" or (ring == "auto" and small):
        matrix = series.in_series(network, bank, terms, factors)
        found = exponents(matrix, shifts, rational_series(terms))
    else:
        prime, matrix = _residue_jacobian(network, bank, terms, factors, most)
        found = exponents(matrix, shifts, residues(prime, terms))
    return [order for order in found if order < 2 * terms - 1], prime


def _residue_jacobian(
    network: Network, bank: Bank, terms: int, factors: tuple[str, ...], most: int
) -> tuple[int, Array]:
    for prime in series.PRIMES:
        try:
            return prime, series.in_residues(network, bank, terms, prime, factors, most)
        except ZeroDivisionError:
            continue
    msg = f"`network` and `bank` must not have denominators that each of {series.PRIMES} divides"
    raise ValueError(msg)
