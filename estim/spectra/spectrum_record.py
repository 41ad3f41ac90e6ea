"""The record of a spectrum, and the table of ranks that precision and threshold make of it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import mpmath
import numpy as np

from estim.arithmetic import Array
from estim.precision import mpmath_bits
from estim.record import Record
from estim.spectra.plain import frozen, number, plain_fields

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THRESHOLDS = (1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-20, 1e-25, 1e-30)
_ARRAYS = ("singular_values", "lower", "upper", "float64_values")


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Record):
    """Singular values of a matrix and what is proven about them, in the units of the matrix.

    Made by :func:`estim.spectrum`; a plain record that pickles and goes through JSON exactly.
    """

    singular_values: Array
    """All min(rows, columns), descending: float64, or ``mpmath.mpf`` where digits were asked for."""
    lower: Array | None
    """Proven lower bounds, ``mpmath.mpf``; None for float64, which carries no bounds."""
    upper: Array | None
    """Proven upper bounds, ``mpmath.mpf``; None for float64."""
    digits: int | None
    """Decimal digits asked for; None for float64."""
    shape: tuple[int, int]
    """Rows and columns of the matrix: readings and parameters of a Jacobian."""
    positive_rank: int | None
    """Number of positive singular values, proven; None where the proof has a gap."""
    rank_reason: str
    """What proves the rank, or why it is not proven."""
    digits_needed: int | None
    """Digits that would resolve every value to half of them; None where these did, and for float64."""
    float64_values: Array
    """Singular values of the same matrix by LAPACK, float64, for comparison."""

    @property
    def relative_error(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Half the width of each enclosure over its midpoint: 1 where the value may be zero, NaN for float64."""
        if self.lower is None or self.upper is None:
            return np.full(len(self.singular_values), math.nan)
        return np.array([_relative_error(*pair) for pair in zip(self.lower, self.upper, strict=True)])

    def rank(self, rtol: float = 1e-10) -> int:
        """Count the singular values above `rtol` times the largest.

        Parameters
        ----------
        rtol : float, default: 1e-10
            Not negative, finite; dimensionless.

        Returns
        -------
        int
            Judged by the values; :meth:`rank_bounds` says what the enclosures prove.

        Raises
        ------
        ValueError
            If `rtol` is negative or not finite.

        Examples
        --------
        >>> import estim
        >>> estim.spectrum([[1, 0], [0, "1e-12"]], digits=30).rank()
        1
        """
        return _count(self.singular_values, self.singular_values[0], rtol)

    def rank_bounds(self, rtol: float = 1e-10) -> tuple[int, int]:
        """Return proven bounds of the number of singular values above `rtol` times the largest.

        Parameters
        ----------
        rtol : float, default: 1e-10
            Not negative, finite; dimensionless.

        Returns
        -------
        low, high : int
            Equal where the enclosures decide every value. Float64 proves nothing: 0 and the number of values.

        Raises
        ------
        ValueError
            If `rtol` is negative or not finite.
        """
        if self.lower is None or self.upper is None:
            return 0, len(self.singular_values)
        return _count(self.lower, self.upper[0], rtol), _count(self.upper, self.lower[0], rtol)

    def rank_table(self, *others: "Spectrum", rtol: Sequence[float] = THRESHOLDS) -> "RankTable":
        """Lay out the rank as a function of precision and threshold.

        Parameters
        ----------
        *others : Spectrum
            The same matrix at other precisions. Float64 is always there: its values are part of the record.
        rtol : sequence of float
            Thresholds relative to the largest value; dimensionless.

        Returns
        -------
        RankTable
            One row a precision, lowest first.

        Raises
        ------
        TypeError
            If one of `others` is no Spectrum, or `rtol` no sequence.
        ValueError
            If a spectrum belongs to a matrix of another shape, or a threshold is negative or not finite.

        Examples
        --------
        >>> import estim
        >>> print(estim.spectrum([[1, 0], [0, "1e-18"]], digits=30).rank_table(rtol=(1e-10, 1e-20)))
         precision | 1e-10  1e-20
           float64 |     1      2
         30 digits |     1      2
        """
        if not isinstance(rtol, Iterable):
            msg = f"`rtol` must be a sequence of thresholds; got {rtol!r}"
            raise TypeError(msg)
        for other in others:
            if not isinstance(other, Spectrum):
                msg = f"`others` must be Spectrum; got {other!r}"
                raise TypeError(msg)
            if other.shape != self.shape:
                msg = f"`others` must belong to a matrix of shape {self.shape}; got shape {other.shape}"
                raise ValueError(msg)
        floats = self.float64_values
        rows: dict[int, list[tuple[int, int]]] = {0: [(_count(floats, floats[0], t),) * 2 for t in rtol]}
        rows |= {one.digits: [one.rank_bounds(t) for t in rtol] for one in (self, *others) if one.digits is not None}
        digits = sorted(rows)
        return RankTable(tuple(d or None for d in digits), tuple(rtol), tuple(tuple(rows[d]) for d in digits))

    def plot(self, *others: "Spectrum", rtol: Sequence[float] = (1e-10,), ax: "Axes | None" = None) -> "Axes":
        """Draw the singular values on a log axis, one colour a precision, with thresholds and float64's noise floor.

        Parameters
        ----------
        *others : Spectrum
            The same matrix at other precisions; float64 is always there.
        rtol : sequence of float
            Thresholds relative to the largest value; dimensionless.
        ax : matplotlib.axes.Axes, optional
            Where to draw; axes of a new figure when left out.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from estim.spectra.spectrum_plot import draw

        return draw([self, *others], rtol, ax)

    def summary(self) -> str:
        """Return a few lines on the values and the rank."""
        rows, columns = self.shape
        above_zero = self.singular_values if self.lower is None else self.lower
        resolved = [value for value, low in zip(self.singular_values, above_zero, strict=True) if low > 0]
        rank = "not proven" if self.positive_rank is None else str(self.positive_rank)
        lines = [
            f"Spectrum of a {rows} x {columns} matrix, {_precision(self.digits)}",
            f"largest value      {mpmath.nstr(self.singular_values[0], 12)}",
            f"smallest resolved  {mpmath.nstr(resolved[-1], 12) if resolved else 'none'}",
            f"positive rank      {rank} ({self.rank_reason})",
            f"above 1e-10        {self.rank()}",
        ]
        if self.digits_needed is not None:
            lines.append(f"some values are not known to half the digits; {self.digits_needed} digits would do")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Spectrum(shape={self.shape}, digits={self.digits}, positive_rank={self.positive_rank}, "
            f"largest={mpmath.nstr(self.singular_values[0], 6)}, above 1e-10: {self.rank()})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: numbers of high precision as exact hexadecimal strings."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a spectrum from :meth:`to_dict`.

        Examples
        --------
        >>> import estim
        >>> result = estim.spectrum([[1, 2], [3, 4]], digits=20)
        >>> estim.Spectrum.from_dict(result.to_dict()) == result
        True
        """
        arrays = {name: frozen(map(number, fields[name])) for name in _ARRAYS if fields.get(name) is not None}
        return super().from_dict({**fields, **arrays})


@dataclass(frozen=True)
class RankTable:
    """Rank as a function of precision and threshold; print it.

    Made by :meth:`Spectrum.rank_table`.

    Attributes
    ----------
    digits : tuple of (int or None), (rows,)
        Digits of each row; None for float64.
    rtol : tuple of float, (columns,)
        Threshold of each column, relative to the largest singular value; dimensionless.
    bounds : tuple of tuple of (int, int), (rows, columns)
        Proven lower and upper bound of the rank; for float64 twice what it counts, nothing being proven.
    """

    digits: tuple[int | None, ...]
    rtol: tuple[float, ...]
    bounds: tuple[tuple[tuple[int, int], ...], ...]

    def __str__(self) -> str:
        """Lay the ranks out in rows and columns."""
        heads = [f"{t:.0e}" for t in self.rtol]
        cells = [[str(low) if low == high else f"{low}..{high}" for low, high in row] for row in self.bounds]
        width = max(len(cell) for row in [heads, *cells] for cell in row)
        names = ["precision", *(_precision(digits) for digits in self.digits)]
        return "\n".join(
            f"{name:>10} | " + "  ".join(f"{cell:>{width}}" for cell in row)
            for name, row in zip(names, [heads, *cells], strict=True)
        )


def _precision(digits: int | None) -> str:
    return "float64" if digits is None else f"{digits} digits"


def _count(values: Array, largest: Any, rtol: float) -> int:
    """Count the values above a threshold; the product is exact, as a bound must be."""
    if not isinstance(rtol, Real) or not 0 <= rtol < math.inf:
        msg = f"`rtol` must be finite and not negative; got {rtol!r}"
        raise ValueError(msg)
    threshold = mpmath.fmul(float(rtol), largest, exact=True)
    if mpmath.isnan(threshold):  # nothing exceeds what is not known; of the comparison NumPy 2.0 would warn
        return 0
    return sum(bool(value > threshold) for value in values)


def _relative_error(lower: Any, upper: Any) -> float:
    if not upper:
        return 0.0
    with mpmath_bits(64):
        return float(mpmath.fsub(upper, lower, exact=True) / mpmath.fadd(upper, lower, exact=True))
