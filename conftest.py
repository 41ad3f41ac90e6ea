"""Doctest collection imports every module: leave out those of libraries that are not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["estim/probe/torch/*", "tests/probe/torch/*"]
