"""The noise that makes a small shift likeliest, beside a fine grid of noise levels and scipy's Bessel functions."""

import numpy as np
import pytest
from scipy import special, stats

from estim.probe.verdict.equivalence import MISSED, EquivalenceTest
from estim.probe.verdict.noise_interval import (
    _bessel_ratio,
    _concentration,
    largest_probability,
    largest_statistics,
    variance_interval,
)

LEVEL = 0.05
#: Of the largest probability, whose place is sought to 1e-4 or so.
PROMISED = 1e-6


@pytest.mark.parametrize("degrees", [2, 3, 10, 500])
@pytest.mark.parametrize("per_degree", [0.5, 1, 3, 12])
@pytest.mark.parametrize("margin", [0.5, 3.0, 6.0, 12.0, 40.0, 1000.0])
def test_no_noise_of_the_interval_makes_it_likelier(degrees, per_degree, margin):
    interval = variance_interval(per_degree * degrees, MISSED * LEVEL)
    tried = np.geomspace(*interval, 2001)
    largest = largest_statistics(LEVEL, degrees, np.array([margin]), interval)
    for statistic in (0.3 * largest[0], largest[0]):
        expected = stats.ncx2.cdf(statistic / tried, degrees, margin**2 / tried).max()
        found = largest_probability(statistic, degrees, np.array([margin]), interval)[0]
        assert found == pytest.approx(expected, rel=1e-4)  # the grid's maximum is lower
        assert found >= expected * (1.0 - PROMISED)
    assert largest_probability(largest[0], degrees, np.array([margin]), interval)[0] == pytest.approx(LEVEL, rel=1e-6)


def test_a_shift_as_long_as_the_margin_is_likeliest_with_least_noise():
    interval = variance_interval(8.0, MISSED * LEVEL)
    expected = stats.ncx2.cdf(25.0 / interval[0], 3, 25.0 / interval[0])
    assert largest_probability(25.0, 3, np.array([5.0]), interval)[0] == expected
    assert largest_probability(0.0, 3, np.array([5.0]), interval)[0] == 0.0


def test_the_interval_holds_the_variance():
    low, high = variance_interval(7.0, 0.01)
    assert stats.chi2.sf(7.0 / low, 7.0) + stats.chi2.cdf(7.0 / high, 7.0) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("degrees", [2, 3, 10, 101])
def test_the_ratio_of_bessel_functions_and_its_inverse(degrees):
    place = np.geomspace(1e-2, 1e6, 60)
    expected = special.ive(0.5 * degrees, place) / special.ive(0.5 * degrees - 1.0, place)
    np.testing.assert_allclose(_bessel_ratio(place, degrees), expected, rtol=3e-4)
    np.testing.assert_allclose(_concentration(expected, degrees), place, rtol=0.03)


def test_the_test_of_an_ensemble_is_no_laxer_than_at_any_noise():
    margins = np.array([2.0, 5.0, 9.0])
    test = EquivalenceTest(margins, 3, LEVEL, 6.0)
    tried = np.geomspace(*test._interval(), 501)[:, None]
    worst = stats.ncx2.cdf(4.0 / tried, 3, margins**2 / tried).mean(axis=1).max()
    assert test.p_value(4.0) >= MISSED * LEVEL + worst * (1.0 - PROMISED)
