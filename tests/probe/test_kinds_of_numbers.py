"""A number is the same number whatever its type: results are those of the float, to the last bit."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import estim

KINDS = [np.float16, np.float32, np.longdouble, np.array, Fraction, Decimal]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

# All of them are held exactly by float16.
LEVEL, POWER, SIZE = 0.9375, 0.8125, 0.5


def decay(p, t):
    return p["a"] * np.exp(-p["rate"] * t)


PARAMS, TIMES = {"a": 2.0, "rate": 0.5}, np.linspace(0.0, 3.0, 7)
FOUND = estim.sensitivity(decay, TIMES, 0.125, params=PARAMS)
SHIFT = np.array([0.02, -0.1, 0.05, 0.0, 0.11, -0.07, 0.03])


@kinds
def test_of_a_verdict(kind):
    def verdict(level, power, size, **rule):
        return FOUND.judge(SHIFT, smallest_change=size, confidence_level=level, power=power, **rule)

    given, plain = (kind(LEVEL), kind(POWER)), (LEVEL, POWER)
    assert verdict(*given, kind(SIZE)) == verdict(*plain, SIZE)
    one = {"a": SIZE}
    assert verdict(*given, one, statistic=np.ones(7)) == verdict(*plain, one, statistic=np.ones(7))
    rule = {"statistic": np.ones(7), "threshold": 0.5}
    assert verdict(*given, one, statistic=np.ones(7), threshold=kind(0.5)) == verdict(*plain, one, **rule)
    found = verdict(*given, kind(SIZE))
    assert estim.Verdict.from_json(found.to_json()) == found
    assert type(found.confidence_level) is float
    assert type(found.wanted_power) is float


@kinds
def test_of_two_models(kind):
    def change(level, power):
        return estim.judge_models(
            PARAMS, {"a": 2.0, "rate": 0.6}, TIMES, 0.125, model=decay, confidence_level=level, power=power
        )

    assert change(kind(LEVEL), kind(POWER)) == change(LEVEL, POWER)


@kinds
def test_of_what_is_asked_of_a_record(kind):
    assert FOUND.power({"a": kind(SIZE)}, confidence_level=kind(LEVEL)) == FOUND.power(
        {"a": SIZE}, confidence_level=LEVEL
    )
    assert FOUND.minimum_detectable(
        {"a": 1}, power=kind(POWER), confidence_level=kind(LEVEL)
    ) == FOUND.minimum_detectable({"a": 1}, power=POWER, confidence_level=LEVEL)


@kinds
@pytest.mark.parametrize("method", ["feldman-cousins", "central", "likelihood-ratio"])
def test_of_a_confidence_interval(kind, method):
    identity = estim.MeanResponse(lambda t: t)
    found, plain = (
        estim.confidence_interval(identity, [-1.0, 0.5, 2.0], 1.0, confidence_level=level, method=method)
        for level in (kind(LEVEL), LEVEL)
    )
    assert found == plain
    covered, right = (
        estim.coverage(identity, [0.0, 0.5, 2.0], 1.0, confidence_level=level, method=method)
        for level in (kind(LEVEL), LEVEL)
    )
    np.testing.assert_array_equal(covered, right)


@kinds
def test_of_the_options_of_a_record(kind):
    def record(number):
        return estim.Sensitivity.from_jacobian(
            np.eye(3), number(0.25), rtol=number(0.125), atol=number(0.25), repeats=3, repeat_correlation=number(0.5),
            smallest_change=number(SIZE),
        )  # fmt: skip

    assert record(kind) == record(float)


@pytest.mark.parametrize("kind", [Fraction, Decimal, np.float32])
def test_of_readings(kind):
    shift = [kind(n) / 16 for n in (0, 1, -1, 2, 1, 0, -1)]
    assert FOUND.judge(shift, smallest_change=SIZE) == FOUND.judge([float(x) for x in shift], smallest_change=SIZE)


def test_true_is_no_size():
    with pytest.raises(TypeError, match=r"^smallest_change must be a real number; got True$"):
        estim.Sensitivity.from_jacobian(np.eye(2), 1.0, smallest_change=True)


@pytest.mark.parametrize("keep", [True, 1.0, -1, "2"])
def test_directions_to_keep_are_counted(keep):
    with pytest.raises(ValueError, match=r"^keep must be a whole number, at least 0; got "):
        estim.sensitivity(decay, TIMES, 0.125, params=PARAMS, keep=keep)


def test_none_to_keep_is_none_of_any_kind():
    assert estim.sensitivity(decay, TIMES, 0.125, params=PARAMS, keep=np.int64(0)) == FOUND


def dependent(kind):
    """Return a Jacobian whose third column is the sum of the others, but for its rounding in that type."""
    x, y = np.random.default_rng(0).normal(size=(2, 50)).astype(kind)
    return np.stack([x, y, x + y], axis=1)


@pytest.mark.parametrize("kind", ["f2", "f4", ">f4"])
def test_a_jacobian_in_short_floats_is_known_to_their_rounding(kind):
    jacobian = dependent(kind)
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0)
    assert [str(status) for status in found.status] == ["seen", "seen", "unresolved"]
    assert "short floats" in found.notes[0]
    # As numbers they are independent, and whoever says that they are exact gets that.
    exact = estim.Sensitivity.from_jacobian(jacobian, 1.0, jac_error=0.0)
    assert exact.resolved == estim.Sensitivity.from_jacobian(jacobian.astype(float), 1.0).resolved == 3
    masked = estim.Sensitivity.from_jacobian(np.ma.array(jacobian), 1.0)
    assert masked.status == found.status


def test_columns_of_short_floats_are_known_to_their_rounding():
    frame = pd.DataFrame(dependent("f4"), columns=["a", "b", "c"])
    assert estim.Sensitivity.from_jacobian(frame, 1.0).resolved == 2
    assert estim.Sensitivity.from_jacobian(frame.astype({"a": float}), 1.0).resolved == 2


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_tensors_of_short_floats_are_known_to_their_rounding(kind):
    torch = pytest.importorskip("torch")
    jacobian = torch.tensor(dependent("f8")).to(getattr(torch, kind))
    assert estim.Sensitivity.from_jacobian(jacobian, 1.0).resolved == 2
    exact = jacobian.double().numpy()
    found = estim.sensitivity(lambda p, x: exact @ p, range(50), 1.0, params=np.ones(3), jac=lambda p, x: jacobian)
    assert found.resolved == 2


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("nested", [list, tuple, dict])
def test_derivatives_nested_like_params_of_unlike_shapes(kind, nested):
    def made(one, two):
        return {"a": one, "b": {"c": two}} if nested is dict else nested([one, two])

    def model(p, x):
        one, two = (p["a"], p["b"]["c"]) if nested is dict else p
        return one[0] * x + two[0] + two[1] * x**2

    def jac(_, x):
        return made(x[:, None].astype(kind), np.stack([np.ones_like(x), x**2], axis=1).astype(kind))

    params = made(np.array([1.0]), np.array([1.0, 2.0]))
    found = estim.sensitivity(model, np.linspace(0.1, 1.0, 5), 0.1, params=params, jac=jac)
    assert found.resolved == 3
    assert (found.resolution > 1e-8) is (kind is np.float32)


def test_a_list_of_short_floats_is_known_to_their_rounding():
    assert estim.Sensitivity.from_jacobian([list(row) for row in dependent("f4")], 1.0).resolved == 2
