"""Which way a large model goes: through Gram matrices where they fit, else to its strongest directions alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.cost import available, cost, gram_bytes, in_bytes
from estim.probe.matrix_free.large import in_order, model_sensitivity
from estim.probe.matrix_free.passes import Passes, progress_bar
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.top_record import directions_sought, top_cost, top_sensitivity
from estim.real_numbers import real_number


@dataclass(frozen=True)
class Way:
    """A way, and what it takes."""

    strongest: bool
    """Whether only the strongest directions are looked for."""
    said: str
    """The path, what it takes, and why where something is left out."""
    passes: int
    """Over the bank, at least, for the strongest directions; 0 for Gram matrices."""


def way_of(
    readings: int, parameters: int, groups: int, element: int, *, held: float, graph: float, holding: str, keep: int,
    noise: Whitening,
) -> Way:  # fmt: skip
    """Choose by the memory that is free.

    Parameters
    ----------
    readings, parameters, groups, element, holding
        As for `cost`.
    held, graph : float
        Bytes that rows take on their way to the Gram matrices, and those of a call of the model, as far as known.
    keep : int
        Directions to keep.
    noise : Whitening

    Raises
    ------
    ValueError
        When Gram matrices do not fit, and the noise has a covariance, which would be as large as one.
    """
    most = gram_bytes(readings, groups) + held + graph
    if most <= available():
        return Way(False, cost(readings, parameters, groups, element, held + graph, holding), 0)
    if noise.forward is not None:
        msg = (
            "sigma must be a number or one for each reading where the Gram matrix is too large to hold; "
            "got a covariance"
        )
        raise ValueError(msg)
    said, passes, need = top_cost(directions_sought(keep, readings, parameters), readings, parameters)
    whole = float(readings) * parameters * element
    why = (
        f"{in_bytes(available())} are free, and the Gram matrices of {groups} groups would take "
        f"{in_bytes(most)}, the whole Jacobian {in_bytes(whole)}: fewer groups "
        "(groups=...), inputs or readings would show all directions"
    )
    return Way(True, f"{said} and {in_bytes(need + graph)}; {why}", passes)


def record_of(
    passes: Passes, way: Way, noise: Whitening, relative: dict[str, float], *, places: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_], smallest_change: Any, progress: bool, **options: Any,
) -> ModelSensitivity:  # fmt: skip
    """Return the record of a model by a way, its readings in the order that a user sees.

    Parameters
    ----------
    places, kept : ndarray, shape (all readings,)
        Of each reading as it comes, its place among all, and whether it is left.
    passes, noise, relative, smallest_change, progress, options
        As for `model_sensitivity`.
    """
    options["smallest_change"] = None if smallest_change is None else real_number(smallest_change, "smallest_change")
    if not way.strongest:
        found = model_sensitivity(passes, noise, relative, progress=progress, **options)
        return in_order(found, places, kept)
    with progress_bar(way.passes, progress, "pass") as bar:
        matrix = passes.operator(noise.scale, bar.update)
        return in_order(top_sensitivity(matrix, passes, relative, scale=noise.scale, **options), places, kept)
