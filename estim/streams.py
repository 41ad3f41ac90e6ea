"""Randomness as an argument: one Generator for each block of trials, whoever works on the block.

Blocks have a fixed size, each has its own spawned Generator, and results are added in the order of the blocks. So no
bit of a result depends on the number of workers.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

#: Blocks handed out at a time: enough to keep workers busy, few enough for constant memory at any number of trials.
BATCH = 256

Array = npt.NDArray[np.float64]
Block = tuple[np.random.Generator, int]
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


def check_trials(trials: Any) -> int:
    """Return the number of trials, or raise."""
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer):
        msg = f"trials must be an integer; got {trials!r}"
        raise TypeError(msg)
    if not 2 <= trials < 2**63:
        msg = f"trials must be at least 2, for a standard error, and below 2^63; got {trials!r:.60}"
        raise ValueError(msg)
    return int(trials)


def check_flag(value: Any, argument: str) -> None:
    """Refuse what is neither True nor False, such as a word, or an array, whose truth is in doubt."""
    if not isinstance(value, bool | np.bool_):
        msg = f"{argument} must be True or False; got {value!r:.60}"
        raise TypeError(msg)


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


def results(
    map_: Callable[..., Iterable[Any]], run: Callable[[Any], Any], items: Sequence[Any], fits: Callable[[Any], bool]
) -> Iterator[Any]:
    """Yield what `run` returns for each item, all of which fit, or say what else the user's map gave."""
    given = map_(run, items)
    found = 0
    for result in given if isinstance(given, Iterable) else ():
        if not fits(result):
            msg = f"workers, a map-like callable, must yield what the function it is given returns; got {result!r:.60}"
            raise TypeError(msg)
        found += 1
        if found <= len(items):
            yield result
    if found != len(items):
        msg = f"workers, a map-like callable, must yield one result for each of {len(items)} calls; it yielded {found}"
        raise ValueError(msg)


def blocks(rng: np.random.Generator, trials: int, size: int) -> Iterator[Block]:
    """Yield a Generator and a number of trials for each block of at most `size`."""
    for start in range(0, trials, size):
        yield rng.spawn(1)[0], min(size, trials - start)


def summed(
    run: Callable[[Block], Array],
    rng: np.random.Generator,
    trials: int,
    *,
    block: int,
    shape: tuple[int, ...],
    workers: int | Callable[..., Iterable[Any]],
    progress: bool,
) -> Array:
    """Add what `run` returns for each block of trials, arrays of a known shape, in the order of the blocks.

    Memory does not grow with their number: they are made, and worked off, a batch at a time.
    """
    from tqdm import tqdm

    def fits(sums: Any) -> bool:
        return isinstance(sums, np.ndarray) and sums.shape == shape and sums.dtype == np.float64

    total, work = np.zeros(shape), blocks(rng, trials, block)
    with mapping(workers) as map_, tqdm(total=trials, unit="trial", unit_scale=True, disable=not progress) as bar:
        while batch := list(itertools.islice(work, BATCH)):
            for (_, count), sums in zip(batch, results(map_, run, batch, fits), strict=True):
                total += sums
                bar.update(count)
    return total


def root_mean_square(square: Array, fourth: Array, trials: int) -> tuple[Array, Array]:
    """Return the root of a mean over trials of squares, and its standard error, from that mean and that of squares^2.

    By the delta method: the variance of the mean square, carried to its root. Where a square overflowed it is infinite.
    """
    root = np.sqrt(square)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        variance = np.where(np.isinf(square), np.inf, np.maximum(fourth - square * square, 0.0))
        error = 0.5 * np.sqrt(variance / (trials - 1)) / root
    return root, np.where(np.isinf(square), np.inf, np.where(root > 0.0, error, 0.0))
