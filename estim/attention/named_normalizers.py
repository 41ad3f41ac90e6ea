"""The five normalizers that have a name, in every number system."""

from fractions import Fraction
from math import factorial
from typing import Any

import flint
import numpy as np

from estim.arithmetic import Array
from estim.attention.normalizers import Normalizer, Pair


def _row_max(values: Array) -> Array:
    return np.asarray(values.max(axis=-1, keepdims=True))


def _exp(scores: Array) -> Array:
    return np.asarray(np.exp(scores))


def _softmax_scaled(scores: Array) -> Pair:
    phi = np.exp(scores - _row_max(scores.real))
    return phi, phi


def _softmax_generic(score: Any) -> Pair:
    phi = score.exp()
    return phi, phi


def _exp_taylor(terms: int) -> list[Any]:
    return [Fraction(1, factorial(k)) for k in range(terms)]


def _log_sigmoid(scores: Array) -> tuple[Array, Array]:
    """Return log sigmoid and exp(-|s|), free of overflow; analytic beside zero, for complex steps."""
    positive = scores.real > 0
    small = np.exp(np.where(positive, -scores, scores))
    return np.where(positive, 0, scores) - np.log1p(small), small


def _sigmoid(scores: Array) -> Array:
    return np.asarray(np.exp(_log_sigmoid(scores)[0]))


def _sigmoid_slope(scores: Array) -> Array:
    return _sigmoid(scores) * _sigmoid(-scores)


def _sigmoid_scaled(scores: Array) -> Pair:
    log_phi = _log_sigmoid(scores)[0]
    phi = np.exp(log_phi - _row_max(log_phi.real))
    return phi, phi * _sigmoid(-scores)


def _sigmoid_generic(score: Any) -> Pair:
    phi, rest = 1 / (1 + (-score).exp()), 1 / (1 + score.exp())
    return phi, phi * rest


def _sigmoid_taylor(terms: int) -> list[Any]:
    # phi (1 + exp(-s)) = 1, coefficient by coefficient.
    decay = [Fraction((-1) ** k, factorial(k)) for k in range(terms)]
    phi: list[Any] = [Fraction(1, 2)]
    for k in range(1, terms):
        phi.append(-sum((phi[j] * decay[k - j] for j in range(k)), Fraction(0)) / 2)
    return phi


def _softplus(scores: Array) -> Array:
    log_sigmoid = _log_sigmoid(-scores)[0]
    return -log_sigmoid


def _softplus_scaled(scores: Array) -> Pair:
    # Below -37 softplus is exp(s) to the last bit, and log(log1p(exp(s))) would take the logarithm of zero.
    far = scores.real < -37
    near = np.where(far, 0, scores)
    log_phi = np.where(far, scores, np.log(_softplus(near)))
    phi = np.exp(log_phi - _row_max(log_phi.real))
    return phi, phi * np.where(far, 1, _sigmoid(near) / _softplus(near))


def _softplus_generic(score: Any) -> Pair:
    if not isinstance(score, flint.arb):
        msg = "normalizer 'softplus' is log 2 at zero and has no exact version; use balls or `power_series`"
        raise ValueError(msg)
    return score.exp().log1p(), 1 / (1 + (-score).exp())


def _softplus_taylor(terms: int) -> list[Any]:
    return [None, *(c / (k + 1) for k, c in enumerate(_sigmoid_taylor(max(terms - 1, 1))))][:terms]


def _quadratic(scores: Array) -> Array:
    return np.asarray(1 + scores * scores)


def _double(scores: Array) -> Array:
    return np.asarray(2 * scores)


def _quadratic_scaled(scores: Array) -> Pair:
    # Divided by the square of the largest score where that exceeds one: squares of 1e200 would overflow.
    scale = np.maximum(_row_max(abs(scores.real)), 1.0)
    ratio = scores / scale
    return 1 / scale / scale + ratio * ratio, 2 * ratio / scale


def _quadratic_generic(score: Any) -> Pair:
    return 1 + score * score, 2 * score


def _quadratic_taylor(terms: int) -> list[Any]:
    return [Fraction(int(k in (0, 2))) for k in range(terms)]


def _cosh(scores: Array) -> Array:
    return np.asarray(np.cosh(scores))


def _sinh(scores: Array) -> Array:
    return np.asarray(np.sinh(scores))


def _cosh_scaled(scores: Array) -> Pair:
    top = _row_max(abs(scores.real))
    # sinh as tanh cosh: the difference of the two exponentials would lose small scores.
    phi = (np.exp(scores - top) + np.exp(-scores - top)) / 2
    return phi, phi * np.tanh(scores)


def _cosh_generic(score: Any) -> Pair:
    return score.cosh(), score.sinh()


def _cosh_taylor(terms: int) -> list[Any]:
    return [Fraction(1 - k % 2, factorial(k)) for k in range(terms)]


NORMALIZERS = {
    "softmax": Normalizer(_exp, _exp, "softmax", _exp_taylor, _scaled=_softmax_scaled, _generic=_softmax_generic),
    "sigmoid": Normalizer(
        _sigmoid,
        _sigmoid_slope,
        "sigmoid",
        _sigmoid_taylor,
        _scaled=_sigmoid_scaled,
        _generic=_sigmoid_generic,
    ),
    "softplus": Normalizer(
        _softplus,
        _sigmoid,
        "softplus",
        _softplus_taylor,
        _scaled=_softplus_scaled,
        _generic=_softplus_generic,
    ),
    "quadratic": Normalizer(
        _quadratic,
        _double,
        "quadratic",
        _quadratic_taylor,
        even=True,
        _scaled=_quadratic_scaled,
        _generic=_quadratic_generic,
    ),
    "cosh": Normalizer(_cosh, _sinh, "cosh", _cosh_taylor, even=True, _scaled=_cosh_scaled, _generic=_cosh_generic),
}


def find_normalizer(normalizer: str | Normalizer) -> Normalizer:
    """Return the normalizer of this name, or the one given."""
    if isinstance(normalizer, Normalizer):
        return normalizer
    if not isinstance(normalizer, str) or normalizer not in NORMALIZERS:
        msg = f"`normalizer` must be one of {', '.join(NORMALIZERS)} or a Normalizer; got {normalizer!r}"
        raise ValueError(msg)
    return NORMALIZERS[normalizer]
