"""What it takes for silence to be believed: how much farther a change must move the readings, and how many repeats.

Believed means both: the change test has the power asked for against the smallest change, and the verdict is EQUIVALENT
with that probability when nothing changed.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from estim.probe.verdict.change import (
    FARTHEST,
    NEAREST,
    change_powers,
    critical_value,
    first_reaching,
    shift_detected,
)
from estim.probe.verdict.equivalence import EquivalenceTest

Array = npt.NDArray[np.float64]

#: More repeats than an integer of float64 counts are no prescription.
MOST_REPEATS = 2**53
# Of an ensemble, for the probability of EQUIVALENT by estimated noise.
_QUANTILES = 32


@dataclass(frozen=True)
class Situation:
    """The tests of a verdict, as far as its probabilities depend on them."""

    shifts: Array
    """(members,) of the smallest change."""
    degrees: int
    level: float
    """Of the change test, and of that of the residual."""
    equivalence_level: float
    residual_degrees: int
    """0 where there is no residual."""
    power: float
    """Asked for."""
    noise_degrees: float = math.inf

    def detected(self, factor: float) -> float:
        """Return the power when a change moves the readings `factor` times as far."""
        return float(change_powers(factor * self.shifts, self.degrees, self.level, self.noise_degrees).mean())

    @cached_property
    def test(self) -> EquivalenceTest:
        """The equivalence test of the shifts as they are: its limit is a root, and asked for more than once."""
        return EquivalenceTest(self.shifts, self.degrees, self.equivalence_level, self.noise_degrees)

    def equivalent(self, factor: float) -> float:
        """Return the probability of EQUIVALENT then, nothing having changed.

        With estimated noise the power suffices only where the estimate is small enough. Of an ensemble so many
        quantiles are then taken, whose limits are roots: right to a few parts in a thousand.
        """
        critical = critical_value(self.degrees, self.level, self.noise_degrees)
        rest = self.residual_degrees, critical_value(self.residual_degrees, self.level, self.noise_degrees)
        shifts = self.shifts
        if len(shifts) > _QUANTILES and not math.isinf(self.noise_degrees):
            at = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
            shifts = np.quantile(shifts, at, method="inverted_cdf")
        known = factor == 1.0 and shifts is self.shifts
        test = self.test if known else replace(self.test, shifts=factor * shifts)
        return test.probability(critical, self._largest_variance(factor), rest)

    def _largest_variance(self, factor: float) -> float:
        """Return the estimated variance, in units of the true one, up to which the change has the power asked for."""
        if math.isinf(self.noise_degrees) or not self.degrees or self.detectable_factor == 0.0:
            return math.inf
        ratio = factor / self.detectable_factor
        return ratio * ratio

    def suffices(self, factor: float) -> bool:
        """Whether silence would be believed."""
        if self.power >= self.most() or self.detected(factor) < self.power:
            return False
        if math.isinf(self.noise_degrees):
            return self._rejected(factor) <= self.equivalence_level
        return self.equivalent(factor) >= self.power

    @cached_property
    def factor_needed(self) -> float:
        """Return the least factor that suffices; infinite where none does."""
        factor = math.inf if self.power >= self.most() else self.detectable_factor
        if factor == 0.0 or math.isinf(factor):
            return factor
        if math.isinf(self.noise_degrees):
            return first_reaching(lambda size: -self._rejected(size), -self.equivalence_level, start=factor)
        # The probability itself is known to no more.
        return first_reaching(self.equivalent, self.power, start=factor, rtol=1e-7)

    def _rejected(self, factor: float) -> float:
        """Return the equivalence p-value of the statistic below which lies the share of silence that must be believed.

        It is at most the level where EQUIVALENT is likely enough: no root for a limit need be found.
        """
        test = EquivalenceTest(factor * self.shifts, self.degrees, self.equivalence_level)
        return test.p_value(self._quantile)

    @cached_property
    def _quantile(self) -> float:
        from scipy import stats

        silent = 1.0 - self.level if self.residual_degrees else 1.0
        return float(stats.chi2.ppf(self.power / silent, self.degrees)) if self.degrees else 0.0

    @cached_property
    def detectable_factor(self) -> float:
        """The least factor with which the change test has the power asked for; infinite where none does."""
        seen = self.shifts > 0.0 if self.degrees else np.isinf(self.shifts)
        if not seen.any():
            return math.inf
        if np.isinf(self.shifts).all():
            return 0.0
        single = shift_detected(self.degrees, self.power, self.level, self.noise_degrees)
        if len(self.shifts) == 1:
            factor = single / float(self.shifts[0])
            return 0.0 if factor < NEAREST else factor if factor < FARTHEST else math.inf
        typical = self.shifts[(self.shifts > 0.0) & np.isfinite(self.shifts)]
        near = float(np.clip(single / np.median(typical), NEAREST, FARTHEST)) if self.degrees and typical.size else None
        return first_reaching(self.detected, self.power, near=near)

    def most(self) -> float:
        """Return the largest probability of EQUIVALENT that any factor reaches: no false alarm must intervene.

        With estimated noise it is a little more, and comes down to this as repeats are added.
        """
        return float((1.0 - self.level) ** ((self.degrees > 0) + (self.residual_degrees > 0)))


@dataclass(frozen=True)
class Repeats:
    """How the noise of the observed difference falls with repeats."""

    variance: float
    """Of the difference as it is, in units of one unrepeated reading's."""
    sides: int
    """1 where the baseline is known, 2 where it is as noisy, and repeated as often."""
    correlation: float
    degrees_each: int = 0
    """Degrees of freedom of the noise that one more repeat of a side adds, where it is estimated; 0 where known."""

    def variance_at(self, repeats: int) -> float:
        """Return the variance of the difference with so many repeats a side."""
        return self.sides * (1.0 + (repeats - 1) * self.correlation) / repeats

    def needed(self, situation: Situation) -> int | None:
        """Return the least number of repeats that suffices; None where none does."""
        # One more repeat tells more of the noise, too: in the end all of it.
        factor = (replace(situation, noise_degrees=math.inf) if self.degrees_each else situation).factor_needed
        ratio = math.sqrt(self.variance) / factor if factor > 0.0 else math.inf
        wanted = ratio * ratio / self.sides  # a power would raise where a product is infinite
        if math.isinf(factor) or wanted <= self.correlation:
            return None
        estimate = (1.0 - self.correlation) / (wanted - self.correlation)
        if estimate > MOST_REPEATS:
            return None
        return self._settled(situation, max(1, math.ceil(estimate)))

    def _settled(self, situation: Situation, near: int) -> int | None:
        """Step away from the number that known noise needs, then halve between too few and enough."""
        most = MOST_REPEATS if self.correlation >= 0.0 else math.floor(1.0 - 1.0 / self.correlation)
        low, high, step = near - 1, near, 1
        while self._suffices(situation, low):
            low, high, step = low - step, low, 2 * step
        while not self._suffices(situation, high):
            if high >= most:
                return None
            low, high, step = high, min(high + step, most), 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._suffices(situation, middle) else (middle, high)
        return high

    def _suffices(self, situation: Situation, repeats: int) -> bool:
        if repeats < 1 + (self.degrees_each > 0) or self.variance_at(repeats) <= 0.0:
            return False
        if self.degrees_each:
            situation = replace(situation, noise_degrees=float(self.sides * (repeats - 1) * self.degrees_each))
        return situation.suffices(math.sqrt(self.variance / self.variance_at(repeats)))
