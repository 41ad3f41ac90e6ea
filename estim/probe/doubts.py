"""What a record says of how well its figures are known."""

import numpy as np

from estim.probe.directions.resolve import Directions
from estim.probe.directions.shares import Alone

#: Part of a figure by which it may be off without a word.
NOTABLE = 0.01


def doubts(found: Directions, alone: dict[str, Alone]) -> tuple[str, ...]:
    """Say which singular values are left out, and which figures may be off by more than a hundredth.

    If E bounds the error of the Jacobian W, with columns of norm one, and s is the weakest value that is resolved, the
    true Jacobian is (1 + X) W with a norm of X of at most ||E|| / s: every singular value has at most that relative
    error, whatever the units, and every standard error the inverse of one less that as its factor.
    """
    return (*_vague(found), *_rough(found), *_rough_groups(alone))


def _vague(found: Directions) -> tuple[str, ...]:
    vague = int(np.isnan(found.singular_values).sum())
    note = (
        f"{vague} resolved directions are too weak, beside the strongest or the error of the Jacobian, for their "
        "singular values in the parameters' units to be known (NaN), or there which is which: those free of units, "
        "statuses and floors hold.",
    )
    return note if vague else ()


def _rough(found: Directions) -> tuple[str, ...]:
    values = found.scaled_singular_values[: found.rank]
    parts = found.resolution / values[np.isfinite(values)]
    rough = int(np.count_nonzero(parts > NOTABLE))
    note = (
        f"The weakest directions, {rough} of the {found.rank} that are resolved, stand out of the error of the "
        f"Jacobian so little that their singular values, and standard errors, floors and shifts that rest on them, are "
        f"known within a factor of {_factor(float(parts.max(initial=0.0)))} only; more digits or better derivatives "
        "narrow that.",
    )
    return note if rough else ()


def _rough_groups(alone: dict[str, Alone]) -> tuple[str, ...]:
    """Say the same of groups by themselves."""
    rough = {name: row.doubt for name, row in alone.items() if row.doubt > NOTABLE and np.isfinite(row.worst)}
    note = (
        f"With the others held fixed, worst floors are known within a factor only: of "
        f"{', '.join(f'{name} {_factor(doubt)}' for name, doubt in list(rough.items())[:8])}"
        f"{', ...' if len(rough) > 8 else ''}.",
    )
    return note if rough else ()


def _factor(part: float) -> str:
    return f"{1.0 / (1.0 - part):.3g}" if part < 1.0 else "any size"
