"""Sets of changes that a user may care about, as an argument."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from estim.real_numbers import real_number
from estim.streams import check_flag


@dataclass(frozen=True)
class AnyChange:
    """Any change of this size: every direction of parameter space, or of one group of parameters.

    Parameters
    ----------
    size : float
        Positive: dimensionless for a relative change, 0.01 being 1 %; otherwise in the parameters' units. A verdict
        notes a relative size of 1 (100 %) or more.
    group : str, optional
        A group of the record, or the beginning of parameters' names ("layer1.query"); the others are held. All
        parameters when left out.
    relative : bool
        Relative changes are measured by the Frobenius norm of the change over that of what changes, block by block,
        squares added up. The blocks are an attention network's effective parameters (scores and combined value map);
        of any other model, and of a network with a zero among these, the groups. Otherwise the Euclidean norm of the
        change.
    case : {"worst", "typical"}
        The change that is hardest to see, or one of random direction: uniform on the unit sphere of that norm.

    Raises
    ------
    TypeError, ValueError
        When an argument is none of these.

    Notes
    -----
    Changes that differ by a gauge are the same, and have the norm of the smallest of them.

    Examples
    --------
    Would these readings show any change of the gain by 10 %?

    >>> import estim
    >>> found = estim.Sensitivity.from_jacobian(
    ...     [[1, 0], [1, 1], [1, 2]], 0.1, parameters=[2.0, 0.5], names=["offset", "gain"], groups=["offset", "gain"]
    ... )
    >>> verdict = found.judge([0.01, -0.02, 0.01], smallest_change=estim.AnyChange(0.1, group="gain"))
    >>> verdict.outcome.name, round(verdict.power, 3)
    ('BLIND', 0.097)
    """

    size: float
    group: str | None = None
    relative: bool = True
    case: Literal["worst", "typical"] = "worst"

    def __post_init__(self) -> None:
        """Refuse what is no size, group or case."""
        object.__setattr__(self, "size", real_number(self.size, "size"))
        if not (math.isfinite(self.size) and self.size > 0.0):
            msg = f"size must be positive and finite; got {self.size!r}"
            raise ValueError(msg)
        if self.group is not None and not isinstance(self.group, str):
            msg = f"group must be a group's name, or None; got {self.group!r}"
            raise ValueError(msg)
        check_flag(self.relative, "relative")
        if not isinstance(self.case, str) or self.case not in ("worst", "typical"):
            msg = f"case must be 'worst' or 'typical'; got {self.case!r}"
            raise ValueError(msg)

    def __str__(self) -> str:
        """Say it in words."""
        size = f"{100.0 * self.size:.4g} % change" if self.relative else f"change of size {self.size:.4g}"
        kind = "any" if self.case == "worst" else "a random"
        return f"{kind} {size} of {'the parameters' if self.group is None else called(self.group)}"


def called(group: str) -> str:
    """Return a group's name as it stands in a sentence: torch numbers the layers of a Sequential."""
    return f"group {group}" if group[:1].isdigit() else group


def any_of_size(smallest_change: Any) -> AnyChange:
    """Return any change of a size in the parameters' units, given as a number; its errors name the rule."""
    size = real_number(smallest_change, "smallest_change")
    if not 0.0 < size < math.inf:
        msg = f"smallest_change must be positive and finite; got {size!r}"
        raise ValueError(msg)
    return AnyChange(size, relative=False)


def relative_size(name: str, norm: float) -> float:
    """Return the norm of a block, to which a change is relative; raises ValueError where it is zero."""
    if norm == 0.0:
        msg = f"a relative change of {name!r} means nothing: its parameters are zero; use relative=False"
        raise ValueError(msg)
    return norm


def size_notes(smallest: Any) -> tuple[str, ...]:
    """Say what a relative size of 1 or more means: it may be a percentage typed for a fraction, and may be meant."""
    if not (isinstance(smallest, AnyChange) and smallest.relative and smallest.size >= 1.0):
        return ()
    size = smallest.size
    return (
        f"The smallest change is {100.0 * size:.4g} % of what changes, as sizes are fractions: {size:.4g} % is "
        f"AnyChange({size / 100.0:.4g}). So far from the model, what a change shifts is hardly known to first order.",
    )
