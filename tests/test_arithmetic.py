"""Entries keep their exact values, and flint its precision."""

from decimal import Decimal
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estim.arithmetic import (
    as_balls,
    as_float,
    as_fractions,
    as_rationals,
    from_rationals,
    matmul,
    midpoints,
    read_entries,
)
from estim.precision import ball_digits, series_terms

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE | st.fractions() | st.integers(), min_size=1, max_size=8))
def test_every_view_holds_the_exact_value(values):
    entries = read_entries(values, "values", ndim=1)
    right = [Fraction(value) for value in values]
    assert as_fractions(entries).tolist() == right
    assert from_rationals(as_rationals(entries)).tolist() == right
    with ball_digits(30):
        assert all(
            ball.contains(flint.arb(flint.fmpq(x.numerator, x.denominator)))
            for ball, x in zip(as_balls(entries), right, strict=True)
        )


@given(st.lists(FINITE, min_size=1, max_size=8))
def test_floats_stay_float64_and_are_copied(values):
    array = np.array(values)
    entries = read_entries(array, "values", ndim=1)
    assert entries.dtype == np.float64
    assert (entries == array).all()
    assert not np.shares_memory(entries, array)
    assert not entries.flags.writeable


@pytest.mark.parametrize(
    ("entry", "right"),
    [
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("-2e-3", Fraction(-1, 500)),
        (Decimal("0.1"), Fraction(1, 10)),
        (0.1, Fraction(0.1)),
        (np.float32(0.1), Fraction(float(np.float32(0.1)))),
        (np.int64(2**62 + 1), Fraction(2**62 + 1)),
        (True, Fraction(1)),
        (flint.fmpq(2, 3), Fraction(2, 3)),
        (flint.fmpz(7), Fraction(7)),
        (mpmath.mpf("0.25"), Fraction(1, 4)),
        (np.longdouble(1) / 4, Fraction(1, 4)),
    ],
    ids=str,
)
def test_kinds_of_numbers(entry, right):
    # The string beside it must not pull the number into another type.
    entries = read_entries([entry, "0.5"], "values", ndim=1)
    assert entries.tolist() == [right, Fraction(1, 2)]


def test_integers_beyond_float64_are_kept():
    entries = read_entries(np.array([2**62 + 1]), "values", ndim=1)
    assert entries[0] == 2**62 + 1
    assert as_float(entries)[0] == 2.0**62


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ([1, None], TypeError, r"`values\[1\]` must be a real number or a decimal string; got None of type NoneType"),
        ([1, 1j], TypeError, r"`values\[1\]` must be a real number .* type complex"),
        ([1, "one"], ValueError, r"`values\[1\]` must be a finite number; got 'one'"),
        ([1, "1/0"], ValueError, r"`values\[1\]` must be a finite number; got '1/0'"),
        (["1", float("nan")], ValueError, r"`values\[1\]` must be a finite number; got nan"),
        ([1, float("inf")], ValueError, r"`values\[1\]` must be a finite number; got inf"),
        ([1.0, float("inf")], ValueError, r"`values` must be finite; got inf at index \(1,\)"),
        ([1, mpmath.inf], ValueError, r"`values\[1\]` must be a finite number"),
        ([1, np.longdouble("inf")], ValueError, r"`values\[1\]` must be a finite number"),
        ([[1, 2]], ValueError, r"`values` must have 1 axes; got shape \(1, 2\)"),
        ([], ValueError, r"`values` must not be empty; got shape \(0,\)"),
        ([[1, 2], [3]], ValueError, r"`values` must be a rectangular array; got rows of different lengths"),
    ],
    ids=str,
)
def test_what_is_not_a_number_is_refused_by_name(values, error, text):
    with pytest.raises(error, match=text):
        read_entries(values, "values", ndim=1)


def test_precision_and_terms_are_restored_however_the_block_ends():
    before = flint.ctx.prec, flint.ctx.cap
    with ball_digits(300), series_terms(50):
        assert (flint.ctx.prec > 990, flint.ctx.cap) == (True, 50)
    assert (flint.ctx.prec, flint.ctx.cap) == before
    with pytest.raises(RuntimeError, match="inside"), ball_digits(300), series_terms(50):
        raise RuntimeError("inside")
    assert (flint.ctx.prec, flint.ctx.cap) == before
    for value in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match=rf"`digits` must be a positive integer; got {value}"), ball_digits(value):
            pass


@pytest.mark.parametrize("convert", [as_balls, as_rationals, as_fractions, as_float])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((2, 5, 2, 3), (2, 1, 3, 4)),
        ((2, 1, 2, 3), (2, 5, 3, 4)),
    ],
    ids=str,
)
def test_products_agree_in_every_number_system(convert, left, right):
    rng = np.random.default_rng(20261151)
    a, b = (rng.integers(-9, 10, shape).astype(float) for shape in (left, right))
    product = matmul(convert(a), convert(b))
    assert product.shape == (a @ b).shape
    assert (np.array(product.tolist(), dtype=object) == (a @ b).astype(int)).all()
    out = np.empty(product.shape, dtype=product.dtype)
    matmul(convert(a), convert(b), out=out)
    assert (out == product).all()


def test_midpoints_do_not_round():
    with ball_digits(100):
        third = as_balls(np.array([Fraction(1, 3)], dtype=object))
        (found,) = midpoints(third)
        right = third[0].mid().str(100, radius=False)
    with mpmath.workdps(95):
        assert mpmath.nstr(+found, 90) == mpmath.nstr(mpmath.mpf(right), 90)


def test_what_is_no_array_is_named_by_its_kind():
    from scipy import sparse

    with pytest.raises(ValueError, match=r"must have 2 axes; got one dia_\w+, a sparse matrix: give its \.toarray\(\)"):
        read_entries(sparse.eye(3), "matrix", ndim=2)
    with pytest.raises(ValueError, match=r"must have 2 axes; got one generator$"):
        read_entries(([row] for row in "12"), "matrix", ndim=2)
