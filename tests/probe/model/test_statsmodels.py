import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.tsa.api import AutoReg
from statsmodels.tsa.arima.model import ARIMA

from estim.probe.model.probe import probe

RNG = np.random.default_rng(0)
X = sm.add_constant(RNG.normal(size=(20, 2)))
Y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=20)
COUNTS = RNG.poisson(np.exp(X @ [0.1, 0.2, 0.3]))


def linear_results():
    return {
        "OLS": sm.OLS(Y, X).fit(),
        "WLS": sm.WLS(Y, X, weights=np.arange(1.0, 21.0)).fit(),
        "GLS": sm.GLS(Y, X, sigma=np.arange(1.0, 21.0)).fit(),
        "RLM": sm.RLM(Y, X).fit(),
    }


@pytest.mark.parametrize("kind", ["OLS", "WLS", "GLS", "RLM"])
def test_a_linear_model_has_its_design_as_jacobian(kind):
    result = linear_results()[kind]
    found = probe(result, None)
    np.testing.assert_array_equal(found.jacobian, X)
    np.testing.assert_allclose(found.readings, X @ result.params, rtol=1e-14)
    assert found.names == ("const", "x1", "x2")
    assert found.derivative == "exact"
    np.testing.assert_array_equal(found.bound, np.finfo(float).eps * np.abs(X))


@pytest.mark.parametrize(
    ("kind", "standard_errors"),
    [
        ("OLS", lambda J, s: np.linalg.inv(J.T @ J)),
        ("WLS", lambda J, s: np.linalg.inv(J.T @ np.diag(np.arange(1.0, 21.0)) @ J)),
        ("GLS", lambda J, s: np.linalg.inv(J.T @ np.diag(1 / np.arange(1.0, 21.0)) @ J)),
    ],
)
def test_standard_errors_are_those_of_the_library(kind, standard_errors):
    result = linear_results()[kind]
    covariance = result.scale * standard_errors(probe(result, None).jacobian, None)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), result.bse, rtol=1e-10)


@pytest.mark.parametrize(
    "family", [sm.families.Poisson(), sm.families.Gamma(sm.families.links.Log()), sm.families.Gaussian()]
)
def test_a_generalized_model_has_the_slope_of_its_link(family):
    result = sm.GLM(COUNTS + 0.5, X, family=family, offset=0.1 * np.arange(20)).fit()
    found = probe(result, None)
    slope = result.family.link.inverse_deriv(X @ result.params + 0.1 * np.arange(20))
    np.testing.assert_allclose(found.jacobian, slope[:, None] * X, rtol=1e-13)
    np.testing.assert_allclose(found.readings, result.fittedvalues, rtol=1e-13)
    assert (found.error <= 1e-11 * np.abs(found.jacobian).max()).all()


def test_a_model_that_can_only_predict_is_differentiated():
    result = sm.Logit((COUNTS > 0).astype(int), X).fit(disp=0)
    found = probe(result, None)
    mean = result.predict()
    np.testing.assert_allclose(found.jacobian, (mean * (1 - mean))[:, None] * X, rtol=1e-11)
    assert found.derivative == "complex step"


def test_another_design_is_a_bank():
    frame = pd.DataFrame(X, columns=["c", "u", "v"])
    result = sm.OLS(Y, frame).fit()
    found = probe(result, frame.iloc[:5, ::-1])
    np.testing.assert_array_equal(found.jacobian, X[:5])
    assert found.names == ("c", "u", "v")
    assert probe(result, X[:4], names=["a", "b", "d"]).names == ("a", "b", "d")


def test_what_does_not_fit_is_refused():
    result = sm.OLS(Y, X).fit()
    with pytest.raises(ValueError, match=r"bank must be a design matrix .* 3 columns .*exog; got shape \(20, 2\)"):
        probe(result, X[:, :2])
    with pytest.raises(ValueError, match=r"got columns \['u', 'v'\]"):
        probe(result, pd.DataFrame(X[:, :2], columns=["u", "v"]))
    with pytest.raises(ValueError, match="params must be left out: RegressionResultsWrapper has its own; got list"):
        probe(result, None, params=[1.0])


TABLE = pd.DataFrame({"x": X[:, 1], "g": list("abab") * 5, "y": Y, "n": COUNTS})


@pytest.mark.parametrize("fit", [lambda: smf.ols("y ~ x + C(g)", TABLE).fit(),
                                 lambda: smf.glm("n ~ np.exp(x) + C(g)", TABLE, family=sm.families.Poisson()).fit(),
                                 lambda: smf.quantreg("y ~ x + C(g)", TABLE).fit()])  # fmt: skip
def test_a_formula_makes_its_design_of_raw_columns(fit):
    result = fit()
    whole, rows = probe(result, None), probe(result, TABLE[["g", "x"]].iloc[[3, 1]])
    np.testing.assert_allclose(rows.jacobian, whole.jacobian[[3, 1]], rtol=1e-8)
    assert rows.names == tuple(result.params.index)


def test_a_formula_names_the_variable_that_is_missing():
    with pytest.raises(
        ValueError, match=r"bank must have the variables of the formula y ~ x \+ C\(g\), .*; got columns \['x'\]: .*g"
    ):
        probe(smf.ols("y ~ x + C(g)", TABLE).fit(), TABLE[["x"]])


def test_parameters_of_several_outcomes_are_named_by_column_and_outcome():
    result = sm.MNLogit(np.arange(20) % 3, X).fit(disp=0)
    found = probe(result, None)
    assert found.names == ("const[1]", "const[2]", "x1[1]", "x1[2]", "x2[1]", "x2[2]")
    np.testing.assert_allclose(found.readings.reshape(20, 3), result.predict())
    shares = np.asarray(result.predict())
    outcome = np.eye(3)[1:]  # d p_k / d eta_j = p_k (1[j = k] - p_j)
    expected = shares[:, :, None, None] * X[:, None, :, None] * (outcome.T[None, :, None] - shares[:, None, None, 1:])
    np.testing.assert_allclose(found.jacobian, expected.reshape(60, 6), atol=1e-9)


def test_a_time_series_model_is_refused():
    for model in (ARIMA(Y, order=(1, 0, 0)), AutoReg(Y, 1)):
        with pytest.raises(TypeError, match="is a time series model, which predicts from the readings before"):
            probe(model.fit(), None)
