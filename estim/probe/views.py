"""A record as tables, a summary, pictures and a page."""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.record import Sensitivity


class Views:
    """The part of `estim.Sensitivity` that shows it."""

    def by_group(self) -> "DataFrame":
        """Return, for each group of parameters with the others held fixed, what is seen of it.

        Returns
        -------
        pandas.DataFrame
            One row a group: number of parameters, dimension seen, best and worst RMSE floor along its own directions
            (gauge left out), share of the directions seen (in parameters of equal effect, summing to one), gauge
            dimensions inside the group.
        """
        from estim.probe.summary import group_frame

        return group_frame(cast("Sensitivity", self))

    def by_input(self) -> "DataFrame":
        """Return how much each input contributes to each resolved direction.

        Returns
        -------
        pandas.DataFrame
            One row an input, by its name where the bank has one (an index of pandas, or one number or word an input),
            and one column a resolved direction, numbered from the strongest. Columns sum to one; where
            noise is correlated a share may be negative, as an input that is read only to take the common noise off has.
            They are NaN, and a note says so, where the error of the Jacobian could move a share by more than 0.01.
        """
        from estim.probe.summary import input_frame

        return input_frame(cast("Sensitivity", self))

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: what is not seen at the top, then parameters and notes."""
        from estim.probe.summary import sensitivity_summary

        return sensitivity_summary(cast("Sensitivity", self))

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame, one row a parameter: group, value, standard error, effect of one unit alone."""
        from estim.probe.summary import sensitivity_frame

        return sensitivity_frame(cast("Sensitivity", self))

    def plot(self, *, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw the spectrum with its limits, the composition of the weakest directions, and the power for each group.

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
            When matplotlib is missing.
        TypeError
            When `figure` is neither a Figure nor a SubFigure.
        """
        from estim.probe.plot import plot_sensitivity

        return plot_sensitivity(cast("Sensitivity", self), figure=figure)

    def report(self, path: Any) -> None:
        """Write one self-contained HTML page: verdict in words, tables and pictures.

        Parameters
        ----------
        path : path-like
            Where to write, ending in .html or .htm; an existing file is replaced once the new one is whole.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is missing.
        OSError
            When the file cannot be written.
        TypeError, ValueError
            When `path` is none, or has another ending.
        """
        from estim.probe.page import write_report

        write_report(cast("Sensitivity", self), path)
