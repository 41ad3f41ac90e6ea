import os
import re
import threading

import numpy as np
import pytest

import estim
from estim.recovery.monte_carlo import BLOCK
from estim.streams import BATCH, blocks, check_workers, generator, mapping, summed


@pytest.mark.parametrize("seed", [0, 1, 2**100, [1, 2], np.random.SeedSequence(3)])
def test_a_seed_is_what_numpy_makes_of_it(seed):
    assert generator(seed).bit_generator.state == np.random.default_rng(seed).bit_generator.state


def test_a_generator_is_taken_as_it_is():
    rng = np.random.default_rng(5)
    assert generator(rng) is rng
    bits = np.random.Philox(4)
    assert generator(bits).bit_generator is bits


def test_none_is_fresh_each_time():
    assert generator(None).bit_generator.state != generator(None).bit_generator.state


@pytest.mark.parametrize(("bad", "error"), [("a", TypeError), (-1, ValueError), (1.5, TypeError), ({}, TypeError)])
def test_a_bad_seed_is_refused(bad, error):
    with pytest.raises(
        error, match=r"^rng must be None, a nonnegative seed or a numpy.random.Generator; got "
    ) as caught:
        generator(bad)
    assert str(caught.value).endswith(repr(bad))


def test_a_generator_that_cannot_spawn_is_refused():
    # NumPy 2.0 makes no Generator of one, later ones do.
    with pytest.raises(TypeError, match=r"^rng must be (able to spawn; the seed sequence of .* cannot|None, .*)$"):
        generator(np.random.RandomState(0))


@pytest.mark.parametrize("trials", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK, 5 * BLOCK + 17])
def test_blocks_add_up_and_only_the_last_is_short(trials):
    sizes = [size for _, size in blocks(np.random.default_rng(0), trials, BLOCK)]
    assert sum(sizes) == trials
    assert all(size == BLOCK for size in sizes[:-1])
    assert 1 <= sizes[-1] <= BLOCK


def test_each_block_has_its_own_stream_whatever_the_number_of_trials():
    few = [rng.standard_normal(3) for rng, _ in blocks(np.random.default_rng(0), 2 * BLOCK, BLOCK)]
    many = [rng.standard_normal(3) for rng, _ in blocks(np.random.default_rng(0), 9 * BLOCK, BLOCK)]
    assert np.array_equal(few, many[:2])
    assert len({tuple(draws) for draws in many}) == 9


def test_blocks_are_made_as_they_are_asked_for():
    """Memory does not grow with the trials: 1e15 of them start at once."""
    rng, size = next(blocks(np.random.default_rng(0), 10**15, BLOCK))
    assert size == BLOCK
    assert rng.random() != np.random.default_rng(0).random()


def test_blocks_are_handed_out_in_batches_and_added_in_their_order():
    handed = []

    def own(function, items):
        handed.append(len(items))
        return [function(item) for item in items]

    def draws(block):
        rng, size = block
        return np.array([rng.standard_normal(), size])

    trials = 3 * (2 * BATCH + 3) - 1
    total = summed(draws, np.random.default_rng(0), trials, block=3, shape=(2,), workers=own, progress=False)
    assert handed == [BATCH, BATCH, 3]
    expected = sum((draws(block) for block in blocks(np.random.default_rng(0), trials, 3)), start=np.zeros(2))
    assert np.array_equal(total, expected)
    assert total[1] == trials
    for workers in (1, 3):
        again = summed(draws, np.random.default_rng(0), trials, block=3, shape=(2,), workers=workers, progress=False)
        assert np.array_equal(again, total)


@pytest.mark.parametrize("bad", [0, -2, 1.5, "2", None, True, [1], float("nan")])
def test_bad_workers_are_refused(bad):
    with pytest.raises(
        ValueError, match=r"^workers must be a positive integer, -1, or a map-like callable; got "
    ) as caught:
        check_workers(bad)
    assert str(caught.value).endswith(repr(bad))
    with pytest.raises(ValueError, match="workers must be"), mapping(bad):
        pass


def test_minus_one_is_every_processor():
    assert check_workers(-1) == os.cpu_count()
    assert check_workers(np.int32(2)) == 2


def test_one_worker_is_plain_map_and_a_callable_is_itself():
    with mapping(1) as map_:
        assert map_ is map

    def own(function, items):
        return [function(item) for item in items]

    with mapping(own) as map_:
        assert map_ is own


def test_threads_keep_order_and_are_gone_afterwards():
    before = threading.active_count()
    with mapping(3) as map_:
        assert list(map_(lambda i: i**2, range(50))) == [i**2 for i in range(50)]
    assert threading.active_count() == before


def test_waiting_work_is_dropped_on_an_interrupt():
    started = []
    release = threading.Event()

    def work(i):
        started.append(i)
        release.wait(10.0)

    def interrupted():
        with mapping(2) as map_:
            map_(work, range(100))
            release.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(started) < 100


@pytest.mark.parametrize("progress", ["yes", 2, np.ones(3)])
def test_progress_is_a_truth_value(progress):
    calls = [
        lambda: estim.sensitivity(lambda p, x: p * x, np.ones(3), 0.1, params=[1.0], progress=progress),
        lambda: estim.recover_parameters(lambda p, x: p * x, np.ones(3), 0.1, params=[1.0], progress=progress),
        lambda: estim.recover(estim.MeanResponse(lambda t: t), 1.0, 0.1, progress=progress),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=re.escape(f"progress must be True or False; got {progress!r:.60}")):
            call()
