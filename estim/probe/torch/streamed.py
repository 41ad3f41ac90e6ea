"""A small module on a bank too large for its Jacobian, as a stream of rows: see `matrix_free.streamed`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.matrix_free.streamed import Stream
from estim.probe.torch.dense import jacobian_of, measured_error, moved_jacobian
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Parts, Survey

Array = npt.NDArray[np.float64]


def stream_of(subject: Subject, layout: Layout, seen: Survey, double: tuple[Subject, Parts] | None) -> Stream:
    """Return a bank as the rows of its Jacobian come.

    `double` is the module in float64 with its parts, where it has another precision itself.
    """
    return Stream(
        jacobians=lambda: _with_error(subject, layout, double),
        rows=lambda: (jacobian_of(subject, part)[1] for part in layout.parts()),
        places=seen.places,
        kept=seen.kept,
        inputs=seen.inputs[seen.kept],
        count=seen.count,
    )


def _with_error(
    subject: Subject, layout: Layout, double: tuple[Subject, Parts] | None
) -> Iterator[tuple[Array, Array]]:
    """Yield the Jacobian of one part after the other, and its error."""
    kind = subject.parameters.tensors[0].dtype
    others: Iterator[Any] = double[1]() if double is not None else iter(())
    for part in layout.parts():
        jacobian = jacobian_of(subject, part)[1]
        one, given = (subject, part) if double is None else (double[0], next(others))
        exact = None if double is None else jacobian_of(one, given)[1]
        moved = moved_jacobian(one, given, 1.0), moved_jacobian(one, given, -1.0)
        yield jacobian, measured_error(jacobian, exact, moved, kind)
