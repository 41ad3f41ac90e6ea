"""The normalizers: values, slopes, Taylor series, and what they say when they cannot."""

from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest

from estim.attention import Layer, Network, Normalizer
from estim.attention.named_normalizers import NORMALIZERS
from estim.attention.normalizers import power_series
from estim.precision import ball_digits, series_terms
from tests.attention import reference
from tests.attention.cases import NAMES

SCORES = [-700.0, -40.0, -36.5, -3.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 40.0, 700.0]


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_slopes_of_single_scores_agree_with_mpmath(name):
    phi = reference.PHI[name]
    for score in SCORES:
        pair = np.array([[score, score / 2]])
        value, slope = NORMALIZERS[name](pair)
        with mpmath.workdps(700):
            right = [phi(mpmath.mpf(s)) for s in pair[0]]
            slopes = [mpmath.diff(phi, mpmath.mpf(s), h=mpmath.mpf(10) ** -300) for s in pair[0]]
        # A row is known up to a factor: compare with the first value. Scores of 700 round by 1e-13.
        assert float(right[1] / right[0]) == pytest.approx(value[0, 1] / value[0, 0], rel=3e-13)
        for k in range(2):
            ratio = float(slopes[k] / right[k])
            assert slope[0, k] / value[0, k] == pytest.approx(ratio, rel=1e-14) or value[0, k] < 1e-290


@pytest.mark.parametrize("name", NAMES)
def test_public_function_and_derivative_agree_with_mpmath(name):
    normalizer, phi = NORMALIZERS[name], reference.PHI[name]
    scores = np.array([-30.0, -1.0, 0.0, 1e-5, 2.0, 30.0])
    with mpmath.workdps(60):
        right = [float(phi(mpmath.mpf(s))) for s in scores]
        slopes = [float(mpmath.diff(phi, mpmath.mpf(s), h=mpmath.mpf(10) ** -25)) for s in scores]
    assert normalizer.function(scores) == pytest.approx(right, rel=1e-14)
    assert normalizer.derivative(scores) == pytest.approx(slopes, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_balls_contain_the_right_value_and_slope_and_are_narrow(name):
    with ball_digits(50), mpmath.workdps(70):
        scores = np.array([[flint.arb(2) / 3]], dtype=object)
        value, slope = (pair[0, 0] for pair in NORMALIZERS[name](scores))
        right = reference.PHI[name](mpmath.mpf(2) / 3)
        right_slope = mpmath.diff(reference.PHI[name], mpmath.mpf(2) / 3, h=mpmath.mpf(10) ** -25)
        for ball, number, error in ((value, right, 1e-57), (slope, right_slope, 1e-40)):
            with_digits = flint.arb(mpmath.nstr(number, 60))
            assert abs(ball - with_digits) < error
            assert ball.rad() < flint.arb(10) ** -48


@pytest.mark.parametrize("name", NAMES)
def test_taylor_coefficients_agree_with_mpmath(name):
    with mpmath.workdps(60):
        right = mpmath.taylor(reference.PHI[name], 0, 7)
    found = list(NORMALIZERS[name].taylor(8))
    if name == "softplus":
        assert found[0] is None
        found[0] = right[0]
    assert [float(c) for c in found] == pytest.approx([float(c) for c in right], rel=1e-14, abs=1e-25)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "quadratic", "cosh"])
def test_power_series_through_flint_and_through_taylor_are_the_same(name):
    with series_terms(9):
        scores = np.empty((1, 1), dtype=object)
        scores[0, 0] = flint.fmpq_series([0, flint.fmpq(1, 3), 2], prec=9)
        for one, other in zip(NORMALIZERS[name](scores), power_series(NORMALIZERS[name], 9)(scores), strict=True):
            assert str(one[0, 0]) == str(other[0, 0])


def test_softplus_needs_a_stand_in_for_its_logarithm():
    with pytest.raises(ValueError, match=r"'softplus' is irrational at zero; pass `value_at_zero`"):
        power_series(NORMALIZERS["softplus"], 4)
    context = flint.fmpz_mod_ctx(101**4)
    scores = np.array([[context(101)]], dtype=object)
    value, slope = power_series(NORMALIZERS["softplus"], 4, value_at_zero=7)(scores)
    # log(1 + e^s) = log 2 + s/2 + s^2/8 - ..., its slope 1/2 + s/4 - s^3/48
    assert value[0, 0] == context(7) + context(101) / 2 + context(101) ** 2 / 8
    assert slope[0, 0] == context(1) / 2 + context(101) / 4 - context(101) ** 3 / 48
    with pytest.raises(ValueError, match=r"'softplus' is log 2 at zero and has no exact version"):
        NORMALIZERS["softplus"](np.array([[flint.fmpq(1)]], dtype=object))


ONE = Network([Layer([[1]], [[1]], [[1]])]).layers
PAIR = [[[0], [1]]]


def two_plus_tanh(s):
    return 2 + np.tanh(s)


def two_plus_tanh_slope(s):
    return 1 - np.tanh(s) ** 2


def two_plus_tanh_balls(s):
    return 2 + s.tanh(), 1 - s.tanh() ** 2


def test_a_normalizer_of_ones_own_works_in_float64_and_in_balls():
    own = Normalizer(two_plus_tanh, two_plus_tanh_slope, name="own", high_precision=two_plus_tanh_balls)
    made = Network([Layer([[1.5]], [[1.0]], [[1.0]])], own)
    bank = [[[0.5], [-1.0], [2.0]]]
    assert made.jacobian(bank) == pytest.approx(made.jacobian(bank, digits=30).astype(float), rel=1e-14)


def test_a_normalizer_of_ones_own_is_checked_on_the_scores_it_meets():
    layer = Layer([[1.0]], [[1.0]], [[1.0]])
    with pytest.raises(ValueError, match=r"normalizer 'line' must be positive; got -2.0 at score -2.0"):
        Network([layer], Normalizer(np.copy, np.ones_like, name="line"))([[[1.0], [-2.0]]])
    plain = Network([Layer([[1.0]], [[-1.0]], [[1.0]])], Normalizer(np.exp, np.exp, name="plain"))
    with pytest.raises(ValueError, match=r"underflows to zero on a row of scores: input 1, token 0, layer 0"):
        plain([[[1.0], [2.0]], [[30.0], [30.0]]])
    with pytest.raises(ValueError, match=r"underflows to zero on a row of scores: input 2, token 0, layer 0"):
        plain.jacobian([[[1.0]], [[1.0], [2.0]], [[40.0]]])
    with pytest.raises(ValueError, match=r"sums to inf on a row of scores: input 0, .*; lower factors or inputs"):
        Network([layer], plain.normalizer)([[[30.0]]])


@pytest.mark.parametrize(
    ("function", "derivative", "error", "text"),
    [
        (3, np.exp, TypeError, r"`function` of a normalizer must be callable; got 3"),
        (np.exp, None, TypeError, r"`derivative` of a normalizer must be callable; got None"),
        (lambda s: np.exp(s)[..., :1], np.exp, ValueError, r"`function` of .* shape of the scores, \(1, 2, 2\); got"),
        (np.exp, lambda s: np.exp(s)[0], ValueError, r"`derivative` of .* \(1, 2, 2\); got shape \(2, 2\)"),
        (np.exp, lambda s: s * np.nan, ValueError, r"derivative of normalizer 'custom' must be finite; got nan at"),
        (lambda s: s * np.nan, np.exp, ValueError, r"normalizer 'custom' must be positive; got nan at score"),
    ],
)
def test_functions_that_do_not_fit_are_refused_by_name(function, derivative, error, text):
    with pytest.raises(error, match=text):
        Network(ONE, Normalizer(function, derivative)).jacobian([[[1], [2]]])


def test_one_slope_for_all_scores_and_overflow_on_the_way_are_harmless():
    line = Normalizer(lambda s: 3 + s, lambda s: 1)
    made = Network([Layer([[1.0]], [[1.0]], [[1.0]])], line)
    # (3 + 1 + (3 + 2) 2) / (6 + 3) at the token 1, whose scores are 1 and 2
    assert made([[[1.0], [2.0]]])[0, 0, 0] == pytest.approx(14 / 9)
    assert made.jacobian([[[1.0], [2.0]]])[0, 0] == pytest.approx((1 + 2 * 2) / 9 - 14 / 9 * 3 / 9)
    assert made.exceptional() == ()
    sigmoid = Normalizer(lambda s: 1 / (1 + np.exp(-s)), lambda s: 1 / (2 + np.exp(s) + np.exp(-s)))
    assert np.isfinite(Network([Layer([[1.0]], [[1.0]], [[1.0]])], sigmoid).jacobian([[[1.0], [1000.0]]])).all()


@pytest.mark.parametrize("returned", [lambda s: s.exp(), lambda s: (1.5, 1.0), lambda s: (mpmath.exp(1), s.exp())])
def test_only_balls_are_proof(returned):
    own = Normalizer(np.exp, np.exp, name="own", high_precision=returned)
    with pytest.raises(TypeError, match=r"`high_precision` of normalizer 'own' must return \(phi, phi'\) as flint.arb"):
        Network(ONE, own)(PAIR, digits=20)


def test_what_a_normalizer_lacks_is_said():
    made = Network([Layer([[1.0]], [[1.0]], [[1.0]])], Normalizer(np.exp, np.exp, name="plain"))
    with pytest.raises(ValueError, match=r"'plain' has no `high_precision` version"):
        made.jacobian([[[1.0], [2.0]]], digits=20)
    with pytest.raises(ValueError, match=r"'plain' has no exact version; wrap it with `power_series`"):
        made.normalizer(np.array([[Fraction(1, 2)]], dtype=object))
    with pytest.raises(ValueError, match=r"'plain' has no `taylor` coefficients"):
        power_series(made.normalizer, 4)


def test_balls_are_checked_for_positivity_too():
    line = Normalizer(np.copy, np.ones_like, name="line", high_precision=lambda s: (s - flint.arb(1) / 2, s * 0 + 1))
    calls = (
        lambda made: made(PAIR, digits=20),
        lambda made: made.jacobian(PAIR, digits=20),
        lambda made: made.mean_response(PAIR, upper=1),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"normalizer 'line' must be positive; got -0.500000 at score 0"):
            call(Network(ONE, line))


@pytest.mark.parametrize(
    "broken",
    [lambda s: (s.exp() + flint.arb(0, 1e-10), s.exp()), lambda s: ((s - 10).log(), 1 / (s - 10))],
    ids=["fixed radius", "not finite"],
)
def test_balls_that_never_narrow_are_an_error_and_not_an_endless_search(broken):
    made = Network(ONE, Normalizer(np.exp, np.exp, high_precision=broken))
    for call in (made, made.jacobian):
        with pytest.raises(ArithmeticError, match=r"20 digits are not reached .* `high_precision`"):
            call(PAIR, digits=20)


def test_a_mean_that_is_not_finite_is_called_so():
    made = Network(ONE, Normalizer(np.exp, np.exp, high_precision=lambda s: ((s - 10).log(), s)))
    with pytest.raises(ValueError, match="the mean of the readings is nan at theta = 0"):
        made.mean_response(PAIR, upper=1)


def test_a_derivative_or_taylor_of_another_function_is_refused():
    def phi(s):
        return 2 + np.tanh(s)

    def slope(s):
        return 1 - np.tanh(s) ** 2

    with pytest.raises(ValueError, match=r"`derivative` of normalizer 'custom' must be that of `function`; at score"):
        Normalizer(phi, np.tanh)
    with pytest.raises(ValueError, match=r"`taylor` .* its coefficient 1 is 2, where `derivative` gives 1"):
        Normalizer(phi, slope, taylor=lambda terms: [2, 2][:terms])
    assert Normalizer(phi, slope, taylor=lambda terms: [2, 1, 0, Fraction(-1, 3)][:terms]).name == "custom"


def test_a_function_too_rough_for_differences_is_not_judged():
    assert Normalizer(lambda s: 2 + np.sin(1e5 * s), lambda s: 1e5 * np.cos(1e5 * s), name="rough").name == "rough"


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("part", ["function", "derivative"])
def test_a_normalizer_in_short_floats_is_refused(part, kind):
    parts = {"function": np.exp, "derivative": np.exp, part: lambda s: np.exp(s).astype(kind)}
    made = Network([Layer([[1.0]], [[1.0]], [[1.0]])], Normalizer(**parts))
    with pytest.raises(
        ValueError, match=rf"^`{part}` of normalizer 'custom' must compute in float64; it returned float"
    ):
        made([[[0.3], [1.0]]])


@pytest.mark.parametrize("returned", [None, "a", 1j, np.array(1.0, dtype=object)], ids=repr)
def test_a_normalizer_of_no_real_numbers_is_refused(returned):
    made = Network([Layer([[1.0]], [[1.0]], [[1.0]])], Normalizer(lambda s: returned, np.exp))
    with pytest.raises(ValueError, match=r"^`function` of normalizer 'custom' must return real numbers; got dtype "):
        made([[[0.3], [1.0]]])


def test_a_normalizer_in_longer_floats_gives_float64():
    long = Normalizer(lambda s: np.exp(s.astype(np.longdouble)), lambda s: np.exp(s.astype(np.longdouble)))
    found = Network([Layer([[1.0]], [[1.0]], [[1.0]])], long)([[[0.3], [1.0]]])
    assert found.dtype == np.float64
