"""Numbers that can be asked of a record: floors of combinations, and what a change of the parameters does."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from estim.probe.arguments import coefficients
from estim.probe.status import Status
from estim.real_numbers import probability, real_number

Array = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


class Questions:
    """The part of `estim.Sensitivity` that computes with its directions; fields are described there."""

    names: tuple[str, ...]
    status: tuple[Status, ...]
    scale: Array
    scaled_singular_values: Array
    scaled_directions: Array
    raw_singular_values: Array
    resolution: float

    @property
    def counts(self) -> dict[Status, int]:
        """How many directions have each status."""
        return {status: self.status.count(status) for status in Status}

    @property
    def resolved(self) -> int:
        """How many directions stand above the resolution: SEEN and WEAK."""
        return sum(status in (Status.SEEN, Status.WEAK) for status in self.status)

    @property
    def noisy_resolved(self) -> int:
        """Resolved directions that noise blurs: degrees of freedom of the change test."""
        return int(np.isfinite(self.scaled_singular_values[: self.resolved]).sum())

    def rank(self, rtol: float = 1e-10) -> int:
        """Return how many raw singular values exceed `rtol` times the largest: a matter of threshold, not of proof.

        Parameters
        ----------
        rtol : float
            Relative threshold, dimensionless, at least 0 and below 1.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            When `rtol` is outside [0, 1).
        """
        if not 0.0 <= real_number(rtol, "rtol") < 1.0:
            msg = f"rtol must lie in [0, 1); got {rtol!r}"
            raise ValueError(msg)
        values = self.raw_singular_values
        if not self.resolved:  # the largest of them is rounding too
            return 0
        known = np.isinf(values)
        return int(known.sum() + np.count_nonzero(values[~known] > rtol * values[~known].max(initial=0.0)))

    def floor(self, functional: "npt.ArrayLike | Mapping[str, float]") -> float:
        """Return the smallest RMSE with which any unbiased estimator can know a combination of the parameters.

        Parameters
        ----------
        functional : array_like, shape (parameters,), or mapping of names to coefficients
            u, the combination u . theta. A pandas Series goes by its labels, here and wherever parameters have names.

        Returns
        -------
        float
            sqrt(u^T F^+ u) with the Fisher information F = W^T W, in the units of u . theta; infinite when a
            direction that is not seen is involved.

        Raises
        ------
        ValueError
            When `functional` has the wrong length, an entry that is not finite, or an unknown name.

        Examples
        --------
        Three readings of (a + b) x:

        >>> import estim
        >>> found = estim.Sensitivity.from_jacobian([[1, 1], [2, 2], [3, 3]], 0.1, names=["a", "b"])
        >>> round(found.floor({"a": 1, "b": 1}), 7)
        0.0267261
        >>> found.floor({"a": 1})
        inf
        """
        from estim.probe.directions.floors import floors

        u = self._vector(functional, "functional")[None, :]
        resolved = self.scaled_singular_values[: self.resolved]
        return float(floors(u, self.scale, resolved, self.scaled_directions, self.resolution)[0])

    def shift(self, delta: "npt.ArrayLike | Mapping[str, float]") -> float:
        """Return how far a change of the parameters moves the whitened readings, ||W delta||, in standard deviations.

        Parameters
        ----------
        delta : array_like, shape (parameters,), or mapping of names to changes
            In the parameters' units.

        Returns
        -------
        float
            Infinite when a noiseless reading moves. Only the resolved part counts: what is not seen moves nothing
            that is known. 0 when it is no more than the Jacobian's own error may move.

        Raises
        ------
        ValueError
            As `floor`.
        """
        change = self._vector(delta, "delta")
        along = np.abs(self.scaled_directions[: self.resolved] @ (self.scale * change))
        values = self.scaled_singular_values[: self.resolved]
        known = np.isinf(values)
        if (along[known] > 64.0 * EPS * np.abs(along).max(initial=0.0)).any():
            return math.inf
        # Of hypot the squares neither overflow nor vanish.
        moved = math.hypot(*(values[~known] * along[~known]))
        return moved if moved > self._doubt(change) else 0.0

    def _doubt(self, change: Array) -> float:
        """Return what the Jacobian's own error may move along a change, in standard deviations."""
        return self.resolution * math.hypot(*(self.scale * change)) if math.isfinite(self.resolution) else math.inf

    def power(self, delta: "npt.ArrayLike | Mapping[str, float]", *, confidence_level: float = 0.95) -> float:
        """Return the probability that the change test detects a change of the parameters.

        The test is the chi-square of the readings projected on the resolved directions, as many degrees of freedom as
        there are; those that noiseless readings fix have no noise, and are no part of it. Under the change its
        noncentrality is ``shift(delta)**2``. A parameter with an infinite floor can still be seen to change.

        Parameters
        ----------
        delta : array_like, shape (parameters,), or mapping of names to changes
            In the parameters' units.
        confidence_level : float
            One minus the false-alarm rate, in (0, 1).

        Returns
        -------
        float
            A probability; 0 when nothing is resolved, for then there is no test.

        Raises
        ------
        ValueError
            As `floor`, and when `confidence_level` is outside (0, 1).
        """
        from estim.probe.verdict.change import change_power

        return change_power(self.shift(delta), self.noisy_resolved, probability(confidence_level, "confidence_level"))

    def minimum_detectable(
        self, direction: "npt.ArrayLike | Mapping[str, float]", *, power: float = 0.8, confidence_level: float = 0.95
    ) -> float:
        """Return the smallest multiple of `direction` that the change test detects with the given power.

        The test is that of `power`, which looks for a change in any direction. A test of a single parameter, with all
        others unknown, needs (1.960 + 0.842) times its `floor` at the default levels: more than this one where others
        can take its place, less where they hardly can.

        Parameters
        ----------
        direction : array_like, shape (parameters,), or mapping of names to changes
            Not normalised: the result multiplies it.
        power : float
            Wanted probability of detection, in (0, 1), above the false-alarm rate.
        confidence_level : float
            One minus the false-alarm rate, in (0, 1).

        Returns
        -------
        float
            Infinite along a direction that is not seen; 0 where a noiseless reading moves.

        Raises
        ------
        ValueError
            As `floor`; when the probabilities are outside (0, 1) or the power does not exceed the false-alarm rate.

        Examples
        --------
        Of two parameters that each have a reading of their own, both tests see one; the general one needs more:

        >>> import numpy as np, estim
        >>> found = estim.Sensitivity.from_jacobian(np.eye(2), 0.1, names=["a", "b"])
        >>> round(found.minimum_detectable({"a": 1}), 3), round((1.960 + 0.842) * found.floor({"a": 1}), 3)
        (0.31, 0.28)
        """
        from estim.probe.verdict.change import detectable_shift

        needed = detectable_shift(
            self.noisy_resolved, probability(power, "power"), probability(confidence_level, "confidence_level")
        )
        shift = self.shift(self._vector(direction, "direction"))
        if math.isinf(shift):
            return 0.0
        return math.inf if shift == 0.0 else needed / shift

    def _vector(self, values: "npt.ArrayLike | Mapping[str, float]", argument: str) -> Array:
        return coefficients(values, self.names, argument)
