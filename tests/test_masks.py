"""What lies under a mask is no number of anybody's: it is missing wherever numbers are taken."""

import numpy as np
import pytest

import estim
from estim.attention import Layer, Network
from estim.masks import unmasked

X = np.linspace(0.1, 2.0, 5)
PARAMS = {"a": 1.0, "b": 0.5}
CURVE = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0)
NETWORK = Network([Layer(np.eye(2), np.eye(2), np.eye(2))])


def masked(values, *hidden):
    """Hide entries, by their places in C order, behind values that would be taken for numbers."""
    found = np.ma.masked_array(values, np.isin(np.arange(np.size(values)), hidden).reshape(np.shape(values)))
    found.flags.writeable = False
    return found


def model(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def probe(**changes):
    return estim.sensitivity(**{"model": model, "bank": X, "sigma": 0.1, "params": PARAMS, **changes})


def judge(shift, smallest=0.1):
    return probe().judge(shift, smallest_change=smallest)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: probe(sigma=masked(np.full(5, 0.1), 2)), "sigma must be finite; got nan at (2,)"),
        (lambda: probe(sigma=masked(np.eye(5), 6)), "sigma must be finite; got nan at (1, 1)"),
        (lambda: probe(sigma=np.ma.masked), "sigma must be finite; got nan"),
        (lambda: probe(model=lambda p, x: masked(model(p, x), 2)), "the reading in row 2 (input 2) is nan"),
        (lambda: probe(bank=masked(X, 1)), "the reading in row 1 (input 1) is nan"),
        (lambda: probe(params={"a": np.ma.masked, "b": 0.5}), "params must be finite; got nan for a"),
        (lambda: probe(smallest_change=masked([0.1, 0.1], 1)), "smallest_change must be positive and finite"),
        (lambda: probe(inputs=masked(np.arange(5), 1)), "inputs must be whole numbers"),
        (lambda: probe().floor(masked([1.0, 0.0], 0)), "functional must be finite; got nan for a"),
        (lambda: judge(masked(np.zeros(5), 3)), "observed_shift must be finite; got nan at (3,): leave"),
        (lambda: judge((X, masked(np.ones((2, 5)), 8))), "observed_shift must be finite; got nan at (1, 3): leave"),
        (lambda: judge(np.zeros(5), masked([0.1, 0.1], 1)), "smallest_change must be finite; got nan for b"),
        (lambda: estim.Sensitivity.from_jacobian(masked(np.eye(3), 5), 0.1), "jacobian has NaN in row 1"),
        (lambda: judge([0.0, np.ma.masked, 0.0, 0.0, 0.0]), "observed_shift must be finite; got nan at (1,): leave"),
        (lambda: judge((X, [masked(X, 3), X])), "observed_shift must be finite; got nan at (0, 3): leave"),
        (lambda: estim.Sensitivity.from_jacobian([masked([1, 2], 1), [0, 1]], 0.1), "jacobian has NaN in row 0"),
        (lambda: probe(sigma=[0.1, np.ma.masked, 0.1, 0.1, 0.1]), "sigma must be finite; got nan at (1,)"),
        (lambda: estim.spectrum([masked([1, 2], 1), [0, 1]]), "`matrix[0, 1]` must be a finite number; got nan"),
        (lambda: estim.judge_models(masked(X, 1), X, X, 0.1, model=lambda p, x: p * x), "before must be finite; got"),
        (lambda: estim.recover(CURVE, np.ma.masked, 0.1), "theta must be finite"),
        (lambda: estim.recover(CURVE, 1.0, masked([0.1, 0.2], 1)), "sigma must be positive and finite; got nan at"),
        (lambda: estim.confidence_interval(CURVE, masked([0.1, 0.2], 1), 0.1), "y must not be NaN; got one at entry 1"),
        (lambda: estim.confidence_interval(CURVE, 0.1, masked([0.1, 0.2], 1)), "sigma must be positive and finite"),
        (lambda: estim.MeanResponse.from_table(masked([0, 1, 2], 1), [0, 1, 2]), "theta must be finite; got nan"),
        (lambda: estim.MeanResponse(lambda t: masked([t], *[0] * (t > 2))[0], upper=4.0), "the response is NaN at"),
        (lambda: estim.spectrum(masked(np.eye(2, dtype=int), 1)), "`matrix` must be finite; got nan at index (0, 1)"),
        (lambda: Layer(masked(np.eye(2), 1), np.eye(2), np.eye(2)), "`query` must be finite"),
        (lambda: NETWORK([masked(np.ones((3, 2)), 1)]), "`bank[0]` must be finite"),
    ],
)
def test_a_masked_entry_is_refused_as_nan_is(call, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert said in str(caught.value)


def test_masked_readings_are_left_out_as_nan_is():
    found = probe(model=lambda p, x: masked(model(p, x), 2), nan_policy="omit")
    np.testing.assert_array_equal(found.left_out, [2])
    np.testing.assert_allclose(found.standard_errors, probe(bank=np.delete(X, 2)).standard_errors, rtol=1e-9)


def test_masked_readings_have_no_inverse():
    np.testing.assert_array_equal(CURVE.invert(masked([0.5, 0.75], 0)), [np.nan, 3.0])


def test_a_mask_that_hides_nothing_changes_nothing():
    values = np.ma.masked_array(X, np.zeros(5))
    assert type(unmasked(values)) is np.ndarray
    assert np.shares_memory(unmasked(values), X)
    assert unmasked(X) is X
    assert probe(bank=values) == probe()
    assert probe(sigma=np.ma.masked_array(np.full(5, 0.1))) == probe(sigma=np.full(5, 0.1))


def test_true_is_no_noise():
    for sigma in (True, [True] * 5):
        with pytest.raises(TypeError, match="sigma must be real"):
            probe(sigma=sigma)
