"""The intervals of some readings: what agrees with each, and how often such intervals are right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceInterval(Record):
    """The interval of each reading; ``low, high = interval`` unpacks it. Arrays have the shape of readings and sigma.

    Scalars where both were scalars.
    """

    readings: Array | float
    """The readings, in their units."""
    sigma: Array | float
    """Standard deviation of each reading, in its units."""
    low: Array | float
    """Lower limit, in the units of the parameter; NaN for an empty set, and where the reading is NaN."""
    high: Array | float
    """Upper limit, in the units of the parameter; NaN as `low`; infinite where nothing bounds theta from above."""
    empty: npt.NDArray[np.bool_] | bool
    """Whether the set is empty: no theta of the domain agrees with the reading. Only the central interval can be."""
    confidence_level: float
    """The level asked for; what is covered is `estim.coverage`."""
    method: str
    """"feldman-cousins", "central" or "likelihood-ratio"."""
    response: str
    """What the response calls itself."""
    theta: Array
    """Parameters near the ends of the domain, shape (points,), where `plot` draws coverage."""
    rise: Array
    """How far the mean at each `theta` lies from the mean at the lower end of the domain, shape (points,)."""
    span: float
    """How far the mean moves over the whole domain, in the units of the readings; may be infinite."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row: what is truly covered, how often the set is empty, rounding."""

    def __post_init__(self) -> None:
        """Give the limits their types, also when they come from JSON, and make arrays read-only."""
        for name in ("readings", "sigma", "low", "high", "empty"):
            array = np.array(getattr(self, name), dtype=np.bool_ if name == "empty" else np.float64)
            object.__setattr__(self, name, array if array.ndim else array.item())
        super().__post_init__()

    def __iter__(self) -> Iterator[Array | float]:
        """Unpack to the two limits."""
        return iter((self.low, self.high))

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with one row a reading: reading, sigma, low, high, empty."""
        from pandas import DataFrame

        return DataFrame(
            {name: np.ravel(getattr(self, name)) for name in ("readings", "sigma", "low", "high", "empty")}
        )

    def plot(self, *, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw the interval of each reading, and the coverage of all methods against theta at the largest sigma.

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
        from estim.recovery.interval_plot import plot_intervals

        return plot_intervals(self, figure=figure)

    def report(self, path: Any) -> None:
        """Write one self-contained HTML page: the intervals, the picture, the notes.

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
        from estim.recovery.interval_page import write_intervals

        write_intervals(self, path)
