"""The gauge of a network, as far as it is proven: directions along which the function is the same on all inputs."""

import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import as_float
from estim.attention import Network
from estim.attention.gauge import orbit_tangents

Array = NDArray[np.float64]


def proven_tangents(network: Network) -> tuple[Array, tuple[str, ...]]:
    """Return gauge tangents, (parameters, gauge), each of which a whole family of the same function bears out.

    Where the derivative of the effective parameters has its full, generic rank it has it all around, and by the
    constant rank theorem its null space is tangent to factors of the same function. Elsewhere, as where query and key
    of a layer both vanish, the null space is larger: along some of it the function changes in second order. There only
    the orbit of the group that acts on the factors counts, and every change of a key (query) beside a query (key) that
    is zero.

    Returns
    -------
    tangents : (parameters, gauge) array
    notes : tuple of str
        How many tangents were left out, if any.
    """
    tangents = network.gauge_tangents()
    if tangents.shape[1] <= network.gauge_dimension:
        return tangents, ()
    orbit = np.asarray(orbit_tangents(network.layers, as_float), dtype=np.float64)
    proven = _independent(np.concatenate([orbit, _beside_zero(network)], axis=1))
    left = tangents.shape[1] - proven.shape[1]
    note = (
        f"{left} directions change nothing on any input to first order only: larger changes along them may, so they "
        "are not gauge"
    )
    return proven, (note,) if left else ()


def _beside_zero(network: Network) -> Array:
    """Return unit vectors, as columns, for the factors that nothing depends on as their partner is zero."""
    free = []
    for layer in network.layers:
        query, key, value = layer.float64
        zero = [not factor.any() for factor in (query, key)]
        free += [np.full(query.size, zero == [False, True]), np.full(key.size, zero == [True, False])]
        free.append(np.zeros(value.size, dtype=bool))
    return np.eye(network.parameters.size)[:, np.concatenate(free)]


def _independent(columns: Array) -> Array:
    """Return orthonormal columns with the same span; tangents of unit vectors and of factors meet exactly or not."""
    from scipy.linalg import orth

    return np.asarray(orth(columns)) if columns.size else columns
