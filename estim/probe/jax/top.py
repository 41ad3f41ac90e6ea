"""The record of a JAX function whose readings and parameters are both too many, from products with its Jacobian."""

from typing import Any

from estim.probe.directions.noise import Whitening
from estim.probe.jax.gram import JaxPasses
from estim.probe.jax.products import jacobian_operator
from estim.probe.jax.rows import HELD
from estim.probe.matrix_free.passes import progress_bar
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.top_record import top_sensitivity
from estim.probe.matrix_free.way import Way, way_of


def way_of_function(passes: JaxPasses, keep: int, noise: Whitening) -> Way:
    """Return the way that fits the memory that is free, and what it takes."""
    element, size = 8 if passes.dtype == "float64" else 4, sum(passes.sizes)
    block = min(passes.block, passes.readings * size * element)
    # A block of rows, and itself again in float64 or transformed; the gradients that it is cut from.
    held = (1.0 + 8.0 / element) * block + HELD
    return way_of(
        passes.readings, size, len(set(passes.groups)), element, held=held, graph=0.0,
        holding="blocks of rows and gradients, beside what JAX itself holds of a call", keep=keep, noise=noise,
    )  # fmt: skip


def strongest_of_function(
    passes: JaxPasses, noise: Whitening, relative: dict[str, float], *, progress: bool, way: Way, **options: Any
) -> ModelSensitivity:
    """Return the record of the strongest directions."""
    with progress_bar(way.passes, progress, "pass") as bar:
        matrix = jacobian_operator(passes.function, passes.parts, noise.scale, bar.update)
        return top_sensitivity(
            matrix, passes.names, passes.sizes, passes.groups, relative, scale=noise.scale, **options
        )
