"""One thread of BLAS for each worker.

The order of a sum in BLAS depends on its number of threads, and so do the last bits; and threads of BLAS beside those
of workers wait for one another: on two busy processors fits were ten times slower with them.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_lock = threading.Lock()
#: What brings the number of threads back, once for every caller inside: it is the whole process's, so the last one out
#: does.
_inside: list[Any] = []


@lru_cache(maxsize=1)  # the search takes ten milliseconds
def _loaded(modules: int) -> Any:
    """Return the libraries that are loaded; looked for again when there are other `modules`."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread."""
    import scipy.linalg  # noqa: F401 - SciPy brings a BLAS of its own, and only those loaded can be held

    with _lock:
        loaded = _loaded(len(sys.modules))
        _inside.append(_inside[0] if _inside else loaded.limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limits = _inside.pop()
            if not _inside:
                limits.restore_original_limits()
