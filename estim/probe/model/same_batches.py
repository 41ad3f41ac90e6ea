"""Batches that are the same on every pass, or an error: a bank that is shuffled mixes the readings of its inputs."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from estim.probe.model.batches import Batches

#: Passes that are compared with the first: differences and fits call a small model thousands of times.
_PASSES = 8


class SameBatches(Batches):
    """A bank in batches; a pass whose batches are not those of the first one ends with an error.

    Of each batch it keeps only shapes and a projection of its numbers.

    Raises
    ------
    ValueError
        When iterated: when a batch is not as it was, or there are more or fewer of them.
    """

    def __init__(self, bank: Batches) -> None:
        super().__init__(bank.factory)
        self._marks: list[Any] = []
        self._count: int | None = None
        self._passes = 0

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches, from the first."""
        batches = super().__iter__()
        return self._compared(batches) if self._passes <= _PASSES else batches

    def _compared(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = 0
        for number, batch in enumerate(batches, 1):
            self._compare(number, _mark(batch))
            yield batch
        if self._count not in (None, number):
            raise ValueError(_as_many(self._count, str(number)))
        self._count = number
        self._passes += 1

    def _compare(self, number: int, mark: Any) -> None:
        if self._count is not None and number > self._count:
            raise ValueError(_as_many(self._count, "more"))
        if number > len(self._marks):
            self._marks.append(mark)
        elif not _same(mark, self._marks[number - 1]):
            msg = (
                f"bank must give the same batches each time, in the same order; batch {number - 1} is not what it was: "
                "use shuffle=False and no random augmentation, or give estim.Batches(lambda: batches) of a list of "
                "batches"
            )
            raise ValueError(msg)


def _as_many(first: int | None, then: str) -> str:
    return f"bank must give the same batches each time; got {first} of them, then {then}"


def same_batches(bank: Any) -> Any:
    """Return a bank in batches as one that must be the same on every pass; any other bank as it is."""
    return SameBatches(bank) if isinstance(bank, Batches) and not isinstance(bank, SameBatches) else bank


class _Projected(NamedTuple):
    """An array as one number."""

    shape: tuple[int, ...]
    value: float
    slack: float
    """How far it may be off: what is computed anew may differ in its last digits."""


def _mark(batch: Any) -> Any:
    """Return what tells a batch from others."""
    if isinstance(batch, Mapping):
        return {name: _mark(value) for name, value in batch.items()}
    if batch is None or isinstance(batch, str | bytes | bool | int):
        return batch
    try:
        return _projected(_numbers(batch))
    except (TypeError, ValueError, RuntimeError):  # ragged, words, or nothing that NumPy knows
        pass
    if isinstance(batch, list | tuple):
        return [_mark(value) for value in batch]
    if isinstance(batch, np.ndarray) or hasattr(batch, "iloc"):
        return [_mark(value) for value in np.asarray(batch).ravel().tolist()]
    return type(batch).__name__


def _numbers(value: Any) -> npt.NDArray[Any]:
    """Return an array of real numbers, or raise."""
    if hasattr(value, "detach"):  # a tensor of torch, of which NumPy does not know every kind
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag])
    return array if array.dtype.kind in "biuf" else array.astype(np.float64)


def _projected(array: npt.NDArray[Any]) -> _Projected:
    """Return u . X v for random u over the first axis and v over all others together."""
    eps = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    table = np.nan_to_num(array.astype(np.float64), nan=0.5).reshape(len(array) if array.ndim else 1, -1)
    rng = np.random.default_rng(0)
    u, v = (rng.standard_normal(count) for count in table.shape)
    with np.errstate(all="ignore"):
        return _Projected(array.shape, float(u @ (table @ v)), float(eps**0.75 * np.linalg.norm(table)))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, _Projected) and isinstance(other, _Projected):
        return one.shape == other.shape and not abs(one.value - other.value) > one.slack
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
