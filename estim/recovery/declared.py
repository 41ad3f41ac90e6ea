"""Whether a derivative that a user gives is that of the response."""

import numpy as np

from estim.recovery.monotone import EPS, Function, Monotone

# Cells that rise by more than this part of all: their secants are more than rounding.
_WIDE = 1e-4
# Part of a secant by which slopes may be off in half of these cells.
_OFF = 0.1


def check_derivative(derivative: Function, grid: Monotone) -> None:
    """Hold a derivative against the secants of the grid: its sign everywhere, its size in the middle.

    Raises
    ------
    ValueError
        Naming the theta at which it is NaN, has the wrong sign or disagrees.
    """
    theta = grid.theta
    with np.errstate(all="ignore"):
        slope = grid.sign * derivative(theta)
    if np.isnan(slope).any():
        msg = f"derivative is NaN at theta = {theta[np.argmax(np.isnan(slope))]:.6g}"
        raise ValueError(msg)
    secant = np.diff(grid.rise) / np.diff(theta)
    wide = np.flatnonzero(np.diff(grid.rise) > _WIDE * grid.rise[-1])
    # A slope that vanishes may be rounded to below zero, as at the ends of a table.
    negative = slope < -16.0 * EPS * secant[wide].max(initial=0.0)
    if negative.any():
        i = int(np.argmax(negative))
        got = grid.sign * slope[i]
        msg = f"derivative has the sign of a turning response at theta = {theta[i]:.6g}; got {got:.6g}"
        raise ValueError(msg)
    between = 0.5 * (slope[1:] + slope[:-1])
    off = np.abs(between[wide] - secant[wide]) > _OFF * secant[wide]
    if wide.size and np.count_nonzero(off) > 0.5 * wide.size:
        i = int(wide[np.argmax(off)])
        msg = (
            f"derivative disagrees with the response near theta = {theta[i]:.6g}: "
            f"got {grid.sign * between[i]:.6g}, differences give {grid.sign * secant[i]:.6g}"
        )
        raise ValueError(msg)
