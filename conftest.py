"""What holds for tests and doctests alike, before either imports a library."""

import os
from importlib.util import find_spec

# Beside another worker on the same cores, two threads of BLAS wait for one another longer than they work: matrices of
# ten rows took 0.4 s. What threads may change is tested in processes of their own, tests/test_blas.py.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Doctest collection imports every module: leave out those of libraries that are not installed.
collect_ignore_glob = [
    pattern
    for library in ("torch", "jax")
    if not find_spec(library)
    for pattern in (f"estim/probe/{library}/*", f"tests/probe/{library}/*")
]
