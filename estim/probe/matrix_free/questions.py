"""Numbers that can be asked of the record of a large model, without the model."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from estim.probe.matrix_free.rest import Rest
from estim.probe.status import Status
from estim.real_numbers import probability, real_number

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

Array = npt.NDArray[np.float64]


class ModelQuestions:
    """The part of `estim.ModelSensitivity` that computes with its spectrum; fields are described there."""

    sizes: npt.NDArray[np.int64]
    singular_values: Array
    status: tuple[Status, ...]
    readings: int
    rest: Rest | None

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

        found = detectable_changes(cast("ModelSensitivity", self))
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

    def shift(self, readings_shift: "npt.ArrayLike") -> float:
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

        found = cast("ModelSensitivity", self)
        return length_along(found, read_shift(found, readings_shift, "readings_shift"))

    def power(self, readings_shift: "npt.ArrayLike", *, confidence_level: float = 0.95) -> float:
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
        self, readings_shift: "npt.ArrayLike", *, power: float = 0.8, confidence_level: float = 0.95
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
