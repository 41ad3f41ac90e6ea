"""Spectra: two promises, tested apart. Enclosures are honest whatever happens, and narrow where they promise it.

mpmath's own SVD, at many more digits than asked for (it loses some), is the referee.
"""

import copy
import pickle
from fractions import Fraction
from itertools import pairwise

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import estim
from estim.arithmetic import as_balls, as_rationals, elementwise, matmul
from estim.attention import Layer, Network, Normalizer
from estim.attention.effective import rank
from estim.attention.jacobian import jacobian_in
from estim.spectra.balls import midpoint
from estim.spectra.certify import _judge, enclose
from estim.spectra.jacobi import graded_jacobi
from sims.fixtures import matrix_bank, matrix_network, scalar_chain

REFEREE_DIGITS = 160
HILBERT = [[Fraction(1, i + j + 1) for j in range(12)] for i in range(12)]
#: C5 of the table of hard cases.
HILBERT_SMALLEST = 1.04794639796223e-16


def referee(matrix, digits=REFEREE_DIGITS):
    with mpmath.workdps(digits):
        rows = [[mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator for x in row] for row in matrix]
        values = mpmath.svd_r(mpmath.matrix(rows), compute_uv=False)
        return sorted(values, reverse=True)


def assert_honest(spectrum, truth, slack="1e-140"):
    """Check that every enclosure holds its value, up to the referee's own error relative to the largest."""
    with mpmath.workdps(REFEREE_DIGITS):
        spare = mpmath.mpf(slack) * max(truth)
        for low, value, high, true in zip(spectrum.lower, spectrum.singular_values, spectrum.upper, truth, strict=True):
            assert low <= value <= high
            assert low - spare <= true <= high + spare


def rotation(size, number):
    """Return an exact orthogonal matrix of Fractions: I - 2 v v^T / v.v."""
    v = [Fraction(k * number % 7 + 1) for k in range(size)]
    norm = sum(x * x for x in v)
    return np.array([[Fraction(i == j) - 2 * v[i] * v[j] / norm for j in range(size)] for i in range(size)])


def with_values(values, size=5):
    """Return a matrix of Fractions whose singular values are known: two rotations around a diagonal."""
    middle = np.zeros((size, size), dtype=object)
    middle[range(len(values)), range(len(values))] = [Fraction(value) for value in values]
    return rotation(size, 2) @ middle @ rotation(size, 3)


E20 = Fraction(1, 10**20)
CLOSE_AND_FAR = [1, 1 + E20, 1 + E20**2, 0, E20, 3 * E20, E20**10]


def close_together(gap):
    return [Fraction(1) + gap, Fraction(1), Fraction(1, 10**9) * (1 + gap), Fraction(1, 10**9)]


MATRICES = {
    "float": np.random.default_rng(7).standard_normal((9, 4)),
    "wide": np.random.default_rng(8).standard_normal((3, 7)),
    "one row": [[1, 2, 3]],
    "one entry": [["-0.1"]],
    "mixed kinds": [[0.1, "0.1"], [Fraction(1, 10), 3]],
    "C3 units": [[1e-9, 0], [0, 1]],
    "C5 Hilbert": HILBERT,
    "graded columns": np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]]) * np.array([1.0, 1e-7, 1e-21]),
    "graded rows": (np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5]]).T * np.array([1.0, 1e-30, 1e-3])).T,
    "repeated": with_values([3, 3, 3, 1, 1]),
    "identity": np.eye(6),
    "repeated and zero": with_values([2, 2, 2]),
    "nearly repeated": with_values(close_together(Fraction(1, 10**13))),
    "closer than the digits": with_values(close_together(Fraction(1, 10**60))),
    "rank one": np.ones((8, 5)),
    "thousands of orders": [[1, "1e-400"], ["1e-400", "1e-1000"]],
    "integers": np.arange(12).reshape(4, 3),
}


class TestMatrices:
    @pytest.mark.parametrize("name", MATRICES)
    def test_values_are_correct_to_the_digits_relative_to_themselves(self, name):
        matrix = MATRICES[name]
        spectrum = estim.spectrum(matrix, digits=30)
        assert (spectrum.relative_error <= 1e-30).all()
        digits = 2400 if name == "thousands of orders" else REFEREE_DIGITS
        truth = referee(np.asarray(matrix, dtype=object), digits)
        with mpmath.workdps(digits):
            for value, true in zip(spectrum.singular_values, truth, strict=True):
                assert abs(value - true) <= mpmath.mpf("1e-30") * true + mpmath.mpf("1e-140") * truth[0] * (value == 0)
        if name != "thousands of orders":
            assert_honest(spectrum, truth)

    @given(
        st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=5),
        st.lists(st.integers(0, 25), min_size=3, max_size=3),
    )
    @settings(max_examples=60, deadline=None)
    def test_any_small_matrix_with_graded_columns(self, rows, grades):
        scaled = [[Fraction(x, 10**grade) for x, grade in zip(row, grades, strict=True)] for row in rows]
        spectrum = estim.spectrum(scaled, digits=25)
        entries = [x for row in scaled for x in row]
        exact = flint.fmpq_mat(len(rows), 3, [flint.fmpq(x.numerator, x.denominator) for x in entries]).rank()
        assert spectrum.positive_rank == exact
        assert (spectrum.relative_error <= 1e-25).all()
        assert all(value == 0 for value in spectrum.singular_values[exact:])
        assert_honest(spectrum, referee(scaled))

    @given(
        st.lists(
            st.lists(st.sampled_from([8, 15, 20, 30, 45, 60, 90]), min_size=4, max_size=4), min_size=4, max_size=4
        ),
        st.integers(1, 6),
        st.sampled_from([15, 60, 100]),
    )
    @example([[90, 45, 90, 90]] * 4, 1, 100)
    @settings(max_examples=60, deadline=None)
    def test_gaps_within_gaps(self, depths, turn, digits):
        # Couplings and gaps of many sizes: a pair that a first rotation leaves together has to be turned again.
        near = np.eye(4, dtype=int) + np.array([[Fraction(1, 10**depth) for depth in row] for row in depths])
        matrix = rotation(4, turn) @ near
        spectrum = estim.spectrum(matrix, digits=digits)
        assert (spectrum.relative_error <= 10.0**-digits).all()
        assert_honest(spectrum, referee(matrix))

    @given(
        st.lists(st.sampled_from(CLOSE_AND_FAR), min_size=2, max_size=6), st.integers(1, 6), st.sampled_from([15, 50])
    )
    @example([1, 2], 1, 50)  # Vectors right to more than float64 from the start.
    @example([1 + E20, 1 + E20, 3 * E20, E20**10, 0], 2, 15)  # A null vector beside a value far below the digits.
    @example([1 + E20, 1 + E20**2, E20, E20**10, 1, 1 + E20**2, E20], 3, 120)  # A repeated value within a cluster.
    @settings(max_examples=40, deadline=None)
    def test_values_close_together_and_far_apart_all_reach_the_digits(self, values, turn, digits):
        spectrum = estim.spectrum(np.diag([Fraction(v) for v in values]) @ rotation(len(values), turn), digits=digits)
        assert spectrum.positive_rank == sum(value > 0 for value in values)
        for low, high, true in zip(spectrum.lower, spectrum.upper, sorted(values, reverse=True), strict=True):
            with mpmath.workprec(8000):
                true = mpmath.mpf(Fraction(true).numerator) / Fraction(true).denominator
                slack = true * mpmath.mpf(2) ** -7990
                assert low - slack <= true <= high + slack
                assert high - low <= true * mpmath.mpf(10) ** -digits

    def test_known_values_of_a_rotated_diagonal(self):
        spectrum = estim.spectrum(with_values([7, 7, 2, 2]), digits=40)
        with mpmath.workdps(50):
            np.testing.assert_array_less(
                [abs(v - t) for v, t in zip(spectrum.singular_values, (7, 7, 2, 2, 0), strict=True)], 1e-39
            )
        assert spectrum.singular_values[-1] == spectrum.upper[-1] == 0
        assert (spectrum.positive_rank, spectrum.rank(0)) == (4, 4)

    def test_hilbert_is_of_full_rank_as_fractions_and_numpy_cannot_know(self):
        exact, floats = estim.spectrum(HILBERT, digits=60), estim.spectrum(HILBERT)
        assert exact.positive_rank == 12
        assert float(exact.singular_values[-1]) == pytest.approx(HILBERT_SMALLEST, rel=1e-14)
        assert np.linalg.matrix_rank(np.array(HILBERT, dtype=float)) == 11
        assert floats.positive_rank is None
        assert "give `digits`" in floats.rank_reason

    def test_collinear_columns_have_full_rank_as_floats_and_not_as_fractions(self):
        x = ["0.1", "0.4", "0.7", "0.9", "0.2", "0.5"]
        fractions = [[1, Fraction(v), 1 - Fraction(v)] for v in x]
        floats = [[1.0, float(v), 1.0 - float(v)] for v in x]
        assert estim.spectrum(fractions, digits=30).positive_rank == 2
        seen = estim.spectrum(floats, digits=30)
        assert seen.positive_rank == 3
        assert 1e-17 < seen.singular_values[-1] < 1e-15

    def test_zeros_only(self):
        spectrum = estim.spectrum(np.zeros((4, 3)), digits=20)
        assert list(spectrum.upper) == [0, 0, 0]
        assert (spectrum.positive_rank, spectrum.rank()) == (0, 0)
        assert "none" in spectrum.summary()

    def test_float64_is_lapack(self):
        matrix = MATRICES["float"]
        spectrum = estim.spectrum(matrix)
        np.testing.assert_array_equal(spectrum.singular_values, np.linalg.svd(matrix, compute_uv=False))
        assert spectrum.lower is None
        assert np.isnan(spectrum.relative_error).all()

    @pytest.mark.parametrize("view", [lambda a: a[::-1, ::-1], np.asfortranarray, lambda a: a.astype(np.float32)])
    def test_layout_of_the_array_does_not_matter(self, view, read_only):
        matrix = read_only(np.arange(1.0, 13.0).reshape(4, 3) ** 2)
        first, second = (estim.spectrum(m, digits=20) for m in (matrix, view(matrix)))
        assert max(abs(first.singular_values - second.singular_values)) < 1e-20

    def test_entries_beyond_float64(self):
        spectrum = estim.spectrum([[10**400, 1], [0, 1]], digits=20)
        assert spectrum.positive_rank == 2
        assert np.isnan(spectrum.float64_values).all()
        assert estim.Spectrum.from_json(spectrum.to_json()) == spectrum
        assert str(spectrum.rank_table(rtol=(1e-10,))).splitlines()[-1] == " 20 digits |     1"
        with pytest.raises(ValueError, match="`matrix` must fit into float64 unless `digits` is given"):
            estim.spectrum([[10**400]])

    def test_matrices_of_other_libraries(self):
        rows = [[1, -2], [3, 4]]
        truth = estim.spectrum(rows, digits=20)
        for matrix in (mpmath.matrix(rows), flint.fmpz_mat(rows), flint.fmpq_mat(flint.fmpz_mat(rows))):
            assert estim.spectrum(matrix, digits=20) == truth


class TestBalls:
    def test_enclosures_hold_for_every_matrix_in_the_balls(self):
        rng = np.random.default_rng(3)
        center = rng.standard_normal((6, 3)) * np.array([1, 1e-4, 1e-9])
        radius = 1e-13 * abs(center)
        with flint.ctx.workprec(200):
            balls = np.frompyfunc(flint.arb, 2, 1)(center, radius)
        spectrum = estim.spectrum(balls, digits=30)
        assert spectrum.positive_rank == 3
        assert (spectrum.relative_error < 1e-11).all()
        for _ in range(10):
            inside = center + rng.uniform(-0.9, 0.9, center.shape) * radius
            assert_honest_contains(spectrum, referee(inside))

    def test_balls_that_reach_zero_leave_the_rank_open(self):
        with flint.ctx.workprec(100):
            balls = [[flint.arb(1), flint.arb(0)], [flint.arb(0), flint.arb(0, 1e-8)]]
        spectrum = estim.spectrum(balls, digits=20)
        assert spectrum.positive_rank is None
        assert spectrum.lower[-1] == 0
        assert 1e-8 <= spectrum.upper[-1] < 1e-7
        assert "allows 2" in spectrum.rank_reason

    def test_exact_balls_beside_other_entries(self):
        spectrum = estim.spectrum([[flint.arb(3), 0], [0, "0.5"]], digits=20)
        assert [float(v) for v in spectrum.singular_values] == [3.0, 0.5]

    def test_a_ball_without_bounds_is_refused(self):
        with pytest.raises(ValueError, match="`matrix` must be finite; got a ball that is not"):
            estim.spectrum([[flint.arb("nan")]], digits=20)


def assert_honest_contains(spectrum, truth):
    for low, high, true in zip(spectrum.lower, spectrum.upper, truth, strict=True):
        assert low <= true <= high


class TestCertificate:
    def test_any_orthonormal_vectors_give_true_bounds(self):
        """Vectors that have nothing to do with the matrix make the enclosures wide, and never wrong."""
        rng = np.random.default_rng(5)
        matrix = rng.standard_normal((7, 4)) * np.array([1, 1e-2, 1e-5, 1e-8])
        truth = referee(matrix)
        with flint.ctx.workprec(300):
            balls = as_balls(matrix)
            for seed in range(10):
                stray = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]
                for mix in (1.0, 1e-3, 1e-9):
                    v = np.linalg.svd(matrix)[2].T + mix * stray
                    vectors = elementwise(flint.arb, np.linalg.qr(v)[0])
                    found = _judge(vectors, matmul(balls.T, balls), balls, None, 4)
                    for low, high, true in zip(found.lower, found.upper, truth, strict=True):
                        assert float(low) <= true * (1 + 1e-12)
                        assert float(high) >= true * (1 - 1e-12)

    def test_wider_balls_give_wider_bounds(self):
        matrix = np.random.default_rng(1).standard_normal((5, 3))
        widths = []
        with flint.ctx.workprec(200):
            for radius in (0, 1e-20, 1e-10):
                balls = elementwise(lambda x, r=radius: flint.arb(x, r), matrix)
                found = enclose(lambda b=balls: b, 60, rank=3, exact=False)
                widths.append(float((found.upper - found.lower).max()))
        assert widths[0] < widths[1] < widths[2] < 1e-8

    def test_rotations_reach_far_below_float64(self):
        """Eigenvectors of D S D for D from 1 to 2^-5000, no entry formed: checked in balls."""
        rng = np.random.default_rng(2)
        factor = np.linalg.qr(rng.standard_normal((6, 6)))[0] + 0.3 * rng.standard_normal((6, 6))
        exponents = np.array([0, -3, -5, -1200, -1203, -5000])
        vectors, norms = graded_jacobi(factor, exponents)
        with flint.ctx.workprec(12000):
            power = elementwise(lambda e: flint.arb(2) ** int(e), exponents)
            shrink = elementwise(lambda e: flint.arb(2) ** -int(e), abs(exponents[:, None] - exponents))
            u = elementwise(flint.arb, vectors) * shrink
            scaled = elementwise(flint.arb, factor) * power
            inner = matmul(u, matmul(matmul(scaled.T, scaled), u.T))
            power = power * elementwise(flint.arb, norms)
            relative = midpoint(inner / power / power[:, None])
        assert np.abs(relative.astype(float) - np.eye(6)).max() < 1e-12


def network(depth=2, width=2, rank=1, normalizer="softmax", seed=0, output=None):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return [[Fraction(int(x) or 5, 7) for x in row] for row in rng.integers(-9, 10, shape)]

    widths = [width] * depth + [output or width]
    return Network([Layer(draw(a, rank), draw(a, rank), draw(a, b)) for a, b in pairwise(widths)], normalizer)


def bank(inputs=4, tokens=3, width=2, seed=1):
    return np.random.default_rng(seed).integers(-4, 5, (inputs, tokens, width)) / 4


class TestNetworks:
    @pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "softplus", "quadratic", "cosh"])
    def test_the_referee_agrees(self, normalizer):
        net = network(normalizer=normalizer)
        spectrum = estim.spectrum(net, bank(), digits=40)
        with mpmath.workdps(80):
            jacobian = mpmath.matrix(net.jacobian(bank(), digits=80).tolist())
            truth = sorted(mpmath.svd_r(jacobian, compute_uv=False), reverse=True)
        assert spectrum.positive_rank == net.identifiable_dimension
        assert_honest(spectrum, truth, "1e-60")
        assert (spectrum.relative_error[: spectrum.positive_rank] < 1e-20).all()

    @pytest.mark.parametrize("inputs", [1, 2, 3])
    def test_fewer_readings_than_the_gauge_leaves(self, inputs):
        net = scalar_chain(4, 1)
        given_bank = [[[0], [k]] for k in range(1, inputs + 1)]
        spectrum = estim.spectrum(net, given_bank, digits=80, factors=("query", "key"))
        with mpmath.workdps(120):
            jacobian = net.jacobian(given_bank, digits=120, factors=("query", "key"))
            truth = sorted(mpmath.svd_r(mpmath.matrix(jacobian.tolist()), compute_uv=False), reverse=True)
        assert len(spectrum.singular_values) == 2 * inputs
        assert spectrum.positive_rank == min(2 * inputs, 4)
        assert_honest(spectrum, truth, "1e-100")

    @pytest.mark.parametrize("factors", [("query",), ("value",), ("key", "query"), ("query", "value")])
    def test_some_of_the_factors(self, factors):
        net = network(rank=2)
        spectrum = estim.spectrum(net, bank(8), digits=30, factors=factors)
        exact = estim.spectrum(net.jacobian(bank(8), digits=60, factors=factors), digits=30)
        assert spectrum.shape == exact.shape
        count = spectrum.positive_rank
        np.testing.assert_array_less(abs(spectrum.singular_values - exact.singular_values)[:count], 1e-28)

    @pytest.mark.parametrize("options", [{"rank": 3}, {"output": 3}, {"width": 1}, {"depth": 1, "rank": 2}])
    def test_other_shapes(self, options):
        net = network(**options)
        spectrum = estim.spectrum(net, bank(12, width=net.width), digits=50)
        assert spectrum.positive_rank == net.identifiable_dimension

    def test_ragged_bank(self):
        ragged = [[[1, 2], [3, 4]], [[0, 1], [1, 1], [2, -1]], [[5, 1], [1, 0]], [[1, 0], [2, 2], [0, 3]]]
        assert estim.spectrum(network(), ragged, digits=40).positive_rank == network().identifiable_dimension

    def test_equal_tokens_hide_queries_and_keys_by_proof(self):
        same = [[[1, 2]] * 3, [[2, -1]] * 3]
        spectrum = estim.spectrum(network(), same, digits=30)
        assert spectrum.positive_rank == 4
        assert "equal tokens" in spectrum.rank_reason
        assert all(value == 0 for value in spectrum.upper[4:])

    def test_factors_that_are_all_gauge(self):
        zero = Network([Layer([[0]], [[0]], [[0]])] * 2)
        spectrum = estim.spectrum(zero, [[[1], [2]]], digits=30)
        assert (spectrum.positive_rank, list(spectrum.upper)) == (0, [0, 0])

    def test_beyond_float64(self):
        # exp(-1e4) fills a row with zeros in float64, and not in balls; 1e400 is no float64 at all.
        plain = Normalizer(np.exp, np.exp, high_precision=lambda s: (s.exp(), s.exp()))
        low = Network([Layer([[1]], [[-1e4]], [[1]])], plain)
        huge = Network([Layer([["1e400"]], [["1e-400"]], [[1]])])
        for made in (low, huge):
            spectrum = estim.spectrum(made, [[[1], [2]]], digits=30)
            assert np.isnan(spectrum.float64_values).all()
            assert spectrum.lower[0] > 0

    def test_repeated_inputs_beside_a_gauge_keep_the_weak_values(self):
        # The gauge leaves seven directions, the bank shows four of them: the metric of the complement counts.
        layers = [
            Layer([[-9], [-1]], [[4], ["-7/4"]], [["7/3", -8], [7, "5/2"]]),
            Layer([["5/3", 4], ["7/2", "4/3"]], [["3/2", 3], [9, -1]], [[4, "-1/2"], [3, 1]]),
        ]
        inputs = [[[-3, -8], ["-1/4", -1]]] * 4
        small, smaller = (
            estim.spectrum(Network(layers, "quadratic").scaled(s), inputs, digits=400, factors=("value",))
            for s in ("1e-8", "1e-12")
        )
        for spectrum in (small, smaller):
            assert spectrum.positive_rank == 4
            assert (spectrum.relative_error[:4] < 1e-100).all()
        ratios = [
            mpmath.log10(a / b) / 4 for a, b in zip(small.singular_values, smaller.singular_values[:4], strict=False)
        ]
        np.testing.assert_allclose(np.array(ratios, dtype=float), [0, 0, 16, 16], atol=1e-9)

    def test_tangents_that_float64_cannot_tell_apart(self):
        layer = Layer([[1, "1e-30"], [1, "-1e-30"]], [[1, "1e30"], [2, "1e31"]], [[1, 1], [1, 3]])
        few, many = (estim.spectrum(Network([layer] * 2), bank(5), digits=digits) for digits in (60, 240))
        assert few.positive_rank == many.positive_rank == 12
        assert (few.lower <= many.upper).all()
        assert (few.upper >= many.lower).all()
        assert (few.relative_error < 1e-30).all()

    def test_zero_inputs_see_nothing(self):
        spectrum = estim.spectrum(network(), np.zeros((3, 2, 2)), digits=30)
        assert spectrum.positive_rank == 0
        assert max(spectrum.upper) == 0

    def test_a_repeated_input_in_rational_arithmetic_decides_the_rank(self):
        """Three copies of an input: nothing bounds the rank but exact arithmetic, which 1 + s^2 allows."""
        net, bank = network(normalizer="quadratic"), [[[1, 2], [3, 1], [0, 2]]] * 3
        spectrum = estim.spectrum(net, bank, digits=30)
        exact = rank(jacobian_in(net.layers, bank, as_rationals, net.normalizer))
        assert spectrum.positive_rank == exact < 6
        assert "exact arithmetic" in spectrum.rank_reason

    def test_without_a_proof_the_rank_is_open_and_the_reason_says_so(self):
        spectrum = estim.spectrum(network(), [[[1, 2], [3, 1], [0, 2]]] * 3, digits=30)
        assert spectrum.positive_rank is None
        assert "6 enclosures exclude zero" in spectrum.rank_reason
        smallest = float(spectrum.summary().splitlines()[2].split()[-1])
        assert smallest == pytest.approx(float(spectrum.singular_values[5]))
        assert spectrum.rank_bounds(1e-20)[0] == spectrum.rank_bounds(1e-20)[1] == 6

    def test_digits_needed_are_enough(self):
        net = scalar_chain(4, "0.02")
        chain = [[[0], [Fraction(k, 2)]] for k in range(1, 5)]
        poor = estim.spectrum(net, chain, digits=110, factors=("query", "key"))
        assert poor.positive_rank == 4
        assert (poor.relative_error[:3] < 1e-55).all()
        assert 1e-55 < poor.relative_error[3] < 1e-15
        good = estim.spectrum(net, chain, digits=poor.digits_needed, factors=("query", "key"))
        assert good.digits_needed is None
        assert (good.relative_error < 10.0 ** (-good.digits / 2)).all()
        for low, high, true in zip(poor.lower, poor.upper, good.singular_values, strict=True):
            assert low <= true <= high

    @pytest.mark.parametrize("digits", [15, 20, 30])
    def test_too_few_digits_are_honest(self, digits):
        net = scalar_chain(3, "0.001")
        chain = [[[0], [k]] for k in range(1, 4)]
        poor = estim.spectrum(net, chain, digits=digits, factors=("query", "key"))
        good = estim.spectrum(net, chain, digits=150, factors=("query", "key"))
        assert good.positive_rank == 3
        assert poor.positive_rank is None
        assert poor.digits_needed > digits
        assert_honest_contains(poor, good.singular_values)


@pytest.fixture(scope="module")
def spectra():
    net = matrix_network().scaled("0.06")
    return {digits: estim.spectrum(net, matrix_bank(), digits=digits) for digits in (None, 120)}


class TestMatrixFixture:
    def test_fifty_two_proven_forty_seen_twelve_resolved(self, spectra):
        floats, balls = spectra[None], spectra[120]
        assert balls.shape == (768, 96)
        assert balls.positive_rank == 52
        assert floats.rank(1e-10) == balls.rank(1e-10) == 40
        assert balls.rank_bounds(1e-10) == (40, 40)
        assert balls.lower[51] > 0
        assert (balls.relative_error[:52] < 1e-60).all()
        assert list(balls.upper[52:]) == [0] * 44

    def test_the_rank_is_a_matter_of_precision_and_threshold(self, spectra):
        floats, balls = spectra[None], spectra[120]
        table = balls.rank_table(rtol=(1e-10, 1e-20, 1e-30))
        assert table.digits == (None, 120)
        assert table.bounds[1] == ((40, 40), (40, 40), (52, 52))
        # Float64 counts rounding: more than 52 values above a threshold far below its noise.
        assert table.bounds[0][0][0] == 40
        assert table.bounds[0][2][0] > 52
        np.testing.assert_array_equal(balls.float64_values, floats.singular_values)

    def test_the_picture_shows_all_of_it(self, spectra):
        import matplotlib as mpl

        mpl.use("agg")
        axes = spectra[120].plot(spectra[None], rtol=(1e-10, 1e-20))
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == ["float64", "120 digits", "below float64's noise floor"]
        assert sum(line.get_linestyle() == "--" for line in axes.lines) == 2


class TestRecord:
    @pytest.mark.parametrize("matrix", ["graded columns", "repeated and zero"])
    @pytest.mark.parametrize("digits", [None, 40])
    def test_round_trips(self, matrix, digits):
        spectrum = estim.spectrum(MATRICES[matrix], digits=digits)
        for twin in (
            estim.Spectrum.from_json(spectrum.to_json()),
            estim.Spectrum.from_dict(spectrum.to_dict()),
            pickle.loads(pickle.dumps(spectrum)),
            copy.deepcopy(spectrum),
        ):
            assert twin == spectrum
            assert hash(twin) == hash(spectrum)
            assert twin.rank() == spectrum.rank()
            assert list(twin.singular_values) == list(spectrum.singular_values)
        assert spectrum != estim.spectrum([[1]], digits=digits)

    def test_values_are_mpf_and_read_only(self):
        spectrum = estim.spectrum([[1, 2], [3, 4]], digits=20)
        assert all(isinstance(v, mpmath.mpf) for v in (*spectrum.singular_values, *spectrum.lower, *spectrum.upper))
        with pytest.raises(ValueError, match="read-only"):
            spectrum.singular_values[0] = 0

    def test_a_field_that_does_not_belong_is_named(self):
        fields = estim.spectrum([[1]]).to_dict() | {"rang": 1}
        with pytest.raises(ValueError, match="rang"):
            estim.Spectrum.from_dict(fields)

    def test_table_of_several_precisions(self):
        matrix = [[1, 0], [0, "1e-18"]]
        best = estim.spectrum(matrix, digits=60)
        table = best.rank_table(estim.spectrum(matrix, digits=30), estim.spectrum(matrix), rtol=(1e-10, 1e-20))
        assert table.digits == (None, 30, 60)
        assert str(table).splitlines()[-1] == " 60 digits |     1      2"

    def test_undecided_counts_are_ranges(self):
        with flint.ctx.workprec(100):
            balls = [[flint.arb(1), flint.arb(0)], [flint.arb(0), flint.arb(0, 1e-8)]]
        spectrum = estim.spectrum(balls, digits=20)
        assert spectrum.rank_bounds(1e-10) == (1, 2)
        assert "1..2" in str(spectrum.rank_table(rtol=(1e-10,)))

    def test_repr_and_summary_say_the_rank(self):
        spectrum = estim.spectrum(HILBERT, digits=30)
        assert "positive_rank=12" in repr(spectrum)
        assert "positive rank      12 (12 enclosures" in spectrum.summary()


class TestBadInput:
    @pytest.mark.parametrize("digits", [14, 0, -5, 10_001, 2.5, True, "30", float("nan")])
    def test_digits(self, digits):
        with pytest.raises(ValueError, match=r"`digits` must be an integer from 15 to 10000; got"):
            estim.spectrum([[1]], digits=digits)

    def test_numpy_integers_are_integers(self):
        assert estim.spectrum([[1]], digits=np.int64(20)).digits == 20

    @pytest.mark.parametrize(
        ("matrix", "error", "text"),
        [
            ([[1.0, float("nan")]], ValueError, r"`matrix` must be finite; got nan at index \(0, 1\)"),
            ([["1", float("inf")]], ValueError, r"`matrix\[0, 1\]` must be a finite number; got inf"),
            ([["one"]], ValueError, r"`matrix\[0, 0\]` must be a finite number; got 'one'"),
            ([[1j]], TypeError, r"`matrix\[0, 0\]` must be a real number"),
            ([[1, 2], [3]], ValueError, "different lengths"),
            ([1, 2], ValueError, r"`matrix` must have 2 axes; got shape \(2,\)"),
            (np.empty((0, 3)), ValueError, r"`matrix` must not be empty; got shape \(0, 3\)"),
            ([flint.arb(1)], ValueError, r"`matrix` must have 2 axes; got shape \(1,\)"),
        ],
    )
    def test_matrices(self, matrix, error, text):
        with pytest.raises(error, match=text):
            estim.spectrum(matrix, digits=20)

    def test_banks(self):
        with pytest.raises(ValueError, match="`bank` must be given with a network; got None"):
            estim.spectrum(network(), digits=20)
        with pytest.raises(ValueError, match="`bank` must be left out for a matrix; got list"):
            estim.spectrum([[1]], [[[0]]])
        with pytest.raises(ValueError, match="`bank` must hold at least one input; got none"):
            estim.spectrum(network(), [], digits=20)
        with pytest.raises(ValueError, match="`bank"):
            estim.spectrum(network(), [[[1, float("nan")]]], digits=20)

    @pytest.mark.parametrize("rtol", [-1e-10, float("nan"), float("inf"), "x", None])
    def test_thresholds(self, rtol):
        spectrum = estim.spectrum([[1]], digits=20)
        for ask in (spectrum.rank, spectrum.rank_bounds, lambda t: spectrum.rank_table(rtol=(t,))):
            with pytest.raises(ValueError, match="`rtol` must be finite and not negative; got"):
                ask(rtol)

    def test_spectra_of_other_matrices(self):
        one, other = estim.spectrum([[1]], digits=20), estim.spectrum([[1, 2]], digits=20)
        with pytest.raises(ValueError, match=r"`others` must belong to a matrix of shape \(1, 1\); got shape \(1, 2\)"):
            one.rank_table(other)
        with pytest.raises(TypeError, match="`others` must be Spectrum; got 3"):
            one.rank_table(3)
        with pytest.raises(TypeError, match=r"`rtol` must be a sequence of thresholds; got 0\.1"):
            one.rank_table(rtol=0.1)

    def test_precision_is_restored_also_after_an_error(self):
        before = flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec
        estim.spectrum(network(), bank(), digits=50)
        estim.spectrum(HILBERT, digits=50).rank_bounds()
        with pytest.raises(ValueError, match="finite"):
            estim.spectrum([[float("nan")]], digits=50)

        def stop():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            enclose(stop, 50, rank=1, exact=True)
        assert (flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec) == before
