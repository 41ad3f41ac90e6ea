import math

import mpmath
import numpy as np
import pytest

from tests.problems import (
    FIXTURE_EXCESS,
    FIXTURE_LEVELS,
    FIXTURE_THETA,
    FIXTURE_UPPER,
    MOMENTS,
    RESPONSES,
    TAGS,
    fixture_excess,
    reference_moments,
    tagged,
)
from tests.tolerances import EPS, FORMULA_RTOL, QUADRATURE_RTOL

each = pytest.mark.parametrize("problem", RESPONSES, ids=lambda problem: problem.name)


def places(problem):
    """Return thetas inside the domain, as exact binary numbers."""
    lower = problem.made.lower
    upper = problem.made.upper if math.isfinite(problem.made.upper) else lower + 6.0
    return [lower + (upper - lower) * f for f in (0.01, 0.2, 0.5, 0.77, 0.99)]


def test_names_are_unique():
    assert len({p.name for p in RESPONSES}) == len(RESPONSES)
    assert len({m.name for m in MOMENTS}) == len(MOMENTS)


def test_every_tag_is_declared_and_used():
    used = {tag for problem in RESPONSES for tag in problem.tags}
    assert used == set(TAGS)


@each
def test_tags_say_what_the_response_says(problem):
    made = problem.made
    assert ("decreasing" in problem.tags) == (not made.increasing)
    assert ("infinite" in problem.tags) == math.isinf(made.upper)
    assert ("limit" in problem.tags) == (math.isinf(made.upper) and np.isfinite(made.attainable_excess).all())
    assert ("baseline" in problem.tags) == (made.baseline != 0.0)
    assert ("derivative" in problem.tags) == made.has_derivative
    assert ("shifted" in problem.tags) == (made.lower != 0.0)
    assert ("kink" in problem.tags) == bool(problem.kinks)


@each
def test_the_float_response_is_the_exact_one_rounded(problem):
    for theta in places(problem):
        with mpmath.workdps(40):
            exact = float(problem.excess(mpmath.mpf(theta)))
        # A few roundings of theta's relative size reach the excess, where the domain does not start at zero; and the
        # near-plateau is a difference of two terms of theta's size.
        steepness = max(abs(float(problem.slope(mpmath.mpf(theta)))), float("near-plateau" in problem.tags))
        blur = EPS * abs(theta) * steepness
        assert abs(problem.made.excess(theta) - exact) <= FORMULA_RTOL * abs(exact) + 2.0 * blur


@each
def test_the_exact_inverse_and_slope_belong_to_the_exact_excess(problem):
    with mpmath.workdps(40):
        for theta in map(mpmath.mpf, places(problem)):
            assert (
                abs(mpmath.diff(problem.excess, theta, h=mpmath.mpf(10) ** -15 * abs(theta)) / problem.slope(theta) - 1)
                < 1e-12
            )
            if problem.inverse is not None:
                assert abs(problem.inverse(problem.excess(theta)) - theta) <= mpmath.mpf(10) ** -30 * abs(theta)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_moments_carry_ten_digits_and_a_source(moment):
    assert moment.source.startswith(moment.name.split()[0])
    for literal in (moment.bias, moment.rmse):
        assert len(literal.lstrip("0.")) >= 10


def test_the_reference_quadrature_has_converged_where_the_answer_is_known():
    """C9 at one standard deviation from the lower end."""
    (identity,) = tagged("infinite", without=("limit",))[:1]
    bias, rmse, low, high = reference_moments(identity, 1.0, 1.0)
    with mpmath.workdps(30):
        density, tail = mpmath.npdf(1), mpmath.ncdf(-1)
        assert abs(bias - (density - tail)) < QUADRATURE_RTOL
        assert abs(rmse - mpmath.sqrt(1 - density)) < QUADRATURE_RTOL
        assert abs(low - tail) < QUADRATURE_RTOL
    assert high == 0


def test_the_closed_form_of_the_fixture_has_the_reference_excess():
    for theta, excess in zip((FIXTURE_THETA, FIXTURE_UPPER), FIXTURE_EXCESS, strict=True):
        assert fixture_excess(theta) == pytest.approx(float(excess), rel=FORMULA_RTOL)


def test_fixture_levels_are_thirteen_equal_ratios_over_three_decades():
    sigma = np.array([float(level[0]) for level in FIXTURE_LEVELS])
    assert len(sigma) == 13
    assert np.allclose(sigma, np.geomspace(1.57e-10, 1.57e-7, 13), rtol=FORMULA_RTOL)
