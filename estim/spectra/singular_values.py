"""Singular values in any arithmetic: float64, or enclosures proven by ball arithmetic.

A float64 threshold decides no rank. `spectrum` proves which singular values are positive, and its record shows how
the rank that is *seen* depends on two choices: the precision of the Jacobian, and the threshold below which a value
counts as none.
"""

import math
from collections.abc import Sequence
from typing import Any

import flint
import numpy as np

from estim.arithmetic import Array, as_balls, as_float, as_rationals, elementwise, read_entries, to_mpf
from estim.attention.bank import Bank, read_bank
from estim.attention.effective import rank
from estim.attention.gauge import tangents_in
from estim.attention.jacobian import ball_jacobian, float_jacobian, jacobian_in
from estim.attention.layer import FACTORS, Layer, check_factors
from estim.attention.named_normalizers import NORMALIZERS
from estim.attention.network import Network
from estim.precision import FEWEST_DIGITS, ball_bits, check_digits
from estim.spectra.balls import log2_above
from estim.spectra.certify import Enclosures, enclose, without_null
from estim.spectra.plain import frozen
from estim.spectra.rank_bound import rank_bound
from estim.spectra.spectrum_record import Spectrum


def spectrum(
    network_or_matrix: Any, bank: Any = None, *, digits: int | None = None, factors: Sequence[str] = FACTORS
) -> Spectrum:
    """Return all singular values of a Jacobian, or of any matrix, with proven enclosures.

    Parameters
    ----------
    network_or_matrix : Network or (rows, columns) array_like
        Entries of a matrix: floats (which mean their exact binary values), integers, ``Fraction``, decimal strings,
        mpmath or python-flint numbers, also mixed; or ``arb`` balls, whose radii count.
    bank : (inputs, tokens, width) array_like or list of (tokens, width) array_like, optional
        Inputs of the network; left out for a matrix.
    digits : int, optional
        From 15 to 10000. For exact entries, correct digits of every value relative to itself; for a network, digits of
        the ball Jacobian relative to its largest entry. Float64 without bounds when left out.
    factors : sequence of {"query", "key", "value"}
        Which factors of the network count as parameters.

    Returns
    -------
    Spectrum
        Where the balls leave a value with fewer than half the digits, ``digits_needed`` says how many would do.

    Raises
    ------
    TypeError
        If an entry is not a real number.
    ValueError
        If an entry is not finite, or `digits`, `bank` or `factors` does not fit.

    Notes
    -----
    Null vectors of the gauge are taken out first, in closed form. Approximate singular vectors come from a Gram
    matrix with as many more digits as twice the condition number has, and are then judged in balls: a theorem of
    Ostrowski bounds each value relative to itself, repeated and zero ones included. The rank is proven where as many
    enclosures exclude zero as the gauge, or exact rational arithmetic, allows.

    References
    ----------
    Ostrowski, A quantitative formulation of Sylvester's law of inertia, 1959, doi:10.1073/pnas.45.5.740.
    Demmel and Veselic, Jacobi's method is more accurate than QR, 1992, doi:10.1137/0613074.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import estim
    >>> hilbert = [[Fraction(1, i + j + 1) for j in range(4)] for i in range(4)]
    >>> result = estim.spectrum(hilbert, digits=30)
    >>> print(result.singular_values[-1])
    9.67023040225869e-5
    >>> result.positive_rank
    4
    """
    if digits is not None:
        check_digits(digits)
    if isinstance(network_or_matrix, Network):
        if bank is None:
            msg = "`bank` must be given with a network; got None"
            raise ValueError(msg)
        return _network_spectrum(network_or_matrix, bank, digits, check_factors(factors))
    if bank is not None:
        msg = f"`bank` must be left out for a matrix; got {type(bank).__name__}"
        raise ValueError(msg)
    return _matrix_spectrum(network_or_matrix, digits)


def _bits(digits: int) -> int:
    return math.ceil(digits * math.log2(10)) + 8


def _matrix_spectrum(matrix: Any, digits: int | None) -> Spectrum:
    values = matrix.tolist() if hasattr(matrix, "tolist") and not isinstance(matrix, np.ndarray) else matrix
    as_objects = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if as_objects.dtype == object and any(isinstance(entry, flint.arb) for entry in as_objects.flat):
        return _ball_spectrum(as_objects, digits)
    return _exact_spectrum(read_entries(values, "matrix", ndim=2), digits)


def _exact_spectrum(entries: Array, digits: int | None) -> Spectrum:
    floats = _as_float(entries, digits)
    if digits is None:
        return _float_spectrum(floats)
    exact = rank(as_rationals(entries))
    tall = entries if entries.shape[0] >= entries.shape[1] else entries.T
    found = enclose(lambda: as_balls(tall), _bits(digits), rank=exact, exact=True)
    return _record(found, digits, entries.shape, (exact, "exact arithmetic"), floats)


def _as_float(entries: Array, digits: int | None) -> Array:
    """View entries as float64; as NaN where one exceeds that range and digits were asked for."""
    try:
        return as_float(entries)
    except OverflowError:
        if digits is None:
            msg = "`matrix` must fit into float64 unless `digits` is given; got an entry beyond 1e308"
            raise ValueError(msg) from None
        return np.full(entries.shape, math.nan)


def _ball_spectrum(values: Array, digits: int | None) -> Spectrum:
    if values.ndim != 2:
        msg = f"`matrix` must have 2 axes; got shape {values.shape}"
        raise ValueError(msg)
    with ball_bits(_bits(digits or FEWEST_DIGITS) + 64):
        balls = elementwise(lambda entry: entry if isinstance(entry, flint.arb) else _ball(entry), values)
    if not all(ball.is_finite() for ball in balls.flat):
        msg = "`matrix` must be finite; got a ball that is not"
        raise ValueError(msg)
    floats = balls.astype(float)
    if digits is None:
        return _float_spectrum(floats)
    tall = balls if balls.shape[0] >= balls.shape[1] else balls.T
    found = enclose(lambda: tall, min(_bits(digits), _known_bits(balls)), rank=min(balls.shape), exact=False)
    return _record(found, digits, balls.shape, (min(balls.shape), "the size of the matrix"), floats)


def _ball(entry: Any) -> flint.arb:
    (ball,) = as_balls(read_entries([entry], "matrix", ndim=1))
    return flint.arb(ball)


def _known_bits(balls: Array) -> int:
    """Return the bits that the widest ball leaves, relative to the largest."""
    widest = max(log2_above(ball.rad()) for ball in balls.flat)
    if widest == -math.inf or all(ball.contains(0) for ball in balls.flat):
        return 64
    return max(math.floor(max(log2_above(ball) for ball in balls.flat) - widest), 8)


def _float_spectrum(floats: Array) -> Spectrum:
    values = _lapack(floats)
    reason = "float64 carries no error bounds; give `digits`"
    return Spectrum(values, None, None, None, floats.shape, None, reason, None, values)


def _network_spectrum(network: Network, bank: Any, digits: int | None, factors: tuple[str, ...]) -> Spectrum:
    layers, bank = network.layers, read_bank(bank, network.width)
    if digits is None:
        return _float_spectrum(float_jacobian(layers, bank, network.normalizer, factors))
    most, by = rank_bound(network, bank, factors)
    balls = ball_jacobian(layers, bank, network.normalizer, digits, factors=factors)
    floats = _float_view(network, bank, factors, balls.shape)
    found = _without_gauge(layers, balls, digits, most, factors)
    result = _record(found, digits, floats.shape, (most, by), floats)
    if result.positive_rank is None and network.normalizer is NORMALIZERS["quadratic"]:
        rational = jacobian_in(layers, bank, as_rationals, network.normalizer, factors=factors)
        return _record(found, digits, floats.shape, (rank(rational), "exact arithmetic"), floats)
    return result


def _float_view(network: Network, bank: Bank, factors: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """Return the float64 Jacobian for comparison; NaN where an entry or a row of scores is beyond that range."""
    try:
        return float_jacobian(network.layers, bank, network.normalizer, factors)
    except (ValueError, OverflowError):
        return np.full(shape, math.nan)


def _without_gauge(
    layers: Sequence[Layer], balls: Array, digits: int, most: int, factors: tuple[str, ...]
) -> Enclosures:
    """Enclose the singular values of a Jacobian, its gauge taken out where float64 can tell that from the rest."""
    if most == 0:
        none = np.empty(0, dtype=object)
        return Enclosures(none, none, none, np.empty((balls.shape[1], 0), dtype=object))
    bits = _bits(digits)
    with ball_bits(bits + 64):
        null = tangents_in(layers, as_balls, factors=factors)
    if null.shape[1]:
        try:
            with ball_bits(bits + 64):
                restricted, metric, _ = without_null(balls, null)
            return enclose(lambda: restricted, bits, rank=most, exact=False, metric=metric)
        except ArithmeticError:  # Tangents that are parallel to float64: proven all the same, with more work.
            pass
    return enclose(lambda: balls, bits, rank=most, exact=False)


def _record(found: Enclosures, digits: int, shape: tuple[int, ...], bound: tuple[int, str], floats: Array) -> Spectrum:
    """Turn enclosures into the public record; `bound` limits the rank, by what its second part names."""
    count = min(shape)
    zeros = [flint.arb(0)] * count
    values, lower, upper = (
        frozen(map(to_mpf, [*part, *zeros][:count])) for part in (found.values, found.lower, found.upper)
    )
    low = sum(bool(value > 0) for value in lower)
    high = min(bound[0], sum(bool(value > 0) for value in upper))
    needed = _digits_needed(lower, upper, digits)
    reason = f"{low} enclosures exclude zero, and {bound[1]} allows no more"
    if low < high:
        reason = f"{low} enclosures exclude zero, {bound[1]} allows {high}; try {needed} digits"
    return Spectrum(
        singular_values=values,
        lower=lower,
        upper=upper,
        digits=int(digits),
        shape=(shape[0], shape[1]),
        positive_rank=low if low == high else None,
        rank_reason=reason,
        digits_needed=needed,
        float64_values=_lapack(floats),
    )


def _lapack(floats: Array) -> Array:
    """Return LAPACK's singular values; NaN where the matrix is beyond float64."""
    if np.isfinite(floats).all():
        return frozen(np.linalg.svd(floats, compute_uv=False).tolist())
    return frozen([math.nan] * min(floats.shape))


def _digits_needed(lower: Array, upper: Array, digits: int) -> int | None:
    """Return digits that would leave half of themselves: what is lost stays lost, whatever is spent."""
    widths = [float((high - low) / high) for low, high in zip(lower, upper, strict=True) if high > 0]
    worst = max(widths, default=0.0)
    if worst <= 10 ** (-digits / 2):
        return None
    if worst == 1:  # A value not parted from zero: the loss is not known.
        return 2 * digits
    return max(math.ceil(2 * (digits + math.log10(worst))), digits + 1)
