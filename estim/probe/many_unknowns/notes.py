"""What a reader must know before believing a row of many unknowns recovered."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from estim.probe.status import Status

if TYPE_CHECKING:
    from estim.probe.many_unknowns.set_up import SetUp

Array = npt.NDArray[np.float64]

#: Standard error over RMSE from which on a few trials decide; it is 1/sqrt(2 trials) for Gaussian errors.
_FEW = 0.25


def notes_of(start: "SetUp") -> list[str]:
    """Say what is known before the first trial."""
    seen, problem = start.seen, start.problem
    notes = list(seen.notes)
    gauge, hidden = seen.counts[Status.GAUGE], seen.counts[Status.UNRESOLVED] + seen.counts[Status.NULL]
    if gauge:
        notes.append(
            f"Modulo {gauge} gauge directions: an error along a direction is that of the effective parameters, "
            "carried back by their linear map."
        )
    if hidden:
        held = "move only as the fit happens to" if problem.bounded else "are held at the truth"
        notes.append(f"{hidden} directions that the readings do not resolve {held}; their error is not known.")
    if not np.isfinite(start.curved.bias).all():
        notes.append(
            "The curvature at params is not known, as the model cannot be evaluated on both sides of it: there is no "
            "predicted bias, and no breakdown but that by a bound nearby."
        )
    if problem.floor > 1e-3:
        notes.append(f"Readings are rounded to {problem.floor:.1e} of the noise: errors carry that, too.")
    return notes


def drawn_notes(rmse: Array, rmse_se: Array, trials: int, failures: int) -> list[str]:
    """Say what the trials show, from figures of a record, so that those of several can be put together."""
    notes = []
    few = int(np.count_nonzero(rmse_se > _FEW * rmse)) if trials >= 100 else 0
    if few:
        notes.append(
            f"A few trials far off decide the RMSE along {few} directions (its standard error is more than a quarter "
            "of it): the estimate may have no finite RMSE, or run away to where the readings stop moving."
        )
    if failures:
        notes.append(
            f"{failures} of {trials} fits did not settle; their last estimates count like others. Where the sum of "
            "squares has no minimum, the RMSE says only how far they went."
        )
    return notes
