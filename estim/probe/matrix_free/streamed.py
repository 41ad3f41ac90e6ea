"""The record of a small model on a bank too large for its Jacobian: QR of one part of the bank after the other.

Only the triangle R of the whitened Jacobian W = Q R is held, and it has all that decides on directions: nothing is
squared (tall-skinny QR: Demmel, Grigori, Hoemmen and Langou 2012, doi:10.1137/080731992). A second pass takes the left
singular vectors, a row for each reading.

notation: M readings, P parameters, J (M, P), W = D J, D = 1 / sd of the readings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from estim.probe.assemble import assemble, with_tolerance
from estim.probe.directions.noise import Whitening
from estim.probe.directions.proven import declared_symmetries, require_still
from estim.probe.directions.shares import CARRIERS, largest
from estim.probe.matrix_free.passes import progress_bar
from estim.probe.model.finite import require_finite_derivatives
from estim.probe.model.parameters import Parameters
from estim.probe.model.probed import Probed
from estim.probe.record import Sensitivity
from estim.probe.words import noise_phrase

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """A bank as its readings come, part after part, as often as it is asked for."""

    jacobians: Callable[[], Iterator[tuple[Array, Array]]]
    """Returns J and its error of one part after the other, (m, P) both."""
    rows: Callable[[], Iterator[Array]]
    """Returns J alone."""
    places: npt.NDArray[np.int64]
    """(all readings,) places in the order that a user sees."""
    kept: npt.NDArray[np.bool_]
    """(all readings,) False for those that are left out, of which the parts have no rows."""
    inputs: npt.NDArray[np.int64]
    """(M,) the input of each reading that is left, as they come."""
    count: int
    """Number of inputs, those left out included."""
    cause: str = ""
    """What may be the matter where a derivative is not finite."""


def streamed_sensitivity(
    stream: Stream,
    vector: Parameters,
    sigma: Any,
    noise: Whitening,
    *,
    derivative: str,
    notes: Callable[[], tuple[str, ...]],
    progress: bool,
    repeats: int,
    repeat_correlation: float,
    symmetry: npt.ArrayLike | None,
    rtol: float | None,
    atol: float | None,
    **options: Any,
) -> Sensitivity:
    """Return the record.

    Parameters
    ----------
    stream : Stream
    vector : Parameters
    sigma, repeats, repeat_correlation, symmetry, rtol, atol, progress
        As for `estim.sensitivity`.
    noise : Whitening
        Of the M readings that are left, as they come, every one of them with noise.
    derivative
        How the rows are found.
    notes : callable
        Returns, after the first pass, what is to be kept in the record.
    options
        As for `assemble`.

    Raises
    ------
    ValueError
        When sigma is a covariance, a derivative is not finite, or a symmetry moves a reading: the message names it.
    """
    if noise.forward is not None:
        msg = "sigma must be a number or one for each reading where the Jacobian is too large to hold; got a covariance"
        raise ValueError(msg)
    still = None if symmetry is None else declared_symmetries(symmetry, len(vector.names))
    places = stream.places[stream.kept]

    def jacobians() -> Iterator[tuple[Array, Array]]:
        """Yield J of one part after the other with its error, checked."""
        start = 0
        for jacobian, own in stream.jacobians():
            some = slice(start, start + len(jacobian))
            require_finite_derivatives(jacobian, vector.names, places[some], stream.inputs[some], stream.cause)
            error = np.asarray(with_tolerance(jacobian, own, rtol, atol))
            if still is not None:
                require_still(jacobian, error, still, places[some])
            start += len(jacobian)
            yield jacobian, error

    triangle, slack = _condensed(jacobians(), len(vector.names), noise.scale, progress)
    error = np.zeros_like(triangle)
    error[0] = slack  # what counts of an error is the norm of each column
    left_out = np.sort(stream.places[~stream.kept])
    said = (f"{len(left_out)} of {len(stream.kept)} readings are not finite and were left out",)
    probed = Probed(
        readings=np.zeros(len(triangle)),
        jacobian=triangle,
        error=error,
        parameters=vector.values,
        names=vector.names,
        groups=vector.groups,
        inputs=np.zeros(len(triangle), dtype=np.int64),
        derivative=derivative,
        tangents=still,  # held against each reading above: of the triangle only the norms of errors are known
        exact=None,
        notes=(*vector.notes, *notes(), *(said if len(left_out) else ()), _NOTE),
        kept=np.arange(len(triangle)),
        total=len(triangle),
        bank_size=stream.count,
    )
    found = assemble(
        probed, 1.0, repeats=1, repeat_correlation=0.0, symmetry=None, rtol=None, atol=None, **options
    )  # fmt: skip
    order = np.argsort(stream.places[stream.kept])
    readout = _left_vectors(stream, noise.scale, found, progress)
    if (np.diff(order) < 0).any():  # a copy as large as a Jacobian
        readout = readout[order]
    carriers = np.full((len(found.carriers), min(CARRIERS, len(order))), -1, dtype=np.int64)
    for places, column in zip(carriers, readout.T, strict=False):  # one by one: all together take several copies
        places[:] = largest(np.abs(column)[:, None], len(places))[0]
    return replace(
        found,
        inputs=stream.inputs[order],
        carriers=carriers,
        readings=len(order),
        left_out=left_out,
        whitening=noise.scale[order],
        noiseless=np.zeros((0, len(order))),
        readout=readout,
        repeats=int(repeats),
        repeat_correlation=float(repeat_correlation),
        noise=noise_phrase(sigma, repeats),
    )


_NOTE = "the Jacobian was gone through part by part: QR of one after the other"


def _condensed(
    jacobians: Iterator[tuple[Array, Array]], size: int, scale: Array, progress: bool
) -> tuple[Array, Array]:
    """Return R, (P, P) or shorter, and a bound on the norm of the error of each column of W."""
    start, steps = 0, 1
    triangle, squares = np.zeros((0, size)), np.zeros(size)
    held = [triangle]
    with progress_bar(len(scale), progress, "reading") as bar:
        for jacobian, error in jacobians:
            weights = scale[start : start + len(jacobian), None]
            squares += np.square(weights * error).sum(axis=0)
            held.append(weights * jacobian)
            start += len(jacobian)
            bar.update(len(jacobian))
            if sum(map(len, held)) >= 3 * size:  # fewer rows would be factored again and again
                held, steps = [_triangle_of(held)], steps + 1
    triangle = _triangle_of(held)
    rounding = 4.0 * steps * float(np.finfo(np.float64).eps) * np.linalg.norm(triangle, axis=0)
    return triangle, np.sqrt(squares) + rounding


def _triangle_of(held: list[Array]) -> Array:
    return np.asarray(np.linalg.qr(np.concatenate(held), mode="r"))


def _left_vectors(stream: Stream, scale: Array, found: Sensitivity, progress: bool) -> Array:
    """Return W V with columns of norm one and orthogonal, (M, resolved)."""
    directions = found.directions[: found.resolved].T
    moved, start = np.empty((len(scale), directions.shape[1]), order="F"), 0
    if not moved.size:
        return moved
    with progress_bar(len(scale), progress, "reading") as bar:
        for jacobian in stream.rows():
            part = slice(start, start + len(jacobian))
            moved[part] = scale[part, None] * (jacobian @ directions)
            start += len(jacobian)
            bar.update(len(jacobian))
    # From the strongest on: what rounding of the strong is in the weak comes out.
    basis, mixing = qr(moved, mode="economic", overwrite_a=True, check_finite=False)
    basis *= np.where(np.diagonal(mixing) < 0.0, -1.0, 1.0)
    return np.asarray(basis)
