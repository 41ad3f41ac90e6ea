"""The record of a small module on a bank too large for its Jacobian: QR of one part of the bank after the other.

Only the triangle R of the whitened Jacobian W = Q R is held, and it has all that decides on directions: nothing is
squared (tall-skinny QR: Demmel, Grigori, Hoemmen and Langou 2012, doi:10.1137/080731992). A second pass takes the left
singular vectors, a row for each reading.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.assemble import assemble
from estim.probe.directions.noise import Whitening
from estim.probe.model.parameters import Parameters
from estim.probe.model.probed import Probed
from estim.probe.record import Sensitivity
from estim.probe.torch.dense import jacobian_of, measured_error, moved_jacobian
from estim.probe.torch.gram import Layout
from estim.probe.torch.readings import Subject
from estim.probe.torch.survey import Parts, Survey
from estim.probe.words import noise_phrase

Array = npt.NDArray[np.float64]

#: Readings that contribute most, named for each direction.
_CARRIERS = 3


def streamed_sensitivity(
    subject: Subject,
    layout: Layout,
    seen: Survey,
    vector: Parameters,
    sigma: Any,
    noise: Whitening,
    double: tuple[Subject, Parts] | None,
    notes: tuple[str, ...],
    **options: Any,
) -> Sensitivity:
    """Return the record; `double` is the module in float64 with its parts, where it has another precision itself."""
    if noise.forward is not None:
        msg = "sigma must be a number or one for each reading where the Jacobian is too large to hold; got a covariance"
        raise ValueError(msg)
    triangle, slack = _condensed(subject, layout, noise, double)
    kind = str(subject.parameters.tensors[0].dtype).removeprefix("torch.")
    error = np.zeros_like(triangle)
    error[0] = slack  # what counts of an error is the norm of each column
    probed = Probed(
        readings=np.zeros(len(triangle)),
        jacobian=triangle,
        error=error,
        parameters=vector.values,
        names=vector.names,
        groups=vector.groups,
        inputs=np.zeros(len(triangle), dtype=np.int64),
        derivative=f"autograd in {kind}",
        tangents=None,
        exact=None,
        notes=(*vector.notes, *notes, "the Jacobian was gone through part by part: QR of one after the other"),
        kept=np.arange(len(triangle)),
        total=len(triangle),
        bank_size=seen.count,
    )
    repeats, correlation = options.pop("repeats"), options.pop("repeat_correlation")
    found = assemble(probed, 1.0, repeats=1, repeat_correlation=0.0, **options)
    readout = _left_vectors(subject, layout, noise, found)
    order = np.argsort(seen.places[seen.kept])
    readout = readout[order]
    carriers = np.full((len(found.carriers), min(_CARRIERS, layout.readings)), -1, dtype=np.int64)
    if readout.size:
        largest = np.argsort(-np.abs(readout), axis=0, kind="stable")[: carriers.shape[1]]
        carriers[: readout.shape[1]] = largest.T
    return replace(
        found,
        inputs=seen.inputs[seen.kept][order],
        carriers=carriers,
        readings=layout.readings,
        whitening=noise.scale[order],
        noiseless=np.zeros((0, layout.readings)),
        readout=readout,
        repeats=int(repeats),
        repeat_correlation=float(correlation),
        noise=noise_phrase(sigma, repeats),
    )


def _condensed(
    subject: Subject, layout: Layout, noise: Whitening, double: tuple[Subject, Parts] | None
) -> tuple[Array, Array]:
    """Return R, (P, P) or shorter, and a bound on the norm of the error of each column of W."""
    size, kind = subject.parameters.size, subject.parameters.tensors[0].dtype
    triangle, squares, start = np.zeros((0, size)), np.zeros(size), 0
    others: Iterator[Any] = double[1]() if double is not None else iter(())
    for part in layout.parts():
        jacobian = jacobian_of(subject, part)[1]
        one, given = (subject, part) if double is None else (double[0], next(others))
        exact = None if double is None else jacobian_of(one, given)[1]
        moved = moved_jacobian(one, given, 1.0), moved_jacobian(one, given, -1.0)
        scale = noise.scale[start : start + len(jacobian), None]
        squares += np.square(scale * measured_error(jacobian, exact, moved, kind)).sum(axis=0)
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, scale * jacobian]), mode="r"))
        start += len(jacobian)
    rounding = 4.0 * layout.count * float(np.finfo(np.float64).eps) * np.linalg.norm(triangle, axis=0)
    return triangle, np.sqrt(squares) + rounding


def _left_vectors(subject: Subject, layout: Layout, noise: Whitening, found: Sensitivity) -> Array:
    """Return W V with columns of norm one and orthogonal, (M, resolved)."""
    directions = found.directions[: found.resolved].T
    moved, start = np.empty((layout.readings, directions.shape[1])), 0
    for part in layout.parts():
        rows = jacobian_of(subject, part)[1] @ directions
        moved[start : start + len(rows)] = noise.scale[start : start + len(rows), None] * rows
        start += len(rows)
    if not moved.size:
        return moved
    # From the strongest on: what rounding of the strong is in the weak comes out.
    basis, mixing = np.linalg.qr(moved)
    return np.asarray(basis * np.where(np.diagonal(mixing) < 0.0, -1.0, 1.0))
