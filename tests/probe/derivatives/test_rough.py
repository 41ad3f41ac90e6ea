"""Readings whose derivatives are known only roughly: one at a kink must not hide what all others see."""

import numpy as np
import pytest

import estim

RNG = np.random.default_rng(0)
LEFT, _, RIGHT = np.linalg.svd(RNG.normal(size=(12, 3)), full_matrices=False)
LINES = LEFT @ np.diag([1.0, 0.5, 1e-4]) @ RIGHT
POINT = np.array([1.0, 2.0, 3.0])
WITHOUT = np.delete(np.arange(12), 4)


def with_kinks(*kinked):
    """Return twelve lines; the readings of these numbers have a kink at POINT."""

    def model(params, bank):
        moved = LINES @ (np.asarray(params) - POINT)
        moved[list(kinked)] = abs(moved[list(kinked)])
        return moved

    return model


def covariance(readings):
    return 1e-6 * (0.7 * np.eye(readings) + 0.3)


@pytest.mark.parametrize(
    "sigma", [1e-3, np.linspace(1e-3, 2e-3, 12), covariance(12)], ids=["scalar", "for each", "covariance"]
)
def test_one_reading_at_a_kink_hides_nothing_that_the_others_see(sigma):
    found = estim.sensitivity(with_kinks(4), np.arange(12.0), sigma, params=POINT)
    rest = sigma if np.ndim(sigma) == 0 else sigma[np.ix_(*[WITHOUT] * np.ndim(sigma))]
    expected = estim.Sensitivity.from_jacobian(LINES[WITHOUT], rest)
    assert expected.resolved == found.resolved == 3
    assert found.scaled_singular_values[-1] == pytest.approx(expected.scaled_singular_values[-1], rel=1e-6)
    assert found.scaled_singular_values[-1] < 1e-3
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-6)
    assert found.readings == 11
    assert found.left_out.tolist() == [4]
    assert any(note.startswith("reading 4 is left out: its derivatives are known only roughly") for note in found.notes)


def test_a_weak_direction_is_named():
    found = estim.sensitivity(with_kinks(4), np.arange(12.0), 1e-3, params=POINT, smallest_change=0.1)
    assert [status.name for status in found.status] == ["SEEN", "SEEN", "WEAK"]
    weakest = np.linalg.svd(LINES[WITHOUT])[2][2]
    np.testing.assert_allclose(np.abs(found.directions[2]), np.abs(weakest), atol=1e-6)


def test_the_same_of_a_given_error():
    error = 1e-15 * np.abs(LINES)
    error[7] = 0.3 * np.abs(LINES[7])
    found = estim.Sensitivity.from_jacobian(LINES, 1e-3, jac_error=error)
    expected = estim.Sensitivity.from_jacobian(np.delete(LINES, 7, 0), 1e-3)
    assert found.left_out.tolist() == [7]
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-9)


def test_observed_shifts_may_have_all_readings_or_those_left():
    found = estim.sensitivity(with_kinks(4), np.arange(12.0), 1e-3, params=POINT)
    shift = LINES @ np.array([0.1, 0.2, -0.1])
    short, whole = (found.judge(given, smallest_change=0.1) for given in (shift[WITHOUT], shift))
    assert whole.to_json() == short.to_json()
    with pytest.raises(ValueError, match=r"each of the 11 readings .*or of all 12.* got shape \(10,\)"):
        found.judge(shift[:10], smallest_change=0.1)


def test_a_reading_that_alone_sees_something_is_not_left_out():
    jacobian = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    error = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.1, 0.1]])
    found = estim.Sensitivity.from_jacobian(jacobian, 1.0, jac_error=error)
    assert not len(found.left_out)
    assert found.resolved == 2


def test_kinks_in_many_readings_are_no_exception_and_stay():
    found = estim.sensitivity(with_kinks(*range(6)), np.arange(12.0), 1e-3, params=POINT)
    assert not len(found.left_out)
    assert found.resolved < 3


def test_the_record_round_trips_and_readings_that_were_nan_are_listed_too():
    def model(params, bank):
        moved = with_kinks(4)(params, bank)
        moved[0] = np.nan
        return moved

    found = estim.sensitivity(model, np.arange(12.0), 1e-3, params=POINT, nan_policy="omit")
    assert found.left_out.tolist() == [0, 4]
    assert estim.Sensitivity.from_json(found.to_json()).left_out.tolist() == [0, 4]
    kept = np.delete(LINES, [0, 4], 0)
    assert found.floor([1, 0, 0]) == pytest.approx(
        estim.Sensitivity.from_jacobian(kept, 1e-3).floor([1, 0, 0]), rel=1e-6
    )


def test_a_complex_shift_is_cut_to_the_parts_that_are_left():
    def model(params, bank):
        moved = with_kinks(4)(params, bank)
        return moved[:6] + 1j * moved[6:]

    found = estim.sensitivity(model, np.arange(6.0), 1e-3, params=POINT)
    assert found.left_out.tolist() == [4]
    shift = LINES @ np.array([0.1, 0.2, -0.1])
    whole = found.judge(shift[:6] + 1j * shift[6:], smallest_change=0.1)
    assert whole.to_json() == found.judge(shift[WITHOUT], smallest_change=0.1).to_json()


def test_an_infinite_error_hides_one_reading_not_all():
    error = np.zeros((12, 3))
    error[3, 1] = np.inf
    found = estim.Sensitivity.from_jacobian(LINES, 1e-3, jac_error=error)
    assert found.left_out.tolist() == [3]
    assert found.resolved == 3
