"""A bank too large to hold, one batch at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Batches:
    """A bank in batches: readings of the batches, one after the other, are the readings of the bank.

    Parameters
    ----------
    factory : callable
        ``factory()`` returns a fresh iterator over batches, each a bank that the model takes; the same ones in the
        same order each time.

    Raises
    ------
    TypeError
        When `factory` is not callable, or does not return an iterable.
    ValueError
        When iterated: when there is no batch, or `factory` returns the same exhausted iterator again.

    Examples
    --------
    >>> import estim
    >>> bank = estim.Batches(lambda: ([i, i + 1] for i in range(0, 6, 2)))
    >>> list(bank)
    [[0, 1], [2, 3], [4, 5]]
    """

    def __init__(self, factory: Callable[[], Iterable[Any]]) -> None:
        if not callable(factory):
            msg = f"factory must be callable and return a fresh iterator over batches; got {type(factory).__name__}"
            raise TypeError(msg)
        self.factory = factory
        self._last: Any = None

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches, from the first."""
        batches = self.factory()
        if not isinstance(batches, Iterable):
            msg = f"factory must return an iterable of batches; got {type(batches).__name__}"
            raise TypeError(msg)
        if isinstance(batches, Iterator):
            if batches is self._last:
                msg = "factory must return a fresh iterator each time; got the same one again"
                raise ValueError(msg)
            self._last = batches
        return self._checked(batches)

    def _checked(self, batches: Iterable[Any]) -> Iterator[Any]:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            msg = "bank must hold at least one batch; factory() gave none"
            raise ValueError(msg)


def joined(bank: Batches) -> list[Any]:
    """Return the inputs of all batches in one list: for an attention network, which takes a list of inputs."""
    return [item for batch in bank for item in batch]
