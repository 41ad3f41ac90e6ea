"""One thread of BLAS for each worker.

The order of a sum in BLAS depends on its number of threads, and so do the last bits; and threads of BLAS beside those
of workers wait for one another: on two busy processors fits were ten times slower with them.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
#: What brings the number of threads back, once for every caller inside: it is the whole process's, so the last one out
#: does.
_inside: list[Any] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread."""
    import scipy.linalg  # noqa: F401 - SciPy brings a BLAS of its own, and only those loaded can be held
    from threadpoolctl import threadpool_limits

    with _lock:
        _inside.append(_inside[0] if _inside else threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limits = _inside.pop()
            if not _inside:
                limits.restore_original_limits()
