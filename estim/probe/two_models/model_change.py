"""The record of two models compared: how far a monitor's readings move from one to the other, and what silence says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.probe.along import Linearity
from estim.probe.verdict.record import Outcome, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ModelChange(Linearity):
    """What the change from one model to another does to the readings, predicted and actual, and whether it is seen.

    Shifts are in standard deviations of the noise of the observed difference. Its pictures and page are those of the
    verdict: ``found.verdict.plot()``, ``found.verdict.report(path)``.
    """

    power: float
    """Probability that the change test detects the actual shift."""
    predicted_power: float
    """The same of the predicted shift."""
    linear_up_to: float
    """Largest fraction of the change, in [0, 1], up to which `difference` stays below 1; NaN when `error` is not.

    0 where it does not at any fraction down to 1e-12, as at a jump.
    """
    fractions: Array
    """(steps,) ascending, up to 1: parts of the change at which the model was evaluated."""
    differences: Array
    """(steps,) `difference` there; NaN where the readings are not finite."""
    parameters: int
    """How many parameters differ."""
    relative_size: float
    """Euclidean norm of the change over that of all parameters before."""
    verdict: Verdict
    """On the reading that the change gives on average: its statistic is that of the actual shift and of the noise."""
    notes: tuple[str, ...]
    """What a reader must know before believing a number."""

    @property
    def outcome(self) -> Outcome:
        """CHANGED, EQUIVALENT or BLIND, of the verdict."""
        return self.verdict.outcome

    def __str__(self) -> str:
        """Say the verdict."""
        return str(self.verdict)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame, one row a part of the change: its fraction, and actual less predicted shift there.

        Both are dimensionless; the shift is in standard deviations of the noise, NaN where readings are not finite.
        """
        from pandas import DataFrame

        return DataFrame({"fraction": self.fractions, "difference": self.differences})

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: the verdict, the shifts, and where linearity ends."""
        from estim.report import summary_of

        facts = [
            ("Verdict:", self.outcome.name),
            ("Parameters changed:", f"{self.parameters}, by {100.0 * self.relative_size:.3g} % of the norm of all"),
            ("Shift, predicted:", f"{self.predicted:.4g} standard deviations, power {self.predicted_power:.3g}"),
            ("Shift, actual:", f"{self.actual:.4g} standard deviations, power {self.power:.3g}"),
            ("Linear up to:", f"{100.0 * self.linear_up_to:.3g} % of the change"),
        ]
        columns = {"fraction": self.fractions, "actual less predicted": self.differences}
        notes = [
            self.verdict.reason,
            self.verdict.prescription,
            "linear up to: where actual and predicted shift differ by one standard deviation of the noise.",
            f"each shift is known to {self.error:.2g} standard deviations.",
            *self.notes,
        ]
        return summary_of("What one model's readings show of another", facts, columns, notes)
