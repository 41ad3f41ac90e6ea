"""Records of contact orders and of the slopes that approach them."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import mpmath
import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array
from estim.record import Record
from estim.spectra.plain import frozen_rows, number, plain_fields


@dataclass(frozen=True, eq=False)
class ContactOrders(Record):
    """Exact integer orders of the singular values as the scale goes to zero, and what is proven about them.

    Made by :func:`estim.contact_orders`; a plain record that pickles and goes through JSON exactly.
    """

    orders: tuple[int, ...]
    """Orders found, ascending: singular value i behaves like a constant times scale ** orders[i]; dimensionless."""
    shape: tuple[int, int]
    """Rows and columns of the matrix: readings and parameters of a Jacobian."""
    rank_bound: int
    """Proven upper bound of the number of orders."""
    complete: bool
    """Whether there is, by proof, no further order."""
    beyond: int | None
    """A further order, if there is one, is at least this; None where there is none."""
    ring: str
    """Where the Smith form was taken: ``"Q[[s]]"``, which proves every order, or ``"Z/p^N"``."""
    prime: int | None
    """The prime p; None over Q[[s]]."""
    proof: str
    """What is proven, in a sentence."""

    @property
    def counts(self) -> dict[int, int]:
        """How many singular values have each order."""
        return dict(sorted(Counter(self.orders).items()))

    def summary(self) -> str:
        """Return a few lines on the orders and their proof."""
        rows, columns = self.shape
        listed = ", ".join(f"{order} x{count}" for order, count in self.counts.items())
        return "\n".join(
            [
                f"Contact orders of a {rows} x {columns} matrix over {self.ring}",
                f"orders    {listed or 'none'}",
                f"vanishing {columns - len(self.orders) if self.complete else 'not decided'}",
                f"proven    {self.proof}",
            ]
        )


def proven_orders(
    orders: list[int],
    shape: tuple[int, int],
    bound: int,
    closure: str,
    *,
    prime: int | None = None,
    beyond: int | None = None,
) -> ContactOrders:
    """Return the record of orders that are complete where they are as many as the bound; `closure` says why."""
    exactness = "every order is exact"
    if prime is not None:
        exactness = (
            "the sum of the k least orders is, for every k, at most that of those found, "
            "and equal unless p divides a leading coefficient"
        )
    return ContactOrders(
        orders=tuple(orders),
        shape=shape,
        rank_bound=bound,
        complete=len(orders) == bound,
        beyond=beyond,
        ring="Q[[s]]" if prime is None else "Z/p^N",
        prime=prime,
        proof=f"{exactness}; {closure}",
    )


@dataclass(frozen=True, eq=False, repr=False)
class ContactSlopes(Record):
    """Singular values at several scales, the slopes between them, and the exact orders that these approach.

    Made by :func:`estim.contact_slopes`; a plain record that pickles and goes through JSON exactly.
    """

    scales: tuple[Fraction, ...]
    """Scales of all queries and keys, as given; dimensionless."""
    singular_values: Array
    """Positive singular values at each scale, descending, (scales, orders), ``mpmath.mpf``."""
    lower: Array
    """Proven lower bounds, likewise."""
    upper: Array
    """Proven upper bounds, likewise."""
    slopes: Array
    """log(ratio of values) / log(ratio of scales) of consecutive scales, (scales - 1, orders), ``mpmath.mpf``."""
    slope_error: NDArray[np.float64]
    """Proven bound of the error of each slope, (scales - 1, orders)."""
    orders: tuple[int, ...]
    """Exact orders, ascending, as :func:`estim.contact_orders` gives them."""
    digits: int
    """Digits of the ball Jacobian that the weakest value took."""

    @property
    def deviation(self) -> float:
        """Largest distance of a slope from its order; dimensionless."""
        return max(abs(float(s - k)) for row in self.slopes for s, k in zip(row, self.orders, strict=True))

    def summary(self) -> str:
        """Return the orders, the slopes and the values, a line each."""
        lines = [f"orders                     {'  '.join(map(str, self.orders))}"]
        scales = [_written(scale) for scale in self.scales]
        for (before, after), row in zip(pairwise(scales), self.slopes, strict=True):
            lines.append(f"{f'slopes {before} to {after}':<26} {_joined(row, 9)}")
        for scale, row in zip(scales, self.singular_values, strict=True):
            lines.append(f"{f'values at {scale}':<26} {_joined(row, 6)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"ContactSlopes(scales={len(self.scales)}, orders={len(self.orders)}, digits={self.digits}, "
            f"deviation={self.deviation:.3g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: numbers of high precision as exact hexadecimal strings."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild the record from :meth:`to_dict`."""
        names = {"singular_values", "lower", "upper", "slopes", "slope_error"} & fields.keys()
        arrays = {name: frozen_rows([map(number, row) for row in fields[name]]) for name in names}
        return super().from_dict({**fields, **arrays, "scales": tuple(map(Fraction, fields.get("scales", ())))})


def _written(scale: Fraction) -> str:
    """Write six digits of a number that may lie outside the range of float64."""
    return str(mpmath.nstr(mpmath.mpf(scale.numerator) / scale.denominator, 6)).removesuffix(".0")


def _joined(numbers: Array, digits: int) -> str:
    return "  ".join(mpmath.nstr(value, digits) for value in numbers)
