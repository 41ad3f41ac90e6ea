"""Models that round a part of what they compute: derivatives are slopes from afar, or their error says so."""

import numpy as np
import pytest

import estim
from estim.probe.model.probe import probe

X = np.arange(1, 5.0)
AT = {"a": 1.2345678, "b": 1.0}


def in_decimals(digits):
    return lambda value: np.round(value, digits)


def in_bits(bits):
    return lambda value: np.floor(value * 2.0**bits) / 2.0**bits


ROUNDINGS = [*((f"round {digits}", in_decimals(digits)) for digits in range(1, 15)),
             *((f"floor {bits}", in_bits(bits)) for bits in (4, 8, 10, 12, 16, 20, 24, 30, 36))]  # fmt: skip
roundings = pytest.mark.parametrize("rounding", [one for _, one in ROUNDINGS], ids=[name for name, _ in ROUNDINGS])


@roundings
@pytest.mark.parametrize("read", [float, lambda value: value], ids=["float", "complex step"])
def test_a_reading_rounded_in_part_has_the_slope_from_afar(rounding, read):
    found = probe(lambda p, x: rounding(read(p["a"]) * x) + read(p["b"]) * x**2, X, params=AT)
    assert found.derivative == "differences"
    assert (np.abs(found.jacobian[:, 0] - X) <= found.error[:, 0]).all()
    assert (np.abs(found.jacobian[:, 1] - X**2) <= found.error[:, 1]).all()


@roundings
def test_a_rounded_part_beside_a_slope_of_the_same_parameter(rounding):
    found = probe(lambda p, x: rounding(float(p["a"]) * x) + float(p["a"]) ** 2 * x, X, params={"a": 1.2345678})
    truth = X + 2 * 1.2345678 * X
    assert (np.abs(found.jacobian[:, 0] - truth) <= found.error[:, 0]).all()


@pytest.mark.parametrize(
    "rounding",
    [in_decimals(4), in_decimals(5), in_decimals(6), in_decimals(7), in_decimals(8), in_decimals(9),
     in_bits(10), in_bits(12), in_bits(16)],
)  # fmt: skip
def test_standard_errors_are_those_of_the_slope(rounding):
    found = estim.sensitivity(lambda p, x: rounding(float(p["a"]) * x) + float(p["b"]) * x**2, X, 0.1, params=AT)
    exact = np.linalg.inv(np.array([X, X**2]) @ np.array([X, X**2]).T)[0, 0] ** 0.5 * 0.1
    assert found.floor({"a": 1}) == pytest.approx(exact, rel=1e-3)
    assert not found.unseen


def test_a_direction_hidden_by_high_steps_is_unresolved_and_said():
    found = estim.sensitivity(
        lambda p, x: np.floor(float(p["a"]) * x * 256) / 256 + float(p["b"]) * x**2, X, 0.1, params=AT
    )
    assert found.unseen
    assert found.resolution > 0.1
    assert "steps of about 0.004 with a" in found.notes[0]


def test_the_steps_are_said():
    found = probe(lambda p, x: np.round(float(p["a"]) * x, 5) + float(p["b"]) * x**2, X, params=AT)
    assert found.notes == ("the readings move in steps of about 1e-05 with a: derivatives are slopes across the steps",)


def test_steps_too_high_for_a_slope_leave_an_error_and_a_note():
    found = probe(lambda p, x: np.round(float(p["a"]) * x, 0) + float(p["b"]) * x**2, X, params=AT)
    assert (found.error[:, 0] >= np.abs(found.jacobian[:, 0])).all()
    assert "steps of about 1 with a" in found.notes[0]


@pytest.mark.parametrize(
    ("steps", "at", "rounding"),
    [(1e4, 1.9635871436748371, np.floor), (1e6, 0.38553098710019418, np.floor), (1e6, 0.95564479663364521, np.round),
     (1e7, 0.79370931966517422, np.floor), (1e7, 0.79370931966517422, np.round)],
)  # fmt: skip
def test_steps_within_a_nonlinear_function_are_in_the_error(steps, at, rounding):
    """At these parameters the steps escaped in one reading, by chance or because it is level there."""
    inner = probe(lambda t, x: [float(np.sin(rounding(steps * float(t[0]) * v) / steps)) for v in x], X, params=[at])
    outer = probe(lambda t, x: [float(np.sin(rounding(steps * float(t[0])) / steps * v)) for v in x], X, params=[at])
    for found in (inner, outer):
        assert (np.abs(found.jacobian[:, 0] - X * np.cos(at * X)) <= found.error[:, 0]).all()


@pytest.mark.parametrize(
    "model",
    [
        lambda t, x: [max(float(t[0]) - 1.2, 0.0) * v + float(t[0]) for v in x],
        lambda t, x: [np.clip(float(t[0]), 0.9, 1.1) * v for v in x],
        lambda t, x: [np.tanh(200.0 * (float(t[0]) - 1.01)) * v for v in x],
        lambda t, x: [float(t[0]) * v + 1e-6 * np.sin(1e5 * float(t[0]) * v) for v in x],
    ],
    ids=["edge", "clip", "switch", "ripple"],
)
def test_what_does_not_jump_is_not_taken_for_steps(model):
    found = probe(model, X, params=[1.0])
    assert not any("steps of about" in note for note in found.notes)
