"""Doctest collection imports every module: leave out those of libraries that are not installed."""

from importlib.util import find_spec

collect_ignore_glob = [
    pattern
    for library in ("torch", "jax")
    if not find_spec(library)
    for pattern in (f"estim/probe/{library}/*", f"tests/probe/{library}/*")
]
