"""Slopes of models with known kinks and steps, beside derivatives that are right or wrong."""

import numpy as np
import pytest

from estim.probe.matrix_free.slopes import require_slopes, weights_of

SLOPES = np.array([1.0, 2.0, -1.0, 0.5])


def held(bend, said=SLOPES, eps=2.0**-52):
    """Hold derivatives of readings that are straight but for a bend against differences."""
    require_slopes(
        lambda step: SLOPES * step + bend(step),
        np.zeros(4),
        weights_of(4) @ said,
        np.full(2, np.sqrt((SLOPES**2).sum())),
        eps=eps,
        library="JAX (a cause)",
    )


@pytest.mark.parametrize("distance", [3e-2, 1e-3, 1e-4])
def test_kinks_on_both_sides_are_no_other_slope(distance):
    # outside of them every slope is larger by a tenth, inside it is what the derivative says
    held(lambda step: 0.1 * SLOPES * np.sign(step) * max(abs(step) - distance, 0.0))


@pytest.mark.parametrize("distance", [3e-2, 1e-3, 1e-4])
def test_kinks_on_both_sides_are_no_other_slope_of_float32(distance):
    held(lambda step: 0.2 * SLOPES * np.sign(step) * max(abs(step) - distance, 0.0), eps=2.0**-23)


def test_one_kink_beside_the_parameters_is_no_other_slope():
    held(lambda step: 0.1 * SLOPES * max(step - 1e-9, 0.0))


@pytest.mark.parametrize("part", [0.0, 0.9, 0.95])
def test_another_slope_is_refused(part):
    with pytest.raises(ValueError, match="the derivative that JAX takes must be that of the model"):
        held(lambda step: 0.0 * step, part * SLOPES)


def test_steps_whose_derivative_is_zero_are_refused():
    with pytest.raises(ValueError, match="the derivative that JAX takes must be that of the model"):
        held(lambda step: np.round(step * 2.0**16) / 2.0**16 - SLOPES * step, np.zeros(4))
