"""One unknown: the mean of all readings as one layer's query and key are each multiplied by theta.

The scores of that layer are theta^2 times those of the network, so the mean is analytic in w = (theta /
upper)^2. Near theta = 0 it differs from its value there by very little: 1e-71 of it in a chain of depth
four. That *excess* is computed from balls, whose precision is raised until the difference keeps 30 digits,
and divided by its leading power,

    excess = w^k g(w),

and g, which has no zero where the excess is monotone, is replaced on each of a few pieces of [0, 1] by a
Chebyshev polynomial that agrees with it beyond float64. The derivative is that of the same polynomial: with
h = k g + w g' it is w^(k-1) h(w) dw/dtheta.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, as_balls, as_fractions, read_entries
from estim.attention import formula
from estim.attention.bank import Bank
from estim.attention.exceptional import exceptional
from estim.attention.layer import Layer
from estim.attention.normalizers import Normalizer
from estim.precision import ball_digits
from estim.recovery.response import MeanResponse

Floats = NDArray[np.float64]

# Chebyshev terms of a piece. A piece on which they are not enough is halved.
_TERMS = 32
_MOST_PIECES = 256
# A polynomial stands for g when its last coefficients fall below this part of the smallest value. The derivative
# loses a factor of up to _TERMS^2 and must still be right to 1e-16.
_NEGLIGIBLE = 1e-20
# The float64 value of a polynomial must be g to this part, at these shares of the piece.
_AGREEMENT = 1e-15
_BETWEEN = (Fraction(1, 20), Fraction(11, 20), Fraction(19, 20))
# Narrower pieces are taken as they come: next to a zero of g, where the mean is not monotone and will be refused.
_NARROWEST = Fraction(1, 1024)
# Relative bits that a ball of the excess must have, 30 digits.
_BITS = 100
_MOST_DIGITS = 2000
# Float64 loses digits below 1e-307; the excess at a hundredth of `upper`, say, must be above that.
_SMALLEST = 1e-290


@dataclass(frozen=True, eq=False)
class Excess:
    """The mean of all readings less its value at theta = 0, piece by piece a polynomial in theta^2.

    Calling it with theta, an array of any shape, returns the excess; :meth:`slope` its derivative.
    """

    upper: float
    power: int
    """Leading power k of w = (theta / upper)^2."""
    edges: Floats
    """Ends of the pieces along w, (pieces + 1,)."""
    values: Floats
    """Chebyshev coefficients of g, (terms, pieces)."""
    slopes: Floats
    """Chebyshev coefficients of h, (terms, pieces)."""

    def __call__(self, theta: Any) -> Floats:
        """Return the excess at theta."""
        w = np.square(np.asarray(theta, dtype=np.float64) / self.upper)
        return np.asarray(w**self.power * self._polynomial(self.values, w))

    def slope(self, theta: Any) -> Floats:
        """Return the derivative of the excess with respect to theta."""
        ratio = np.asarray(theta, dtype=np.float64) / self.upper
        w = np.square(ratio)
        chain = w ** (self.power - 1) * (2 * ratio / self.upper)
        return np.asarray(chain * self._polynomial(self.slopes, w))

    def _polynomial(self, coefficients: Floats, w: Floats) -> Floats:
        """Evaluate by Clenshaw's recurrence on the piece that w falls in."""
        piece = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, len(self.edges) - 2)
        low, high = self.edges[piece], self.edges[piece + 1]
        x = (2 * w - low - high) / (high - low)
        chosen = coefficients[:, piece] if len(self.edges) > 2 else coefficients
        current, previous = np.zeros_like(w), np.zeros_like(w)
        for row in chosen[:0:-1]:
            current, previous = row + 2 * x * current - previous, current
        return np.asarray(chosen[0] + x * current - previous)


def mean_response(
    layers: Sequence[Layer], normalizer: Normalizer, bank: Bank, *, layer: int, upper: Any
) -> MeanResponse:
    """Return the response of :meth:`estim.attention.Network.mean_response`, whose docstring is the contract."""
    number = _layer_number(layer, len(layers))
    limit = as_fractions(read_entries([upper], "upper", ndim=1))[0]
    if limit <= 0:
        msg = f"`upper` must be positive; got {upper!r}"
        raise ValueError(msg)
    sample = Sampler(layers, normalizer, bank, number, limit)
    power = leading_power(sample)
    _check_float64(sample)
    pieces = _pieces(sample, power)
    edges = np.array([0.0, *(float(piece.high) for piece in pieces)])
    values = np.stack([piece.values for piece in pieces], axis=-1)
    slopes = np.stack([piece.slopes for piece in pieces], axis=-1)
    excess = Excess(float(limit), power, edges, _trimmed(values), _trimmed(slopes))
    return MeanResponse.from_excess(
        excess,
        baseline=sample.baseline,
        lower=0.0,
        upper=float(limit),
        derivative=excess.slope,
        name=f"mean of the readings along the scale of layer {number}",
    )


def _check_float64(sample: "Sampler") -> None:
    largest = sample(partial(flint.arb, 1))
    if not abs(largest) > _SMALLEST:
        msg = f"the mean of the readings moves by {largest.str(3, radius=False)} at `upper`, below what float64 holds"
        raise ValueError(msg)


def _layer_number(layer: Any, depth: int) -> int:
    if isinstance(layer, bool) or not isinstance(layer, int | np.integer) or not -depth <= layer < depth:
        msg = f"`layer` must be an integer from {-depth} to {depth - 1}; got {layer!r}"
        raise ValueError(msg)
    return int(layer) % depth


def _trimmed(coefficients: Floats) -> Floats:
    """Drop trailing terms that no sum in float64 can show."""
    heard = np.abs(coefficients) > 1e-18 * np.abs(coefficients[0])
    return np.ascontiguousarray(coefficients[: int(np.flatnonzero(heard.any(axis=-1))[-1]) + 1])


class Sampler:
    """Balls of the excess at w, at a precision that is raised as needed and kept for the next call."""

    def __init__(
        self, layers: Sequence[Layer], normalizer: Normalizer, bank: Bank, number: int, upper: Fraction
    ) -> None:
        self._layers, self._normalizer, self._bank, self._number = layers, normalizer, bank, number
        self.digits = 0
        self._square = flint.fmpq(upper.numerator, upper.denominator) ** 2
        self._raise_precision(50)

    def __call__(self, place: Callable[[], flint.arb]) -> flint.arb:
        """Return the excess at the w that `place` computes at the precision in force."""
        while True:
            with ball_digits(self.digits):
                excess = self._mean(place() * self._square) - self._rest
                if excess != 0 and excess.rel_accuracy_bits() >= _BITS:
                    return excess
            # An excess that is exactly zero stays so at any precision.
            self._raise_precision(_MOST_DIGITS + 1 if excess == 0 else 2 * self.digits)

    @property
    def baseline(self) -> float:
        """The mean of all readings at theta = 0."""
        return float(self._rest)

    def _raise_precision(self, digits: int) -> None:
        if digits > _MOST_DIGITS:
            msg = (
                f"the mean of the readings does not depend on the scale of layer {self._number}, or by less than "
                f"{self.digits} digits show: it stays at {self.baseline}"
            )
            if not math.isfinite(self.baseline):
                msg = f"the mean of the readings is {self.baseline} at theta = 0; is the normalizer finite in balls?"
            named = "; ".join(exceptional(self._layers, self._normalizer, self._bank))
            raise ValueError(f"{msg} ({named})" if named else msg)
        self.digits = digits
        with ball_digits(digits):
            weights = [layer.factors_in(as_balls) for layer in self._layers]
            self._from_here = weights[self._number :]
            self._inputs = [
                formula.forward(weights[: self._number], as_balls(group.entries), self._normalizer)
                for group in self._bank.groups
            ]
            self._rest = self._mean(flint.arb(0))

    def _mean(self, factor: flint.arb) -> flint.arb:
        """Return the mean of all readings when the scores of the layer are multiplied by `factor`."""
        query, key, value = self._from_here[0]
        weights = [(query * factor, key, value), *self._from_here[1:]]
        outputs = [formula.forward(weights, x, self._normalizer) for x in self._inputs]
        return sum((output.sum() for output in outputs), flint.arb(0)) / sum(output.size for output in outputs)


def leading_power(sample: Sampler) -> int:
    """Return k of excess = w^k g(w), g(0) not zero."""
    small = flint.fmpq(1, 1 << 64)
    ratio = sample(lambda: flint.arb(2 * small)) / sample(lambda: flint.arb(small))
    power = round(float(abs(ratio).log() / flint.arb(2).log()))
    if power < 1 or abs(float(ratio / 2**power) - 1) > 1e-9:
        msg = (
            f"the excess must start with a power of theta^2; it grows {float(ratio)}-fold when that doubles from "
            "2**-64 of its range; lower `upper`"
        )
        raise ValueError(msg)
    return power


@dataclass(frozen=True, eq=False)
class Piece:
    """Chebyshev coefficients of g and h on [low, high]."""

    low: Fraction
    high: Fraction
    values: Floats
    slopes: Floats


def _pieces(sample: Sampler, power: int) -> list[Piece]:
    """Halve [0, 1] until a polynomial does on every piece."""
    waiting, done = [(Fraction(0), Fraction(1))], []
    while waiting:
        low, high = waiting.pop()
        piece = _fit(sample, power, low, high)
        if piece is not None:
            done.append(piece)
            continue
        middle = (low + high) / 2
        waiting += [(middle, high), (low, middle)]
        if len(waiting) + len(done) > _MOST_PIECES:
            msg = f"the mean changes too fast below `upper` for {_MOST_PIECES} polynomials; lower `upper`"
            raise ValueError(msg)
    return done


def _fit(sample: Sampler, power: int, low: Fraction, high: Fraction) -> Piece | None:
    """Interpolate g at Chebyshev points; None where the coefficients do not fall far enough."""
    n = _TERMS
    middle, half = (low + high) / 2, (high - low) / 2

    def place(number: int) -> flint.arb:
        return _ball(middle) + _ball(half) * flint.arb.cos_pi_fmpq(flint.fmpq(2 * number + 1, 2 * n))

    excess = [sample(partial(place, number)) for number in range(n)]
    with ball_digits(sample.digits):
        w = np.array([place(number) for number in range(n)], dtype=object)
        g = np.array(excess, dtype=object) / w**power
        cosines, sines = _angles(n)
        values = cosines.T @ g * 2 / n
        # Balls are compared: a float64 of 1e-400 would pass for zero.
        if not max(abs(c) for c in values[-3:]) <= _NEGLIGIBLE * min(abs(entry) for entry in g):
            return None
        # T_m'(cos a) = m sin(m a) / sin a
        slope = (sines @ (values * np.arange(n))) / sines[:, 1] / _ball(half)
        slopes = cosines.T @ (g * power + w * slope) * 2 / n
    piece = Piece(low, high, _floats(values), _floats(slopes))
    return piece if high - low < _NARROWEST or _agrees(sample, power, piece) else None


def _agrees(sample: Sampler, power: int, piece: Piece) -> bool:
    """Whether the polynomial, evaluated in float64, is g between the Chebyshev points."""
    for share in _BETWEEN:
        w = piece.low + (piece.high - piece.low) * share
        excess = sample(partial(_ball, w))
        with ball_digits(sample.digits):
            ratio = float(np.polynomial.chebyshev.chebval(float(2 * share - 1), piece.values)) / (
                excess / _ball(w) ** power
            )
            if not abs(ratio - 1) <= _AGREEMENT:
                return False
    return True


def _ball(number: Fraction) -> flint.arb:
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def _angles(n: int) -> tuple[Array, Array]:
    """Return cos(m a_j) and sin(m a_j) at the Chebyshev angles a_j, (j, m)."""
    angles = [[flint.fmpq((2 * j + 1) * m, 2 * n) for m in range(n)] for j in range(n)]
    cosines = np.array([[flint.arb.cos_pi_fmpq(angle) for angle in row] for row in angles], dtype=object)
    sines = np.array([[flint.arb.sin_pi_fmpq(angle) for angle in row] for row in angles], dtype=object)
    return cosines, sines


def _floats(values: Array) -> Floats:
    """Round to float64, the first coefficient halved as a sum of Chebyshev polynomials has it."""
    rounded = np.array([float(entry) for entry in values])
    rounded[0] /= 2
    return rounded
