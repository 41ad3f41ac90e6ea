import math
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from estim.probe.model.probe import probe
from tests.probe.functions import FUNCTIONS, X

EPS = np.finfo(np.float64).eps
BANK = np.array(X)

functions = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)


def sizes(truth):
    """Return the largest entry of each column, one for a column of zeros."""
    largest = np.abs(truth).max(axis=0)
    return np.where(largest > 0.0, largest, 1.0)


@functions
def test_errors_of_differences_are_honest(function):
    found = probe(function.plain, BANK, params=np.array(function.theta))
    assert found.derivative == "differences"
    assert (np.abs(found.jacobian - function.jacobian()) <= found.error).all()


@functions
def test_differences_reach_their_accuracy(function):
    found = probe(function.plain, BANK, params=np.array(function.theta))
    off = np.abs(found.jacobian - function.jacobian()) / sizes(function.jacobian())
    assert off.max() <= function.relative
    assert (found.error / sizes(function.jacobian())).max() <= 100 * function.relative


@functions
def test_errors_of_complex_steps_are_honest(function):
    found = probe(function.analytic, BANK, params=np.array(function.theta))
    assert found.derivative == "complex step"
    assert (np.abs(found.jacobian - function.jacobian()) <= found.error).all()


@functions
def test_complex_steps_are_accurate_but_for_the_conditioning(function):
    found = probe(function.analytic, BANK, params=np.array(function.theta))
    off = np.abs(found.jacobian - function.jacobian()) / sizes(function.jacobian())
    # A rounding of the argument moves the fastest sine by 1e7 * 1.3 * 4.2 roundings, one of 1 - 1e-8 by 1e8.
    rough = any(word in function.name for word in ("sine", "ripple", "saturation", "small square"))
    assert off.max() <= (1e-8 if rough else 8 * EPS)


@given(
    st.floats(-1e3, 1e3).filter(lambda value: abs(value) > 1e-3),
    st.floats(-9.0, 9.0),
    st.sampled_from([math.sin, math.exp, math.atan, math.tanh, lambda u: u**3 - u]),
)
@settings(max_examples=60, deadline=None)
def test_units_do_not_matter(value, decade, curve):
    """A parameter in units ten to the decade smaller has a derivative as much larger, and as well known."""
    assume(abs(value) < 20.0 or curve is not math.exp)
    unit = 10.0**decade

    def model(theta, x):
        return [curve(float(theta[0]) / unit * entry) for entry in x]

    slopes = {math.sin: math.cos, math.exp: math.exp, math.atan: lambda u: 1 / (1 + u * u)}
    slopes[math.tanh] = lambda u: 1 / math.cosh(u) ** 2 if abs(u) < 300 else 0.0
    slope = slopes.get(curve, lambda u: 3 * u * u - 1)
    theta = value * unit
    found = probe(model, np.array([0.1, 0.2]), params=[theta])
    truth = np.array([[entry * slope(theta / unit * entry) / unit] for entry in (0.1, 0.2)])
    rounding = 8 * EPS * (np.abs(truth) + abs(value) / unit * np.maximum(np.abs(truth) * unit, 1.0))
    assert (np.abs(found.jacobian - truth) <= found.error + rounding).all()


@pytest.mark.parametrize(
    "broken",
    [
        lambda t, x: np.abs(t[0]) * x + t[1],
        lambda t, x: np.real(t[0]) * x + t[1],
        lambda t, x: np.maximum(t[0], -5.0).real * x + t[1],
        lambda t, x: np.asarray(t).astype(np.float64)[0] * x + t[1],
        lambda t, x: (t[0] * np.conj(t[1])) * x + 1e6 * t[1],
        lambda t, x: np.hypot(np.abs(t[0]), np.abs(t[1])) * x,
    ],
)
def test_models_that_are_not_analytic_are_found_out(broken):
    theta = np.array([-1.5, 2.0])
    found = probe(broken, BANK, params=theta)
    assert found.derivative == "differences"
    step = 1e-6
    for j in range(2):
        move = step * np.eye(2)[j]
        expected = (broken(theta + move, BANK) - broken(theta - move, BANK)) / (2 * step)
        np.testing.assert_allclose(found.jacobian[:, j], expected, rtol=1e-4, atol=1e-3)


def test_a_small_part_that_drops_the_imaginary_part_is_found_out_too():
    found = probe(lambda t, x: 1e3 * t[0] * x + np.abs(t[1]) * x, BANK, params=[1.0, 2.0])
    assert found.derivative == "differences"
    np.testing.assert_allclose(found.jacobian[:, 1], BANK, rtol=1e-8)


@pytest.mark.parametrize("model", [lambda t, x: abs(t[0]) * x, lambda t, x: np.maximum(t[0], 0.0) * x])
def test_a_kink_has_an_error_that_covers_both_slopes(model):
    found = probe(model, BANK, params=[0.0])
    assert (np.abs(found.jacobian[:, 0] - BANK) <= found.error[:, 0]).all()
    assert found.notes == ("slopes differ on both sides of theta[0]: the error covers both",)


def test_an_infinite_slope_is_not_taken_for_a_number():
    found = probe(lambda t, x: np.sqrt(t[0] * x), BANK, params=[0.0])
    assert (found.error >= np.abs(found.jacobian)).all()


@pytest.mark.parametrize(
    "model",
    [
        lambda t, x: np.sqrt(t[0] * t[1]) * x + t[1] * x**2,
        lambda t, x: np.sqrt(np.abs(t[0])) * x + t[1] * x**2,
        lambda t, x: np.cbrt(np.real(t[0])) * x + t[1] * x**2,
        lambda t, x: [math.log(t[0]) * t[0] * v + t[1] * v**2 if t[0] else t[1] * v**2 for v in x],
        lambda t, x: (t[0] > 0.0) * x + t[1] * x**2,
        lambda t, x: np.where(x > 2.0, np.sqrt(t[0]) * x, t[0] * x) + t[1] * x**2,
    ],
    ids=["square root", "root of a size", "cube root", "t log t", "jump", "in some readings only"],
)
def test_an_infinite_slope_is_said(model):
    found = probe(model, BANK, params=[0.0, 2.0])
    assert found.notes == (
        "the derivative is infinite at theta[0] = 0 (slopes grow without end as the step shrinks, as a square root's "
        "do at zero): not seen does not mean without effect there; start elsewhere",
    )


@pytest.mark.parametrize("scale", [1e-6, 1e3])
def test_an_infinite_slope_away_from_zero_is_said(scale):
    found = probe(lambda t, x: np.sqrt(np.real(t[0]) - scale) * x, BANK, params=[scale])
    assert found.notes[0].startswith(f"the derivative is infinite at theta[0] = {scale:g} (")


@pytest.mark.parametrize("power", [1.25, 1.5, 1.9])
def test_complex_steps_see_a_branch_point_without_slope(power):
    found = probe(lambda t, x: t[0] ** power * x + t[1] * x**2, BANK, params=[0.0, 2.0])
    assert (np.abs(found.jacobian[:, 0]) <= found.error[:, 0]).all()
    np.testing.assert_allclose(found.jacobian[:, 1], BANK**2, rtol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_no_slope_of_a_smooth_function_is_called_infinite(function):
    assert "infinite" not in str(probe(function.plain, X, params=list(function.theta)).notes)


def test_one_sided_differences_at_the_edge_of_the_domain():
    found = probe(lambda t, x: [math.pow(float(t[0]), 1.5) * v + 2.0 * float(t[0]) for v in x], BANK, params=[0.0])
    assert (np.abs(found.jacobian - 2.0) <= found.error).all()
    np.testing.assert_allclose(found.jacobian, 2.0, rtol=1e-6)


def test_one_sided_differences_from_the_right_edge():
    found = probe(lambda t, x: [math.acos(float(t[0])) ** 4 * v - float(t[0]) for v in x], BANK, params=[1.0])
    assert (np.abs(found.jacobian + 1.0) <= found.error).all()


def test_steps_that_leave_the_domain_are_shortened():
    def model(t, x):
        if not 1.0 - 1e-4 < t[0] < 1.0 + 1e-4:
            raise ArithmeticError("outside the table")
        return [math.exp(float(t[0]) * v) for v in x]

    found = probe(model, BANK, params=[1.0])
    truth = BANK * np.exp(BANK)
    assert (np.abs(found.jacobian[:, 0] - truth) <= found.error[:, 0]).all()
    np.testing.assert_allclose(found.jacobian[:, 0], truth, rtol=1e-8)


def test_overflow_at_large_steps_is_shortened():
    found = probe(lambda t, x: [math.exp(float(t[0]) * v) for v in x], BANK[:2], params=[600.0])
    truth = BANK[:2] * np.exp(600.0 * BANK[:2])
    np.testing.assert_allclose(found.jacobian[:, 0], truth, rtol=1e-8)


def test_no_way_out_is_said_with_the_cause():
    def model(t, x):
        if float(t[0]) != 1.0:
            raise ArithmeticError("only here")
        return x

    with pytest.raises(
        ValueError, match=r"no finite readings for any change of theta\[0\] = 1: ArithmeticError\('only here'\)"
    ):
        probe(model, BANK, params=[1.0])


@pytest.mark.parametrize(("digits", "dtype"), [(7, np.float32), (3, np.float16)])
def test_short_floats_inside_are_noise_and_said(digits, dtype):
    def model(t, x):
        return dtype(t[0]) * np.exp(dtype(t[1]) * x.astype(dtype))

    found = probe(model, BANK[:3], params=[1.1, 0.7])
    truth = np.stack([np.exp(0.7 * BANK[:3]), 1.1 * BANK[:3] * np.exp(0.7 * BANK[:3])], axis=1)
    assert found.derivative == "differences"
    assert (np.abs(found.jacobian - truth) <= found.error).all()
    assert found.error.max() < 10.0 ** (2 - digits) * 1e2
    assert any("the model computes its readings only to" in note for note in found.notes)


def test_a_staircase_is_noise():
    found = probe(lambda t, x: np.round(t[0] * x, 3), BANK, params=[1.5])
    assert (np.abs(found.jacobian[:, 0] - BANK) <= found.error[:, 0]).all()
    assert found.error.max() < 0.05


@pytest.mark.parametrize("theta", [(1.0, 2.0), (0.0, 2.0)])
@pytest.mark.parametrize("model", [lambda t, x: 0.1, lambda t, x: np.full(3, 5.0), lambda t, x: 5.0 + 0.0 * t[0] * x])
def test_constant_readings_have_no_derivative_beyond_the_error(model, theta):
    found = probe(model, BANK, params=theta)
    assert (np.abs(found.jacobian) <= np.maximum(found.error, 1e-30)).all()


def test_an_exact_null_stays_within_the_error():
    found = probe(FUNCTIONS[0].plain, np.array([1.0, 2.0, 3.0]), params=[2.0, 0.35])
    norms = np.linalg.norm(found.jacobian, axis=0)
    values = np.linalg.svd(found.jacobian / norms, compute_uv=False)
    resolution = np.linalg.norm(found.error / norms)
    assert values[1] < resolution < 1e-9


@pytest.mark.parametrize("evaluate", [FUNCTIONS[13].plain, FUNCTIONS[13].analytic])
def test_workers_change_no_bit(evaluate):
    alone = probe(evaluate, BANK, params=FUNCTIONS[13].theta)
    with ThreadPoolExecutor(2) as pool:
        for workers in (2, -1, pool.map):
            again = probe(evaluate, BANK, params=FUNCTIONS[13].theta, workers=workers)
            np.testing.assert_array_equal(again.jacobian, alone.jacobian)
            np.testing.assert_array_equal(again.error, alone.error)


def test_workers_must_be_a_number_or_a_map():
    with pytest.raises(ValueError, match="workers must be a positive integer, -1, or a map-like callable; got 0"):
        probe(FUNCTIONS[0].plain, BANK, params=FUNCTIONS[0].theta, workers=0)


def test_warnings_at_trial_steps_are_hushed():
    def model(t, x):
        if t[0] != 1.0:
            warnings.warn("here", RuntimeWarning, stacklevel=2)
        return [math.exp(float(t[0]) * v) for v in x]

    assert probe(model, BANK, params=[1.0]).derivative == "differences"


def test_progress_is_shown(capsys):
    probe(FUNCTIONS[0].plain, BANK, params=FUNCTIONS[0].theta, progress=True)
    assert "derivatives" in capsys.readouterr().err


def test_coarse_rounding_is_no_endless_slope():
    bank = np.linspace(0.1, 3.0, 400)

    def model(t, x):
        rounded = np.sin((t[0] * x).astype(np.float32)) * np.float32(t[1]) + np.float32(100)
        return rounded.astype(np.float64) + np.cos(t[2] * x)

    for theta in ([0.603, 1.153, 0.323], [-0.252, -1.408, 0.557], [-0.89, 0.098, 0.0]):
        assert "infinite" not in str(probe(model, bank, params=theta).notes)


@pytest.mark.parametrize("unit", [1e-250, 1e-160, 1e-60, 1e60, 1e160, 1e250])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("real", [False, True])
def test_units_of_a_parameter_do_not_matter(unit, which, real):
    x, units = np.linspace(0.1, 2.0, 9), np.where(np.arange(2) == which, unit, 1.0)

    def model(p, x):
        p = [float(entry) for entry in p] if real else p
        return p[0] / units[0] * np.exp(-p[1] / units[1] * x)

    found = probe(model, x, params=np.array([1.0, 0.5]) * units)
    fall = np.exp(-0.5 * x)
    right = np.stack([fall, -x * fall], axis=1)
    assert (np.abs(found.jacobian * units - right) <= found.bound * units + 1e-14).all()
    assert (found.bound * units <= 1e-6).all()


@pytest.mark.parametrize("tiny", [1e-18, 1e-30, 1e-60, 1e-200, 1e-305, 5e-324])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_parameter_that_is_next_to_nothing_is_seen_on_the_scale_of_others(tiny, real, named):
    """As a coefficient that a fit has brought to 1e-30: its own size is no step that shows."""
    x = np.linspace(0.1, 2.0, 9)

    def model(p, x):
        one, two = (p["a"], p["b"]) if named else p
        one, two = (float(one), float(two)) if real else (one, two)
        return one * x + two * x**2

    found = probe(model, x, params={"a": 1.0, "b": tiny} if named else [1.0, tiny])
    right = np.stack([x, x**2], axis=1)
    assert (np.abs(found.jacobian - right) <= found.bound).all()
    assert found.bound.max() < 1e-9
