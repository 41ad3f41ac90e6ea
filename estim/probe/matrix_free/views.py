"""The record of a large model as tables, a summary, a picture and a page."""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.matrix_free.record import ModelSensitivity
    from estim.probe.record import Sensitivity


class ModelViews:
    """The part of `estim.ModelSensitivity` that shows it."""

    def by_group(self) -> "DataFrame":
        """Return, for each group of tensors with the others held fixed, what is seen of it.

        Returns
        -------
        pandas.DataFrame
            One row a group: number of parameters, dimension seen, best and worst RMSE floor along its own directions
            (infinite where not all are seen), share of the directions seen, summing to one; and the detectable change:
            the relative size from which random changes of the group are detected 4 times out of 5, over noise and
            directions, by the change test at level 0.05, right to 1 %. Infinite where no size is known to be, NaN
            where the group's parameters are zero. Where there is a `rest`, at most that.

        Notes
        -----
        A verdict's test is at a lower level where it shares its false alarms with one of the residual, and then
        detects a little less.
        """
        from estim.probe.matrix_free.summary import groups_frame

        return groups_frame(cast("ModelSensitivity", self))

    def by_input(self) -> "DataFrame":
        """Return how much each input contributes to each resolved direction.

        Returns
        -------
        pandas.DataFrame
            One row an input, one column a resolved direction, numbered from the strongest; columns sum to one.
        """
        from estim.probe.summary import input_frame

        return input_frame(cast("Sensitivity", self))  # it asks for no more than both have

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame, one row a direction: status, singular value, its error, RMSE floor, main group."""
        from estim.probe.matrix_free.summary import directions_frame

        return directions_frame(cast("ModelSensitivity", self))

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: what is seen at the top, then groups and notes."""
        from estim.probe.matrix_free.summary import model_summary

        return model_summary(cast("ModelSensitivity", self))

    def plot(self, *, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw the spectrum of the whole and of each group, with the resolution.

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
        from estim.probe.matrix_free.plot import plot_model

        return plot_model(cast("ModelSensitivity", self), figure=figure)

    def report(self, path: Any) -> None:
        """Write one self-contained HTML page: tables and pictures.

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
        from estim.probe.matrix_free.page import write_model_report

        write_model_report(cast("ModelSensitivity", self), path)
