"""The compiled loops, each also through its Python source, against the plain NumPy of the same step."""

import numpy as np
import pytest
from numba import njit

from estim.recovery import kernels
from estim.recovery.kernels import CELL_BITS, COEFFICIENTS, END, OCTAVES, ROOT, ROOT_OF_EVEN, ROWS, START, TABLE
from tests.problems import BY_NAME
from tests.recovery.test_fast_inverse import built, scale_of
from tests.tolerances import EPS, SUMMATION_RTOL

both = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])


def form(kernel, compiled):
    return kernel if compiled else kernel.py_func


@both
def test_readings_are_shifted_scaled_clipped_and_counted(compiled):
    z = np.array([-3.0, -1.0, 0.0, 1.0, 2.5, 4.0])
    y = np.empty_like(z)
    low, high = form(kernels._read, compiled)(z, 0.25, 0.25, y)
    assert np.array_equal(y, np.clip(0.25 + 0.25 * z, 0.0, 1.0))
    assert (low, high) == (2, 1)  # a reading on an end counts as clipped there


@both
@pytest.mark.parametrize("terms", [4, 8, 12, 16, 20])
def test_the_polynomial_is_the_one_of_its_coefficients(compiled, terms):
    rng = np.random.default_rng(terms)
    w, c = rng.random(100), rng.normal(size=terms)
    p = np.empty_like(w)
    form(kernels._horner, compiled)(w, c, p)
    v = 2.0 * w - 1.0
    bound = 8 * EPS * np.polynomial.polynomial.polyval(np.abs(v), np.abs(c))
    assert (np.abs(p - np.polynomial.polynomial.polyval(v, c)) <= bound * terms).all()


def table_of_places():
    """A table whose first coefficient is the row's own number and whose second is one: it answers row + place."""
    table = np.zeros((2 * ROWS, kernels.COLUMNS))
    table[:, 0] = np.arange(2 * ROWS)
    table[:, 1] = 1.0
    table[:, END] = 1.0
    return table


@both
def test_the_look_up_finds_the_cell_and_the_place_in_it(compiled):
    """By logarithms here, by bits there."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp2(-rng.uniform(1.0, OCTAVES + 1.0, 400)), [0.25, 0.125, 0.375, 2.0**-OCTAVES]])
    y = np.concatenate([x, 1.0 - x[x > 1e-3]])
    x = np.minimum(y, 1.0 - y)
    scratch, cell, p = np.empty_like(y), np.empty(y.size, np.int64), np.empty_like(y)
    form(kernels._look_up, compiled)(y, table_of_places(), np.zeros(0, np.int64), scratch, cell, p)
    octave = np.floor(np.log2(x))
    place = (x / np.exp2(octave) - 1.0) * 2**CELL_BITS
    row = 1 + (octave + OCTAVES + 1) * 2**CELL_BITS + np.floor(place) + ROWS * (y > 0.5)
    assert np.array_equal(cell, row)
    assert np.allclose(p, row + place % 1.0, rtol=0.0, atol=1e-9)


@both
def test_the_ends_and_the_middle_have_rows_of_their_own(compiled):
    y = np.array([0.0, 5e-324, 2.0 ** (-OCTAVES - 2), 0.5, np.nextafter(0.5, 1.0), 1.0, np.nextafter(1.0, 0.0)])
    scratch, cell, p = np.empty_like(y), np.empty(y.size, np.int64), np.empty_like(y)
    form(kernels._look_up, compiled)(y, table_of_places(), np.zeros(0, np.int64), scratch, cell, p)
    assert list(cell) == [0, 0, 0, ROWS - 1, 2 * ROWS - 2, ROWS, ROWS]


@both
def test_a_split_cell_is_searched_for_the_stretch_of_the_place(compiled):
    """One cell, [1/4, 1/4 (1 + 1/32)), cut in four unequal stretches; each answers with its own number."""
    row = 1 + (OCTAVES - 1) * 2**CELL_BITS
    table = np.insert(table_of_places(), [row + 1] * 3, 0.0, axis=0)
    cuts = [0.0, 0.1, 0.5, 0.75, 1.0]
    for k in range(4):
        table[row + k] = 0.0
        table[row + k, [0, 1, START, END]] = 100.0 * k, 1.0, cuts[k], cuts[k + 1]
    first = np.arange(2 * ROWS)
    first[row + 1 :] += 3
    places = np.array([0.05, 0.2, 0.6, 0.99, 0.1])
    y = 0.25 * (1.0 + places / 2**CELL_BITS)
    scratch, cell, p = np.empty_like(y), np.empty(y.size, np.int64), np.empty_like(y)
    form(kernels._look_up, compiled)(y, table, first, scratch, cell, p)
    number = np.array([0, 1, 2, 3, 1])
    exact = ~np.isclose(places, 0.1, atol=1e-9, rtol=0.0)  # the cut itself is rounded to either side
    assert np.array_equal((cell - row)[exact], number[exact])
    assert np.allclose(p[exact], (100.0 * number + places - np.array(cuts)[number])[exact], rtol=0.0, atol=1e-9)


@both
def test_errors_are_summed_in_powers_one_two_and_four(compiled):
    p = np.random.default_rng(0).random(512)
    sums = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    form(kernels._add_errors, compiled)(p, 0.3, sums)
    d = p - 0.3
    assert np.allclose(sums, [1 + d.sum(), 2 + (d**2).sum(), 3 + (d**4).sum(), 4, 5], rtol=SUMMATION_RTOL)


@both
def test_errors_with_a_root_are_summed_alike(compiled):
    rng = np.random.default_rng(0)
    y, p = rng.random(512), rng.random(512)
    sums = np.zeros(5)
    form(kernels._add_root_errors, compiled)(y, p, 0.3, sums)
    d = np.sqrt(y) * p - 0.3
    assert np.allclose(sums[:3], [d.sum(), (d**2).sum(), (d**4).sum()], rtol=SUMMATION_RTOL)


CASES = [
    ("identity", 0.3),
    ("square", 0.3),
    ("hyperbolic tangent", 0.3),
    ("hyperbolic tangent", 1e-3),
    ("broken line", 0.3),
]


@pytest.mark.parametrize(("name", "fraction"), CASES)
def test_the_python_of_the_whole_loop_gives_the_compiled_sums(name, fraction, monkeypatch):
    """Fewer trials than a chunk, and more; the draws come from NumPy's Generator, which the compiled loop equals."""
    problem = BY_NAME[name]
    levels = built(problem.made, problem.theta, fraction * scale_of(problem.made, problem.theta))
    names = ("_read", "_horner", "_look_up", "_add_errors", "_add_root_errors", "factor")
    for trials in (1, 3, kernels.CHUNK, 2 * kernels.CHUNK + 5):
        compiled = kernels.accumulate(np.random.default_rng(2), trials, *levels.arguments())
        with monkeypatch.context() as patch:
            for kernel in names:
                patch.setattr(kernels, kernel, getattr(kernels, kernel).py_func)
            patch.setattr(kernels, "standard_normal", lambda rng: rng.standard_normal())
            plain = kernels.accumulate.py_func(np.random.default_rng(2), trials, *levels.arguments())
        assert np.array_equal(compiled[:, 3:], plain[:, 3:])
        size = np.sqrt(trials * plain[:, 1])
        assert (np.abs(compiled[:, 0] - plain[:, 0]) <= SUMMATION_RTOL * size).all()
        assert np.allclose(compiled[:, 1:3], plain[:, 1:3], rtol=10 * SUMMATION_RTOL, atol=0.0)


def test_root_of_even_differs_from_root_in_its_variable_alone():
    y = np.linspace(0.01, 1.0, 50)
    c = np.array([1.0, 2.0, 3.0, 4.0])
    none, first = np.zeros((1, kernels.COLUMNS)), np.zeros(0, np.int64)
    for compiled in (True, False):
        for kind, w in ((ROOT, np.sqrt(y)), (ROOT_OF_EVEN, y), (kernels.POLYNOMIAL, y)):
            x, cell, p = np.empty_like(y), np.empty(y.size, np.int64), np.empty_like(y)
            form(kernels.factor, compiled)(kind, y, c, none, first, x, cell, p)
            assert np.allclose(p, np.polynomial.polynomial.polyval(2.0 * w - 1.0, c), rtol=1e-14)


def test_kernels_work_inside_another_compiled_function():
    problem = BY_NAME["cube"]
    levels = built(problem.made, problem.theta, 0.3)
    assert levels.kind[0] == TABLE

    @njit
    def caller(rng, trials, kind, scale, shift, truth, terms, coefficients, table, first):
        return kernels.accumulate(rng, trials, kind, scale, shift, truth, terms, coefficients, table, first)

    inside = caller(np.random.default_rng(3), 1000, *levels.arguments())
    assert np.array_equal(inside, kernels.accumulate(np.random.default_rng(3), 1000, *levels.arguments()))


def test_the_same_block_in_two_pieces_draws_the_same_numbers():
    problem = BY_NAME["cube"]
    levels = built(problem.made, problem.theta, 0.3)
    whole = kernels.accumulate(np.random.default_rng(3), 1537, *levels.arguments())
    rng = np.random.default_rng(3)
    parts = sum(kernels.accumulate(rng, n, *levels.arguments()) for n in (1, 511, 1000, 25))
    assert np.array_equal(whole[:, 3:], parts[:, 3:])
    assert np.allclose(whole[:, 1:3], parts[:, 1:3], rtol=SUMMATION_RTOL)


def test_a_row_of_the_table_fills_a_cache_line():
    assert COEFFICIENTS + 2 == kernels.COLUMNS == 8
