import numpy as np
import pytest

import estim


@pytest.fixture(scope="module")
def curve():
    return estim.MeanResponse(lambda t: t / (1 + t), upper=4.0, name="curve")


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def test_monte_carlo_exact_and_linear_are_drawn_on_log_axes(curve):
    sigma = np.geomspace(1e-3, 1.0, 7)
    exact = estim.recover(curve, 1.0, sigma, method="exact")
    drawn = estim.recover(curve, 1.0, sigma, rng=0, trials=500)
    above, below = drawn.plot(exact=exact).axes
    assert above.get_xscale() == above.get_yscale() == below.get_yscale() == "log"
    assert labels(above) == ["exact", "linear: sigma / |theta slope|", "Monte Carlo, 500 trials (±2 s.e.)"]
    assert labels(below) == ["clipped at the lower end", "clipped at the upper end"]
    assert np.array_equal(above.lines[0].get_ydata(), exact.relative_rmse)
    dots, line = below.lines[:2]  # what was counted, beside what is exact
    assert np.array_equal(dots.get_ydata(), drawn.clipped_low)
    assert np.isclose(line.get_ydata()[-1], exact.clipped_low[-1])


def test_unsorted_levels_are_drawn_in_order(curve):
    above, _ = estim.recover(curve, 1.0, [0.1, 0.001, 0.01], method="exact").plot().axes
    drawn = {line.get_label(): list(line.get_xdata()) for line in above.lines}
    assert drawn["exact"] == drawn["linear: sigma / |theta slope|"] == [0.001, 0.01, 0.1]


def test_an_infinite_linear_prediction_is_left_out():
    square = estim.MeanResponse(lambda t: t**2, upper=1.0)
    above, _ = estim.recover(square, 0.0, [0.1, 0.2], method="exact").plot().axes
    assert labels(above) == ["exact"]


def test_clipped_fractions_follow_the_law_between_points_and_are_not_joined_where_they_were_drawn(curve):
    few = np.array([0.1, 2.0])
    exact = estim.recover(curve, 1.0, few, method="exact")
    _, below = exact.plot().axes
    lows, low, highs, high = below.lines
    between = estim.recover(curve, 1.0, low.get_xdata(), method="exact")
    np.testing.assert_allclose(low.get_ydata(), between.clipped_low, rtol=1e-6)
    np.testing.assert_allclose(high.get_ydata(), between.clipped_high, rtol=1e-6)
    assert lows.get_linestyle() == highs.get_linestyle() == "None"
    _, below = estim.recover(curve, 1.0, few, rng=0, trials=500).plot().axes
    assert [line.get_linestyle() for line in below.lines] == ["None", "None"]
