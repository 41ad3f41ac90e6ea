"""Records of contact orders and of the slopes that approach them."""

import json
from collections import Counter
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from estim._plain import frozen_rows, number, plain
from estim.arithmetic import Array


@dataclass(frozen=True)
class ContactOrders:
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}

    def to_json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "ContactOrders":
        """Read what :meth:`to_json` wrote."""
        record = json.loads(text)
        return cls(**{**record, "orders": tuple(record["orders"]), "shape": tuple(record["shape"])})


@dataclass(frozen=True, eq=False, repr=False)
class ContactSlopes:
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
        for before, after, row in zip(self.scales, self.scales[1:], self.slopes, strict=False):
            lines.append(f"{f'slopes {float(before):g} to {float(after):g}':<26} {_joined(row, 9)}")
        for scale, row in zip(self.scales, self.singular_values, strict=True):
            lines.append(f"{f'values at {float(scale):g}':<26} {_joined(row, 6)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"ContactSlopes(scales={len(self.scales)}, orders={len(self.orders)}, digits={self.digits}, "
            f"deviation={self.deviation:.3g})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContactSlopes) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: numbers of high precision as exact hexadecimal strings, scales as fractions."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}

    def to_json(self) -> str:
        """Return the record as JSON, exactly."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "ContactSlopes":
        """Read what :meth:`to_json` wrote."""
        record = json.loads(text)
        for name in ("singular_values", "lower", "upper", "slopes", "slope_error"):
            record[name] = frozen_rows([map(number, row) for row in record[name]])
        return cls(**{**record, "scales": tuple(map(Fraction, record["scales"])), "orders": tuple(record["orders"])})


def _joined(numbers: Array, digits: int) -> str:
    return "  ".join(mpmath.nstr(value, digits) for value in numbers)
