"""The record of many unknowns recovered under noise."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.probe.status import Status
from estim.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]

#: Breakdown from which on the linear prediction counts as one that holds.
LINEAR = 10.0


@dataclass(frozen=True, eq=False, repr=False)
class ParameterRecovery(Record):
    """The error of parameters estimated by least squares, along the singular directions and in identifiable numbers.

    A direction is a unit vector in parameter space, its error that of the estimate along it. Where the readings do
    not resolve a direction its error is NaN beside an infinite linear prediction. Bounds and curvature bias the
    estimate: its RMSE may lie below `linear_rmse`, the Cramer-Rao bound of unbiased estimators.
    """

    names: tuple[str, ...]
    """(parameters,)."""
    parameters: Array
    """(parameters,) the truth, in their own units."""
    lower: Array
    """(parameters,) lower bounds; -inf where there is none."""
    upper: Array
    """(parameters,)."""
    directions: Array
    """(directions, parameters) unit vectors, strongest first, as in `Sensitivity`."""
    status: tuple[Status, ...]
    """(directions,)."""
    singular_values: Array
    """(directions,) of the whitened Jacobian, per unit of the parameters; 0 where not resolved."""
    linear_rmse: Array
    """(directions,) 1 / singular value: the prediction of the linear model, in the parameters' units."""
    bias: Array
    """(directions,) mean error."""
    rmse: Array
    """(directions,) root-mean-square error."""
    rmse_se: Array
    """(directions,) Monte Carlo standard error of `rmse`."""
    predicted_bias: Array
    """(directions,) Box's bias: what curvature adds to the mean error, to second order in the noise; NaN where the
    model cannot be evaluated on both sides of `parameters`."""
    breakdown: Array
    """(directions,) factor on the noise at which, by second order or the first bound met, `linear_rmse` is 10 % off;
    NaN as `predicted_bias`, where no bound is near."""
    coordinate_names: tuple[str, ...]
    """(coordinates,) numbers that the readings can determine: parameters, or effective parameters of a network."""
    coordinate_values: Array
    """(coordinates,) the truth."""
    coordinate_linear_rmse: Array
    """(coordinates,) prediction of the linear model; infinite where a direction not seen is involved."""
    coordinate_bias: Array
    """(coordinates,) mean error; NaN beside an infinite prediction, as are the next two."""
    coordinate_rmse: Array
    """(coordinates,)."""
    coordinate_rmse_se: Array
    """(coordinates,)."""
    clipped_low: Array
    """(parameters,) fraction of trials whose estimate is the lower bound."""
    clipped_high: Array
    """(parameters,)."""
    trials: int
    """Number of trials; all of them count in every figure."""
    failures: int
    """Trials that did not settle; their last accepted estimate counts like any other."""
    evaluations: float
    """Sets of readings computed, mean over trials."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row."""

    def __post_init__(self) -> None:
        """Make enumeration members of the status words that JSON holds."""
        object.__setattr__(self, "status", tuple(Status(word) for word in self.status))
        super().__post_init__()

    @property
    def linear(self) -> npt.NDArray[np.bool_]:
        """(directions,) whether theory says that the linear prediction holds: `breakdown` at least ten."""
        return np.asarray(self.breakdown >= LINEAR)

    @property
    def z_scores(self) -> Array:
        """(directions,) (RMSE / linear RMSE - 1) in its Monte Carlo standard errors; NaN where not resolved."""
        return (self.rmse - self.linear_rmse) / self.rmse_se

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: one row a direction, `notes` below it."""
        from estim.probe.many_unknowns.summary import parameter_summary

        return parameter_summary(self)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with one row a direction."""
        from estim.probe.many_unknowns.summary import parameter_frame

        return parameter_frame(self)

    def plot(self, *, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw the RMSE of every direction beside its linear prediction, and their ratio.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, optional
            What to draw into, as it is; a new figure when left out.

        Returns
        -------
        matplotlib.figure.Figure
            The one drawn into.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is missing; the message names the extra to install.
        TypeError
            When `figure` is neither a Figure nor a SubFigure.
        """
        from estim.probe.many_unknowns.plot import plot_parameters

        return plot_parameters(self, figure=figure)
