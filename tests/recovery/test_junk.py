"""Every argument outside the probe given junk: an error that names it, never one from inside a library."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import estim

JUNK = {
    "text": "x", "nan": math.nan, "inf": math.inf, "beyond floats": 10**400, "negative": -1, "complex": 1j,
    "matrix": np.ones((3, 3)), "complex vector": np.ones(2) * 1j, "bytes": b"x", "object": object(), "none": None,
    "object array": np.array(["a", None], dtype=object), "mapping": {"a": "x"}, "set": {1, 2}, "empty": [],
    "nan within": [math.nan, 1.0], "ragged": [[1], [1, 2]], "number": 2.5,
}  # fmt: skip
CURVE = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0)
FOUND = estim.Sensitivity.from_jacobian(np.eye(2), 0.1)


def judged_models(**given):
    params = {"a": 1.0}
    options = {
        "before": params,
        "after": {"a": 1.1},
        "bank": np.ones(3),
        "sigma": 0.1,
        "model": lambda p, x: p["a"] * x,
    }
    return estim.judge_models(**{**options, **given})


CALLS = {
    judged_models: ["after", "sigma", "baseline", "repeat_correlation", "confidence_level", "power", "rng"],
    lambda **given: estim.recover(**{"response": CURVE, "theta": 1.0, "sigma": 0.1, "trials": 9, **given}): [
        "response", "theta", "sigma", "trials", "method", "rng", "workers", "progress",
    ],
    lambda **given: estim.confidence_interval(**{"response": CURVE, "y": 0.1, "sigma": 0.1, **given}): [
        "response", "y", "sigma", "confidence_level", "method",
    ],
    lambda **given: estim.coverage(**{"response": CURVE, "theta": 0.1, "sigma": 0.1, **given}): [
        "response", "theta", "sigma", "confidence_level", "method",
    ],
    lambda **given: estim.MeanResponse(**{"function": lambda t: t, **given}): [
        "function", "lower", "upper", "derivative",
    ],
    lambda **given: estim.MeanResponse.from_table(**{"theta": [0, 1], "mean": [0, 1], **given}): ["theta", "mean"],
    lambda **given: FOUND.judge(**{"observed_shift": np.zeros(2), "smallest_change": 0.1, **given}): [
        "observed_shift", "smallest_change", "baseline", "confidence_level", "power", "absolute_sigma", "threshold",
        "rng",
    ],
    lambda **given: estim.AnyChange(**{"size": 0.1, **given}): ["size", "group", "relative", "case"],
}  # fmt: skip


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize(("call", "argument"), [(call, name) for call, names in CALLS.items() for name in names])
def test_junk_is_refused_by_the_name_of_the_argument(call, argument, junk):
    try:
        call(**{argument: junk})
    except (TypeError, ValueError) as error:
        assert argument in str(error)  # noqa: PT017 - what is no junk here may be taken


@pytest.mark.parametrize("number", [Fraction, Decimal, np.float32, np.longdouble])
def test_real_numbers_of_any_kind_are_taken(number):
    plain = estim.recover(CURVE, 1.0, [0.5, 0.25], method="exact")
    assert estim.recover(CURVE, number("1"), [number("0.5"), 0.25], method="exact") == plain
    assert estim.confidence_interval(CURVE, number("0.5"), number("0.25")).low == pytest.approx(
        estim.confidence_interval(CURVE, 0.5, 0.25).low
    )


@pytest.mark.parametrize("value", ["0.5", True, b"1", np.True_])
@pytest.mark.parametrize("argument", ["lower", "upper", "baseline"])
def test_neither_text_nor_true_is_a_number(argument, value):
    make = estim.MeanResponse.from_excess if argument == "baseline" else estim.MeanResponse
    with pytest.raises(TypeError, match=rf"^{argument} must be a real number; got "):
        make(lambda t: t, **{argument: value})


@pytest.mark.parametrize("argument", ["lower", "upper", "theta", "sigma"])
def test_a_number_beyond_float64_is_said_to_be_so(argument):
    beyond = {argument: 10**400}
    domain = {name: value for name, value in beyond.items() if name in ("lower", "upper")}
    with pytest.raises(ValueError, match=rf"^{argument} must lie within float64, which ends at 1\.8e308; got 1000"):
        estim.recover(estim.MeanResponse(lambda t: t, **domain), beyond.get("theta", 1.0), beyond.get("sigma", 1.0))


def test_series_that_name_the_same_points_in_another_order_are_refused():
    # They went by place, so that the noise of one reading was that of another.
    identity = estim.MeanResponse(lambda t: t, upper=9.0)
    y, sigma = pd.Series([1.0, 2.0, 3.0], index=list("abc")), pd.Series([0.1, 0.2, 0.3], index=list("abc"))
    plain = estim.confidence_interval(identity, y.to_numpy(), sigma.to_numpy())
    assert estim.confidence_interval(identity, y, sigma) == plain
    assert estim.confidence_interval(identity, y, sigma.rename(str.upper)) == plain  # labels of something else
    calls = {
        "sigma must have the order of y": lambda turned: estim.confidence_interval(identity, y, turned),
        "sigma must have the order of theta": lambda turned: estim.coverage(identity, y, turned),
        "mean must have the order of theta": lambda turned: estim.MeanResponse.from_table(y, turned),
    }
    for said, call in calls.items():
        with pytest.raises(ValueError, match=f"^{said}; place 0 is 'c' there, and 'a' here: put it into"):
            call(sigma[::-1])
        with pytest.raises(ValueError, match=f"^{said.replace('order', 'labels')}, or none of them; got 'z', which "):
            call(sigma.rename({"c": "z"}))
        call(sigma)
