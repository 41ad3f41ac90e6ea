"""The known positive normalizers of an attention layer.

A layer weighs token j for token i by ``phi(s_ij) / sum_k phi(s_ik)`` with the scores s and a positive,
nonconstant, real-analytic function phi, the normalizer. A weight does not change when a whole row of phi is
divided by one positive number, and neither does its derivative when phi' is divided by the same. The
built-in normalizers use this freedom in float64: no row overflows or underflows for scores of 1e4 and
beyond.

A normalizer is called with an array of scores and returns phi and phi' in the number system of the scores.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from estim.arithmetic import Array
from estim.attention.declared import check_parts

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Normalizer:
    """A positive, nonconstant, real-analytic function with its derivative.

    Parameters
    ----------
    function : callable
        ``function(scores)`` -> phi(scores), element by element on float64 arrays of any shape; dimensionless.
    derivative : callable
        ``derivative(scores)`` -> phi'(scores), likewise.
    name : str, default: "custom"
        What errors call it.
    taylor : callable, optional
        ``taylor(terms)`` -> the first `terms` Taylor coefficients of phi at zero, exact rationals
        (``Fraction`` or ``int``). Needed for exact power series, such as contact orders.
    high_precision : callable, optional
        ``high_precision(score)`` -> (phi, phi') of one python-flint ``arb`` ball. Needed for balls.
    even : bool, default: False
        Whether phi(-s) = phi(s): the outputs then fix each effective score matrix only up to its sign.

    Raises
    ------
    TypeError
        If a part is not callable.
    ValueError
        If `derivative` or the first coefficients of `taylor` are plainly not those of `function` at scores near zero.

    Examples
    --------
    >>> import numpy as np
    >>> from estim.attention import Layer, Network, Normalizer
    >>> def phi(s):
    ...     return 2 + np.tanh(s)
    >>> def slope(s):
    ...     return 1 - np.tanh(s) ** 2
    >>> network = Network([Layer([[1.0]], [[1.0]], [[1.0]])], Normalizer(phi, slope, name="two plus tanh"))
    >>> network([[[0.0], [1.0]]]).round(6)
    array([[[0.5     ],
            [0.579973]]])
    """

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    name: str = "custom"
    taylor: Callable[[int], list[Any]] | None = None
    high_precision: Callable[[Any], Pair] | None = None
    even: bool = False
    # Float64 pair divided by a positive factor common to the row; built-in normalizers only.
    _scaled: Callable[[Array], Pair] | None = field(default=None, repr=False)
    # The pair for one number of any ring that has the operations it uses; built-in normalizers only.
    _generic: Callable[[Any], Pair] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for part in ("function", "derivative", "taylor", "high_precision"):
            value = getattr(self, part)
            if not callable(value) and (value is not None or part in ("function", "derivative")):
                msg = f"`{part}` of a normalizer must be callable; got {value!r}"
                raise TypeError(msg)
        if self._scaled is None:
            check_parts(self.name, self.function, self.derivative, self.taylor)

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Return phi and phi' at the scores, in the number system of the scores.

        Parameters
        ----------
        scores : (..., tokens, tokens) array
            Float64 or complex numbers, or an object array; dimensionless.

        Returns
        -------
        phi, slope : (..., tokens, tokens) array
            In float64 both may be divided by a positive number common to a row.

        Raises
        ------
        TypeError
            If `high_precision` does not return two balls.
        ValueError
            If the normalizer is not positive at a score, its derivative is not finite there, it computes in less than
            float64 or returns no real numbers, or it does not know the number system.
        """
        if scores.dtype != object:
            return self._scaled(scores) if self._scaled else self._checked(scores)
        one = self._for_balls() if isinstance(scores.flat[0], flint.arb) else self._for_ring()
        phi, slope = np.frompyfunc(one, 1, 2)(scores)
        return phi, slope

    def _checked(self, scores: Array) -> tuple[Array, Array]:
        # What overflows on the way may be harmless, as in 1 / (1 + exp(-s)); what comes out is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            phi, slope = self._values("function", scores), self._values("derivative", scores)
        # `not >` also catches NaN.
        bad = ~(phi.real > 0)
        if bad.any() and not _underflowed(phi):
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            msg = f"normalizer {self.name!r} must be positive; got {phi[where]} at score {scores[where]}"
            raise ValueError(msg)
        bad = np.isfinite(phi) & ~np.isfinite(slope)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            msg = f"derivative of normalizer {self.name!r} must be finite; got {slope[where]} at score {scores[where]}"
            raise ValueError(msg)
        return phi, slope

    def _values(self, part: str, scores: Array) -> Array:
        values = np.asarray(getattr(self, part)(scores))
        if values.dtype in (np.float16, np.float32, np.complex64):
            msg = (
                f"`{part}` of normalizer {self.name!r} must compute in float64; it returned {values.dtype}, whose "
                "rounding hides small changes"
            )
            raise ValueError(msg)
        if values.dtype.kind not in ("biufc" if scores.dtype.kind == "c" else "biuf"):
            msg = f"`{part}` of normalizer {self.name!r} must return real numbers; got dtype {values.dtype}"
            raise ValueError(msg)
        if values.shape not in ((), scores.shape):  # One number for all, as the slope of a line.
            msg = (
                f"`{part}` of normalizer {self.name!r} must return an array of the shape of the scores, "
                f"{scores.shape}; got shape {values.shape}"
            )
            raise ValueError(msg)
        return np.broadcast_to(values.astype(scores.dtype, copy=False), scores.shape)

    def _for_balls(self) -> Callable[[Any], Pair]:
        if self.high_precision is None and self._generic is None:
            msg = f"normalizer {self.name!r} has no `high_precision` version; balls and mean responses need one"
            raise ValueError(msg)
        if self.high_precision is not None:
            return self._checked_ball
        assert self._generic is not None
        return self._generic

    def _checked_ball(self, score: Any) -> Pair:
        assert self.high_precision is not None
        pair = self.high_precision(score)
        # Not a float or an mpf, which carry no error, and would pass for exact.
        if not isinstance(pair, tuple) or [type(part) for part in pair] != [flint.arb] * 2:
            msg = f"`high_precision` of normalizer {self.name!r} must return (phi, phi') as flint.arb; got {pair!r}"
            raise TypeError(msg)
        phi, slope = pair
        if phi <= 0:  # Certainly: a wide ball that reaches zero is a matter of precision.
            msg = f"normalizer {self.name!r} must be positive; got {phi.str(6)} at score {score.str(6)}"
            raise ValueError(msg)
        return phi, slope

    def _for_ring(self) -> Callable[[Any], Pair]:
        if self._generic is None:
            msg = f"normalizer {self.name!r} has no exact version; wrap it with `power_series`"
            raise ValueError(msg)
        return self._generic


def _underflowed(phi: Array) -> bool:
    """Whether the worst of phi is an exact zero, which a row may hold as long as it does not fill the row."""
    return bool((phi.real >= 0).all())


def power_series(normalizer: Normalizer, terms: int, *, value_at_zero: Any = None) -> Callable[[Array], Pair]:
    """Return the normalizer as its first Taylor terms at zero, in any ring that contains the rationals.

    This is exact where the scores are nilpotent beyond `terms`: power series without a constant term
    truncated at `terms`, or multiples of p modulo p**terms (p larger than `terms`).

    Parameters
    ----------
    normalizer : Normalizer
        With a `taylor` function.
    terms : int
        Number of coefficients.
    value_at_zero : ring element, optional
        Stands in for phi(0) where that is not rational: log 2 of softplus, which is transcendental, so that
        any algebraic identity that holds for it holds for every stand-in.

    Returns
    -------
    callable
        Scores, an object array, -> (phi, phi').

    Raises
    ------
    ValueError
        If the normalizer has no rational Taylor coefficients.
    """
    if normalizer.taylor is None:
        msg = f"normalizer {normalizer.name!r} has no `taylor` coefficients; exact power series need them"
        raise ValueError(msg)
    coefficients = list(normalizer.taylor(terms + 1))
    if coefficients[0] is None and value_at_zero is None:
        msg = f"normalizer {normalizer.name!r} is irrational at zero; pass `value_at_zero`, its stand-in"
        raise ValueError(msg)
    slopes = [k * c for k, c in enumerate(coefficients) if k > 0]

    def one(score: Any) -> Pair:
        zero = score * 0
        value = zero + (value_at_zero if coefficients[0] is None else _ratio(zero, coefficients[0]))
        rest = _horner([zero, *(_ratio(zero, c) for c in coefficients[1:terms])], score)
        return value + rest, _horner([_ratio(zero, c) for c in slopes], score)

    def weights(scores: Array) -> Pair:
        phi, slope = np.frompyfunc(one, 1, 2)(scores)
        return phi, slope

    return weights


def _ratio(zero: Any, value: Any) -> Any:
    fraction = Fraction(value)
    return (zero + fraction.numerator) / (zero + fraction.denominator)


def _horner(coefficients: list[Any], score: Any) -> Any:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * score + coefficient
    return total
