"""Monte Carlo records of one problem, drawn apart, put together."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from estim.probe.many_unknowns.notes import drawn_notes
from estim.probe.many_unknowns.record import ParameterRecovery
from estim.recovery.recovery_record import Recovery

Array = npt.NDArray[np.float64]
Pooled = TypeVar("Pooled", Recovery, ParameterRecovery)

#: Means over the trials, and root-mean-squares with the field of their standard errors.
_MEANS = ("bias", "relative_bias", "coordinate_bias", "clipped_low", "clipped_high", "evaluations")
_ROOTS = {"rmse": "rmse_se", "coordinate_rmse": "coordinate_rmse_se"}
#: What else the draws decide.
_OTHERS = ("relative_rmse", "trials", "failures", "notes", "numerical_error")
#: What was given, and the same to the last bit; what was computed may differ a little from machine to machine: by a
#: part of the largest number, and weak ones, positive, by more of their own.
_GIVEN = ("theta", "sigma", "parameters", "lower", "upper")
_POSITIVE = ("singular_values", "linear_rmse", "coordinate_linear_rmse")
_DIGITS, _OWN_DIGITS = 1e-6, 1e-3
#: Part of the RMSE up to which the same draws may differ from machine to machine; others hardly ever come as close.
_SAME = 1e-9


def pool(records: Iterable[Pooled]) -> Pooled:
    """Put Monte Carlo recoveries of one problem together: jobs with seeds of their own, as one with all their trials.

    Parameters
    ----------
    records : iterable of Recovery, or of ParameterRecovery
        Of the same problem at the same noise, by Monte Carlo, each with another seed:
        ``numpy.random.SeedSequence(0).spawn(jobs)`` gives streams that do not overlap. That two records do not share
        some of their draws cannot be seen, only that they do not share all.

    Returns
    -------
    Recovery or ParameterRecovery
        Every mean, root-mean-square and standard error of all trials together, to rounding; the notes of all, but
        those on the trials of a ParameterRecovery, which are on all of them.

    Raises
    ------
    TypeError
        When `records` is no iterable, or an entry no such record.
    ValueError
        When there is none, one is not by Monte Carlo, two are of different problems (the message names the field), or
        two hold the same draws.

    Examples
    --------
    >>> import numpy as np
    >>> import estim
    >>> seeds = np.random.SeedSequence(0).spawn(4)
    >>> identity = estim.MeanResponse(lambda t: t)
    >>> jobs = [estim.recover(identity, 1.0, 1.0, trials=50_000, rng=seed) for seed in seeds]
    >>> found = estim.pool(jobs)
    >>> found.trials
    200000
    >>> bool(abs(found.rmse[0] - 0.87064877) < 4 * found.rmse_se[0] < 2.1 * jobs[0].rmse_se[0])
    True
    """
    if not isinstance(records, Iterable):
        msg = f"records must be several recoveries, such as a list of them; got {type(records).__name__}"
        raise TypeError(msg)
    given = list(records)
    _check(given)
    first = given[0]
    trials = np.array([record.trials for record in given], dtype=np.float64)
    weights = trials / trials.sum()
    pooled: dict[str, Any] = {
        name: np.tensordot(weights, _stacked(given, name), 1) for name in _MEANS if hasattr(first, name)
    }
    for root, error in _ROOTS.items():
        if hasattr(first, root):
            pooled[root], pooled[error] = _root(_stacked(given, root), _stacked(given, error), trials)
    if isinstance(first, Recovery):
        pooled["relative_rmse"] = pooled["rmse"] / (abs(first.theta) or np.nan)
        pooled["numerical_error"] = _stacked(given, "numerical_error").max(axis=0)
    else:
        pooled["failures"] = sum(record.failures for record in given)
        pooled["evaluations"] = float(pooled["evaluations"])
    found = replace(first, trials=sum(record.trials for record in given), **pooled)
    return replace(found, notes=_notes(given, found))


def _notes(records: list[Any], found: Any) -> tuple[str, ...]:
    told = [note for record in records for note in record.notes if note not in _drawn(record)]
    return tuple(dict.fromkeys([*told, *_drawn(found)]))


def _drawn(record: Any) -> list[str]:
    """Return the notes on the trials that are made anew for all."""
    if isinstance(record, Recovery):
        return []
    return drawn_notes(record.rmse, record.rmse_se, record.trials, record.failures)


def _stacked(records: list[Any], name: str) -> Array:
    return np.array([getattr(record, name) for record in records])


def _root(rmse: Array, error: Array, trials: Array) -> tuple[Array, Array]:
    """Return the root of the mean square over all trials, and its standard error, from those of each record.

    A standard error e of the root r of n squares stands for their variance, v = (2 r e)^2 (n - 1); variances within
    and between the records make that of all.
    """
    largest = rmse.max(axis=0)
    unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)  # no square overflows or vanishes
    share = (trials / trials.sum())[:, None]
    with np.errstate(all="ignore"):
        squares = (rmse / unit) ** 2
        within = (2.0 * (rmse / unit) * (error / unit)) ** 2 * (trials[:, None] - 1.0)
        square = (share * squares).sum(axis=0)
        variance = (share * (within + (squares - square) ** 2)).sum(axis=0)
        root = np.sqrt(square)
        spread = np.where(root > 0.0, 0.5 * np.sqrt(variance / (trials.sum() - 1.0)) / root, 0.0)
    return unit * root, unit * np.where(np.isnan(root), np.nan, spread)


def _alike(one: Any, other: Any, name: str) -> bool:
    """Compare what two records hold in a field."""
    if not isinstance(one, np.ndarray | float):
        return bool(one == other)
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape:
        return False
    digits = 0.0 if name in _GIVEN else _DIGITS
    size = float(np.abs(first[np.isfinite(first)]).max(initial=0.0))
    own = name not in _POSITIVE or np.allclose(first, second, rtol=_OWN_DIGITS, atol=0.0, equal_nan=True)
    return own and np.allclose(first, second, rtol=digits, atol=digits * size, equal_nan=True)


def _check(records: list[Any]) -> None:
    if not records:
        msg = "records must hold at least one recovery; got none"
        raise ValueError(msg)
    for k, record in enumerate(records):
        if not isinstance(record, Recovery | ParameterRecovery) or type(record) is not type(records[0]):
            msg = f"records must be Recovery, or all ParameterRecovery; got {type(record).__name__} at entry {k}"
            raise TypeError(msg)
        if record.trials == 0:
            msg = f"records must be by Monte Carlo: the others have no draws to put together; got entry {k} without"
            raise ValueError(msg)
    drawn = {*_MEANS, *_ROOTS, *_ROOTS.values(), *_OTHERS}
    for name in (field.name for field in fields(records[0]) if field.name not in drawn):
        for k, record in enumerate(records):
            one, other = getattr(records[0], name), getattr(record, name)
            if not _alike(one, other, name):
                msg = f"records must be of one problem; {name} of entry {k} is {other!r:.60}, of entry 0 {one!r:.60}"
                raise ValueError(msg)
    _check_draws(records)


def _check_draws(records: list[Any]) -> None:
    """Refuse two records of one seed. Where all estimates are at bounds, or exact, others come to the same, too."""
    kept = [k for k, record in enumerate(records) if (record.clipped_low + record.clipped_high < 1.0).any()]
    rmse = np.array([records[k].rmse for k in kept])
    moments = np.array([np.concatenate([records[k].bias, records[k].rmse]) for k in kept])
    counts = np.array([records[k].trials for k in kept])
    for k in range(1, len(kept)):
        with np.errstate(invalid="ignore"):
            near = np.abs(moments[:k] - moments[k]) <= _SAME * np.tile(rmse[k], 2)
        near |= (moments[:k] == moments[k]) | (np.isnan(moments[:k]) & np.isnan(moments[k]))
        same = near.all(axis=1) & (counts[:k] == counts[k]) & (rmse[k] > 0.0).any()
        if same.any():
            earlier = kept[int(np.argmax(same))]
            msg = f"records must be drawn with different seeds; entries {earlier} and {kept[k]} hold the same draws"
            raise ValueError(msg)
