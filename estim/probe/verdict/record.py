"""The record of a verdict: changed, equivalent, or blind, why, and what to do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from statsmodels.iolib.summary import Summary

Array = npt.NDArray[np.float64]


class Outcome(StrEnum):
    """What may be said of a model whose monitor was read.

    Attributes
    ----------
    CHANGED
        The readings moved more than their noise explains.
    EQUIVALENT
        A formal test rejects a change as large as the smallest one of interest, and such a change would have been
        detected with the power asked for.
    BLIND
        Neither: silence that proves nothing.
    """

    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    BLIND = "blind"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Record):
    """Whether the model changed, is equivalent, or could have changed unseen.

    Shifts are in standard deviations of the noise of the observed difference. What a change shifts is known to first
    order: for changes so large that the model bends, see `estim.linearity` and, for two given models,
    `estim.judge_models`.
    """

    outcome: Outcome
    """CHANGED, EQUIVALENT or BLIND."""
    reason: str
    """A sentence or two, with the numbers that decided."""
    prescription: str
    """What to do: repeats, noise, inputs; or why nothing helps."""
    change: str
    """The smallest change of interest, in words."""
    test: str
    """"chi-square", "F", or the user's own alarm rule."""
    statistic: float
    """Squared length of the shift along the resolved directions, over the variance of the noise, known or estimated."""
    degrees: int
    """Its degrees of freedom."""
    p_value: float
    """Probability of so large a statistic when nothing changed, by the change test or the user's rule."""
    residual_statistic: float
    """The same of what no change of the parameters can do, to first order."""
    residual_degrees: int
    """Its degrees of freedom; 0 where the parameters can move the readings in every way."""
    residual_p_value: float
    """Probability of so large a residual when nothing changed."""
    noise_degrees: float
    """Degrees of freedom from which the noise was estimated; infinite where sigma was taken as known."""
    noise_scale: float
    """Estimated noise over the sigma given; 1 where sigma was taken as known."""
    confidence_level: float
    """One minus the false-alarm rate asked for, of the change tests together; one minus the level of equivalence."""
    level: float
    """Level of each of the two change tests, or of the one there is."""
    false_alarm_rate: float
    """Probability of CHANGED when nothing changed: exact for known noise, else an upper bound."""
    false_alarm_se: float
    """Monte Carlo standard error of that; 0 where it is exact or a bound."""
    wanted_power: float
    """Power that silence must have to be believed."""
    shifts: Array
    """(members,) the shift that the smallest change makes; ascending, and only one unless directions are random."""
    power: float
    """Probability that the change test, at its own `level`, would have detected the smallest change; of random ones,
    the mean. So it may lie below the false-alarm rate, which two tests share."""
    power_se: float
    """Monte Carlo standard error of that; 0 where it is exact."""
    equivalence_p_value: float
    """Largest probability of so small a statistic when the shift is at least that of the smallest change."""
    equivalence_limit: float
    """Largest statistic that is equivalent."""
    equivalence_probability: float
    """Probability of EQUIVALENT, had nothing changed, with the readings as they are."""
    critical_value: float
    """What the statistic must exceed for CHANGED."""
    detectable_factor: float
    """Multiple of the smallest change that is detected with the power asked for; infinite if none is."""
    repeats_needed: int | None
    """Repeats with which silence would be believed with the power asked for; None where no number helps."""
    sigma_factor: float
    """What the noise must be multiplied by for the same, at the repeats there are; 0 where no noise is low enough."""
    worst_change: Array | None
    """(parameters,) the smallest change of interest, of a set the one hardest to see; None for random directions."""
    unseen: tuple[str, ...]
    """What of the smallest change of interest is not seen, in words: it needs other inputs, digits or derivatives."""
    needs_inputs: bool
    """Whether only other inputs can help."""
    notes: tuple[str, ...]
    """What a reader must know before believing a number."""
    average: bool = False
    """Whether no reading was given, and the verdict is on the average one of a known change."""

    def __post_init__(self) -> None:
        """Make an enumeration member of the word that JSON holds."""
        object.__setattr__(self, "outcome", Outcome(self.outcome))
        super().__post_init__()

    def __str__(self) -> str:
        """Say the verdict, its reason and what to do."""
        return f"{self.outcome.name}. {self.reason} {self.prescription}"

    @property
    def own_rule(self) -> bool:
        """Whether it was decided by a statistic and a threshold of the user's own."""
        return self.test not in ("chi-square", "F")

    @property
    def smallest_shift(self) -> float:
        """The shift of the smallest change; of random ones, the least that was drawn."""
        return float(self.shifts.min())

    @property
    def typical_shift(self) -> float:
        """The median over random directions; the same as `smallest_shift` for one change."""
        return float(np.median(self.shifts))

    def power_at(self, factor: "npt.ArrayLike") -> Array:
        """Return the power of the change test against multiples of the smallest change.

        Parameters
        ----------
        factor : array_like
            Multiples, dimensionless, at least 0.

        Returns
        -------
        ndarray
            Probabilities in the shape of `factor`; NaN for a user's own rule, which is known at one size only.

        Raises
        ------
        TypeError
            When a factor is no real number.
        ValueError
            When a factor is negative or NaN.
        """
        from estim.probe.verdict.change import change_powers
        from estim.real_numbers import reals

        factors = reals(factor, "factor", flags=False)
        if not (factors >= 0.0).all():
            msg = f"factor must be at least 0; got {factors[~(factors >= 0.0)].flat[0]}"
            raise ValueError(msg)
        if self.own_rule:
            return np.full(factors.shape, np.nan)
        means = [
            change_powers(size * self.shifts, self.degrees, self.level, self.noise_degrees).mean()
            if size
            else self.level * (self.degrees > 0)
            for size in factors.ravel()
        ]
        return np.reshape(means, factors.shape)

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: the verdict in a sentence, its numbers, and the prescription."""
        from estim.probe.verdict.summary import verdict_summary

        return verdict_summary(self)

    def report(self, path: Any) -> None:
        """Write one self-contained HTML page: the verdict in words, its numbers and its pictures.

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
        from estim.probe.verdict.page import write_verdict

        write_verdict(self, path)

    def plot(self, *, figure: "Figure | SubFigure | None" = None) -> "Figure":
        """Draw the observed shift among its distributions without and with the smallest change, and the power curve.

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
        from estim.probe.verdict.plot import plot_verdict

        return plot_verdict(self, figure=figure)
