"""Where the linear prediction of many unknowns breaks: curvature of the readings, and the ends of the box.

In coordinates c in which the whitened Jacobian U has orthonormal columns, let F hold the second and G the third
derivatives of the whitened readings, T_k = U_k . F, and F' and w the parts of F and of the noise z across U. With
a = U^T z the least-squares estimate is c = a + c2 + c3 + ..., where

    c2_k = -1/2 T_k(a, a) + w . F_k(a)
    c3_k = -T_k(a, c2) - 1/6 U_k . G(a, a, a) - F_k(a) . (U c2 + 1/2 F(a, a)) + w . F_k(c2) + 1/2 w . G_k(a, a).

An error may be counted in other numbers than c, with second derivatives H_k (the effective parameters of a network are
products of its factors): D_k = T_k - H_k then takes the place of T_k wherever it is the error that is bent. Means over
the noise give, to second order in it, Box's bias -1/2 tr D_k, and the mean square 1 + q_k + 2 x_k with

    q_k = 1/4 (2 |D_k|^2 + (tr D_k)^2) + |F'_k|^2                        the square of the second-order error
    x_k = 1/2 sum_j D_kkj tr T_j + sum_ij D_kij T_jki
          - 1/2 F'_kk . sum_j F'_jj - 1/2 U_k . sum_j G_kjj               first times third order

References: Box 1971, doi:10.1111/j.2517-6161.1971.tb00871.x; Bates and Watts 1980,
doi:10.1111/j.2517-6161.1980.tb01094.x. The mean square is the expansion above, averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from estim.probe.many_unknowns.least_squares import Problem

Array = npt.NDArray[np.float64]

#: How far the RMSE may leave the linear prediction before that counts as wrong, as for one unknown.
LINEAR_TOLERANCE = 0.1
#: Step of the second and third derivatives, in parts of a parameter: long, since a Jacobian of weak directions carries
#: rounding, and good to three digits, which is more than a prediction of where 10 % are lost needs.
STEP = 2.0**-5
#: Standard errors between a parameter and an end of its box at which clipping takes 10 % off its RMSE: the root of
#: Phi(t) - t phi(t) + t^2 Phi(-t) = 0.9^2.
_CLIPPED = 1.172767678575


@dataclass(frozen=True)
class SecondOrder:
    """What curvature adds, per direction, in units of the linear RMSE at the noise given."""

    bias: Array
    """Box's bias, (n,), over the linear RMSE; grows with the noise."""
    mean_square: Array
    """q + 2 x, (n,): the mean square over that of the linear model, less one; grows with the noise squared."""
    squared: Array
    """q, (n,)."""

    def breakdown(self) -> Array:
        """Return the factor on the noise at which the RMSE is 10 % off.

        Where q and 2 x nearly cancel, higher orders decide: q alone counts then.
        """
        low, high = 1.0 - (1.0 - LINEAR_TOLERANCE) ** 2, (1.0 + LINEAR_TOLERANCE) ** 2 - 1.0
        with np.errstate(divide="ignore"):
            return np.sqrt(
                np.minimum(np.where(self.mean_square < 0.0, low, high) / np.abs(self.mean_square), high / self.squared)
            )


def second_order(
    problem: Problem, linear: Array, tangent: Array, scales: Array, counted: Callable[[Array], Array] | None
) -> SecondOrder:
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
    counted : callable, optional
        Parameters -> derivatives (n, P) of the numbers in which errors are counted, in units of the linear RMSE, where
        these are not linear in the parameters.
    """
    n = linear.shape[1]
    bent, counted_bent, across = np.zeros((n, n, n)), np.zeros((n, n, n)), np.zeros((n, n))
    twice, third = np.zeros((len(tangent), n)), np.zeros(n)
    here = problem.whiten(problem.model.jacobian(problem.truth) @ linear)
    for j in range(n):
        h = STEP / float(np.max(np.abs(linear[:, j]) / scales))
        sides = [problem.truth + side * h * linear[:, j] for side in (1.0, -1.0)]
        above, below = (problem.whiten(problem.model.jacobian(side) @ linear) for side in sides)
        second = (above - below) / (2.0 * h)
        bent[:, :, j] = tangent.T @ second
        off = second - tangent @ bent[:, :, j]
        across[:, j] = np.square(off).sum(axis=0)
        twice[:, j] = off[:, j]
        third += (tangent * (above - 2.0 * here + below)).sum(axis=0) / h**2
        if counted is not None:
            counted_bent[:, :, j] = (counted(sides[0]) - counted(sides[1])) @ linear / (2.0 * h)
    return _averaged(bent, bent - counted_bent, across.sum(axis=1), twice, third)


def _averaged(bent: Array, error_bent: Array, across: Array, twice: Array, third: Array) -> SecondOrder:
    """Return the means over the noise, from T, D, |F'_k|^2, the columns F'_kk and U_k . sum_j G_kjj."""
    trace, error_trace = (np.einsum("kjj->k", array) for array in (bent, error_bent))
    squared = 0.25 * (2.0 * np.square(error_bent).sum(axis=(1, 2)) + error_trace**2) + across
    crossed = 0.5 * np.einsum("kkj,j->k", error_bent, trace) + np.einsum("kij,jki->k", error_bent, bent)
    crossed -= 0.5 * (twice.T @ twice.sum(axis=1) + third)
    return SecondOrder(-0.5 * error_trace, squared + 2.0 * crossed, squared)


def box_breakdown(truth: Array, lower: Array, upper: Array, standard_errors: Array) -> float:
    """Return the factor on the noise at which the first end of the box takes 10 % off a parameter's RMSE."""
    room = np.minimum(truth - lower, upper - truth)
    bounded = np.isfinite(room)
    if not bounded.any():
        return np.inf
    with np.errstate(over="ignore"):
        return float((room[bounded] / (_CLIPPED * standard_errors[bounded])).min())
