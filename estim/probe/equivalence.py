"""Formal equivalence: the hypothesis that the shift is at least a margin, and what rejects it.

notation: k degrees of freedom, z the projected shift and Delta the margin, both in standard deviations of the noise,
known or estimated from nu degrees of freedom. A margin may be an ensemble, of random changes: probabilities are then
averages over it.

One degree of freedom: two one-sided tests (Schuirmann 1987, doi:10.1007/BF01068419), with t for estimated noise. Many:
z'z at most the lower quantile of the noncentral chi-square with noncentrality Delta^2 (Wellek, Testing Statistical
Hypotheses of Equivalence and Noninferiority, 2010). With estimated noise the margin, in standard deviations, is not
known: the p-value is the largest over a confidence interval of the noise, plus what that interval misses (Berger and
Boos 1994, doi:10.1080/01621459.1994.10476836); so its size is at most the level, whatever the noise.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Share of the level that the interval of the noise may miss it with: little is lost, and its ends are still near.
MISSED = 0.02
# Noise levels of the interval that are tried; between them the p-value is smooth.
_TRIED = 17
# Of the quadrature over the estimated variance.
_NODES = 40


@dataclass(frozen=True)
class EquivalenceTest:
    """The test of a margin at a level."""

    shifts: Array
    """(members,) of the margin, in standard deviations of the noise; one but for an ensemble."""
    degrees: int
    level: float
    noise_degrees: float = math.inf

    def p_value(self, statistic: float) -> float:
        """Return the largest probability of so small a z'z when the shift is at least the margin; 1 for no margin."""
        from scipy import stats

        if self.degrees == 0 or not (self.shifts > 0.0).any():
            return 1.0
        margins = self.shifts[np.isfinite(self.shifts)]
        share = len(margins) / len(self.shifts)  # an infinite shift is never overlooked
        if not len(margins):
            return 0.0
        if self.degrees == 1:
            beyond = math.sqrt(statistic) - margins
            known = math.isinf(self.noise_degrees)
            below = stats.norm.cdf(beyond) if known else stats.t.cdf(beyond, self.noise_degrees)
            return share * float(np.where(margins > 0.0, below, 1.0).mean())
        if math.isinf(self.noise_degrees):
            return share * float(stats.ncx2.cdf(statistic, self.degrees, margins**2).mean())
        variances = self._variances()[:, None]
        each = stats.ncx2.cdf(statistic / variances, self.degrees, margins**2 / variances).mean(axis=1)
        return share * min(1.0, MISSED * self.level + float(each.max()))

    def limit(self) -> float:
        """Return the largest z'z that is equivalent; 0 where none is."""
        from scipy import optimize

        if self.p_value(0.0) >= self.level:
            return 0.0
        if np.isinf(self.shifts).mean() > 1.0 - self.level:
            return math.inf
        if len(self.shifts) == 1:
            return float(self._limits(self.shifts)[0])
        high = self.degrees + float(self.shifts[np.isfinite(self.shifts)].max()) ** 2
        while self.p_value(high) < self.level:
            high *= 2.0
        return float(optimize.brentq(lambda value: self.p_value(value) - self.level, 0.0, high, rtol=1e-12))

    def probability(self, critical: float) -> float:
        """Return how often z'z is equivalent and below the critical value of the change test, nothing having changed.

        The shifts are then in standard deviations of the true noise.
        """
        from scipy import stats

        if self.degrees == 0:
            return 0.0
        if math.isinf(self.noise_degrees):
            return float(stats.chi2.cdf(min(critical, self.limit()), self.degrees))
        weights, ratios = _variance_ratios(self.noise_degrees)
        if len(self.shifts) == 1:
            limits = self._limits(self.shifts / np.sqrt(ratios))
        else:
            limits = np.array([replace(self, shifts=self.shifts / math.sqrt(ratio)).limit() for ratio in ratios])
        return float(weights @ stats.chi2.cdf(np.minimum(critical, limits) * ratios, self.degrees))

    def _limits(self, margins: Array) -> Array:
        """Return the largest z'z that is equivalent for each of several finite margins, an ensemble of none."""
        from scipy import stats

        known = math.isinf(self.noise_degrees)
        if self.degrees == 1:
            quantile = stats.norm.isf(self.level) if known else stats.t.isf(self.level, self.noise_degrees)
            return np.asarray(np.square(np.maximum(margins - quantile, 0.0)))
        if known:
            return np.asarray(stats.ncx2.ppf(self.level, self.degrees, margins**2))
        # The largest p-value of several noise levels is small enough where each is.
        variances, left = self._variances()[:, None], self.level * (1.0 - MISSED)
        return np.asarray((variances * stats.ncx2.ppf(left, self.degrees, margins**2 / variances)).min(axis=0))

    def _variances(self) -> Array:
        """Return true variances, in units of the estimate, that a confidence interval holds."""
        from scipy import stats

        nu, tail = self.noise_degrees, 0.5 * MISSED * self.level
        return np.asarray(np.geomspace(nu / stats.chi2.isf(tail, nu), nu / stats.chi2.ppf(tail, nu), _TRIED))


def _variance_ratios(noise_degrees: float) -> tuple[Array, Array]:
    """Return quadrature weights and nodes for the estimated variance over the true one, chi-square over its degrees.

    Gauss-Legendre in the logarithm, where the density is smooth, between tails of 1e-9.
    """
    from scipy import stats

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = np.log(stats.chi2.ppf(1e-9, noise_degrees)), np.log(stats.chi2.isf(1e-9, noise_degrees))
    logs = 0.5 * (high - low) * nodes + 0.5 * (high + low)
    weights = weights * np.exp(stats.chi2.logpdf(np.exp(logs), noise_degrees) + logs)
    return np.asarray(weights / weights.sum()), np.asarray(np.exp(logs) / noise_degrees)
