"""What a record says of its directions, however they were found: their status, and the share of each input in them."""

import numpy as np
import numpy.typing as npt

from estim.probe.status import Status

Array = npt.NDArray[np.float64]


def statuses(values: Array, resolved: int, smallest_change: float | None) -> tuple[Status, ...]:
    """Return the status of each direction, strongest first; WEAK where its floor 1/s exceeds the change of interest."""
    seen = resolved
    if smallest_change is not None:
        seen = int(np.count_nonzero(values[:resolved] * smallest_change >= 1.0))
    kinds = (Status.SEEN, seen), (Status.WEAK, resolved - seen), (Status.UNRESOLVED, len(values) - resolved)
    return tuple(status for status, count in kinds for _ in range(count))


def input_share(readout: Array, inputs: npt.NDArray[np.int64], forward: Array | None = None) -> Array:
    """Return the share of each input in each direction, (inputs, resolved); columns sum to one.

    Parameters
    ----------
    readout : ndarray, shape (M', resolved)
        Left singular vectors of W.
    inputs : ndarray of int, shape (M,)
        The input that each reading belongs to.
    forward : ndarray, shape (M', M), optional
        The whitening of correlated noise: what counts is then the part that each reading has in W v.
    """
    parts = np.square(readout) if forward is None else (np.linalg.pinv(forward) @ readout) * (forward.T @ readout)
    share = np.zeros((int(inputs.max()) + 1, readout.shape[1]))
    np.add.at(share, inputs, parts)
    return share
