"""The record of what a bank sees of a model whose parameters are too many to be listed one by one."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import probability, real_number
from estim.probe.matrix_free.rest import Rest
from estim.probe.status import Status
from estim.record import Record
from estim.streams import Seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.verdict.any_change import AnyChange
    from estim.probe.verdict.record import Verdict

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ModelSensitivity(Record):
    """What the readings of a bank, at this noise, see of a model with many more parameters than readings.

    It reads like `Sensitivity`, with tensors in place of single parameters. As many directions as there are readings
    can be seen at most; they are the right singular vectors of the whitened Jacobian, all parameters in the units they
    have in the model, and only those asked for are kept. The rest of the parameter space is UNRESOLVED.

    Where readings and parameters are both too many, only the strongest directions are found, and `rest` says what is
    known of the others: they count as UNRESOLVED, as nobody looked. Of a group by itself only bounds are then known.
    """

    names: tuple[str, ...]
    """(tensors,) names of the parameter tensors."""
    sizes: npt.NDArray[np.int64]
    """(tensors,) number of parameters in each."""
    groups: tuple[str, ...]
    """(tensors,) the group of each."""
    singular_values: Array
    """(directions,) of the whitened Jacobian, descending, per unit of the parameters; 1 / s is the RMSE floor along a
    direction. As many as readings or parameters, whichever are fewer; the strongest alone where there is a `rest`."""
    errors: Array
    """(directions,) how far each singular value may be off: rounding, and the Jacobian's own error. Where there is a
    `rest`: as many singular values, one for each, lie this near; which of them are the largest, `rest` says."""
    status: tuple[Status, ...]
    """(directions,): SEEN, WEAK or UNRESOLVED."""
    resolution: float
    """What a singular value must exceed to be resolved: the error of the whitened Jacobian, or what hides below the
    rounding of the Gram matrix, whichever is larger; per unit of the parameters."""
    jacobian_error: float
    """The former of the two: Frobenius norm of the error of the whitened Jacobian."""
    input_share: Array
    """(inputs, resolved) share of each input in the squared singular value of a resolved direction."""
    group_names: tuple[str, ...]
    """(named groups,)."""
    group_table: Array
    """(named groups, 6): parameters, dimension seen, best floor, worst floor, share of information, gauge within (none
    is known here). Where there is a `rest`: seen at least, best floor at most, worst floor NaN for not known."""
    group_singular_values: Array
    """(named groups, directions) of each group with the others held fixed; 0 where it has fewer. None, (named
    groups, 0), where there is a `rest`."""
    group_resolution: Array
    """(named groups,) what these must exceed."""
    group_share: Array
    """(named groups, resolved) share of each group in each resolved direction: squared length of that part of it."""
    group_norms: Array
    """(named groups,) Euclidean norm of each group's parameters: what relative changes are measured by."""
    relative_singular_values: Array
    """(directions,) where the parameters of each group are in units of its norm: of relative changes of all groups
    together. None, (0,), where there is a `rest`."""
    relative_resolution: float
    """What these must exceed."""
    kept: npt.NDArray[np.int64]
    """(kept,) the directions that were kept, numbered from 0, the strongest; where there is a `rest`, only such."""
    directions: Array | None
    """(kept, parameters) unit vectors, tensor after tensor; None when none was asked for."""
    readings: int
    """Their number."""
    left_out: npt.NDArray[np.int64]
    """(readings left out,) their places among all: those of inputs with a reading that is not finite."""
    whitening: Array
    """(readings,) 1 / sd of each reading, averaged over the repeats; (whitened, readings) for correlated noise."""
    readout: Array
    """(whitened readings, resolved) left singular vectors: where a step along each direction moves the readings."""
    repeats: int
    """Repeated measurements that one noise level stands for, averaged."""
    repeat_correlation: float
    """Common correlation of two repeats of a reading."""
    smallest_change: float | None
    """The smallest change of interest, in the parameters' units; None when not given."""
    derivative: str
    """How the derivatives were found."""
    path: str
    """How the spectrum was found, and what that can resolve."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row."""
    rest: Rest | None = None
    """What is known of the directions that were not looked for; None where all were."""
    input_names: tuple[str, ...] = ()
    """(inputs,) what the bank calls them, where it does; else they are numbered."""

    def __post_init__(self) -> None:
        """Make enumeration members of the status words that JSON holds, and a record of the rest."""
        object.__setattr__(self, "status", tuple(Status(word) for word in self.status))
        if isinstance(self.rest, dict):
            object.__setattr__(self, "rest", Rest.from_dict(self.rest))
        super().__post_init__()

    @property
    def parameters(self) -> int:
        """Their number, all tensors together."""
        return int(self.sizes.sum())

    @property
    def counts(self) -> dict[Status, int]:
        """How many directions of the parameter space have each status; most are beyond the readings, UNRESOLVED."""
        found = {status: self.status.count(status) for status in Status}
        found[Status.UNRESOLVED] += self.parameters - len(self.status)
        return found

    @property
    def noiseless(self) -> Array:
        """Combinations of readings without noise, (0, readings): there are none here."""
        return np.zeros((0, self.readings))

    @property
    def resolved(self) -> int:
        """How many directions stand above the resolution: SEEN and WEAK."""
        return sum(status in (Status.SEEN, Status.WEAK) for status in self.status)

    @cached_property
    def detectable_changes(self) -> Array:
        """(named groups,) the relative size from which random changes of a group are detected: see `by_group`."""
        from estim.probe.matrix_free.detectable import detectable_changes

        found = detectable_changes(self)
        found.flags.writeable = False  # held, as the fields are
        return found

    def rank(self, rtol: float = 1e-10) -> int:
        """Return how many singular values exceed `rtol` times the largest: a matter of threshold, not of proof.

        Parameters
        ----------
        rtol : float
            Relative threshold, dimensionless, at least 0 and below 1. Values below the resolution are rounding.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            When `rtol` is outside [0, 1), or so small that values that were not looked for may exceed it.
        """
        if not 0.0 <= real_number(rtol, "rtol") < 1.0:
            msg = f"rtol must lie in [0, 1); got {rtol!r}"
            raise ValueError(msg)
        largest = float(self.singular_values[0])
        if self.rest is not None and self.rest.directions and self.rest.bound > rtol * largest:
            msg = (
                f"rtol must be at least {self.rest.bound / largest:.3g} where only the strongest directions were "
                f"looked for: others may have singular values up to that of the largest; got {rtol!r}"
            )
            raise ValueError(msg)
        if not self.resolved:
            return 0
        return int(np.count_nonzero(self.singular_values > rtol * self.singular_values[0]))

    def shift(self, readings_shift: npt.ArrayLike) -> float:
        """Return how far a shift of the readings is along the resolved directions, in standard deviations of noise.

        Parameters
        ----------
        readings_shift : array_like, shape (readings,)
            In the readings' units, such as those of a changed copy of the model less its own, in the shape they have.

        Returns
        -------
        float

        Raises
        ------
        TypeError, ValueError
            When it has the wrong length, is not finite or holds no numbers.
        """
        from estim.probe.matrix_free.shifts import length_along, read_shift

        return length_along(self, read_shift(self, readings_shift, "readings_shift"))

    def power(self, readings_shift: npt.ArrayLike, *, confidence_level: float = 0.95) -> float:
        """Return the probability that the change test detects a change that shifts the readings so.

        Parameters
        ----------
        readings_shift : array_like, shape (readings,)
            As for `shift`.
        confidence_level : float
            One minus the false-alarm rate, in (0, 1).

        Returns
        -------
        float
            A probability; 0 when nothing is resolved, for then there is no test.

        Raises
        ------
        ValueError
            As `shift`, and when `confidence_level` is outside (0, 1).
        """
        from estim.probe.verdict.change import change_power

        level = probability(confidence_level, "confidence_level")
        return change_power(self.shift(readings_shift), self.resolved, level)

    def minimum_detectable(
        self, readings_shift: npt.ArrayLike, *, power: float = 0.8, confidence_level: float = 0.95
    ) -> float:
        """Return the smallest multiple of a change that the change test detects with the given power.

        Parameters
        ----------
        readings_shift : array_like, shape (readings,)
            What the change itself shifts the readings by.
        power : float
            Wanted probability of detection, in (0, 1), above the false-alarm rate.
        confidence_level : float
            One minus the false-alarm rate, in (0, 1).

        Returns
        -------
        float
            Infinite for a change that shifts nothing.

        Raises
        ------
        ValueError
            As `power`.
        """
        from estim.probe.verdict.change import detectable_shift

        wanted, level = probability(power, "power"), probability(confidence_level, "confidence_level")
        shift, needed = self.shift(readings_shift), detectable_shift(self.resolved, wanted, level)
        return math.inf if shift == 0.0 else needed / shift

    def judge(
        self,
        observed_shift: Any,
        *,
        smallest_change: "float | AnyChange | None" = None,
        smallest_shift: npt.ArrayLike | None = None,
        baseline: str = "known",
        confidence_level: float = 0.95,
        power: float = 0.8,
        absolute_sigma: bool = True,
        statistic: Any = None,
        threshold: float | None = None,
        trials: int = 10_000,
        rng: Seed = None,
    ) -> "Verdict":
        """Say whether the model changed, is equivalent, or could have changed unseen.

        Where there is a `rest`, only the shift along the directions found is tested, and EQUIVALENT speaks of that
        part of the change of interest: what moves the readings elsewhere may be the model's or not, and is not judged.

        Parameters
        ----------
        observed_shift : array_like, shape (readings,), or pair (before, after)
            As for `Sensitivity.judge`, whose tests these are.
        smallest_change : float or AnyChange, optional
            What must not be missed: any change of all parameters of this size, in their units, or the changes that an
            `AnyChange` names, of a group or of all groups. That of the record when left out.
        smallest_shift : array_like, shape (readings,), optional
            Instead: what one smallest change of interest shifts the readings by, in their units, such as those of a
            changed copy of the model less its own.
        baseline, confidence_level, power, absolute_sigma
            As for `Sensitivity.judge`.
        statistic, threshold, trials
            The user's own statistic and alarm rule, as for `Sensitivity.judge`; beside a `smallest_shift`.
        rng : None, int or numpy.random.Generator
            For changes of random direction, and a statistic that is not linear.

        Returns
        -------
        Verdict

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit, or sets of changes are asked for where there is a `rest`.

        Notes
        -----
        Where parameters are more than readings, some change of any size moves no reading, and no silence can be
        believed about *any* change: ask for random ones, ``AnyChange(0.01, group="layers.0", case="typical")``.
        """
        from estim.probe.matrix_free.judge import judge_by_rule, judge_shift

        wanted: Any = {"baseline": baseline, "confidence_level": confidence_level, "power": power, "rng": rng}
        if statistic is not None or threshold is not None:
            return judge_by_rule(
                self, observed_shift, smallest_change, smallest_shift, absolute_sigma=absolute_sigma,
                statistic=statistic, threshold=threshold, trials=trials, **wanted,
            )  # fmt: skip
        return judge_shift(
            self, observed_shift, smallest_change, smallest_shift, absolute_sigma=absolute_sigma, **wanted
        )

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

        return groups_frame(self)

    def by_input(self) -> "DataFrame":
        """Return how much each input contributes to each resolved direction.

        Returns
        -------
        pandas.DataFrame
            One row an input, one column a resolved direction, numbered from the strongest; columns sum to one.
        """
        from estim.probe.summary import input_frame

        return input_frame(self)  # type: ignore[arg-type]  # as above

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame, one row a direction: status, singular value, its error, RMSE floor, main group."""
        from estim.probe.matrix_free.summary import directions_frame

        return directions_frame(self)

    def summary(self) -> "Summary":
        """Return a statsmodels `Summary`: what is seen at the top, then groups and notes."""
        from estim.probe.matrix_free.summary import model_summary

        return model_summary(self)

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

        return plot_model(self, figure=figure)

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

        write_model_report(self, path)
