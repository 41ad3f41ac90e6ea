"""Exact derivatives of the readings of a network, whole or as products.

Readings are ordered by input, token, channel. Parameters are ordered by layer, then query, key, value, then
row by row; factors that were not chosen are left out.

For work in another number system use :func:`jacobian_in`. It takes ``convert``, a function from exact
entries to an object array of that system, and a normalizer that knows the system:

- balls: ``estim.arithmetic.as_balls``, inside ``estim.precision.ball_digits``, and the network's normalizer;
- rationals: ``estim.arithmetic.as_rationals`` (quadratic normalizer);
- power series in a scale of all queries and keys, or elements of Z/p^N: `scale` is the series s, or p, and the
  normalizer ``estim.attention.normalizers.power_series(normalizer, terms)``; for series the network's own will do.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, as_balls, as_float, check_positive_integer, elementwise
from estim.attention import formula
from estim.attention.bank import Bank, Group, read_bank
from estim.attention.layer import FACTORS, Convert, Layer, parameter_count, unflatten
from estim.precision import MOST_DIGITS, ball_digits

# Float64 numbers of cotangents at work in a block of readings: half a MB with what belongs to them stays in the
# second-level cache, and below 10^6 multiplications OpenBLAS takes a product in one go.
_CHUNK = 30_000
# Float64 numbers above what a block needs, 8 MB.
_KEPT = 1 << 20
# Digits that scores may cost: some log10 of the largest score for each layer.
_MOST_EXTRA = 2000


def weights_in(layers: Sequence[Layer], convert: Convert, scale: Any = None) -> list[tuple[Array, Array, Array]]:
    """Return (query, key, value) of every layer in another number system, queries and keys times `scale`."""
    weights = [layer.factors_in(convert) for layer in layers]
    if scale is None:
        return weights

    def scaled(array: Array) -> Array:
        return elementwise(lambda entry: entry * scale, array)

    return [(scaled(query), scaled(key), value) for query, key, value in weights]


def jacobian_in(
    layers: Sequence[Layer],
    bank: Any,
    convert: Convert,
    normalizer: formula.Weigh,
    *,
    factors: Sequence[str] = FACTORS,
    scale: Any = None,
) -> Array:
    """Return the Jacobian in any number system.

    Parameters
    ----------
    layers : sequence of Layer
        Those of a network.
    bank : (inputs, tokens, width) array_like, list, or Bank
    convert : callable
        From exact entries (float64, or object array of ``Fraction``) to an array of the number system.
    normalizer : callable
        Scores -> (phi, phi') in the number system.
    factors : sequence of str
        Which factors count as parameters, in the order query, key, value.
    scale : number of the system, optional
        Multiplies the queries and keys of all layers. The columns stay derivatives with respect to the scaled
        factors.

    Returns
    -------
    (readings, parameters) array
        Of the number system.

    Examples
    --------
    The Jacobian of a network with the quadratic normalizer is rational:

    >>> from estim.arithmetic import as_rationals
    >>> from estim.attention import Layer, Network
    >>> network = Network([Layer([["1/2"]], [[1]], [[1]])], "quadratic")
    >>> jacobian_in(network.layers, [[[0], [1]]], as_rationals, network.normalizer)
    array([[0, 0, 1/2],
           [16/81, 8/81, 5/9]], dtype=object)
    """
    bank = read_bank(bank, layers[0].width)
    weights = weights_in(layers, convert, scale)
    width = layers[-1].output_width
    parts = [formula.jacobian(weights, convert(group.entries), normalizer, factors) for group in bank.groups]
    result = np.empty((bank.readings(width), parts[0].shape[-1]), dtype=parts[0].dtype)
    for group, part in zip(bank.groups, parts, strict=True):
        result[bank.rows(group, width)] = part
    return result


def ball_outputs(layers: Sequence[Layer], group: Group, normalizer: formula.Weigh, digits: int) -> Array:
    """Return the outputs of a group of inputs, (inputs, tokens, width), in balls that `narrow_balls` made narrow."""

    def outputs() -> Array:
        return formula.forward(weights_in(layers, as_balls), as_balls(group.entries), normalizer, group.positions)

    return narrow_balls(outputs, digits)


def ball_jacobian(
    layers: Sequence[Layer],
    bank: Any,
    normalizer: formula.Weigh,
    digits: int,
    *,
    factors: Sequence[str] = FACTORS,
) -> Array:
    """Return the Jacobian as balls, (readings, parameters), each with its proven radius.

    No radius exceeds ``10**-digits`` times the largest entry (times one, where every ball contains zero):
    the working precision is raised until this holds.

    Raises
    ------
    ArithmeticError
        If it never does, as where a user's `high_precision` returns balls of a fixed radius or none at all.
    """
    return narrow_balls(lambda: jacobian_in(layers, bank, as_balls, normalizer, factors=factors), digits)


def narrow_balls(compute: Callable[[], Array], digits: int) -> Array:
    """Raise the working precision until no radius exceeds ``10**-digits`` times the largest ball.

    Raises
    ------
    ArithmeticError
        If it never does.
    ValueError
        If `digits` is no positive integer, or above 10000.
    """
    check_positive_integer(digits, "digits")
    if digits > MOST_DIGITS:  # a Jacobian of 10^5 entries then takes half a GB
        msg = f"`digits` must be at most {MOST_DIGITS}; got {digits}"
        raise ValueError(msg)
    extra = 0
    while extra <= 4 * digits + _MOST_EXTRA:
        with ball_digits(digits + extra):
            balls = compute()
            if _narrow(balls, digits):
                return balls
        tried, extra = extra, 2 * extra + 20
    msg = (
        f"{digits} digits are not reached with {tried} more at work; does `high_precision` of the normalizer return "
        "finite balls that narrow with the precision?"
    )
    raise ArithmeticError(msg)


def _narrow(balls: Array, digits: int) -> bool:
    # The radius of the sum bounds every radius, in one pass; the guard bits pay for the sum.
    total = balls.sum()
    if not total.is_finite():
        return False
    largest = max(ball.abs_lower() for ball in balls.flat)
    return bool(total.rad() <= (largest if largest > 0 else flint.arb(1)) * flint.arb(10) ** -digits)


def _check_finite(numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        msg = (
            "float64 does not hold the numbers of this network on this bank; lower factors or inputs, "
            "or give `digits` where the method takes it"
        )
        raise OverflowError(msg)


def float_trace(weights: formula.Weights, group: Group, normalizer: formula.Weigh) -> list[formula.Trace]:
    """Return the float64 traces of a group of inputs; OverflowError where their outputs are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        traces = formula.trace(weights, as_float(group.entries), normalizer, group.positions)
    _check_finite(traces[-1].outputs)
    return traces


def float_jacobian(
    layers: Sequence[Layer], bank: Bank, normalizer: formula.Weigh, factors: Sequence[str]
) -> NDArray[np.float64]:
    """Return the float64 Jacobian, (readings, parameters), a few inputs at a time."""
    weights = [layer.float64 for layer in layers]
    width = layers[-1].output_width
    # glibc keeps the heap of the temporaries once a larger block was freed; else each would be mapped page by page.
    np.empty(_KEPT)
    result = np.empty((bank.readings(width), parameter_count(layers, factors)))
    raised: list[str] = []

    with np.errstate(over="call", invalid="call", call=lambda kind, _: raised.append(kind)):
        for group in bank.groups:
            for rows, traces in _parts(bank.rows(group, width), group, weights, normalizer):
                _fill(result, rows, traces, weights, factors)
    # Looking at a large Jacobian costs a tenth of it. A flag alone decides nothing: some libraries raise it idly.
    if raised:
        _check_finite(result)
    return result


def _rows_at_once(traces: Sequence[formula.Trace]) -> int:
    """Return how many readings make a block."""
    widest = max(int(at.projections.shape[-1]) for at in traces)
    return max(1, _CHUNK // (int(traces[-1].inputs.shape[1]) * widest))


def _parts(
    rows: NDArray[np.intp], group: Group, weights: formula.Weights, normalizer: formula.Weigh
) -> Iterator[tuple[NDArray[np.intp], list[formula.Trace]]]:
    """Cut a group, and its rows of the result, into inputs whose readings are a block, or into single inputs."""
    traces = float_trace(weights, group, normalizer)
    inputs = max(1, _rows_at_once(traces) // rows.shape[-1])
    for start in range(0, len(rows), inputs):
        chosen = slice(start, start + inputs)
        yield rows[chosen], [at.take(chosen) for at in traces]


def _fill(
    result: NDArray[np.float64],
    rows: NDArray[np.intp],
    traces: Sequence[formula.Trace],
    weights: formula.Weights,
    factors: Sequence[str],
) -> None:
    """Write the derivatives of some inputs into their rows of the result."""
    # Consecutive inputs own consecutive rows: write in place, without a second copy of the Jacobian.
    first, last = rows[0, 0], rows[-1, -1]
    in_place = last - first + 1 == rows.size
    shape = (*rows.shape, result.shape[-1])
    out = result[first : last + 1].reshape(shape) if in_place else np.empty(shape)
    step = _rows_at_once(traces)
    for low in range(0, rows.shape[-1], step):
        block = slice(low, low + step)
        formula.fill_jacobian(weights, traces, factors, block, out[:, block])
    if not in_place:
        result[rows] = out


def jvp(
    layers: Sequence[Layer],
    bank: Bank,
    normalizer: formula.Weigh,
    tangent: NDArray[np.float64],
    factors: Sequence[str],
) -> NDArray[np.float64]:
    """Return Jacobian @ tangent, (readings,), by one forward sweep."""
    weights = [layer.float64 for layer in layers]
    tangents = unflatten(layers, tangent, factors)
    width = layers[-1].output_width
    result = np.empty(bank.readings(width))
    for group in bank.groups:
        traces = float_trace(weights, group, normalizer)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = formula.push_forward(weights, tangents, traces)
        result[bank.rows(group, width)] = moved.reshape(len(moved), -1)
    _check_finite(result)
    return result


def vjp(
    layers: Sequence[Layer],
    bank: Bank,
    normalizer: formula.Weigh,
    cotangent: NDArray[np.float64],
    factors: Sequence[str],
) -> NDArray[np.float64]:
    """Return cotangent @ Jacobian, (parameters,), by a reverse sweep over inputs that carry a cotangent."""
    weights = [layer.float64 for layer in layers]
    total = [np.zeros(formula.side_by_side(layer).shape) for layer in weights]
    width = layers[-1].output_width
    for group in bank.groups:
        part = cotangent[bank.rows(group, width)]
        chosen = part.any(axis=-1)
        if chosen.any():
            some = Group(group.positions[chosen], group.entries[chosen])
            seeds = part[chosen].reshape(len(some.positions), 1, -1, width)
            traces = float_trace(weights, some, normalizer)
            with np.errstate(over="ignore", invalid="ignore"):
                formula.add_pulled(total, weights, traces, seeds)
    pieces = []
    for derivative, layer in zip(total, layers, strict=True):
        named = dict(zip(FACTORS, formula.split(derivative, layer.rank), strict=True))
        pieces += [named[name].ravel() for name in factors]
    result = np.concatenate(pieces)
    _check_finite(result)
    return result
