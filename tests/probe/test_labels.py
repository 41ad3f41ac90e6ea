"""Numbers that carry names go by them: a Series, or a dict, in another order is the same, or is refused."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import OLS

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


def two(p, t):
    """Return two readings of each input."""
    t = np.asarray(t).ravel()
    return np.stack([p["a"] * np.exp(-p["rate"] * t), p["a"] * t], axis=1)


TWO = estim.sensitivity(two, BANK, 0.1, params=PARAMS)
TABLE = pd.DataFrame(np.arange(10.0).reshape(5, 2), index=LABELS, columns=["one", "other"])


def test_tables_of_readings_go_by_the_labels_of_their_rows():
    plain = TWO.judge(TABLE.to_numpy(), smallest_change=0.1)
    for same in (TABLE, TABLE.stack(), pd.Series(np.arange(10.0), index=np.repeat(LABELS, 2))):
        assert TWO.judge(same, smallest_change=0.1) == plain
    turned = TABLE[::-1]
    for wrong in (turned, turned.stack(), TABLE.unstack(), pd.Series(np.arange(10.0), index=LABELS * 2)):
        with pytest.raises(ValueError, match=r"^observed_shift must have the order of the bank's inputs"):
            TWO.judge(wrong, smallest_change=0.1)
    unnamed = estim.sensitivity(two, BANK.to_numpy(), 0.1, params=PARAMS)
    with pytest.raises(ValueError, match="the readings after, must have the order of those before; place 0 is 'z'"):
        unnamed.judge((TABLE, turned), smallest_change=0.1)
    with pytest.raises(ValueError, match=r"^sigma must have the order of the bank's inputs"):
        estim.sensitivity(two, BANK, pd.Series(np.ones(10), index=np.repeat(LABELS[::-1], 2)), params=PARAMS)


def test_rows_that_are_repeats_have_no_order():
    rows = [pd.DataFrame(np.ones((2, 5)), index=index, columns=LABELS) for index in (["p", "q"], ["q", "p"])]
    assert FOUND.judge(tuple(rows), smallest_change=0.1, baseline="noisy").p_value == 1.0


def test_labels_of_which_some_only_are_names_are_refused():
    other = pd.Series(np.full(5, 0.1), index=[*"vwxy", "q"])
    said = "must have the labels of the bank's inputs, or none of them; got 'q', which none of those has"
    with pytest.raises(ValueError, match=f"sigma {said}"):
        estim.sensitivity(model, BANK, other, params=PARAMS)
    with pytest.raises(ValueError, match=f"observed_shift {said}"):
        FOUND.judge(other, smallest_change=0.1)
    sensors = pd.Series(np.full(5, 0.1), index=list("12345"))  # of another kind: they go by their places
    assert estim.sensitivity(model, BANK, sensors, params=PARAMS).names == FOUND.names
    with pytest.raises(ValueError, match="functional names '1', which is no parameter"):
        FOUND.floor(pd.Series([1.0, 2.0], index=["a", 1]))


PLACES = "must have the order of {}; got the labels 1, 0, 2, ...: places in another order. Put it"


def test_places_in_another_order_are_refused():
    # As sort_values leaves them: pandas goes by the labels, NumPy by the order.
    sigma = pd.Series([0.2, 0.1, 0.3, 0.4, 0.5]).sort_values()
    said = PLACES.format("the bank's inputs")
    for bank in (T, BANK.to_numpy(), pd.DataFrame({"t": T}), BANK):
        with pytest.raises(ValueError, match=f"sigma {said}"):
            estim.sensitivity(model, bank, sigma, params=PARAMS)
    frame = pd.DataFrame({"t": T})
    by_order = estim.sensitivity(model, T, sigma.to_numpy(), params=PARAMS)
    assert estim.sensitivity(model, frame.loc[sigma.index], sigma.to_numpy(), params=PARAMS) != by_order
    same = estim.sensitivity(model, frame.loc[sigma.index], sigma, params=PARAMS)  # the bank has these labels, too
    assert same.input_names == ("1", "0", "2", "3", "4")
    kept = pd.Series(sigma.to_numpy(), index=[3, 4, 6, 8, 9])  # no places, but what a filter left
    assert estim.sensitivity(model, T, kept, params=PARAMS) == by_order
    found = estim.Sensitivity.from_jacobian(np.eye(5), 0.1)
    with pytest.raises(ValueError, match=f"observed_shift {said}"):
        found.judge(sigma, smallest_change=1.0)
    with pytest.raises(ValueError, match=f"observed_shift {said}"):
        found.judge((np.zeros(5), sigma), smallest_change=1.0)
    reversed_places = pd.Series(np.ones(5))[::-1]
    with pytest.raises(ValueError, match=r"^sigma must have the order of the bank's inputs; got the labels 4, 3, 2"):
        estim.sensitivity(model, T, reversed_places, params=PARAMS)
    with pytest.raises(ValueError, match=f"functional {PLACES.format('the parameters')}"):
        found.floor(sigma)


def test_noise_goes_by_the_labels_of_fitted_data():
    table = pd.DataFrame({"x": [3.0, 1.0, 2.0], "y": [1.0, 2.0, 4.0], "sd": [0.1, 0.2, 0.3]}).sort_values("x")
    fit = OLS(table["y"], table[["x"]]).fit()
    assert estim.sensitivity(fit, None, table["sd"]) == estim.sensitivity(fit, None, [0.2, 0.3, 0.1])
    with pytest.raises(
        ValueError, match="sigma must have the order of the bank's inputs; place 0 is '0' there, and '1'"
    ):
        estim.sensitivity(fit, None, table["sd"].sort_index())


def test_numbers_of_a_bank_are_its_names():
    doses, line = [2.0, 0.0, 1.0], {"a": 1.0}
    levels = pd.Series([0.2, 0.0, 0.1], index=doses) + 0.1

    def fit(sigma):
        return estim.sensitivity(lambda p, t: p["a"] * (1.0 + np.asarray(t)), doses, sigma, params=line)

    assert fit(levels) == fit(levels.to_numpy())
    assert fit(levels.reset_index(drop=True)) == fit(levels.to_numpy())  # places, which only look like doses
    with pytest.raises(ValueError, match="sigma must have the order of the bank's inputs; place 0 is '0' there"):
        fit(levels.sort_index())
