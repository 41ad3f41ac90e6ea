"""What is refused when a response is made, in which words, and at which place."""

import inspect
import math
import re

import numpy as np
import pytest

from estim import MeanResponse


def refusal(*args, error=ValueError, **kwargs):
    with pytest.raises(error) as caught:
        MeanResponse(*args, **kwargs)
    return str(caught.value)


def place(text):
    return float(re.search(r"theta = ([-+.e\d]+)", text).group(1))


def bump(centre, width, height):
    return lambda t: t + height * np.exp(-(((t - centre) / width) ** 2))


@pytest.mark.parametrize(
    ("function", "upper", "turn", "words"),
    [
        (lambda t: t * (2 - t), 2.0, 1.0, "rises before, falls after"),
        (lambda t: (t - 0.7) ** 2, 1.0, 0.7, "falls before, rises after"),
        (np.sin, 2.0, math.pi / 2, "rises before, falls after"),
        (lambda t: 1e9 + 1e12 * np.sin(t), 2.0, math.pi / 2, "rises before, falls after"),
        (lambda t: 1e-70 * np.sin(t / 1e6), 2e6, 1e6 * math.pi / 2, "rises before, falls after"),
        (math.cos, 4.0, math.pi, "falls before, rises after"),
        (lambda t: t * np.exp(-t / 3), math.inf, 3.0, "rises before, falls after"),
    ],
)
def test_a_turning_response_is_refused_at_the_turn(function, upper, turn, words):
    text = refusal(function, upper=upper)
    assert "the response turns at theta = " in text
    assert words in text
    assert "a reading would have two roots; split the domain there" in text
    assert place(text) == pytest.approx(turn, rel=1e-4)


def test_a_dip_as_narrow_as_three_cells_of_the_grid_is_found():
    """A dip of three thousandths of the domain; the grid has a thousand cells there."""
    text = refusal(bump(0.3337, 0.001, -0.003), upper=1.0)
    assert "the response turns" in text
    assert place(text) == pytest.approx(0.3337, abs=0.003)


def test_a_derivative_reveals_a_dip_that_the_values_hide():
    """The values rise from grid point to grid point; the slope, given exactly, is negative at one of them."""
    text = refusal(lambda t: t, upper=1.0, derivative=lambda t: np.where(np.abs(t - 0.5) < 1e-4, -1.0, 1.0))
    assert text == "derivative has the sign of a turning response at theta = 0.5; got -1"


@pytest.mark.parametrize(
    ("function", "start", "end"),
    [
        (lambda t: np.where(t < 1, t, np.where(t < 1.5, 1.0, t - 0.5)), 1.0, 1.5),
        (lambda t: np.maximum(t - 0.5, 0.0), 0.0, 0.5),
        (lambda t: np.minimum(t, 1.5), 1.5, 2.0),
        (lambda t: 7.0 - np.clip(t, 0.25, 0.5) - 2 * np.maximum(t, 0.5), 0.0, 0.25),
    ],
)
def test_a_flat_stretch_is_refused_with_both_its_ends(function, start, end):
    text = refusal(function, upper=2.0)
    found = re.match(r"the response is flat \(to float64\) between theta = (\S+) and (\S+): ", text)
    assert found, text
    cell = 2.0 / 1024
    assert float(found[1]) == pytest.approx(start, abs=cell)
    assert float(found[2]) == pytest.approx(end, abs=cell)
    assert "leave that stretch out of [lower, upper]" in text
    assert "MeanResponse.from_excess" in text


@pytest.mark.parametrize("function", [lambda t: 5.0, lambda t: 0.0, lambda t: 0 * t + 0.1])
@pytest.mark.parametrize("upper", [2.0, math.inf])
def test_a_constant_response_is_refused(function, upper):
    text = refusal(function, upper=upper)
    assert text == f"the response is constant: it has the same mean at all theta in [0, {upper:g}]"


def test_a_constant_excess_is_refused():
    with pytest.raises(ValueError, match=r"the response is constant: it has the same mean at all theta in \[0, 1\]"):
        MeanResponse.from_excess(lambda t: 0.0 * t, upper=1.0)


@pytest.mark.parametrize(("bad", "word"), [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")])
def test_a_value_that_is_not_a_number_is_refused_where_it_starts(bad, word):
    text = refusal(lambda t: np.where(t > 1.0, bad, t), upper=2.0)
    assert text.startswith(f"the response is {word} at theta = 1.00")
    assert "restrict lower and upper to where it is finite" in text


def test_a_response_that_overflows_in_its_domain_is_refused():
    text = refusal(np.exp, upper=1000.0)
    assert "the response is infinite at theta = " in text
    assert place(text) == pytest.approx(709.8, abs=1.0)


def test_a_response_infinite_at_its_lower_end_is_refused():
    assert refusal(np.log, upper=1.0) == "the response must be finite at theta = lower (0); got -inf"
    assert (
        refusal(lambda t: 1 / np.asarray(t), upper=1.0) == "the response must be finite at theta = lower (0); got inf"
    )


def fails_beyond_one(t):
    if t > 1.0:
        raise KeyError("no entry")
    return t


def test_a_function_that_raises_is_refused_with_its_error_and_the_place():
    assert refusal(lambda t: 1 / 0, upper=2.0).startswith("function raised ZeroDivisionError(")
    text = refusal(fails_beyond_one, upper=2.0)
    assert text.startswith("function raised KeyError('no entry') at theta = 1.00")
    assert place(text) == pytest.approx(1.0, abs=2.0 / 1024)


def test_the_error_of_the_function_is_the_cause():
    with pytest.raises(ValueError, match="raised") as caught:
        MeanResponse(fails_beyond_one, upper=2.0)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("function", "shape"),
    [(lambda t: np.array([t, t]), "(2,)"), (lambda t: [t**2], "(1,)"), (lambda t: np.asarray(t)[..., None], "(1,)")],
)
def test_a_wrong_shape_is_refused(function, shape):
    assert refusal(function, upper=2.0) == f"function must return shape () for theta of that shape; got shape {shape}"


@pytest.mark.parametrize("value", [1j, "x", None, b"x"])
def test_what_is_not_a_real_number_is_refused(value):
    assert refusal(lambda t: value, upper=2.0) == f"function must return real numbers; got {value!r}"


def test_a_ragged_answer_is_refused():
    assert "function must return real numbers" in refusal(lambda t: [[1.0], [1.0, 2.0]], upper=2.0)


@pytest.mark.parametrize("function", [3, None, "tanh", np.arange(3), [0.0, 1.0]])
def test_what_is_not_callable_is_refused(function):
    name = type(function).__name__
    if not isinstance(function, int | str | None):
        name += "; a table goes to MeanResponse.from_table(theta, mean)"
    assert refusal(function, upper=1.0, error=TypeError) == f"function must be callable; got {name}"
    if function is not None:
        text = refusal(np.tanh, upper=1.0, derivative=function, error=TypeError)
        assert text == f"derivative must be callable; got {name}"


@pytest.mark.parametrize("make", [MeanResponse, MeanResponse.from_excess])
@pytest.mark.parametrize("given", [([0.0, 1.0], [1.0, 2.0]), (np.tanh, 0.0, 3.0)])
def test_a_second_argument_without_a_name_is_told_where_it_belongs(make, given):
    rule = "a MeanResponse takes one function, and all else by name, lower= and upper= too; a table goes to "
    with pytest.raises(TypeError, match=f"^{re.escape(rule)}"):
        make(*given)
    assert list(inspect.signature(MeanResponse).parameters)[:2] == ["function", "lower"]


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (math.nan, 1.0, "lower must be finite; got nan"),
        (-math.inf, 1.0, "lower must be finite; got -inf"),
        (2.0, 2.0, "upper must be greater than lower; got lower = 2.0, upper = 2.0"),
        (2, 1, "upper must be greater than lower; got lower = 2, upper = 1"),
        (0.0, math.nan, "upper must be greater than lower; got lower = 0.0, upper = nan"),
        (0.0, -math.inf, "upper must be greater than lower; got lower = 0.0, upper = -inf"),
    ],
)
def test_a_bad_domain_is_refused_before_the_function_is_called(counted, lower, upper, text):
    function = counted(np.tanh)
    assert refusal(function, lower=lower, upper=upper) == text
    assert function.calls == 0


@pytest.mark.parametrize(
    ("derivative", "text"),
    [
        (lambda t: -1.0, "derivative has the sign of a turning response at theta = 0; got -1"),
        (lambda t: 2.0, "derivative disagrees with the response near theta = "),
        (lambda t: math.nan, "derivative is NaN at theta = 0"),
        (lambda t: np.where(np.asarray(t) > 1, np.nan, 1.0), "derivative is NaN at theta = 1.00"),
        (lambda t: 1 / 0, "derivative raised ZeroDivisionError('division by zero') at theta = "),
        (lambda t: 1j, "derivative must return real numbers; got 1j"),
        (lambda t: [t, t, t], "derivative must return shape () for theta of that shape; got shape (3,)"),
    ],
)
def test_a_wrong_derivative_is_refused(derivative, text):
    assert refusal(lambda t: t, upper=2.0, derivative=derivative).startswith(text)


def test_a_derivative_of_the_wrong_size_is_held_against_the_differences():
    text = refusal(lambda t: t, upper=2.0, derivative=lambda t: 2.0)
    assert text.endswith("got 2, differences give 1")


def test_the_derivative_of_a_decreasing_response_is_negative():
    assert MeanResponse(lambda t: -t, upper=2.0, derivative=lambda t: -1.0).slope(1.0) == -1.0
    text = refusal(lambda t: -t, upper=2.0, derivative=lambda t: 1.0)
    assert text == "derivative has the sign of a turning response at theta = 0; got 1"


def test_an_excess_that_does_not_start_at_zero_is_refused():
    with pytest.raises(ValueError, match=r"^excess must be 0 at theta = lower \(2\); got 3$"):
        MeanResponse.from_excess(lambda t: t + 1, lower=2.0, upper=5.0)


def test_a_baseline_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"^baseline must be finite; got nan$"):
        MeanResponse.from_excess(lambda t: t, baseline=math.nan, upper=1.0)


@pytest.mark.parametrize(
    ("theta", "mean", "text"),
    [
        ([0], [1], "theta and mean must be 1-D, of one length, at least 2; got shapes (1,) and (1,)"),
        ([], [], "theta and mean must be 1-D, of one length, at least 2; got shapes (0,) and (0,)"),
        ([0, 1], [1, 2, 3], "theta and mean must be 1-D, of one length, at least 2; got shapes (2,) and (3,)"),
        ([[0, 1]], [[1, 2]], "theta and mean must be 1-D, of one length, at least 2; got shapes (1, 2) and (1, 2)"),
        ([0, 1, 2], [0, math.nan, 2], "mean must be finite; got nan at entry 1"),
        ([0, 1, math.inf], [0, 1, 2], "theta must be finite; got inf at entry 2"),
        ([0, 1, 1], [0, 1, 2], "theta must be strictly increasing; got 1, then 1 (entries 1 and 2)"),
        ([2, 1, 0], [0, 1, 2], "theta must be strictly increasing; got 2, then 1 (entries 0 and 1)"),
        ([0, 1, 2], [0, 1, 1], "mean must be strictly monotone; it is flat between theta = 1 and 2"),
        ([0, 1, 2, 3], [0, 2, 1, 3], "mean must be strictly monotone; it is turning between theta = 1 and 2"),
        ([0, 1, 2, 3], [3, 2, 2.5, 1], "mean must be strictly monotone; it is turning between theta = 1 and 2"),
        ([0, 1, 2], [1, 2, 1], "mean must be strictly monotone; it is turning between theta = 1 and 2"),
        ([0, 1, 2], [1, 1, 1], "mean must be strictly monotone; it is flat between theta = 0 and 1"),
    ],
)
def test_a_bad_table_is_refused(theta, mean, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        MeanResponse.from_table(theta, mean)


@pytest.mark.parametrize("bad", [["a", "b"], [0, 1j], None])
def test_a_table_of_what_is_not_real_is_refused(bad):
    with pytest.raises(TypeError, match=r"^theta must be real numbers; got "):
        MeanResponse.from_table(bad, [0, 1])
    with pytest.raises(TypeError, match=r"^mean must be real numbers; got "):
        MeanResponse.from_table([0, 1], bad)


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (np.tanh, 1.0),
        (math.tanh, 1.0),
        (lambda t: t / (1 + t), 1.0),
        (lambda t: 100 * t / (2.5 + t), 100.0),  # overflows before it is found to be flat
        (lambda t: t**2 / (1 + t**2), 1.0),  # is inf / inf from 1e154 on
        (lambda t: 100 / (1 + (2 / t) ** 1.5), 100.0),  # divides by zero at 0
        (lambda t: 5 - 3 * np.exp(-t / 1e5), 5.0),
        (lambda t: np.exp(-t), 0.0),
        (np.arctan, math.pi / 2),
        (lambda t: np.exp(-5 * np.exp(-t)), 1.0),
    ],
)
def test_the_limit_on_an_infinite_domain_is_found(function, limit):
    response = MeanResponse(function)
    ends = response.attainable
    assert ends[1 if response.increasing else 0] == pytest.approx(limit, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("function", [lambda t: t, np.log1p, np.expm1, np.exp, math.exp, np.sqrt, lambda t: t**3])
def test_a_mean_without_limit_is_found_to_have_none(function):
    assert MeanResponse(function).attainable[1] == math.inf


@pytest.mark.parametrize("function", [lambda t: np.log1p(np.log1p(t)), lambda t: 1 - 1 / (1 + np.log1p(t))])
def test_a_limit_that_cannot_be_told_is_refused(function):
    text = refusal(function)
    assert text.startswith("the limit of the mean as theta grows without bound could not be found: ")
    assert text.endswith("give a finite upper")


@pytest.mark.parametrize(
    ("function", "lower", "upper"),
    [
        (lambda t: 1 - np.exp(-t), 0.0, 3.0),
        (lambda t: 1 - np.exp(-t), 0.0, 5.0),
        (lambda t: 1 - math.exp(-t), 0.0, math.inf),
        (lambda t: 80 * (1 - np.exp(-t / 1e6)), 0.0, 3e6),
        (lambda t: np.log(1 + t), 0.0, 2.0),
        (lambda t: (1 + t) ** 2 - 1, 0.0, 2.0),
        (lambda t: np.sqrt(1 + t * t) - 1, 0.0, 3.0),
        (lambda t: 1 / (1 + np.exp(-t)) - 0.5, 0.0, 10.0),
        (lambda t: 1e-12 * (np.exp(t) - 1), 0.0, 3.0),
        (lambda t: t - np.sin(t), 0.0, 3.0),
        (lambda t: np.log(t / 1e6), 1e6, 1e7),
        (lambda t: np.log(t) - np.log(7.0), 7.0, 70.0),
        (lambda t: np.cos(t) - 1, 0.0, 3.0),
    ],
)
def test_a_mean_that_starts_at_zero_by_cancellation_is_no_plateau_and_knows_its_rounding(function, lower, upper):
    """Below eps of its terms it stands still, then moves in steps; those steps are its rounding."""
    response = MeanResponse(function, lower=lower, upper=upper)
    theta = lower + np.linspace(0.01, 1.0, 50) * min(upper - lower, 5.0)
    assert np.allclose(response.invert(response(theta)), theta, rtol=1e-9)
    low, high = response.attainable
    assert response.rounding <= 1e-15 * (high - low)


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t**2,
        lambda t: t**3,
        lambda t: t**9,
        lambda t: (t - 1) ** 3,  # an interior point of no slope is no plateau
        lambda t: t**20,
        lambda t: t - np.sin(t),
        lambda t: 1.0 + 1e-9 * t,
        np.sqrt,
    ],
)
def test_a_slope_that_vanishes_in_a_point_is_no_plateau(function):
    MeanResponse(function, upper=3.0)
