"""Randomness as an argument: one Generator for each block of trials, whoever works on the block.

Blocks have a fixed size, each has its own spawned Generator, and results are added in the order of the blocks. So no
bit of a result depends on the number of workers.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 1 << 17
#: Blocks handed out at a time: enough to keep workers busy, few enough for constant memory at any number of trials.
BATCH = 256

Seed = int | npt.ArrayLike | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None


def generator(rng: Seed) -> np.random.Generator:
    """Return a Generator for None, a seed (0 is a seed) or a Generator, following SPEC 7."""
    try:
        made = np.random.default_rng(rng)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        msg = f"rng must be None, a nonnegative seed or a numpy.random.Generator; got {rng!r}"
        raise type(error)(msg) from error
    if not hasattr(made.bit_generator.seed_seq, "spawn"):
        msg = f"rng must be able to spawn; the seed sequence of {made.bit_generator!r} cannot"
        raise TypeError(msg)
    return made


def check_progress(progress: Any) -> None:
    """Refuse what is neither True nor False."""
    check_flag(progress, "progress")


def check_flag(value: Any, argument: str) -> None:
    """Refuse what is neither True nor False, such as a word, or an array, whose truth is in doubt."""
    if not isinstance(value, bool | np.bool_):
        msg = f"{argument} must be True or False; got {value!r:.60}"
        raise TypeError(msg)


def blocks(rng: np.random.Generator, trials: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Yield a Generator and a number of trials for each block."""
    for start in range(0, trials, BLOCK):
        yield rng.spawn(1)[0], min(BLOCK, trials - start)


@contextmanager
def mapping(workers: int | Callable[..., Iterable[Any]]) -> Iterator[Callable[..., Iterable[Any]]]:
    """Turn ``workers`` (a number of threads, -1 for all processors, or a map-like callable) into a map."""
    if callable(workers):
        yield workers
        return
    count = check_workers(workers)
    if count == 1:
        yield map
        return
    pool = ThreadPoolExecutor(count)
    try:
        yield pool.map
    finally:
        # On an interrupt the waiting blocks are dropped; the running ones end within milliseconds.
        pool.shutdown(wait=True, cancel_futures=True)


def check_workers(workers: Any) -> int:
    """Return the number of threads, or raise."""
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or (workers < 1 and workers != -1):
        msg = f"workers must be a positive integer, -1, or a map-like callable; got {workers!r}"
        raise ValueError(msg)
    return os.cpu_count() or 1 if workers == -1 else int(workers)


def in_batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of up to BATCH items."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch


def results(
    map_: Callable[..., Iterable[Any]], run: Callable[[Any], npt.NDArray[Any]], batch: list[Any], shape: tuple[int, ...]
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield what `run` returns for each item, an array of a known shape, or say what else the user's map gave."""
    given = map_(run, batch)
    count = 0
    for result in given if isinstance(given, Iterable) else ():
        if not isinstance(result, np.ndarray) or result.shape != shape or result.dtype != np.float64:
            msg = f"workers, a map-like callable, must yield what the function it is given returns; got {result!r:.60}"
            raise TypeError(msg)
        count += 1
        if count <= len(batch):
            yield result
    if count != len(batch):
        msg = f"workers, a map-like callable, must yield one result for each of {len(batch)} calls; it yielded {count}"
        raise ValueError(msg)


def mapped(
    map_: Callable[..., Iterable[Any]], run: Callable[[int], Any], count: int, kinds: type | tuple[type, ...]
) -> Iterator[Any]:
    """Yield what `run` returns for 0, 1, ... below `count`, of known kinds, or say what else the user's map gave."""
    given = map_(run, range(count))
    found = 0
    for result in given if isinstance(given, Iterable) else ():
        if not isinstance(result, kinds):
            msg = f"workers, a map-like callable, must yield what the function it is given returns; got {result!r:.60}"
            raise TypeError(msg)
        found += 1
        if found <= count:
            yield result
    if found != count:
        msg = f"workers, a map-like callable, must yield one result for each of {count} calls; it yielded {found}"
        raise ValueError(msg)
