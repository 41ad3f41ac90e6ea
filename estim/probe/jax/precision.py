"""The precision that JAX computes in: its global switch is set for a block of code only, and put back after."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

_FINFO: Any = jnp.finfo

#: Rounding of float32: differences of shorter floats do not settle; and of bfloat16, the shortest that are read.
SINGLE = 2.0**-23
SHORTEST = 2.0**-7


def precision(double: bool) -> AbstractContextManager[Any]:
    """Return a block in which float64 is allowed, or one that leaves all as the user has it."""
    return jax.enable_x64(True) if double else nullcontext()


def rounding(dtype: Any) -> float:
    """Return the distance from 1 to the next number, of bfloat16, too."""
    return float(_FINFO(dtype).eps)


def is_floating(leaf: Any) -> bool:
    """Tell whether something is an array, or a number, of floating point, complex ones included."""
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | float | complex):
        return False
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact))


def in_double(array: Any) -> npt.NDArray[np.float64]:
    """Return an array of JAX in NumPy's float64."""
    return np.asarray(array).astype(np.float64)


def word(eps: float) -> str:
    """Return the name of the floats of a rounding."""
    return {2.0**-52: "float64", 2.0**-23: "float32", 2.0**-10: "float16", 2.0**-7: "bfloat16"}.get(eps, "short floats")


def raised(tree: Any) -> Any:
    """Return nested arrays with those of real floating point in float64; everything else as it is."""

    def one(leaf: Any) -> Any:
        array = isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, dtype=jnp.float64) if array else leaf

    return jax.tree_util.tree_map(one, tree)
