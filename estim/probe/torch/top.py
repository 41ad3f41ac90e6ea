"""The record of a module whose readings and parameters are both too many, from products with its Jacobian."""

from typing import Any

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.passes import progress_bar
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.top_record import top_sensitivity
from estim.probe.matrix_free.way import Way
from estim.probe.torch.operator import jacobian_operator
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Survey, parts_of


def strongest_of_module(
    subject: Subject, bank: Any, seen: Survey, noise: Whitening, relative: dict[str, float], *, progress: bool,
    way: Way, **options: Any,
) -> ModelSensitivity:  # fmt: skip
    """Return the record of the strongest directions; `bank` as read."""
    parameters = subject.parameters
    with progress_bar(way.passes, progress, "pass") as bar:
        matrix = jacobian_operator(subject, parts_of(bank, seen), noise.scale, bar.update)
        kind = str(parameters.tensors[0].dtype).removeprefix("torch.")
        return top_sensitivity(
            matrix, parameters.names, [tensor.numel() for tensor in parameters.tensors], parameters.groups, relative,
            scale=noise.scale, derivative=f"autograd in {kind}", notes=(*subject.notes, way.said), **options,
        )  # fmt: skip
