"""The record of a model whose readings and parameters are both too many: its strongest directions, and the rest."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from estim.probe.matrix_free.directions import input_share, statuses
from estim.probe.matrix_free.groups import norms_of_groups, sizes_of_groups
from estim.probe.matrix_free.passes import Passes
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.top import largest, memory, products_needed, transposed

Array = npt.NDArray[np.float64]

#: Directions looked for.
COUNT = 16
#: Vectors of all parameters held at a time, in double precision: those of products, and of the error's sample.
_VECTORS = 30


def directions_sought(keep: int, readings: int, parameters: int) -> int:
    """Return how many directions are looked for."""
    return min(max(COUNT, keep), readings, parameters)


def top_cost(count: int, readings: int, parameters: int) -> tuple[str, int, float]:
    """Return the path in words, the least number of passes over the bank, and the bytes that it takes."""
    size = min(readings, parameters)
    least, most = products_needed(count, size)
    need = memory(count, size) + 8.0 * (2 * count * readings + _VECTORS * parameters)
    said = (
        f"path: products with the Jacobian for the {count} strongest directions of {readings} readings, {parameters} "
        f"parameters; {least} to {most} passes over the bank"
    )
    return said, least, need


def top_sensitivity(
    matrix: LinearOperator,
    passes: Passes,
    relative: dict[str, float],
    *,
    scale: Array,
    derivative: str,
    repeats: int,
    repeat_correlation: float,
    smallest_change: float | None,
    inputs: npt.NDArray[np.int64],
    keep: int,
    notes: tuple[str, ...],
) -> ModelSensitivity:
    """Return the record from products with the whitened Jacobian.

    Parameters
    ----------
    matrix : LinearOperator, shape (M, P)
        The whitened Jacobian.
    passes : Passes
        Its model.
    relative : dict of str to float
        |E|_F / |J|_F of the tensors of each group, and of all under "".
    scale : ndarray, shape (M,)
        1 / sd of each reading.
    keep : int
        How many of the strongest directions to keep.
    derivative, repeats, repeat_correlation, smallest_change, inputs, notes
        As for `estim.probe.matrix_free.large.model_sensitivity`.
    """
    readings, parameters = matrix.shape
    wide = readings <= parameters
    count = directions_sought(keep, readings, parameters)
    top = largest(matrix if wide else transposed(matrix), count)
    information = float(np.square(top.values).sum()) + top.rest.information + 3.0 * top.rest.information_se
    errors = {name: value * float(np.sqrt(information)) for name, value in relative.items()}
    resolution = max(errors[""], top.smallest)
    rank = int(np.count_nonzero(top.values > resolution))
    counts = sizes_of_groups(passes.groups, passes.sizes)
    group_names = tuple(counts)
    owner = np.repeat([group_names.index(group) for group in passes.groups], passes.sizes)
    readout, share, kept = _both_sides(matrix, top.vectors[:, :rank], owner, len(group_names), keep)
    table = [_row(top.values[:rank], share[k], counts[name], errors[name]) for k, name in enumerate(group_names)]
    return ModelSensitivity(
        names=passes.names,
        sizes=np.array(passes.sizes, dtype=np.int64),
        groups=passes.groups,
        singular_values=top.values,
        errors=top.errors + errors[""],
        status=statuses(top.values, rank, smallest_change),
        resolution=resolution,
        jacobian_error=errors[""],
        input_share=input_share(readout, inputs),
        group_names=group_names,
        group_table=np.array(table),
        group_singular_values=np.zeros((len(group_names), 0)),
        group_resolution=np.array([errors[name] for name in group_names]),
        group_share=share,
        group_norms=np.array([*norms_of_groups(passes.groups, passes.norms).values()]),
        relative_singular_values=np.zeros(0),
        relative_resolution=np.inf,
        kept=np.arange(len(kept)),
        directions=kept if len(kept) else None,
        readings=readings,
        left_out=np.zeros(0, dtype=np.int64),
        whitening=scale,
        readout=readout,
        repeats=repeats,
        repeat_correlation=float(repeat_correlation),
        smallest_change=smallest_change,
        derivative=derivative,
        path="Lanczos iteration on products with the Jacobian and its transpose; no Gram matrix, no Jacobian",
        notes=tuple(dict.fromkeys(notes)),
        rest=replace(top.rest, bound=float(top.rest.bound + errors[""])),
    )


def _both_sides(
    matrix: LinearOperator, vectors: Array, owner: npt.NDArray[np.int64], groups: int, keep: int
) -> tuple[Array, Array, Array]:
    """Return left singular vectors (M, rank), shares of groups (groups, rank) and the kept right ones (kept, P).

    `vectors` are of the shorter side, (n, rank); `owner`, (P,), is the number of each parameter's group. One right
    vector is held at a time, but for those kept, where parameters are more than readings.
    """
    (readings, parameters), rank = matrix.shape, vectors.shape[1]
    wide = readings <= parameters
    readout, share = np.empty((readings, rank)), np.zeros((groups, rank))
    kept = np.empty((min(keep, rank), parameters))
    for k in range(rank):
        right = matrix.rmatvec(vectors[:, k]) if wide else vectors[:, k]
        right = right / np.linalg.norm(right)
        readout[:, k] = vectors[:, k] if wide else matrix.matvec(right)
        share[:, k] = np.bincount(owner, np.square(right), groups)
        if k < len(kept):
            kept[k] = right
    if not wide and rank:  # orthonormal but for the residual of the iteration: from the strongest on
        basis, mixing = np.linalg.qr(readout)
        readout = basis * np.where(np.diagonal(mixing) < 0.0, -1.0, 1.0)
    return readout, share, kept


def _row(values: Array, share: Array, size: int, error: float) -> tuple[float, ...]:
    """Return what is known of a group: |W_g| is at least |u^T W_g| = s sqrt(share) for any unit u."""
    least = float((values * np.sqrt(share)).max(initial=0.0))
    seen = least > error
    return size, float(seen), 1.0 / least if seen else np.inf, np.nan, float(share.mean()) if share.size else 0.0, 0
