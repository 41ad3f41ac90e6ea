"""What a reader must know before believing a row of errors."""

import numpy as np
import numpy.typing as npt

from estim.recovery.response import MeanResponse

Array = npt.NDArray[np.float64]


def rounding_notes(response: MeanResponse, levels: Array) -> tuple[str, ...]:
    """Say where the rounding of a plain function's mean shows beside the noise or the range."""
    notes: list[str] = []
    low, high = response.attainable_excess
    if response.rounding > 1e-6 * levels.min():
        notes.append(
            f"The mean is known to {response.rounding:.1e} (float64), not small beside sigma = {levels.min():.3g}: "
            "give the exact excess with MeanResponse.from_excess."
        )
    if response.rounding > 1e-8 * (high - low):
        notes.append(
            f"The mean is known to {response.rounding:.1e} (float64), not small beside its attainable range "
            f"{high - low:.3g}: give the exact excess with MeanResponse.from_excess."
        )
    return tuple(notes)


def unknown_notes(levels: Array, beyond: Array) -> tuple[str, ...]:
    """Say where the RMSE is no number that is known: no sample and no quadrature reaches the readings that carry it."""
    unknown = ~(beyond < 0.1)
    if not unknown.any():
        return ()
    k = int(np.argmax(unknown))
    return (
        f"From sigma = {levels[k]:.3g} on the RMSE is not known, and the one shown may be far too small: it is carried "
        "by readings that are next to never seen, whose estimates are huge; give the response a finite upper.",
    )


def accuracy_notes(levels: Array, error: Array) -> tuple[str, ...]:
    """Say where the quadrature falls short of what `recover` promises."""
    poor = error > 1e-10
    if not poor.any():
        return ()
    worst = int(np.argmax(error))
    return (f"The RMSE at sigma = {levels[worst]:.3g} is accurate to {error[worst]:.1e} relative, short of 1e-10.",)


def rarity_notes(levels: Array, rmse: Array, se: Array, exact: Array, trials: int) -> tuple[str, ...]:
    """Say where readings too rare for this many trials carry the error: simulation and its standard error miss it."""
    missed = (np.abs(rmse - exact) > 6.0 * se + 1e-9 * exact) & (exact > 0.0)
    if not missed.any():
        return ()
    k = int(np.argmax(missed))
    return (
        f"At sigma = {levels[k]:.3g} the error is carried by readings too rare for {trials} trials: "
        f'the exact RMSE is {exact[k]:.4g}; use method="exact" or more trials.',
    )
