"""The Jacobian of a network as a function of the scale s of all its queries and keys, exactly and truncated.

With t = s^2 a score is t times that of the unscaled network, so the outputs are power series in t. The query is
multiplied by t and the key left alone, which gives the same outputs. For the factors sQ and sK themselves the columns
of the query then lack a factor s, and those of the key have one too many: these half powers of t are kept beside the
matrix.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from estim.arithmetic import Array, as_fractions, as_rationals, elementwise, read_entries
from estim.attention import formula
from estim.attention.bank import Bank
from estim.attention.jacobian import weights_in
from estim.attention.layer import FACTORS, Convert
from estim.attention.named_normalizers import NORMALIZERS
from estim.attention.network import Network
from estim.attention.normalizers import Normalizer, power_series
from estim.precision import series_terms

_HALF_POWERS = {"query": 1, "key": -1, "value": 0}
# The largest primes below 2^61; the second and third are for entries whose denominators the one before divides.
PRIMES = (2**61 - 1, 2**61 - 31, 2**61 - 45)
# Rows of the Jacobian are mixed at random down to the largest rank possible and this many more.
_SPARE_ROWS = 8


def half_powers(network: Network, factors: Sequence[str]) -> list[int]:
    """Return the half power of t that each column of the Jacobian is to be multiplied by."""
    return [
        _HALF_POWERS[name]
        for layer in network.layers
        for name in FACTORS
        if name in factors
        for _ in range(getattr(layer, name).size)
    ]


def has_rational_series(normalizer: Normalizer) -> bool:
    """Whether the Taylor coefficients of a normalizer at zero are rational; log 2 of softplus is not."""
    return normalizer.taylor is not None and _taylor(normalizer, 1)[0] is not None


def _taylor(normalizer: Normalizer, terms: int) -> list[Any]:
    """Return the coefficients as ``Fraction``, after a look at those of a user; the first is None for log 2."""
    assert normalizer.taylor is not None
    given = normalizer.taylor(terms)
    coefficients = list(given) if isinstance(given, Iterable) else [given]
    if len(coefficients) != terms:
        msg = (
            f"normalizer {normalizer.name!r} must give {terms} Taylor coefficients when asked; got {len(coefficients)}"
        )
        raise ValueError(msg)
    known = [c for k, c in enumerate(coefficients) if k or c is not None]
    if known:
        coefficients[-len(known) :] = as_fractions(read_entries(known, f"taylor of {normalizer.name}", ndim=1))
    if coefficients[0] is not None and not coefficients[0] > 0:
        msg = f"normalizer {normalizer.name!r} must be positive at zero; got {coefficients[0]}"
        raise ValueError(msg)
    return coefficients


def in_series(network: Network, bank: Bank, terms: int, factors: Sequence[str]) -> Array:
    """Return the Jacobian over Q[t] / t^terms, (readings, parameters) of ``fmpq_poly``."""
    weigh: formula.Weigh = network.normalizer
    if not any(network.normalizer is built_in for built_in in NORMALIZERS.values()):
        _taylor(network.normalizer, terms + 1)
        weigh = power_series(network.normalizer, terms)
    with series_terms(terms):
        jacobian = _jacobian(network, bank, _series, flint.fmpq_series([0, 1]), weigh, factors)
        return elementwise(lambda series: flint.fmpq_poly(series.coeffs()), jacobian)


def _series(entries: Array) -> Array:
    return elementwise(lambda entry: flint.fmpq_series([entry]), as_rationals(entries))


def in_residues(network: Network, bank: Bank, terms: int, prime: int, factors: Sequence[str], most: int) -> Array:
    """Return the Jacobian over Z/prime^terms with t = prime, (rows, parameters) of ``fmpz``.

    Its rows are random combinations of the readings where these outnumber `most`, the largest rank possible.

    Raises
    ------
    ZeroDivisionError
        If the prime divides a denominator.
    """
    modulus = flint.fmpz(prime) ** terms
    context = flint.fmpz_mod_ctx(modulus)

    def convert(entries: Array) -> Array:
        return elementwise(lambda entry: context(entry.p) / context(entry.q), as_rationals(entries))

    weigh = _residue_normalizer(network.normalizer, context, prime, terms)
    jacobian = _jacobian(network, bank, convert, context(prime), weigh, factors)
    integers = elementwise(lambda entry: flint.fmpz(int(entry)), jacobian)
    return np.asarray(_mixed(integers, most + _SPARE_ROWS, prime) % modulus)


def _jacobian(
    network: Network, bank: Bank, convert: Convert, t: Any, weigh: formula.Weigh, factors: Sequence[str]
) -> Array:
    """Return the Jacobian in the number system of t, its rows in the order of the groups of the bank."""
    weights = [
        (elementwise(lambda entry: entry * t, query), key, value)
        for query, key, value in weights_in(network.layers, convert)
    ]
    parts = [formula.jacobian(weights, convert(group.entries), weigh, factors) for group in bank.groups]
    return np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])


def _mixed(integers: Array, rows: int, prime: int) -> Array:
    """Multiply from the left by a random matrix; the same one every time, so that a result can be had again."""
    count, columns = integers.shape
    if count <= rows:
        return integers
    rng = np.random.default_rng(0)
    mixing = flint.fmpz_mat(rng.integers(prime, size=(rows, count)).tolist())
    product = mixing * flint.fmpz_mat(count, columns, integers.ravel().tolist())
    return np.array(product.entries(), dtype=object).reshape(rows, columns)


def _residue_normalizer(
    normalizer: Normalizer, context: flint.fmpz_mod_ctx, prime: int, terms: int
) -> Callable[[Array], tuple[Array, Array]]:
    """Return scores -> (phi, phi') for scores divisible by the prime, by the Taylor series at zero.

    Like ``estim.attention.normalizers.power_series``, but coefficients are brought into the ring once, and
    a score divisible by p^v takes terms / v of them.
    """
    taylor = _taylor(normalizer, terms + 1)
    if taylor[0] is None:
        # log 2 is transcendental: an identity among rationals and it is one for any number in its place.
        taylor[0] = int(np.random.default_rng(0).integers(prime))
    fractions = [Fraction(coefficient) for coefficient in taylor]
    phi = [context(c.numerator) / context(c.denominator) for c in fractions]
    slope = [k * c for k, c in enumerate(phi)][1:]
    phi = phi[:terms]
    own_slope = slope == phi

    def one(score: Any) -> tuple[Any, Any]:
        count = _terms_needed(flint.fmpz(int(score)), prime, terms)
        value = _horner(phi[:count], score)
        return value, value if own_slope else _horner(slope[:count], score)

    def weigh(scores: Array) -> tuple[Array, Array]:
        values, slopes = np.frompyfunc(one, 1, 2)(scores)
        return values, slopes

    return weigh


def _terms_needed(score: flint.fmpz, prime: int, terms: int) -> int:
    valuation = 0
    while valuation < terms and score % prime == 0:
        score, valuation = score // prime, valuation + 1
    return math.ceil(terms / max(valuation, 1))


def _horner(coefficients: list[Any], score: Any) -> Any:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * score + coefficient
    return total
