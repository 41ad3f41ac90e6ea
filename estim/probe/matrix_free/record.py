"""The record of what a bank sees of a model whose parameters are too many to be listed one by one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.matrix_free.questions import ModelQuestions
from estim.probe.matrix_free.rest import Rest
from estim.probe.matrix_free.views import ModelViews
from estim.probe.status import Status
from estim.record import Record
from estim.streams import Seed

if TYPE_CHECKING:
    from estim.probe.verdict.any_change import AnyChange
    from estim.probe.verdict.record import Verdict

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ModelSensitivity(ModelQuestions, ModelViews, Record):
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

    def judge(
        self,
        observed_shift: Any,
        *,
        smallest_change: "float | AnyChange | None" = None,
        smallest_shift: "npt.ArrayLike | None" = None,
        baseline: str = "known",
        confidence_level: float = 0.95,
        power: float = 0.8,
        absolute_sigma: bool = True,
        statistic: Any = None,
        threshold: float | None = None,
        trials: int = 10_000,
        rng: "Seed" = None,
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
