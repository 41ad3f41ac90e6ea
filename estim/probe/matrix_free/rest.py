"""What is known of the singular values that were not looked for."""

from dataclasses import dataclass

from estim.record import Record

#: The probability with which bounds that rest on random vectors hold.
CONFIDENCE = 0.99


@dataclass(frozen=True, eq=False, repr=False)
class Rest(Record):
    """What is known of the directions beyond the strongest, where only these were found.

    Information is the sum of the squares of singular values: what the readings say of all directions together.
    """

    directions: int
    """How many singular values were not looked for: as many as readings or parameters, less those found."""
    information: float
    """Sum of their squares, estimated from random vectors."""
    information_se: float
    """Its standard error."""
    bound: float
    """Each of them is at most this, with probability `confidence`; none is known to be above 0."""
    confidence: float
    """Of `bound` and `largest`: over the draw of the random vectors, whatever the model."""
    largest: int
    """So many of the values found are the largest there are; beyond them, one as large may have been missed."""
    residual: float
    """Frobenius norm of W W^T u - s^2 u over the vectors u found: zero for exact ones."""
    sought: int
    """Directions looked for."""
    converged: int
    """So many of them the iteration found to its tolerance; fewer than `sought` where its limit of passes came first:
    then only these are given, or, if none, directions of a random range."""

    def said(self, known: float, count: int) -> tuple[str, ...]:
        """Return what is known and what is not, where `count` directions hold `known` information."""
        if not self.directions:
            return ()
        whole = known + self.information
        share = known / whole if whole else 1.0
        off = share * self.information_se / whole if whole else 0.0
        first = (
            f"{count} directions were {'looked for' if count == self.sought else 'found'} and hold {100.0 * share:.3g} "
            f"% of the information (standard error {100.0 * off:.1g} %)."
        )
        rest = (
            f"not known: the other {self.directions:,} singular values. Each is at most {self.bound:.3g} (with "
            f"probability {self.confidence:g}); none is known to be above 0: they were not looked for."
        )
        ended = () if self.converged == self.sought else (self._ended(),)
        if self.largest == count:
            return *ended, first, rest
        missed = (
            f"the first {self.largest} values are proven to be the largest: after them, one up to {self.bound:.3g} may "
            "have been missed, for which iterations with products give no bound."
        )
        return *ended, first, rest, missed

    def _ended(self) -> str:
        """Say that the iteration did not converge, and what stands in the record then."""
        left = (
            f"the other {self.sought - self.converged} were given up and count among those not known"
            if self.converged
            else "those given span a random range, and none need be near the strongest"
        )
        return (
            f"not converged: the iteration ended at its limit of passes over the bank, with {self.converged} of "
            f"{self.sought} directions found to its tolerance; {left}."
        )
