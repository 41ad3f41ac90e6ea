"""From readings to coordinates along the resolved directions: orthonormal combinations of whitened readings."""

import numpy as np
from numpy.typing import NDArray

from estim.probe.directions.blas import product
from estim.probe.directions.graded_svd import in_turn
from estim.probe.directions.noise import Whitening, norms_of
from estim.probe.directions.resolve import Directions

Array = NDArray[np.float64]

#: Departure from orthonormality that no test of a shift would feel.
_ORTHONORMAL = 1e-12
#: Readings at a time.
_BLOCK = 64
_DRAWS = 8


def measured(jacobian: Array, noise: Whitening, found: Directions) -> dict[str, Array]:
    """Return the fields of the record that turn readings into coordinates along its directions."""
    known = int(np.isinf(found.singular_values[: found.rank]).sum())
    columns, weights = found.moved.columns, found.moved.weights
    scale = np.ones(len(weights))
    if columns is None:
        columns, scale = jacobian, found.scale
    fixed = noise.known(columns) / scale @ weights[:, :known]
    return {
        "whitening": noise.scale if noise.forward is None else noise.forward,
        "noiseless": np.zeros((0, len(jacobian))) if noise.forward is None else noise.noiseless,
        "known_readout": fixed / norms_of_columns(fixed),
        "readout": readout_of(columns, scale, weights[:, known:], noise),
    }


def readout_of(columns: Array, scale: Array, weights: Array, noise: Whitening) -> Array:
    """Return the left singular vectors of the whitened Jacobian, for resolved directions that noise blurs.

    Parameters
    ----------
    columns : ndarray, shape (readings, columns)
        The Jacobian, or others that span the same.
    scale : ndarray, shape (columns,)
        By which they are divided.
    weights : ndarray, shape (columns, resolved noisy directions)
        Their weights in each vector, before whitening and up to its length.
    noise : Whitening

    Returns
    -------
    ndarray, shape (whitened readings, resolved noisy directions)
        Orthonormal, so that independent noise stays independent. Times a whitened shift of the readings it has unit
        variance and, under a change delta of the parameters, the mean ``s (directions @ delta)``.

    Notes
    -----
    Where the vectors are known more roughly than orthonormality, they are made so from the strongest on: a column is
    then as accurate as the Jacobian's own error leaves that direction.
    """
    moved = np.empty((len(noise.scale), weights.shape[1]))  # in C's order, as a record read back has it
    if noise.forward is not None:
        moved[:] = product(noise.forward, product(columns / scale, weights))
    else:
        for start in range(0, len(columns), _BLOCK):
            part = slice(start, start + _BLOCK)
            moved[part] = product(columns[part] / scale * noise.scale[part, None], weights)
    moved /= norms_of_columns(moved)
    return moved if _departure(moved) <= _ORTHONORMAL else in_turn(moved)


def _departure(columns: Array) -> float:
    """Estimate the largest row norm of E = C^T C - 1, at least that of its largest entry, from E x for a few x.

    Of signs drawn at random, ``(E x)_i`` has the mean square of the norm of row i; that eight of them are all a
    hundred times smaller has a chance of 1e-13.
    """
    drawn = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), (columns.shape[1], _DRAWS))
    off = product(columns.T, product(columns, drawn)) - drawn
    return float(np.sqrt(np.square(off).mean(axis=1)).max(initial=0.0))


def norms_of_columns(matrix: Array) -> Array:
    """Return the column norms, those of zero as 1."""
    norms = norms_of(matrix)
    return np.where(norms > 0.0, norms, 1.0)
