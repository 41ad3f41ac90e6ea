"""Every tolerance of the tests of one unknown, named, with its reason. None was loosened to pass."""

import math

#: One rounding of a float64.
EPS = 2.0**-52

# What is promised.

#: Issue 2: the inverse, relative in theta, wherever float64 holds the information.
INVERSE_RTOL = 1e-12
#: Issue 2: bias and RMSE of the exact method, relative to the RMSE.
EXACT_RTOL = 1e-10
#: A clipped fraction is one normal tail P(Z < x): a rounding of x moves it by EPS x^2 relative. x is at most 37 where
#: the tail is still a float64; the excess in it is known to a few roundings.
CLIPPED_RTOL = 4.0 * 37.0**2 * EPS
#: Below the least normal float64 a tail is 0 or denormal.
CLIPPED_ATOL = 2.3e-308
#: The compiled inverse, relative to theta - lower at the top of the window: `_fast_inverse.ACCURACY`.
COMPILED_RTOL = 1e-12

# Where a figure is computed in two ways.

#: Sums of the same numbers in another order, with products fused or not, in units of the sum of their magnitudes.
SUMMATION_RTOL = 1e-13
#: A mean evaluated in float64 by NumPy's elementary functions, a few of them in a row.
FORMULA_RTOL = 8.0 * EPS
#: Extrapolated differences in the middle of the domain (scipy.differentiate, rtol 1e-13, over eight orders): what is
#: lost is rounding over the step, which is at least 5 % of the domain here.
SLOPE_RTOL = 1e-11
#: A Monte Carlo figure and its twin computed from the same draws inverted one by one.
TWIN_RTOL = 1e-10
#: `linear_limit` is the geometric middle of the last of three scans: 24 steps over twelve decades, then each step in
#: 24 again, twice: steps of 12 / 24^3 decades.
LINEAR_LIMIT_RTOL = 10.0 ** (12.0 / 24.0**3) - 1.0
#: Reference quadrature: mpmath with 30 digits, its last two degrees compared.
QUADRATURE_RTOL = 1e-20

# Statistics. Seeds are fixed, so nothing here fails by chance twice; the rate says how good the seed had to be.

#: Standard errors allowed between a simulation and the truth. False alarm: 2 (1 - Phi(4)) = 6.3e-5 a comparison.
Z_LIMIT = 4.0
#: Probability in each tail outside the bounds of a chi-square: false alarm 2e-5 a test.
CHI_SQUARE_TAIL = 1e-5


def z_mean_limit(seeds: int) -> float:
    """Bound the mean of that many standard scores: false alarm 6.3e-5."""
    return Z_LIMIT / math.sqrt(seeds)
