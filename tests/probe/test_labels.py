"""Numbers that carry names go by them: a Series, or a dict, in another order is the same, or is refused."""

import numpy as np
import pandas as pd
import pytest

import estim

T = np.linspace(0.0, 3.0, 5)
PARAMS = {"a": 1.0, "rate": 0.5}
TURNED = pd.Series({"rate": 0.6, "a": 1.0})
LABELS = list("vwxyz")
BANK = pd.DataFrame({"t": T}, index=LABELS)


def model(p, t):
    return p["a"] * np.exp(-p["rate"] * np.asarray(t).ravel())


FOUND = estim.sensitivity(model, BANK, 0.1, params=PARAMS)
STEP = pd.Series({"rate": 1.0, "a": 0.25})


@pytest.mark.parametrize(
    "ask",
    [
        FOUND.floor,
        FOUND.shift,
        FOUND.power,
        FOUND.minimum_detectable,
        lambda change: FOUND.judge(np.zeros(5), smallest_change=change).shifts[0],
        lambda change: estim.linearity(model, T, change, 0.1, params=PARAMS).actual,
        lambda change: estim.response_along(model, T, change, params=PARAMS, upper=0.1)(0.1),
    ],
)
def test_a_series_of_parameters_goes_by_its_labels(ask):
    assert ask(STEP) == ask([0.25, 1.0]) == ask(dict(STEP)) == ask(STEP[::-1])
    assert ask(pd.Series([0.25, 1.0])) == ask([0.25, 1.0])  # labels that are only numbers of places
    with pytest.raises(ValueError, match="names 'b', which is no parameter; the names are a, rate"):
        ask(STEP.rename({"a": "b"}))
    with pytest.raises(ValueError, match=r"must name a parameter once; got 'a' twice"):
        ask(pd.Series([1.0, 2.0], index=["a", "a"]))


def test_what_every_parameter_has_goes_by_name():
    sizes = pd.Series({"rate": 1e3, "a": 1e-3})
    plain = estim.sensitivity(model, T, 0.1, params=PARAMS, smallest_change=[1e-3, 1e3], groups=["x", "y"])
    groups = pd.Series({"rate": "y", "a": "x"})
    assert estim.sensitivity(model, T, 0.1, params=PARAMS, smallest_change=sizes, groups=groups) == plain
    assert estim.sensitivity(model, T, 0.1, params=PARAMS, smallest_change=dict(sizes), groups=groups) == plain
    with pytest.raises(ValueError, match=r"smallest_change must have an entry for every parameter; .* unknown: rate"):
        estim.sensitivity(model, T, 0.1, params=PARAMS, smallest_change={"a": 1.0})
    fitted = [
        estim.recover_parameters(model, T, 0.3, params=PARAMS, bounds=(low, np.inf), trials=20, rng=0)
        for low in ([0.9, 0.4], pd.Series({"rate": 0.4, "a": 0.9}))
    ]
    assert fitted[0] == fitted[1]


@pytest.mark.parametrize("turn", [dict, pd.Series])
def test_two_sets_of_parameters_are_subtracted_by_name(turn):
    plain = FOUND.judge(np.zeros(5), smallest_change=[0.0, 0.1])
    for before in (PARAMS, dict(reversed(PARAMS.items()))):
        verdict = FOUND.judge(np.zeros(5), smallest_change=(turn(before), turn(TURNED)))
        np.testing.assert_allclose(verdict.shifts, plain.shifts, rtol=1e-12)
    with pytest.raises(ValueError, match="must be alike; got 2 and 2 numbers, and 'a' is in one of them only"):
        FOUND.judge(np.zeros(5), smallest_change=(PARAMS, {"c": 1.0, "rate": 0.5}))


def test_noise_and_shifts_in_another_order_than_the_bank_are_refused():
    sigma = pd.Series(np.linspace(0.1, 0.5, 5), index=LABELS)
    assert estim.sensitivity(model, BANK, sigma, params=PARAMS).readings == 5
    covariance = pd.DataFrame(np.diag(sigma**2), index=LABELS, columns=LABELS)
    said = "sigma must have the order of the bank's inputs; place 0 is 'z' there, and 'v' here"
    for turned in (sigma[::-1], covariance.loc[LABELS[::-1], LABELS[::-1]]):
        for ask in (
            lambda sigma: estim.sensitivity(model, BANK, sigma, params=PARAMS),
            lambda sigma: estim.linearity(model, BANK, STEP, sigma, params=PARAMS),
            lambda sigma: estim.response_along(model, BANK, STEP, params=PARAMS, upper=0.1, sigma=sigma),
            lambda sigma: estim.judge_models(PARAMS, {"a": 1.0, "rate": 0.6}, BANK, sigma, model=model),
            lambda sigma: estim.recover_parameters(model, BANK, sigma, params=PARAMS, trials=5),
            lambda sigma: estim.Sensitivity.from_jacobian(pd.DataFrame(np.eye(5), index=LABELS), sigma),
        ):
            with pytest.raises(ValueError, match=said):
                ask(turned)
    shift = pd.Series([0.5, 0.0, 0.0, 0.0, 0.0], index=LABELS)
    assert FOUND.judge(shift, smallest_change=0.1) == FOUND.judge(shift.to_numpy(), smallest_change=0.1)
    with pytest.raises(ValueError, match=r"^observed_shift must have the order of the bank's inputs"):
        FOUND.judge(shift[::-1], smallest_change=0.1)
    repeats = pd.DataFrame(np.arange(15.0).reshape(3, 5), columns=LABELS)
    with pytest.raises(ValueError, match=r"^observed_shift must have the order of the bank's inputs"):
        FOUND.judge((shift.to_numpy(), repeats[LABELS[::-1]]), smallest_change=0.1)


def test_readings_after_in_another_order_than_before_are_refused():
    found = estim.Sensitivity.from_jacobian(np.eye(3), 0.1)  # a bank whose inputs have no names
    before, after = pd.Series([1.0, 2.0, 3.0], index=list("abc")), pd.Series([3.0, 1.0, 2.0], index=list("cab"))
    with pytest.raises(ValueError, match="the readings after, must have the order of those before; place 0 is 'c'"):
        found.judge((before, after), smallest_change=0.1)
    assert found.judge((before, after[before.index]), smallest_change=1.0).p_value == 1.0


def test_the_columns_of_a_jacobian_name_the_parameters():
    found = estim.Sensitivity.from_jacobian(
        pd.DataFrame(np.eye(3)[:, :2], columns=["a", "b"], index=list("pqr")), 0.1, parameters={"b": 2.0, "a": 1.0}
    )
    assert found.names == ("a", "b")
    assert found.input_names == ("p", "q", "r")
    assert found.parameters.tolist() == [1.0, 2.0]
    assert estim.Sensitivity.from_jacobian(pd.DataFrame(np.eye(2)), 0.1).names == ("theta[0]", "theta[1]")
