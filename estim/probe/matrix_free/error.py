"""How well a Jacobian that is never held is known: norms of its error and of itself, from combinations of its rows.

For signs r drawn at random, E |r^T X|^2 = |X|_F^2: a backward pass or two tell the norm of a matrix that is the
difference of two Jacobians, and of the Jacobian itself, tensor by tensor (Hutchinson 1990,
doi:10.1080/03610919008812866).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS, error_by_moving

Array = npt.NDArray[np.float64]

#: Times the estimate: rows outside the sample may be known worse.
_MARGIN = 2.0


def error_of_combinations(
    plain: list[Array], double: list[Array] | None, above_below: Sequence[list[Array]], sizes: Sequence[int], eps: float
) -> tuple[list[Array], list[Array]]:
    """Return the error of each combination of rows, (P,), and what stands for its truth.

    Beside the same in double precision, where there is one; else from two at parameters moved to both sides.
    """
    if double is not None:
        return [one - two for one, two in zip(plain, double, strict=True)], double
    own = 0.0 if eps <= EPS else 8.0 * eps
    triples = zip(plain, *above_below, strict=True)
    return [_by_tensor(triple, sizes) + own * np.abs(triple[0]) for triple in triples], plain


def _by_tensor(triple: tuple[Array, ...], sizes: Sequence[int]) -> Array:
    """Estimate the error of combinations of rows, tensor by tensor: what is typical of one is not of another."""
    stops = np.cumsum(sizes)[:-1]
    parts = zip(*(np.split(rows, stops) for rows in triple), strict=True)
    return np.concatenate([error_by_moving(*part) for part in parts])


def relative_norms(
    errors: list[Array], truth: list[Array], groups: Sequence[str], sizes: Sequence[int], least: float
) -> dict[str, float]:
    """Return |E|_F / |J|_F, at least `least`, for the tensors of each group, and of all under ""."""
    stops = np.cumsum(sizes)
    off, size = dict.fromkeys(("", *groups), 0.0), dict.fromkeys(("", *groups), 0.0)
    for error, value in zip(errors, truth, strict=True):
        for k, group in enumerate(groups):
            part = slice(stops[k] - sizes[k], stops[k])
            for name in ("", group):
                off[name] += float(np.square(error[part]).sum())
                size[name] += float(np.square(value[part]).sum())
    return {name: _MARGIN * max(np.sqrt(off[name] / size[name]) if size[name] else 0.0, least) for name in off}
