from fractions import Fraction

import numpy as np
import pytest

from estim.probe.model.readings import flatten, input_of_each, split_complex


@pytest.mark.parametrize(
    ("output", "values", "inputs"),
    [
        (3, [3.0], [0]),
        (np.arange(4, dtype=np.float32).reshape(2, 2), [0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1]),
        (np.arange(4).reshape(2, 2).T, [0.0, 2.0, 1.0, 3.0], [0, 0, 1, 1]),
        ([np.zeros((2, 1)), np.ones(3)], [0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 1, 1, 1]),
        ({"mean": np.zeros(2), "spread": np.ones((2, 2))}, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 0, 0, 1, 1]),
        ((np.zeros(2), np.ones(2)), [0.0, 0.0, 1.0, 1.0], [0, 1, 0, 1]),
        ([True, Fraction(1, 2)], [1.0, 0.5], [0, 1]),
        ([], [], []),
    ],
)
def test_readings_are_flattened_in_c_order(output, values, inputs):
    flat = flatten(output)
    assert flat.dtype == np.float64
    assert flat.tolist() == values
    assert input_of_each(output).tolist() == inputs


def test_complex_readings_are_real_then_imaginary_parts():
    assert split_complex(flatten([1 + 2j, 3])).tolist() == [1.0, 3.0, 2.0, 0.0]


@pytest.mark.parametrize("output", [None, ["a"], [1.0, None]])
def test_what_is_no_number_is_refused(output):
    with pytest.raises(TypeError, match="the model must return readings that are numbers; got"):
        flatten(output)
