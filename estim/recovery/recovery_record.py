"""The error of a recovered parameter along the noise level."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Record):
    """The error of a recovered parameter along the noise level. Arrays have shape (levels,).

    The estimator is biased by the boundary: its RMSE may lie below `linear_rmse`, the Cramer-Rao bound of unbiased
    estimators.
    """

    theta: float
    """The true parameter, in its own units, as is every error not called relative."""
    sigma: Array
    """Standard deviation of a reading, in the units of the readings."""
    bias: Array
    """Mean of estimate - theta."""
    rmse: Array
    """Root-mean-square of estimate - theta."""
    relative_bias: Array
    """bias / |theta|, dimensionless; NaN at theta = 0."""
    relative_rmse: Array
    """rmse / |theta|, dimensionless; NaN at theta = 0."""
    rmse_se: Array
    """Monte Carlo standard error of `rmse`; 0 for the exact method."""
    linear_rmse: Array
    """sigma / |slope at theta|: the prediction of the linearised response; infinite where the slope vanishes."""
    clipped_low: Array
    """Fraction of readings whose estimate is the lower end of theta's domain."""
    clipped_high: Array
    """Fraction of readings whose estimate is the upper end of theta's domain."""
    numerical_error: Array
    """Bound on the relative error of `rmse` that is not sampling: quadrature and the rounding of the response."""
    linear_limit: float
    """The sigma beyond which `linear_rmse` is off by more than 10 %; 0 when it always is, inf when it never is."""
    method: str
    """"monte-carlo" or "exact"."""
    trials: int
    """Number of trials at each level; 0 for the exact method."""
    response: str
    """What the response calls itself."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row."""

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: one row a noise level, `notes` below it."""
        from estim.recovery.recovery_summary import recovery_summary

        return recovery_summary(self)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with one row a noise level and the array fields as columns."""
        from pandas import DataFrame

        return DataFrame({name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)})

    def plot(self, *, exact: "Recovery | None" = None, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw RMSE, linear prediction and clipped fractions against sigma.

        Parameters
        ----------
        exact : Recovery, optional
            An exact recovery of the same response, drawn as a line through the Monte Carlo points.
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
        from estim.recovery.recovery_plot import plot_recovery

        return plot_recovery(self, exact=exact, figure=figure)
