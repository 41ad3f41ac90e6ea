"""Monte Carlo over fits: errors of the estimates, summed block by block in a fixed order."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from estim.blas import one_blas_thread
from estim.probe.many_unknowns.least_squares import Problem, fit
from estim.probe.many_unknowns.network_refit import NetworkRefit
from estim.streams import Block, root_mean_square

Array = npt.NDArray[np.float64]

#: Trials that share a Generator: few, since each is a fit, so that workers end together.
BLOCK = 32


@dataclass(frozen=True)
class Coordinates:
    """Numbers that the readings can determine."""

    names: tuple[str, ...]
    values: Array
    linear_rmse: Array
    network: NetworkRefit | None
    along: Array
    """From errors of the coordinates to those along the resolved directions, (directions, coordinates)."""
    along_rmse: Array
    """Linear RMSE of the resolved directions, (directions,)."""

    def errors(self, truth: Array, error: Array) -> Array:
        """Return the errors of the coordinates for an error of the parameters."""
        return error if self.network is None else self.network.effective_change(truth, error)

    @property
    def derivative(self) -> Callable[[Array], Array] | None:
        """The derivative of the errors along the directions, in linear RMSEs, where it depends on the place."""
        network = self.network
        if network is None:
            return None
        along = self.along / self.along_rmse[:, None]
        return lambda vector: along @ network.effective_derivative(vector)

    @cached_property
    def unit(self) -> Array:
        """Units of errors along directions, then of coordinates, in which no power overflows or vanishes."""
        unit = np.concatenate([self.along_rmse, self.linear_rmse])
        return np.where(np.isfinite(unit) & (unit > 0.0), unit, 1.0)


@dataclass(frozen=True)
class Trials:
    """Works off a block of trials; pickles when the model does."""

    problem: Problem
    coordinates: Coordinates

    @property
    def size(self) -> int:
        """Number of sums."""
        return 3 * len(self.coordinates.unit) + 2 * len(self.problem.truth) + 2

    def __call__(self, block: Block) -> Array:
        """Return sums over the trials of powers 1, 2, 4 of the errors, then of clipped, unsettled and evaluations."""
        rng, trials = block
        total = np.zeros(self.size)
        # In a process of its own a worker has BLAS threads of its own.
        with (
            one_blas_thread(),
            np.errstate(all="ignore"),
        ):  # far from the truth a model may overflow: such a step is refused
            for _ in range(trials):
                total += self._one(rng.standard_normal(len(self.problem.tangent)))
        return total

    def _one(self, z: Array) -> Array:
        problem = self.problem
        found = fit(problem, z)
        error = problem.basis @ found.c
        low, high = np.zeros(len(error)), np.zeros(len(error))
        if problem.bounded:
            low, high = (found.c <= problem.lower).astype(float), (found.c >= problem.upper).astype(float)
        of_coordinates = self.coordinates.errors(problem.truth, error)
        errors = np.concatenate([self.coordinates.along @ of_coordinates, of_coordinates]) / self.coordinates.unit
        counted = [float(not found.settled), float(found.evaluations)]
        return np.concatenate([errors, errors**2, errors**4, low, high, counted])


@dataclass(frozen=True)
class Moments:
    """What the sums say."""

    sums: Array
    trials: int
    run: Trials

    def errors(self, part: slice) -> tuple[Array, Array, Array]:
        """Return bias, RMSE and its standard error of some of the errors."""
        unit, size = self.run.coordinates.unit[part], len(self.run.coordinates.unit)
        mean, square, fourth = (self.sums[k * size : (k + 1) * size][part] / self.trials for k in range(3))
        rmse, error = root_mean_square(square, fourth, self.trials)
        return unit * mean, unit * rmse, unit * error

    @property
    def clipped(self) -> Array:
        """(2, P), fractions of estimates at the lower and the upper bound."""
        return self.sums[-2 - 2 * len(self.run.problem.truth) : -2].reshape(2, -1) / self.trials

    @property
    def failures(self) -> int:
        """Trials that did not settle."""
        return int(self.sums[-2])

    @property
    def evaluations(self) -> float:
        """Sets of readings computed, mean over trials."""
        return float(self.sums[-1] / self.trials)
