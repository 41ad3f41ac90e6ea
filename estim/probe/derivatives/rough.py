"""Readings whose derivatives are known only roughly, as at a kink: they must not hide what the others see.

The resolution is a norm over all readings, so a single rough one leaves every weak direction unresolved. To leave a
reading out can only lose information: what the rest resolve is resolved, and their floors hold. It is done for a few
at most, and only where more directions are resolved without them than with them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.directions.condensed import condense
from estim.probe.directions.noise import Whitening, noise_at, noise_of, norms_of, read_sigma
from estim.probe.directions.resolve import resolve

if TYPE_CHECKING:
    from estim.probe.model.probed import Probed

Array = npt.NDArray[np.float64]

#: Error of a reading's derivatives, over these, from which they are known only roughly.
_ROUGH = 1e-3
#: So much the error of all must shrink without them.
_GAIN = 10.0
#: No more than these, or one in ten, are left out.
_FEW = 3
#: Stands for an infinite error.
_NO_BOUND = 1e100
_ROWS = 256


def without_rough(probed: "Probed", sigma: Any, repeats: int, repeat_correlation: float) -> tuple["Probed", Any]:
    """Leave out the few readings whose rough derivatives hide directions that the others resolve; give their sigma."""
    if probed.error is None:
        return probed, sigma
    noise = noise_of(probed, sigma, repeats, repeat_correlation)
    rough = _rough(probed.jacobian, probed.error, noise)
    if not len(rough):
        return probed, sigma
    rows = np.setdiff1d(np.arange(len(probed.kept)), rough)
    rank = _rank(probed, noise)
    if rank == probed.jacobian.shape[1]:
        return probed, sigma
    names = ", ".join(str(place) for place in probed.kept[rough])
    are, their = ("reading", "is left out: its") if len(rough) == 1 else ("readings", "are left out: their")
    note = f"{are} {names} {their} derivatives are known only roughly, which hid directions that the others see"
    left = replace(
        probed, readings=probed.readings[rows], jacobian=probed.jacobian[rows], error=probed.error[rows],
        inputs=probed.inputs[rows], kept=probed.kept[rows], exact=None if probed.exact is None else probed.exact[rows],
        notes=(*probed.notes, note),
    )  # fmt: skip
    values = noise_at(read_sigma(sigma), rows, len(probed.kept))
    return (
        (left, values) if _rank(left, noise_of(left, values, repeats, repeat_correlation)) > rank else (probed, sigma)
    )


def _rank(probed: "Probed", noise: Whitening) -> int:
    condensed = condense(probed.jacobian, probed.error, noise)
    return resolve(condensed).rank


def _rough(jacobian: Array, error: Array, noise: Whitening) -> npt.NDArray[np.intp]:
    """Return the few readings, ascending, that make up nearly all of the resolution; none where these are many."""
    weights = noise.weights
    norms = np.zeros(jacobian.shape[1])
    for block in noise.blocks(jacobian):
        norms = np.hypot(norms, norms_of(block))
    unit = np.where(norms > 0.0, norms, np.inf)
    own, size = np.empty(len(jacobian)), np.empty(len(jacobian))
    for start in range(0, len(jacobian), _ROWS):
        part = slice(start, start + _ROWS)
        own[part] = weights[part] * np.linalg.norm(np.minimum(error[part] / unit, _NO_BOUND), axis=1)
        size[part] = weights[part] * np.linalg.norm(jacobian[part] / unit, axis=1)
    order = np.argsort(-own, kind="stable")
    rest = np.sqrt(np.cumsum(np.square(own[order[::-1]]))[::-1])  # of each and all that follow
    few = int(np.count_nonzero(rest > rest[0] / _GAIN))
    rough = order[:few]
    if few > max(_FEW, len(own) // 10) or few == len(own) or not (own[rough] > _ROUGH * size[rough]).all():
        return np.empty(0, dtype=np.intp)
    return np.sort(rough)
