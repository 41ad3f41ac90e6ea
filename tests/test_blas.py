"""No bit depends on the threads of BLAS, and none is taken from the process for good."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - so that its BLAS counts from the start
from threadpoolctl import threadpool_info, threadpool_limits

from estim.blas import one_blas_thread

# A bank so large that OpenBLAS splits its products among threads, in the set-up and in each trial.
RECOVER = """
import hashlib
import numpy as np
import estim
x = np.random.default_rng(0).standard_normal((600, 150)) / 12.0
found = estim.recover_parameters(lambda p, x: np.exp(-0.1 * (x @ p)), x, 0.01, params=np.ones(150),
                                 jac=lambda p, x: -0.1 * x * np.exp(-0.1 * (x @ p))[:, None], trials=3, rng=0)
print(hashlib.sha256(found.to_json().encode()).hexdigest())
"""


def bits(threads):
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    run = subprocess.run(
        [sys.executable, "-c", RECOVER], capture_output=True, text=True, check=True, timeout=300,
        env={**os.environ, **dict.fromkeys(names, str(threads))},
    )  # fmt: skip
    assert len(run.stdout.strip()) == hashlib.sha256().digest_size * 2
    return run.stdout


def threads_of_blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_threads():
    """Let BLAS have two threads: where there is one to begin with, none could be lost."""
    with threadpool_limits(2, user_api="blas"):
        assert set(threads_of_blas()) == {2}
        yield


def test_no_bit_depends_on_the_threads_of_blas():
    assert bits(1) == bits(2)


@pytest.mark.usefixtures("two_threads")
def test_threads_are_given_back_by_the_last_one_out():
    before = threads_of_blas()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads_of_blas()) == {1}
    second.__exit__(None, None, None)
    assert threads_of_blas() == before


@pytest.mark.usefixtures("two_threads")
def test_many_threads_and_an_error_leave_nothing_behind():
    before = threads_of_blas()

    def enter(_):
        with one_blas_thread():
            return np.ones((20, 20)) @ np.ones(20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(50)))
    with pytest.raises(RuntimeError, match="inside"), one_blas_thread():
        raise RuntimeError("inside")
    assert threads_of_blas() == before
