"""A bank of inputs for a module: tensors, dicts and tuples of them, or batches of those."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from estim.masks import unmasked
from estim.probe.model.batches import Batches
from estim.probe.model.same_batches import SameBatches

#: Returns a fresh iterator over parts of a bank.
Parts = Callable[[], Iterator[Any]]


@dataclass(frozen=True)
class Bank:
    """Batches, each as the module takes it."""

    batches: Callable[[], Iterator[Any]]
    """Returns a fresh iterator."""
    whole: bool
    """Whether it is one batch, given as such."""

    def numbered(self) -> Iterator[tuple[str, Any]]:
        """Yield each batch with what an error says before it."""
        for number, batch in enumerate(self.batches()):
            yield "" if self.whole else f"batch {number}: ", batch


def read_bank(bank: Any, device: Any, dtype: Any) -> Bank:
    """Return a bank whose batches are on the model's device; floats of arrays, or of all when asked, in its dtype.

    Parameters
    ----------
    bank : Tensor, array, mapping or tuple of them, list of words, DataLoader, or Batches
        The first axis is the inputs.
    device : torch.device
        The model's.
    dtype : tuple of torch.dtype and bool
        The model's, and whether tensors are to be cast to it, too.

    Raises
    ------
    TypeError
        When the bank is none of these.
    ValueError
        When it is empty, on another device, or its DataLoader shuffles.
    """
    kind, cast = dtype
    prepare = _Prepare(device, kind, cast)
    bank = in_batches(bank)
    if isinstance(bank, Batches):
        return Bank(lambda: (prepare(batch) for batch in bank), False)
    one = prepare(bank)
    if length(one) == 0:
        msg = f"bank must hold at least one input; got {_shape(one)}"
        raise ValueError(msg)
    return Bank(lambda: iter([one]), True)


def in_batches(bank: Any) -> Any:
    """Return a DataLoader as batches that must be the same on every pass; any other bank as it is.

    Raises
    ------
    ValueError
        When it shuffles, or later, when it has no batch.
    """
    if not isinstance(bank, torch.utils.data.DataLoader):
        return bank
    if isinstance(bank.sampler, torch.utils.data.RandomSampler):
        msg = "bank must come in the same order each time; got a DataLoader with shuffle=True"
        raise ValueError(msg)
    return SameBatches(Batches(lambda: _loaded(bank)))


def _loaded(loader: Any) -> Iterator[Any]:
    empty = True
    for batch in loader:
        empty = False
        yield batch
    if empty:
        msg = "bank must hold at least one input; the DataLoader gave no batch"
        raise ValueError(msg)


#: What to do with several batches.
_OF_BATCHES = ": batches = list(...), and then estim.Batches(lambda: batches), is a bank of batches"


@dataclass(frozen=True)
class _Prepare:
    device: Any
    kind: Any
    cast: bool

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, np.ma.MaskedArray):
            batch = unmasked(batch)
        if isinstance(batch, torch.Tensor):
            return self._tensor(batch)
        if holds_words(batch):
            return list(batch)
        if isinstance(batch, np.ndarray):
            if batch.dtype.kind not in "biufc":
                msg = f"bank must hold numbers; got an array of {batch.dtype}"
                raise TypeError(msg)
            array = torch.as_tensor(np.array(batch), device=self.device)  # a copy: torch warns of read-only arrays
            return array.to(self.kind) if array.is_floating_point() else array
        if isinstance(batch, Mapping):
            return {name: self._entry(value) for name, value in batch.items()}
        if isinstance(batch, tuple | list) and any(isinstance(value, torch.Tensor | np.ndarray) for value in batch):
            return tuple(self._entry(value) for value in batch)
        if isinstance(batch, list | Iterator) or batch is None or isinstance(batch, str | int | float):
            msg = (
                "bank must be a tensor, a dict or tuple of tensors, a DataLoader or estim.Batches; "
                f"got {type(batch).__name__}{_OF_BATCHES if isinstance(batch, list | Iterator) else ''}"
            )
            raise TypeError(msg)
        _require_no_table(batch)
        return batch

    def _entry(self, value: Any) -> Any:
        _require_no_table(value)
        return self(value) if isinstance(value, torch.Tensor | np.ndarray | Mapping) else value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device != self.device:
            msg = f"bank must be on the device of the model, {self.device}; got {tensor.device}"
            raise ValueError(msg)
        return tensor.to(self.kind) if self.cast and tensor.is_floating_point() else tensor


def _require_no_table(batch: Any) -> None:
    """Refuse what no module takes as it is, though tensors can be made of it; any other object is left to the model."""
    kind = type(batch).__name__
    if hasattr(batch, "iloc"):
        msg = f"bank must be a tensor, or hold tensors; got a {kind} of pandas: bank.to_numpy() is read as a tensor"
        raise TypeError(msg)
    if isinstance(batch, torch.utils.data.Dataset):
        msg = (
            f"bank must be a tensor, a dict or tuple of tensors, a DataLoader or estim.Batches; got {kind}, a Dataset: "
            "torch.utils.data.DataLoader(bank, batch_size=32) reads it in batches"
        )
        raise TypeError(msg)
    if type(batch).__module__.partition(".")[0] in ("jax", "jaxlib"):
        msg = "bank must be a tensor, or hold tensors; got an array of JAX: numpy.asarray(bank) is read as a tensor"
        raise TypeError(msg)


def holds_words(batch: Any) -> bool:
    """Tell whether a batch is a list of words or sentences, which a reading can make tensors of."""
    if isinstance(batch, np.ndarray):
        return batch.ndim == 1 and batch.dtype.kind == "U"
    return isinstance(batch, list | tuple) and len(batch) > 0 and all(isinstance(word, str) for word in batch)


def mapped(batch: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """Apply a function to every tensor of a batch."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {name: mapped(value, function) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(mapped(value, function) for value in batch)
    return batch


def length(batch: Any) -> int | None:
    """Return the number of inputs, where all tensors of the batch agree on it."""
    sizes: set[int | None] = set()
    mapped(batch, lambda tensor: sizes.add(len(tensor) if tensor.ndim else None))
    return next(iter(sizes)) if len(sizes) == 1 else None


def selected(batch: Any, places: Any) -> Any:
    """Return some inputs of a batch whose tensors all have as many, by a slice or a tensor of places."""
    return mapped(batch, lambda tensor: tensor[places])


def spread(batch: Any, count: int, most: int, alone: float = 0.0) -> Any:
    """Return some of a batch's inputs, from the first to the last; where one is asked for, that part of the way."""
    places = np.linspace(0, count - 1, most) if most > 1 else [alone * (count - 1)]
    return selected(batch, torch.as_tensor(np.unique(np.round(places)).astype(int), device="cpu"))


def in_parts(batch: Any, size: int) -> Iterator[Any]:
    """Yield a batch in parts of at most that many inputs; whole where its tensors disagree on their number."""
    count = length(batch)
    if count is None or count <= size:
        yield batch
        return
    for start in range(0, count, size):
        yield selected(batch, slice(start, start + size))


def _shape(batch: Any) -> str:
    shapes: list[str] = []
    mapped(batch, lambda tensor: shapes.append(str(tuple(tensor.shape))))
    return f"shape {', '.join(shapes)}"
