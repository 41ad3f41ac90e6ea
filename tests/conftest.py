import numpy as np
import pytest


@pytest.fixture
def counted():
    """Return a wrapper that counts the calls of a function."""

    def wrap(function):
        def counting(theta):
            counting.calls += 1
            return function(theta)

        counting.calls = 0
        return counting

    return wrap


@pytest.fixture
def read_only():
    """Return a maker of read-only arrays, for arguments that must not be written to."""

    def make(values):
        array = np.array(values)
        array.setflags(write=False)
        return array

    return make
