"""The record of a large model from the Gram matrices of its rows: spectra, shares, and the directions kept."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.directions.noise import Whitening, noise_at, read_sigma, whitening
from estim.probe.matrix_free.directions import input_share, statuses
from estim.probe.matrix_free.groups import norms_of_groups, sizes_of_groups
from estim.probe.matrix_free.passes import Passes, progress_bar
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.spectra import Spectra, spectra_of
from estim.probe.matrix_free.spectrum import Spectrum, shares
from estim.probe.verdict.any_change import AnyChange
from estim.probe.words import blind_notes
from estim.real_numbers import real_number

Array = npt.NDArray[np.float64]


def require_large(names: Any, symmetry: Any, atol: Any, rtol: Any, smallest_change: Any) -> None:
    """Refuse what needs single parameters, and what is no tolerance or change."""
    for argument, value in (("names", names), ("symmetry", symmetry), ("atol", atol)):
        if value is not None:
            msg = f"{argument} must be left out: the model is too large for single parameters; got {value!r:.80}"
            raise ValueError(msg)
    if rtol is not None and not 0.0 <= real_number(rtol, "rtol") < np.inf:
        msg = f"rtol must be finite and not negative; got {rtol!r}"
        raise ValueError(msg)
    if smallest_change is not None:
        _require_size(smallest_change)


def _require_size(smallest_change: Any) -> None:
    msg = f"smallest_change must be one positive number for a model this large; got {smallest_change!r:.80}"
    if isinstance(smallest_change, AnyChange):
        msg += ", which the record's judge takes"
    try:
        number = np.nan if np.ndim(smallest_change) else real_number(smallest_change, "smallest_change")
    except TypeError as error:
        raise TypeError(msg) from error
    if not 0.0 < number < np.inf:
        raise ValueError(msg)


def at_least(relative: dict[str, float], rtol: float | None) -> dict[str, float]:
    """Return relative errors, those known to the user included."""
    least = 0.0 if rtol is None else real_number(rtol, "rtol")
    return {name: max(value, least) for name, value in relative.items()}


def model_sensitivity(
    passes: Passes,
    noise: Whitening,
    relative: dict[str, float],
    *,
    derivative: str,
    repeats: int,
    repeat_correlation: float,
    smallest_change: float | None,
    inputs: npt.NDArray[np.int64],
    keep: int,
    progress: bool,
    notes: tuple[str, ...],
) -> ModelSensitivity:
    """Return the record of a model through Gram matrices.

    Parameters
    ----------
    passes : Passes
    noise : Whitening
        Of the M readings, every one of them with noise.
    relative : dict of str to float
        |E|_F / |J|_F of the tensors of each group, and of all under "".
    derivative
        How the rows are found.
    repeats, repeat_correlation, smallest_change, keep, progress
        As for `estim.sensitivity`.
    inputs : ndarray of int, shape (M,)
        The input that each reading belongs to.
    notes : tuple of str
        To be kept in the record.
    """
    found, path = spectra_of(passes, noise, relative, progress)
    sizes, size = sizes_of_groups(passes.groups, passes.sizes), sum(passes.sizes)
    names, whole, most = tuple(sizes), found.spectra[""], found.most[""]
    resolution = found.resolution("")
    rank = int(np.count_nonzero(whole.values[:most] > resolution))
    share = shares(whole.left, whole.values[:rank], [found.grams[name] for name in names])
    table = [_row(found, name, sizes[name], share[k]) for k, name in enumerate(names)]
    norms = norms_of_groups(passes.groups, passes.norms)
    relative_values, relative_resolution = found.of_relative_changes(norms)
    readout = whole.left[:, :rank]
    kept, directions = _kept(passes, whole, rank, noise, keep, progress)
    said = [*notes, *blind_notes(rank)]
    if found.by_rows:
        said.append(f"a backward pass for each reading was taken for {', '.join(found.by_rows)}")
    beyond = size - len(noise.scale)
    if beyond > 0:
        said.append(
            f"{len(noise.scale):,} readings see at most as many directions: {beyond:,} of the "
            f"{size:,} are beyond them, whatever the digits; only other inputs can help."
        )
    return ModelSensitivity(
        names=passes.names,
        sizes=np.array(passes.sizes, dtype=np.int64),
        groups=passes.groups,
        singular_values=whole.values[:most],
        errors=(whole.slack + found.errors[""])[:most],
        status=statuses(whole.values[:most], rank, smallest_change),
        resolution=resolution,
        jacobian_error=found.errors[""],
        input_share=input_share(readout, inputs, noise.forward),
        group_names=names,
        group_table=np.array(table),
        group_singular_values=np.array([_padded(found.spectra[name], found.most[name], most) for name in names]),
        group_resolution=np.array([found.resolution(name) for name in names]),
        group_share=share,
        group_norms=np.array([*norms.values()]),
        relative_singular_values=relative_values,
        relative_resolution=relative_resolution,
        kept=kept,
        directions=directions,
        readings=len(inputs),
        left_out=np.zeros(0, dtype=np.int64),
        whitening=noise.scale if noise.forward is None else noise.forward,
        readout=readout,
        repeats=repeats,
        repeat_correlation=float(repeat_correlation),
        smallest_change=smallest_change,
        derivative=derivative,
        path=path,
        notes=tuple(dict.fromkeys(said)),
    )


def noise_of(sigma: Any, places: npt.NDArray[np.int64], total: int, repeats: int, correlation: float) -> Whitening:
    """Return the whitening of the readings at some places among all, in that order; noiseless ones are refused."""
    noise = whitening(noise_at(read_sigma(sigma), places, total), len(places), repeats, correlation)
    if len(noise.noiseless):
        got = "a singular covariance" if noise.forward is not None else f"0 for reading {places[noise.noiseless[0]]}"
        msg = f"sigma must be positive for every reading of a model this large; got {got}"
        raise ValueError(msg)
    return noise


def in_order(found: ModelSensitivity, places: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> ModelSensitivity:
    """Return a record of readings as they came, with those in the order of their places among all; (M,) both."""
    order = np.argsort(places[kept])
    left_out = np.sort(places[~kept])
    if (np.diff(order) == 1).all():
        return replace(found, left_out=left_out)
    independent = found.whitening.ndim == 1
    return replace(
        found, left_out=left_out, whitening=found.whitening[..., order],
        readout=found.readout[order] if independent else found.readout,
    )  # fmt: skip


def _padded(found: Spectrum, count: int, length: int) -> Array:
    values = np.zeros(length)
    values[:count] = found.values[:count]
    return values


def _row(found: Spectra, name: str, size: int, share: Array) -> tuple[float, ...]:
    values = found.spectra[name].values[: found.most[name]]
    rank = int(np.count_nonzero(values > found.resolution(name)))
    best = 1.0 / values[0] if rank else np.inf
    worst = 1.0 / values[size - 1] if rank == size > 0 else np.inf
    return size, rank, best, worst, float(share.mean()) if share.size else 0.0, 0


def _kept(
    passes: Passes, whole: Spectrum, rank: int, noise: Whitening, keep: int, progress: bool
) -> tuple[npt.NDArray[np.int64], Array | None]:
    """Return the numbers and the unit vectors of the strongest and the weakest resolved directions."""
    numbers = np.unique(np.r_[np.arange(min(keep, rank)), np.arange(max(rank - keep, 0), rank)]).astype(np.int64)
    if not len(numbers):
        return numbers, None
    left = whole.left[:, numbers]
    combinations = (left * noise.scale[:, None]).T if noise.forward is None else left.T @ noise.forward
    with progress_bar(sum(passes.sizes), progress) as bar:
        found = passes.combined_rows(combinations, bar.update)
    return numbers, found / np.linalg.norm(found, axis=1, keepdims=True)
