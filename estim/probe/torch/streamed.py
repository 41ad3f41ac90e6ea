"""A small module on a bank too large for its Jacobian, as a stream of rows: see `matrix_free.streamed`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.matrix_free.streamed import Stream
from estim.probe.torch.asked import Double
from estim.probe.torch.jacobian import jacobian_of, jacobian_with_error
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Survey

Array = npt.NDArray[np.float64]


def stream_of(subject: Subject, layout: Layout, seen: Survey, double: Double | None) -> Stream:
    """Return a bank as the rows of its Jacobian come.

    `double` is the module in float64, where it has another precision itself.
    """
    return Stream(
        jacobians=lambda: _with_error(subject, layout, double),
        rows=lambda: (jacobian_of(subject, [part]) for part in layout.parts()),
        places=seen.places,
        kept=seen.kept,
        inputs=seen.inputs[seen.kept],
        count=seen.count,
    )


def _with_error(subject: Subject, layout: Layout, double: Double | None) -> Iterator[tuple[Array, Array]]:
    """Yield the Jacobian of one part after the other, and its error."""
    others: Iterator[Any] = iter(()) if double is None else double.parts()
    for part in layout.parts():
        yield jacobian_with_error(subject, [part], None if double is None else (double.subject, [next(others)]))
