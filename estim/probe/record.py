"""The record of what a monitor can see, and what can be asked of it without the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.questions import Questions
from estim.probe.status import Status as Status
from estim.probe.views import Views
from estim.record import Record
from estim.streams import Seed

if TYPE_CHECKING:
    from estim.probe.verdict.record import Verdict

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Questions, Views, Record):
    """What the readings of a bank, at this noise, see of a model's parameters.

    Directions are unit vectors in parameter space: first those resolved, by descending singular value, then the
    unresolved, the null and the gauge ones. All singular values are per unit of whitened noise: 1 / s is the RMSE
    floor along its direction.
    """

    names: tuple[str, ...]
    """(parameters,)."""
    groups: tuple[str, ...]
    """(parameters,) the group of each."""
    parameters: Array
    """(parameters,) where the model was linearised."""
    singular_values: Array
    """(directions,) of the whitened Jacobian, per parameter unit; infinite where noiseless readings decide, NaN where
    not known to 0.01. A note says where the error of the Jacobian allows more than that."""
    directions: Array
    """(directions, parameters) orthonormal, in the parameters' units. Those whose singular value is not known span what
    the others leave, in no order."""
    status: tuple[Status, ...]
    """(directions,)."""
    scale: Array
    """(parameters,) effect of one unit of each parameter on the whitened readings; 1 where there is none."""
    scaled_singular_values: Array
    """(directions,) of the whitened Jacobian with columns of unit norm, dimensionless: compared with the resolution."""
    scaled_directions: Array
    """(directions, parameters) orthonormal, for the parameters times `scale`, with the statuses of `directions`:
    floors, shifts and words come from them."""
    resolution: float
    """What a scaled singular value must exceed to be resolved: the Jacobian's error, dimensionless."""
    raw_singular_values: Array
    """(directions,) of the whitened Jacobian as float64 has it, without any decision; as many as it has, then zeros.
    But where all that is not seen is proven, those of what is seen, then zeros."""
    standard_errors: Array
    """(parameters,) Cramer-Rao bounds for unbiased estimators; infinite where a direction not seen, or a gauge, is
    involved."""
    column_norms: Array
    """(parameters,) of the whitened Jacobian: what one unit of the parameter alone moves the readings."""
    inputs: npt.NDArray[np.int64]
    """(readings,) the input that each belongs to, numbered from 0."""
    carriers: npt.NDArray[np.int64]
    """(directions, up to 3) the readings (numbered without those left out) that contribute most to a resolved
    direction; -1 where that is not known."""
    group_names: tuple[str, ...]
    """(named groups,) in the order of the parameters."""
    group_table: Array
    """(named groups, 6): parameters, dimension seen, best floor, worst floor, share of information, gauge within."""
    readings: int
    """Their number."""
    left_out: npt.NDArray[np.int64]
    """(readings left out,) their places among all: not finite, or with derivatives known too roughly."""
    whitening: Array
    """(readings,) 1 / sd of each reading, averaged over the repeats, 0 for one without noise; (whitened, readings) for
    correlated noise."""
    noiseless: Array
    """(combinations, readings) that correlated noise leaves alone; none for independent readings."""
    known_readout: Array
    """(combinations or readings without noise, directions that these fix): where a step along each of them moves these,
    of unit length."""
    readout: Array
    """(whitened readings, noisy resolved directions) orthonormal left singular vectors: where a step along each of
    `directions` moves the readings."""
    repeats: int
    """Repeated measurements that one noise level stands for, averaged."""
    repeat_correlation: float
    """Common correlation of two repeats of a reading."""
    relative_norm: Array | None
    """(rows, parameters) whose product with a change has the norm of the relative change of what the readings can
    depend on: of a network's effective parameters, block by block. None for other models."""
    derivative: str
    """How the Jacobian was found."""
    smallest_change: Array | None
    """(parameters,) or (1,): the smallest change of interest, in the parameters' units; None when not given."""
    unseen: tuple[str, ...]
    """What is not seen, in words: a basis of combinations, NULL and UNRESOLVED, gauge left out."""
    identifiable: tuple[str, ...]
    """Where something is not seen: the combinations of several parameters that are, in words; at most a dozen."""
    notes: tuple[str, ...]
    """What a reader must know before believing a row."""
    noise: str
    """What sigma and repeats were given, in words, in the units of the readings."""
    input_names: tuple[str, ...] = ()
    """(inputs,) where the bank has a word or a number for each: an index of pandas, times, doses; else none."""

    def __post_init__(self) -> None:
        """Make enumeration members of the status words that JSON holds."""
        object.__setattr__(self, "status", tuple(Status(word) for word in self.status))
        super().__post_init__()

    @property
    def input_share(self) -> Array:
        """Share of each input in the squared singular value of a resolved direction, (inputs, directions).

        NaN where it may be off by more than 0.01, 0 for directions not resolved. Computed anew each time: with an input
        for each reading it is as large as the Jacobian.
        """
        from estim.probe.directions.shares import shares_of_inputs

        fields = ("readout", "known_readout", "whitening", "noiseless")
        trusted = self.carriers[: self.resolved, 0] >= 0
        share = shares_of_inputs(self.inputs, trusted, {name: getattr(self, name) for name in fields})
        return np.pad(share, ((0, 0), (0, len(self.carriers) - self.resolved)))

    def judge(
        self,
        observed_shift: Any,
        *,
        smallest_change: Any = None,
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

        Parameters
        ----------
        observed_shift : array_like, shape (readings,), or pair (before, after)
            Differences of the readings, after less before, averaged over the record's repeats; or a tuple of the
            readings before and after, each of shape (readings,), averaged so, or (repeats, readings). In the readings'
            units. With `statistic` also a number: its observed value.
        smallest_change : float, array_like, mapping, AnyChange, or pair of parameters
            What must not be missed: any change of that Euclidean size; one change, (parameters,) or by name; a set of
            changes (`estim.AnyChange`: relative, of a group, worst or typical); a tuple of two sets of parameters or
            networks, before and after a fine-tuning, say. The record's own when left out: a size, or for one size a
            parameter any change in the ellipsoid of these half-axes.
        baseline : {"known", "noisy"}
            Whether the readings before are exact or have the same noise as those after: a difference then has both.
        confidence_level : float
            One minus the false-alarm rate of CHANGED, all tests together; one minus the level of the equivalence test.
        power : float
            Probability with which the smallest change must be detected before silence is believed.
        absolute_sigma : bool
            False: sigma gives relative weights, and the noise is estimated from the repeats in `observed_shift`.
        statistic : callable or array_like of shape (readings,), optional
            The user's own statistic of a shift of the readings, or its weights, in place of the test for a change.
        threshold : float, optional
            The user's own rule: an alarm when the statistic exceeds it. Without it a linear statistic is tested.
        trials : int
            Of the Monte Carlo for a statistic that is not linear.
        rng : None, int or numpy.random.Generator
            For random directions and that Monte Carlo.

        Returns
        -------
        Verdict
            CHANGED, EQUIVALENT or BLIND, with reason, numbers and prescription.

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit: the message names it, the rule and what was received.

        Notes
        -----
        The shift is split into its projection z on the resolved directions and a residual, which are independent. Each
        is tested by chi-square (F for estimated noise), at levels that together give the false-alarm rate. EQUIVALENT
        needs more than silence: a formal test must reject a shift as large as the smallest change's, and the test for a
        change must have the power asked for against it. All to first order in the change: see `estim.linearity`.

        Examples
        --------
        >>> import numpy as np, estim
        >>> found = estim.Sensitivity.from_jacobian(np.eye(3), 0.1, names=["a", "b", "c"])
        >>> found.judge([0.05, -0.1, 0.02], smallest_change={"a": 1.0}).outcome.name
        'EQUIVALENT'
        >>> found.judge([0.9, -0.1, 0.02], smallest_change={"a": 1.0}).outcome.name
        'CHANGED'
        >>> verdict = found.judge([0.05, -0.1, 0.02], smallest_change={"a": 0.2})
        >>> verdict.outcome.name, round(verdict.power, 3), verdict.repeats_needed
        ('BLIND', 0.359, 3)
        """
        if statistic is not None or threshold is not None:
            from estim.probe.verdict.alarm import judge_by_statistic

            return judge_by_statistic(
                self, observed_shift, smallest_change=smallest_change, baseline=baseline, power=power,
                confidence_level=confidence_level, absolute_sigma=absolute_sigma, statistic=statistic,
                threshold=threshold, trials=trials, rng=rng,
            )  # fmt: skip
        from estim.probe.verdict.judge import judge

        return judge(
            self, observed_shift, smallest_change=smallest_change, baseline=baseline, power=power,
            confidence_level=confidence_level, absolute_sigma=absolute_sigma, rng=rng,
        )  # fmt: skip

    @classmethod
    def from_jacobian(
        cls,
        jacobian: Any,
        sigma: Any,
        *,
        jac_error: "npt.ArrayLike | None" = None,
        parameters: "npt.ArrayLike | None" = None,
        names: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        inputs: "npt.ArrayLike | None" = None,
        symmetry: "npt.ArrayLike | None" = None,
        repeats: int = 1,
        repeat_correlation: float = 0.0,
        smallest_change: "npt.ArrayLike | None" = None,
        rtol: float | None = None,
        atol: float | None = None,
        digits: int | None = None,
        nan_policy: str = "raise",
    ) -> "Sensitivity":
        """Make the record from a Jacobian instead of a model.

        Parameters
        ----------
        jacobian : array_like, shape (readings, parameters)
            Floats are taken as known to rounding, ``eps |J|`` with the eps of their type: of float64 numbers that were
            computed in float32, say so by `jac_error`. An object array of integers, ``Fraction`` or decimal strings is
            exact: then what has no effect is proven NULL. The columns of a DataFrame name the parameters.
        sigma, repeats, repeat_correlation, smallest_change, names, groups, inputs, rtol, atol, digits, nan_policy
            As for `estim.sensitivity`.
        jac_error : array_like, shape (readings, parameters) or broadcast to it, optional
            Bound on the error of each entry, in its units, in place of rounding.
        parameters : array_like, shape (parameters,), or mapping of names to numbers, optional
            Where the model was linearised, all finite; NaN when left out.
        symmetry : array_like, shape (parameters, symmetries), optional
            As for `estim.sensitivity`.

        Returns
        -------
        Sensitivity

        Raises
        ------
        TypeError, ValueError
            As for `estim.sensitivity`.

        Examples
        --------
        >>> import estim
        >>> units = estim.Sensitivity.from_jacobian([[1e-9, 0.0], [0.0, 1.0]], 1.0)
        >>> units.standard_errors
        array([1.e+09, 1.e+00])
        """
        from estim.probe.assemble import from_jacobian

        return from_jacobian(
            jacobian, sigma, jac_error=jac_error, parameters=parameters, names=names, groups=groups, inputs=inputs,
            symmetry=symmetry, repeats=repeats, repeat_correlation=repeat_correlation, smallest_change=smallest_change,
            rtol=rtol, atol=atol, digits=digits, nan_policy=nan_policy,
        )  # fmt: skip
