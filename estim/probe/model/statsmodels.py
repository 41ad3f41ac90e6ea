"""A fitted statsmodels result as a model: its parameters, its mean function, its exog as the default bank."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import RegressionModel
from statsmodels.robust.robust_linear_model import RLM

from estim.probe.derivatives.rounding import EPS, error_by_moving, moved

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fitted:
    """What a result knows of its mean function."""

    params: Array
    """(P,)."""
    names: tuple[str, ...] | None
    mean: Callable[[Any, Any], Any]
    """(params, exog) -> means, (M,)."""
    exog: Array | None
    """(M, columns); None for the exog that the model was fitted to, with its offset and exposure."""
    jacobian: Callable[[Array], tuple[Array, Array]] | None
    """params -> exact derivatives of the means and a bound of their error, (M, P) each; None when unknown."""


def read_result(result: Any, bank: Any) -> Fitted:
    """Read a fitted result.

    Parameters
    ----------
    result : RegressionResults, GLMResults, or any result whose model has ``predict(params, exog)``
    bank : (M, columns) array_like or DataFrame, optional
        Design matrix in place of the one the model was fitted to, or, for a model given by a formula, a table of the
        variables in it; offset and exposure are then zero.

    Raises
    ------
    TypeError
        When the model has no mean function.
    ValueError
        When the bank has other columns than the model.
    """
    model = result.model
    _require_mean(result)
    params = np.asarray(result.params, dtype=np.float64)
    exog = None if bank is None else _design(bank, result)
    jacobian: Callable[[Array], tuple[Array, Array]] | None = None
    if isinstance(model, RegressionModel | RLM):
        jacobian = _Linear(np.asarray(model.exog if exog is None else exog, dtype=np.float64))
    elif isinstance(model, GLM):
        jacobian = _Generalized(model, exog)
    return Fitted(params, _names(result, params), _Mean(model), exog, jacobian)


@dataclass(frozen=True)
class _Mean:
    model: Any

    def __call__(self, params: Any, exog: Any) -> Any:
        return self.model.predict(params=params, exog=exog)


@dataclass(frozen=True)
class _Linear:
    exog: Array

    def __call__(self, params: Array) -> tuple[Array, Array]:
        return self.exog, EPS * np.abs(self.exog)


@dataclass(frozen=True)
class _Generalized:
    """Mean g^-1(exog @ params + offset): its derivative is that of the inverse link, times exog."""

    model: Any
    exog: Array | None

    def __call__(self, params: Array) -> tuple[Array, Array]:
        values = self._at(params)
        return values, error_by_moving(values, self._at(moved(params, 1.0)), self._at(moved(params, -1.0)))

    def _at(self, params: Array) -> Array:
        predictor = np.asarray(self.model.predict(params, exog=self.exog, which="linear"))
        slope = np.asarray(self.model.family.link.inverse_deriv(predictor))
        return np.asarray(slope[:, None] * (self.model.exog if self.exog is None else self.exog))


def _require_mean(result: Any) -> None:
    """Refuse a result whose predictions are no function of parameters and exog alone."""
    homes = {kind.__module__ for kind in type(result.model).__mro__}
    if any(home.startswith("statsmodels.tsa.") for home in homes):
        msg = (
            "model must be a statsmodels result with a mean that parameters and exog determine; "
            f"{type(result.model).__name__} is a time series model, which predicts from the readings before: give a "
            "callable model(params, bank) instead"
        )
        raise TypeError(msg)
    if not callable(getattr(result.model, "predict", None)):
        msg = f"model must be a statsmodels result whose model can predict; got {type(result).__name__}"
        raise TypeError(msg)


def _from_formula(bank: Any, result: Any) -> Any:
    """Return the design matrix that the formula of a model makes of a table."""
    try:
        design, _ = result._transform_predict_exog(bank)
    except Exception as error:
        said = " ".join(str(error).split()).split(" is: ", 1)[-1]  # after what the library says of itself
        msg = (
            f"bank must have the variables of the formula {result.model.formula}, or be the design matrix; "
            f"got columns {list(bank.columns)}: {said:.80}"
        )
        raise ValueError(msg) from error
    return design


def _design(bank: Any, result: Any) -> Array:
    model = result.model
    names = list(getattr(model, "exog_names", None) or [])
    columns = list(getattr(bank, "columns", []))
    if columns and set(names) <= set(columns):
        bank = bank[names]
    elif columns and hasattr(model, "formula"):
        bank = _from_formula(bank, result)
    design = np.asarray(bank)
    wanted = np.shape(model.exog)[1] if np.ndim(model.exog) == 2 else 1
    if design.ndim != 2 or design.shape[1] != wanted or design.dtype.kind not in "biuf":
        got = f"columns {columns}" if columns else f"shape {design.shape}"
        msg = (
            f"bank must be a design matrix of numbers with the {wanted} columns {names} of the model's exog; got {got}"
        )
        raise ValueError(msg)
    return design.astype(np.float64)


def _names(result: Any, params: Array) -> tuple[str, ...] | None:
    exog = [str(name) for name in getattr(result.model, "exog_names", None) or []]
    if params.ndim == 2:  # a column of parameters for each outcome but the first
        same = len(exog) == len(params)
        return tuple(f"{name}[{j}]" for name in exog for j in range(1, params.shape[1] + 1)) if same else None
    labels = [str(label) for label in getattr(result.params, "index", [])] or exog
    return tuple(labels) if len(labels) == params.size else None
