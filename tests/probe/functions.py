"""Functions with exact derivatives, for differences and complex steps: smooth ones, badly scaled ones, awkward ones.

A function is called as ``f(L, t, x)`` with a namespace of elementary functions (math, NumPy or mpmath).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

X = (0.3, 1.1, 2.7, 4.2)


class ForComplex:
    exp, sin, log, sqrt, tanh, atan = np.exp, np.sin, np.log, np.sqrt, np.tanh, np.arctan


@dataclass(frozen=True)
class Function:
    name: str
    f: Callable
    theta: tuple[float, ...]
    relative: float = 1e-9
    """Accuracy that differences must reach, relative to the largest entry of a column."""

    def jacobian(self):
        """Return the exact Jacobian, (4, P), by differences with 150 digits."""
        with mpmath.workdps(150):
            theta = [mpmath.mpf(value) for value in self.theta]
            return np.array([[self._slope(theta, j, mpmath.mpf(x)) for j in range(len(theta))] for x in X])

    def _slope(self, theta, j, x):
        step = mpmath.mpf(10) ** -40 * (abs(theta[j]) or 1)
        up, down = list(theta), list(theta)
        up[j] += step
        down[j] -= step
        return float((self.f(mpmath, up, x) - self.f(mpmath, down, x)) / (2 * step))

    def plain(self, theta, bank):
        """Evaluate with floats only: a complex number is refused."""
        return [self.f(math, [float(value) for value in theta], x) for x in bank]

    def analytic(self, theta, bank):
        """Evaluate with NumPy, real or complex."""
        return np.array([self.f(ForComplex, theta, x) for x in bank])


FUNCTIONS = (
    Function("exponential of a product", lambda L, t, x: L.exp(t[0] * t[1] * x), (2.0, 0.35)),
    Function("sine", lambda L, t, x: L.sin(t[0] * x) * t[1], (1.3, 2.0)),
    Function("sine, fast", lambda L, t, x: L.sin(1000 * t[0] * x), (1.3,)),
    Function("sine, aliased by steps of the size of theta", lambda L, t, x: L.sin(1e7 * t[0] * x), (1.3,), 1e-7),
    Function("sine at a million", lambda L, t, x: L.sin(t[0] * x), (1e6,), 1e-7),
    Function("tiny parameter, tiny scale", lambda L, t, x: L.exp(1e9 * t[0] * x), (1e-9,)),
    Function("tiny parameter, scale one", lambda L, t, x: L.exp(t[0] * x), (1e-9,)),
    Function("huge parameter", lambda L, t, x: L.exp(-1e-9 * t[0] * x), (1e9,)),
    Function("zero", lambda L, t, x: L.exp(t[0] * x), (0.0,)),
    Function("zero, tiny scale", lambda L, t, x: L.exp(1e9 * t[0] * x), (0.0,), 1e-8),
    Function("zero, huge scale", lambda L, t, x: L.exp(1e-9 * t[0] * x), (0.0,)),
    Function("logarithm near its pole", lambda L, t, x: L.log(t[0] + x * t[1]), (1e-3, 1e-3)),
    Function("power", lambda L, t, x: t[0] ** (x * t[1]), (7.0, 3.1)),
    Function("rational", lambda L, t, x: (t[0] + t[1] * x) / (1 + t[2] * x + t[3] * x**2), (1.2, 3.4, 0.5, 0.01)),
    Function("small beside an offset", lambda L, t, x: 1e8 + L.sin(t[0] * x), (1.2,), 1e-6),
    Function("all but lost beside an offset", lambda L, t, x: 1e13 + L.sin(t[0] * x), (1.2,), 0.1),
    Function("cancellation", lambda L, t, x: (1e6 + t[0] * x) ** 2 - 1e12, (1.2,)),
    Function("Gauss", lambda L, t, x: L.exp(-((x - t[0]) ** 2) / (2 * t[1] ** 2)), (1.0, 0.3)),
    Function("root near zero", lambda L, t, x: L.sqrt(t[0] * x), (1e-9,)),
    Function("pole nearby", lambda L, t, x: 1 / (t[0] - 1 + 1e-4 * x), (1.0,), 1e-8),
    Function("saturated", lambda L, t, x: L.tanh(t[0] * x + t[1]), (20.0, 1.0), 1e-7),
    Function("ripple on a line, with two slopes", lambda L, t, x: t[0] + 1e-6 * L.sin(1e5 * t[0] * x), (1.0,), 1e-2),
    Function("line, eighteen decades apart", lambda L, t, x: t[0] * x + t[1], (1e9, 1e-9)),
    Function("cubic at zero", lambda L, t, x: (t[0] * x) ** 3 + t[0] * x, (0.0,)),
    Function("zero beside a large one", lambda L, t, x: L.exp(-((t[0] - x) ** 2)) + 1e-4 * t[1], (0.0, 8212.0)),
    Function("parabola at its minimum", lambda L, t, x: (t[0] * x) ** 2 + t[1], (0.0, 1.0)),
    # Rounding in coarse steps: 1 - exp(-1e-8 x) has eight digits, and none of them moves when theta does by 1e-13.
    Function("saturation, far from it", lambda L, t, x: t[0] * (1 - L.exp(-t[1] * x)), (2.0, 1e-8), 1e-5),
    Function("one plus a small square", lambda L, t, x: t[0] * L.log(1 + (t[1] * x) ** 2), (3.0, 1e-3), 1e-7),
    Function("arc tangent", lambda L, t, x: L.atan(t[0] * x / t[1]), (-3.0, 0.01)),
)  # fmt: skip
