"""A JAX function in float64, for what computes in it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estim.probe.derivatives.rounding import EPS
from estim.probe.jax.loops import Ends
from estim.probe.jax.parameters import Tree
from estim.probe.jax.precision import in_double, precision, raised, rounding
from estim.probe.jax.readings import Function


@dataclass(frozen=True)
class _WithRaised:
    function: Callable[..., Any]

    def __call__(self, params: Any, bank: Any) -> Any:
        return self.function(params, raised(bank))


def _made(function: Function, tree: Tree, bank: Any) -> Function:
    twin = replace(function, function=_WithRaised(function.function), tree=tree, made={})
    with precision(function.tree.double):
        limit = function.ends.limited(function.tree.leaves, bank)
    twin.made["ends"] = Ends(twin.flat, limit)
    return twin


def in_float64(function: Function, bank: Any) -> Function:
    """Return the function in float64, for what computes in it, where it follows; else itself.

    One that draws random numbers may be another function in other floats: its readings tell.
    """
    with precision(True):
        tree = replace(function.tree, leaves=raised(function.tree.leaves), double=True)
        twin: Function = function.once("in float64", lambda: _made(function, tree, bank))
        try:
            twin.ends.require(tree.leaves, bank)
            readings = twin.flat(list(tree.leaves), bank)
        except Exception:  # the function need not be made for it
            return function
        if rounding(readings.dtype) > EPS:
            return function
        long = in_double(readings)
    with precision(function.tree.double):
        own = function.flat(list(function.tree.leaves), bank)
        slack = max(rounding(function.tree.coarsest), rounding(own.dtype)) ** 0.5
        short = in_double(own)
    finite = np.isfinite(short)
    with np.errstate(invalid="ignore"):
        alike = np.abs(long - short)[finite] <= slack * np.abs(short[finite]).max(initial=0.0)
    return twin if alike.all() else function
