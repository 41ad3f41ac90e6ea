import numpy as np
import pytest

from estim import Batches
from estim.probe.models import probe

X = np.linspace(0.1, 2.0, 7)
PARAMS = {"a": 1.0, "b": 0.5}


def model(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def stubborn(p, x):
    return [float(p["a"]) * 2.718281828459045 ** (-float(p["b"]) * value) for value in x]


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 6]])
@pytest.mark.parametrize("evaluate", [model, stubborn])
def test_batches_add_up_to_the_whole(cuts, evaluate):
    whole = probe(evaluate, X, params=PARAMS)
    parts = probe(evaluate, Batches(lambda: iter(np.split(X, cuts))), params=PARAMS)
    assert parts.derivative == whole.derivative
    np.testing.assert_array_equal(parts.readings, whole.readings)
    assert (np.abs(parts.jacobian - whole.jacobian) <= parts.error + whole.error).all()
    np.testing.assert_array_equal(parts.inputs, whole.inputs)
    np.testing.assert_array_equal(parts.kept, whole.kept)
    assert parts.total == whole.total == 7


def test_readings_left_out_keep_their_places():
    holes = [np.array([1.0, np.nan]), np.array([np.nan, 2.0, 3.0])]
    found = probe(lambda p, x: p[0] * x, Batches(lambda: holes), params=[1.0], nan_policy="omit")
    assert found.kept.tolist() == [0, 3, 4]
    assert found.total == 5


def test_inputs_are_given_for_all_batches_together():
    batches = Batches(lambda: np.split(X, [3]))
    found = probe(model, batches, params=PARAMS, inputs=[0, 0, 0, 1, 1, 1, 1])
    assert found.inputs.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_an_error_names_the_batch():
    batches = Batches(lambda: [X, X[:0]])
    with pytest.raises(ValueError, match="batch 1: bank must hold at least one input"):
        probe(model, batches, params=PARAMS)


def test_what_is_no_factory_is_refused():
    with pytest.raises(TypeError, match="factory must be callable and return a fresh iterator over batches; got list"):
        Batches([X])
    with pytest.raises(TypeError, match="factory must return an iterable of batches; got int"):
        iter(Batches(lambda: 3))
    with pytest.raises(ValueError, match=r"bank must hold at least one batch; factory\(\) gave none"):
        probe(model, Batches(list), params=PARAMS)
    once = iter([X])
    exhausted = Batches(lambda: once)
    list(exhausted)
    with pytest.raises(ValueError, match="factory must return a fresh iterator each time; got the same one again"):
        iter(exhausted)
