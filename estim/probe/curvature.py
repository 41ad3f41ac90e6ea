"""Where the linear prediction of many unknowns breaks: curvature of the readings, and the ends of the box.

To second order in the noise z, in coordinates in which the whitened Jacobian U has orthonormal columns and F holds
the second derivatives of the whitened readings, the error of the least-squares estimate along coordinate k is
c_k - 1/2 c^T T_k c + (1 - U U^T) z . F_k c, with c = U^T z and T_k = U_k . F. The mean of the second term is Box's
bias, -1/2 tr T_k; its mean square is q_k = 1/4 (2 |T_k|^2 + (tr T_k)^2) + |(1 - U U^T) F_k|^2.

References: Box 1971, doi:10.1111/j.2517-6161.1971.tb00871.x; Bates and Watts 1980,
doi:10.1111/j.2517-6161.1980.tb01094.x.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.least_squares import Problem

Array = npt.NDArray[np.float64]

#: How far the RMSE may leave the linear prediction before that counts as wrong, as for one unknown.
LINEAR_TOLERANCE = 0.1
#: Standard errors between a parameter and an end of its box at which clipping takes 10 % off its RMSE: the root of
#: Phi(t) - t phi(t) + t^2 Phi(-t) = 0.9^2.
_CLIPPED = 1.172767678575


@dataclass(frozen=True)
class SecondOrder:
    """What curvature adds, per direction, in units of the linear RMSE; multiply by the factor on the noise."""

    bias: Array
    """Box's bias, (n,), over the linear RMSE."""
    mean_square: Array
    """q, (n,)."""

    def breakdown(self) -> Array:
        """Return the factor on the noise at which the second-order term makes the RMSE 10 % larger."""
        with np.errstate(divide="ignore"):
            return np.sqrt(((1.0 + LINEAR_TOLERANCE) ** 2 - 1.0) / self.mean_square)


def second_order(problem: Problem, linear: Array, tangent: Array, scales: Array, step: float) -> SecondOrder:
    """Differentiate the Jacobian along every direction.

    Parameters
    ----------
    problem : Problem
    linear : (P, n) array
        Directions divided by their singular values.
    tangent : (whitened readings, n) array
        U, orthonormal columns.
    scales : (P,) array
        Size of a change that matters for each parameter.
    step : float
        Of the differences, in parts of `scales`.
    """
    n = linear.shape[1]
    projected, across = np.zeros((n, n, n)), np.zeros(n)
    for j in range(n):
        h = step / float(np.max(np.abs(linear[:, j]) / scales))
        above, below = (problem.model.jacobian(problem.truth + side * h * linear[:, j]) for side in (1.0, -1.0))
        second = problem.whiten((above - below) @ linear) / (2.0 * h)
        projected[:, :, j] = tangent.T @ second
        across += np.square(second - tangent @ projected[:, :, j]).sum(axis=0)
    trace = np.einsum("kjj->k", projected)
    # F is symmetric; so is T_k but for rounding and the error of the differences.
    mean_square = 0.25 * (2.0 * np.square(projected).sum(axis=(1, 2)) + trace**2) + across
    return SecondOrder(-0.5 * trace, mean_square)


def box_breakdown(truth: Array, lower: Array, upper: Array, standard_errors: Array) -> float:
    """Return the factor on the noise at which the first end of the box takes 10 % off a parameter's RMSE."""
    room = np.minimum(truth - lower, upper - truth)
    bounded = np.isfinite(room)
    if not bounded.any():
        return np.inf
    return float((room[bounded] / (_CLIPPED * standard_errors[bounded])).min())
