"""Contact orders: exact integers, by two rings that must agree, and by brute force over all minors."""

import copy
import json
import pickle
from fractions import Fraction
from itertools import combinations, permutations

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import estim
from estim.arithmetic import elementwise
from estim.attention import Layer, Network, Normalizer
from estim.spectra.contact_record import ContactOrders, ContactSlopes
from estim.spectra.series_jacobian import PRIMES
from estim.spectra.smith import exponents, rational_series, residues, smith_orders
from sims.contact_orders import token_pairs
from sims.fixtures import chain_bank, matrix_bank, matrix_network, scalar_chain

QK = ("query", "key")
#: Depth-four chain, scales 0.04 and 0.02: declared with the fixture, computed with another program at 300 digits.
VALUES = {
    "0.04": (
        "0.0874102732628649028027987240707",
        "0.0000000585856981199369524368767042895",
        "1.43814075260064011882287554397e-25",
        "5.96969696541408574594237304172e-79",
    ),
    "0.02": (
        "0.0437053219639004679220198864345",
        "0.00000000182822400815310588916914685514",
        "1.09662483169963122502981033972e-30",
        "6.62649277988348409165765411547e-95",
    ),
}
SLOPES = (0.999993882237, 5.00203376191, 17.0007753083, 53.0002617237)


def chain(depth, normalizer="softmax", scale="2/3"):
    return Network([Layer([["1/2"]], [[scale]], [[1]])] * depth, normalizer)


#: Inputs without a symmetry that even normalizers could mistake for one.
PAIRS = [[[1], [2]], [[1], [3]], [[-1], [1]], [[2], [5]], [[1], [7]]]


def leibniz(rows):
    """Return the determinant of a small matrix of polynomials, by its definition."""
    total = flint.fmpq_poly([])
    for order in permutations(range(len(rows))):
        sign = (-1) ** sum(a > b for a, b in combinations(order, 2))
        product = flint.fmpq_poly([sign])
        for row, column in enumerate(order):
            product *= rows[row][column]
        total += product
    return total


def valuation(polynomial):
    return next((k for k, c in enumerate(polynomial.coeffs()) if c != 0), None)


def brute_force(matrix):
    """Return the exponents of the Smith form as differences of the least valuations of minors."""
    rows, columns = len(matrix), len(matrix[0])
    sums = [0]
    for k in range(1, min(rows, columns) + 1):
        minors = [
            valuation(leibniz([[matrix[i][j] for j in right] for i in left]))
            for left in combinations(range(rows), k)
            for right in combinations(range(columns), k)
        ]
        if all(minor is None for minor in minors):
            break
        sums.append(min(minor for minor in minors if minor is not None))
    return tuple(np.diff(sums).tolist())


polynomials = st.lists(st.integers(-2, 2), max_size=4)
matrices = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(polynomials, min_size=n, max_size=n), min_size=1, max_size=4)
)


class TestSmithOrders:
    @given(matrices)
    @settings(max_examples=150, deadline=None)
    def test_minors_agree(self, matrix):
        expected = brute_force([[flint.fmpq_poly(entry) for entry in row] for row in matrix])
        found = smith_orders(matrix)
        assert found.orders == expected
        assert found.complete
        assert found.rank_bound == len(expected)

    @given(matrices)
    @settings(max_examples=60, deadline=None)
    def test_residues_agree_and_err_to_one_side(self, matrix):
        """With t = p for a large p the exponents agree; for p = 5 their partial sums can only be larger."""
        exact = smith_orders(matrix).orders
        terms = 12
        for prime in (PRIMES[0], 5):
            integers = np.empty((len(matrix), len(matrix[0])), dtype=object)
            for i, j in np.ndindex(*integers.shape):
                value = sum(c * flint.fmpz(prime) ** k for k, c in enumerate(matrix[i][j]))
                integers[i, j] = flint.fmpz(value) % flint.fmpz(prime) ** terms
            shifts = [0] * integers.shape[1]
            found = [half // 2 for half in exponents(integers, shifts, residues(prime, terms))]
            if prime > 5:
                assert tuple(found) == exact
            known = min(len(found), len(exact))
            assert len(found) <= len(exact)
            assert all(a >= b for a, b in zip(np.cumsum(found[:known]), np.cumsum(exact[:known]), strict=True))

    @pytest.mark.parametrize(("shape", "expected"), [((2, 1), 3), ((3, 1), 5), ((2, 2), 4), ((3, 2), 8), ((4, 2), 12)])
    def test_gauge_count_of_a_product_of_factors(self, shape, expected):
        """C6: the derivative of W_Q W_K^T at e times generic factors: 2 d k - k^2 orders, all one."""
        d, k = shape
        rng = np.random.default_rng(d + 10 * k)
        query, key = rng.integers(1, 9, (2, d, k))
        rows = []
        for i, j in np.ndindex(d, d):
            to_query = [[0, int(key[j, b])] if a == i else [0] for a in range(d) for b in range(k)]
            to_key = [[0, int(query[i, b])] if a == j else [0] for a in range(d) for b in range(k)]
            rows.append(to_query + to_key)
        found = smith_orders(rows)
        assert found.orders == (1,) * expected
        at_zero = smith_orders([[[0] for _ in row] for row in rows])
        assert (at_zero.orders, at_zero.complete) == ((), True)

    def test_known_values_at_every_scale(self):
        """C6: W_Q = e (1, 2), W_K = e (3, 1): e (sqrt 15, sqrt 10, sqrt 5, 0)."""
        for e in (Fraction(1), Fraction(1, 10**6)):
            jacobian = [[3 * e, 0, e, 0], [e, 0, 0, e], [0, 3 * e, 2 * e, 0], [0, e, 0, 2 * e]]
            spectrum = estim.spectrum(jacobian, digits=30)
            assert spectrum.positive_rank == 3
            np.testing.assert_allclose(
                spectrum.singular_values.astype(float), float(e) * np.sqrt([15, 10, 5, 0]), rtol=1e-15
            )

    def test_series_known_to_some_terms_leave_the_rest_open(self):
        found = smith_orders([[[0, 1], [0]], [[0], [0, 0, 0]]], terms=3)
        assert (found.orders, found.complete, found.beyond) == ((1,), False, 3)
        assert "at least 3" in found.proof

    def test_kinds_of_entries(self):
        truth = smith_orders([[[0, 1], [2, 3]]])
        for entries in (
            [[[0.0, 1.0], ["2", Fraction(3)]]],
            [[flint.fmpq_poly([0, 1]), flint.fmpz_poly([2, 3])]],
            [[flint.fmpq_series([0, 1]), flint.fmpq_series([2, 3])]],
            np.array([[[0, 1], [2, 3]]]),
        ):
            assert smith_orders(entries) == truth

    @pytest.mark.parametrize(
        ("matrix", "options", "error", "text"),
        [
            ([], {}, ValueError, r"`matrix` must have rows of one positive length; got lengths \[\]"),
            ([[[1]], []], {}, ValueError, r"`matrix` must have rows of one positive length; got lengths \[0, 1\]"),
            ([[[1, float("nan")]]], {}, ValueError, r"`matrix\[0\]\[0\]"),
            ([[["one"]]], {}, ValueError, r"`matrix\[0\]\[0\]\[0\]` must be a finite number; got 'one'"),
            ([[[1j]]], {}, TypeError, r"`matrix\[0\]\[0\]\[0\]` must be a real number"),
            ([[[1]]], {"terms": 0}, ValueError, "`terms` must be a positive integer; got 0"),
            ([[[1]]], {"terms": True}, ValueError, "`terms` must be a positive integer; got True"),
        ],
    )
    def test_bad_input(self, matrix, options, error, text):
        with pytest.raises(error, match=text):
            smith_orders(matrix, **options)


class TestRings:
    def test_primes_are_prime(self):
        assert all(flint.fmpz(prime).is_prime() for prime in PRIMES)

    def test_half_powers_count(self):
        """Columns times s, 1 and 1/s over t = s^2: diag(t s, 1, t / s) has the orders 0, 1, 3."""
        t = flint.fmpq_poly([0, 1])
        matrix = np.array([[t, t * 0, t * 0], [t * 0, t * 0 + 1, t * 0], [t * 0, t * 0, t]], dtype=object)
        assert exponents(matrix, [1, 0, -1], rational_series(4)) == [0, 1, 3]
        integers = elementwise(lambda f: flint.fmpz(int(f(flint.fmpq(7)))), matrix)
        assert exponents(integers, [1, 0, -1], residues(7, 4)) == [0, 1, 3]

    @pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "quadratic", "cosh"])
    @pytest.mark.parametrize("factors", [QK, ("query", "key", "value"), ("key",)])
    def test_both_rings_agree(self, normalizer, factors):
        net = chain(2, normalizer)
        rational, modular = (
            estim.contact_orders(net, PAIRS, factors=factors, ring=ring) for ring in ("rational", "residues")
        )
        assert rational.orders == modular.orders
        assert (rational.ring, rational.prime) == ("Q[[s]]", None)
        assert (modular.ring, modular.prime) == ("Z/p^N", PRIMES[0])
        assert "every order is exact" in rational.proof
        assert "at most" in modular.proof

    def test_a_matrix_network_in_both_rings(self):
        net = Network([Layer([[1], ["1/2"]], [[2], [-1]], [[1, "1/3"], [0, 1]])] * 2)
        bank = np.random.default_rng(1).integers(-3, 4, (5, 3, 2))
        rational, modular = (estim.contact_orders(net, bank, ring=ring) for ring in ("rational", "residues"))
        assert rational.complete
        assert modular.complete
        assert rational.counts == modular.counts == {0: 4, 1: 3, 5: 3}

    @pytest.mark.parametrize("entry", [Fraction(1, PRIMES[0]), Fraction(1, PRIMES[0] * PRIMES[1])])
    def test_a_prime_in_a_denominator_is_passed_over(self, entry):
        found = estim.contact_orders(chain(2, scale=entry), PAIRS, factors=QK, ring="residues")
        assert found.orders == (1, 5)
        assert found.prime == PRIMES[1 if entry.denominator == PRIMES[0] else 2]

    def test_all_primes_in_denominators(self):
        entry = Fraction(1, PRIMES[0] * PRIMES[1] * PRIMES[2])
        with pytest.raises(ValueError, match="`network` and `bank` must not have denominators"):
            estim.contact_orders(chain(2, scale=entry), PAIRS, factors=QK, ring="residues")


class TestNetworks:
    @pytest.mark.parametrize(
        ("depth", "bank", "orders", "ring"),
        [
            (1, PAIRS, (1,), "Q[[s]]"),
            (2, PAIRS, (1, 5), "Q[[s]]"),
            (3, PAIRS, (1, 5, 17), "Q[[s]]"),
            (4, chain_bank(), (1, 5, 17, 53), "Q[[s]]"),
            (5, token_pairs(8), (1, 5, 17, 53, 161), "Q[[s]]"),
            (6, token_pairs(8), (1, 5, 17, 53, 161, 485), "Z/p^N"),
            # Four inputs have four means; the fifth layer is seen by the difference of tokens: 3^5 - 1, less one.
            (5, chain_bank(), (1, 5, 17, 53, 241), "Z/p^N"),
        ],
    )
    def test_scalar_chains(self, depth, bank, orders, ring):
        found = estim.contact_orders(scalar_chain(depth, 1), bank, factors=QK)
        assert (found.orders, found.complete, found.ring, found.beyond) == (orders, True, ring, None)
        assert found.shape == (2 * len(bank), 2 * depth)
        assert "the gauge allows no further one" in found.proof

    @pytest.mark.parametrize(
        ("inputs", "counts"),
        [
            (12, {0: 16, 1: 12, 5: 12, 17: 4, 19: 4, 25: 4}),
            (30, {0: 16, 1: 12, 5: 12, 17: 12}),
            (48, {0: 16, 1: 12, 5: 12, 17: 12}),
        ],
    )
    def test_the_matrix_fixture_and_its_bank(self, inputs, counts):
        found = estim.contact_orders(matrix_network(), matrix_bank(inputs))
        assert found.counts == counts
        assert found.complete
        assert found.rank_bound == 52

    def test_softmax_of_one_layer(self):
        """C7: singular values -> 0.1154701 (order 0), 1.3340507 e (order 1), and an exact null."""
        net = Network([Layer([["1.1"]], [["0.6"]], [["0.9"]])])
        bank = [[["0.7"], ["-1.3"], ["0.4"]]]
        found = estim.contact_orders(net, bank)
        assert (found.orders, found.complete, found.shape) == ((0, 1), True, (3, 3))
        spectrum = estim.spectrum(net.scaled("1e-9"), bank, digits=40)
        assert float(spectrum.singular_values[0]) == pytest.approx(0.1154701, abs=5e-8)
        assert float(spectrum.singular_values[1]) * 1e9 == pytest.approx(1.3340507, abs=5e-8)
        assert spectrum.singular_values[2] == spectrum.upper[2] == 0

    @pytest.mark.parametrize(
        ("normalizer", "orders"),
        [("sigmoid", (1, 5, 17)), ("softplus", (1, 5, 17)), ("quadratic", (3, 11, 35)), ("cosh", (3, 11, 35))],
    )
    def test_other_normalizers(self, normalizer, orders):
        """Even ones weigh by the square of the score: every power counts twice and one more."""
        found = estim.contact_orders(chain(3, normalizer), PAIRS, factors=QK)
        assert (found.orders, found.complete) == (orders, True)
        slopes = estim.contact_slopes(chain(2, normalizer), PAIRS, ["1e-3", "5e-4"], factors=QK)
        assert slopes.deviation < 1e-4

    def test_a_normalizer_of_ones_own_through_its_series(self):
        def coefficients(terms):
            return [Fraction(2 if k == 0 else k % 2, max(k, 1)) for k in range(terms)]

        own = Normalizer(lambda s: 2 + np.arctanh(s), lambda s: 1 / (1 - s**2), name="own", taylor=coefficients)
        for ring in ("rational", "residues"):
            assert estim.contact_orders(chain(3, own), PAIRS, factors=QK, ring=ring).orders == (1, 5, 17)

    def test_gauge_order_and_scale_do_not_matter(self):
        net = Network([Layer([[1], ["1/2"]], [[2], [-1]], [[1, "1/3"], [0, 1]])] * 2)
        other = Network([Layer([[3], ["3/2"]], [["2/3"], ["-1/3"]], [[1, "1/3"], [0, 1]])] * 2)
        bank = np.random.default_rng(1).integers(-3, 4, (5, 3, 2))
        truth = estim.contact_orders(net, bank).orders
        assert estim.contact_orders(other, bank[::-1, ::-1]).orders == truth
        assert estim.contact_orders(net.scaled("1/7"), bank).orders == truth

    def test_ragged_banks(self):
        bank = [[[1], [2]], [[1], [3], [4]], [[-1], [1]], [[2], [5], [1]]]
        assert estim.contact_orders(chain(3), bank, factors=QK).orders == (1, 5, 17)

    def test_floats_are_exact_dyadic_numbers(self):
        net = Network([Layer([[0.1]], [[0.3]], [[1.0]])] * 2)
        assert estim.contact_orders(net, np.array(PAIRS, dtype=float), factors=QK).orders == (1, 5)

    def test_the_truncation_is_raised_until_nothing_is_missing(self):
        """Even normalizers and small banks need more terms than the first guess has."""
        found = estim.contact_orders(chain(3, "quadratic"), PAIRS, factors=QK)
        assert max(found.orders) > 2 * (3**2 + 1) - 1

    def test_readings_bound_the_orders_too(self):
        found = estim.contact_orders(scalar_chain(4, 1), token_pairs(1), factors=QK)
        assert (found.orders, found.complete) == ((1, 79), True)
        assert "the number of readings" in found.proof

    def test_constant_readings(self):
        same = [[[1], [1]], [[3], [3]]]
        found = estim.contact_orders(chain(2), same, factors=QK)
        assert (found.orders, found.complete, found.counts) == ((), True, {})
        assert "equal tokens" in found.proof
        assert "none" in found.summary()
        assert estim.contact_orders(chain(2), same).orders == (0,)
        assert estim.contact_orders(chain(2), [[[0], [0]]]).orders == ()

    def test_what_cannot_be_proven_is_said(self):
        """A bank of one input three times: nothing known bounds the rank by its two readings."""
        found = estim.contact_orders(scalar_chain(3, 1), [[[0], [1]]] * 3, factors=QK)
        assert found.orders == (1, 25)
        assert not found.complete
        assert found.beyond > 50
        assert f"at least {found.beyond}" in found.proof
        assert "none shows in 120 digits" in found.proof

    def test_large_scores_do_not_hide_orders(self):
        # At scale 1 softmax is saturated: scores of 1000 leave the second layer 1e-400 of an effect.
        loud = Network([Layer([[30]], [[30]], [[1]])] * 2)
        found = estim.contact_orders(loud, [[[0], [1]]] * 2, factors=("query",))
        calm = estim.contact_orders(chain(2), [[[0], [1]]] * 2, factors=("query",))
        assert found.orders == calm.orders

    def test_a_dead_layer(self):
        net = Network([Layer([[1]], [[1]], [[1]]), Layer([[0]], [[0]], [[1]])])
        assert estim.contact_orders(net, PAIRS, factors=QK).orders[0] == 1


class TestSlopes:
    @pytest.fixture
    def slopes(self):
        return estim.contact_slopes(scalar_chain(4, 1), chain_bank(), ("0.04", "0.02"), factors=QK)

    def test_values_and_slopes_of_the_declared_fixture(self, slopes):
        assert slopes.orders == (1, 5, 17, 53)
        np.testing.assert_allclose(slopes.slopes[0].astype(float), SLOPES, rtol=0, atol=1e-9)
        assert slopes.deviation < 0.0023
        with mpmath.workdps(40):
            for ours, truth in zip(slopes.singular_values, VALUES.values(), strict=True):
                for value, text in zip(ours, truth, strict=True):
                    assert abs(value / mpmath.mpf(text) - 1) < 1e-20

    def test_bounds_hold_and_are_narrow(self, slopes):
        better = estim.contact_slopes(scalar_chain(4, 1), chain_bank(), ("0.04", "0.02"), digits=250, factors=QK)
        assert (slopes.slope_error < 1e-19).all()
        with mpmath.workdps(200):
            error = abs(slopes.slopes - better.slopes).astype(float)
            assert (error <= slopes.slope_error).all()
            assert (slopes.lower <= better.singular_values).all()
            assert (slopes.upper >= better.singular_values).all()

    def test_digits_are_raised_where_few_are_given(self):
        slopes = estim.contact_slopes(scalar_chain(4, 1), chain_bank(), ("0.04", "0.02"), digits=15, factors=QK)
        assert slopes.digits > 100
        np.testing.assert_allclose(slopes.slopes[0].astype(float), SLOPES, rtol=0, atol=1e-9)

    def test_smaller_scales_come_closer(self):
        slopes = estim.contact_slopes(chain(3), PAIRS, ["1e-2", "1e-3", "1e-4"], factors=QK)
        far, near = (max(abs(float(s - k)) for s, k in zip(row, slopes.orders, strict=True)) for row in slopes.slopes)
        assert near < far / 50

    def test_round_trips(self, slopes):
        orders = estim.contact_orders(chain(2), PAIRS)
        for record, kind in ((slopes, ContactSlopes), (orders, ContactOrders)):
            for twin in (
                kind.from_json(record.to_json()),
                kind.from_dict(json.loads(json.dumps(record.to_dict()))),
                pickle.loads(pickle.dumps(record)),
                copy.deepcopy(record),
            ):
                assert twin == record
                assert hash(twin) == hash(record)
                assert twin.summary() == record.summary()
        assert ContactSlopes.from_json(slopes.to_json()).scales == (Fraction(1, 25), Fraction(1, 50))

    def test_summaries_name_orders_and_slopes(self, slopes):
        assert "1  5  17  53" in slopes.summary()
        assert "deviation=0.00203" in repr(slopes)
        assert "1 x1, 5 x1" in estim.contact_orders(chain(2), PAIRS, factors=QK).summary()

    @pytest.mark.parametrize("scales", [["0.1"], [0.1, 0.1], [0.1, -0.1], [0, 0.1]])
    def test_scales(self, scales):
        with pytest.raises(ValueError, match="`scales` must be two or more positive numbers"):
            estim.contact_slopes(chain(2), PAIRS, scales, factors=QK)

    def test_constant_readings_have_no_slopes(self):
        with pytest.raises(ValueError, match="`bank` must let some reading vary"):
            estim.contact_slopes(chain(2), [[[1], [1]]], [0.1, 0.2], factors=QK)

    def test_digits(self):
        with pytest.raises(ValueError, match="`digits` must be an integer from 15 to 10000; got 5"):
            estim.contact_slopes(chain(2), PAIRS, [0.1, 0.2], digits=5, factors=QK)
        with pytest.raises(ValueError, match="`digits` must be an integer from 15 to 10000; got None"):
            estim.contact_slopes(chain(2), PAIRS, [0.1, 0.2], digits=None, factors=QK)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"ring": "floats"}, "`ring` must be 'auto', 'rational' or 'residues'; got 'floats'"),
            ({"max_order": 0}, "`max_order` must be a positive integer; got 0"),
            ({"max_order": 2.5}, "`max_order` must be a positive integer; got 2.5"),
            ({"factors": ("query", "bias")}, "`factors` must be one or more of query, key, value"),
        ],
    )
    def test_options(self, options, text):
        with pytest.raises(ValueError, match=text):
            estim.contact_orders(chain(2), PAIRS, **options)

    def test_numpy_integers_are_integers(self):
        assert estim.contact_orders(chain(2), PAIRS, factors=QK, max_order=np.int64(50)).orders == (1, 5)
        assert estim.smith_orders([[[0, 1]]], terms=np.int64(3)).orders == (1,)

    def test_a_matrix_has_a_function_of_its_own(self):
        with pytest.raises(TypeError, match="`network` must be a Network; for a matrix use `smith_orders`; got list"):
            estim.contact_orders([[[0, 1]]], PAIRS)

    def test_banks(self):
        with pytest.raises(ValueError, match="`bank` must hold at least one input; got none"):
            estim.contact_orders(chain(2), [])
        with pytest.raises(ValueError, match="must be finite"):
            estim.contact_orders(chain(2), [[[float("nan")], [1.0]]])

    def test_normalizers_without_a_series(self):
        bare = Normalizer(np.exp, np.exp, name="bare")
        with pytest.raises(ValueError, match="normalizer 'bare' has no `taylor` coefficients; contact orders need"):
            estim.contact_orders(chain(2, bare), PAIRS)
        with pytest.raises(ValueError, match="normalizer 'softplus' is irrational at zero; `ring` must be 'residues'"):
            estim.contact_orders(chain(2, "softplus"), PAIRS, ring="rational")

    @pytest.mark.parametrize(
        ("taylor", "text"),
        [
            (lambda terms: None, "'own' must give 5 Taylor coefficients when asked; got 1"),
            (lambda terms: [], "'own' must give 1 Taylor coefficients when asked; got 0"),
            (lambda terms: ["x"] * terms, r"`taylor of own\[0\]` must be a finite number; got 'x'"),
            (lambda terms: [1, *[None] * (terms - 1)], r"`taylor of own\[1\]` must be a real number"),
            (lambda terms: [float("nan")] * terms, "`taylor of own` must be finite; got nan"),
            (lambda terms: [0] * terms, "normalizer 'own' must be positive at zero; got 0"),
        ],
    )
    def test_series_that_do_not_fit(self, taylor, text):
        with pytest.raises((ValueError, TypeError), match=text):
            estim.contact_orders(chain(2, Normalizer(np.exp, np.exp, name="own", taylor=taylor)), PAIRS)

    def test_orders_known_to_exist_beyond_the_limit(self):
        text = "`max_order` is too small: 4 orders or more exist, 3 are below 55; got 50"
        with pytest.raises(ArithmeticError, match=text):
            estim.contact_orders(scalar_chain(4, 1), token_pairs(3), factors=QK, max_order=50)

    def test_precision_and_truncation_are_restored_also_after_an_error(self):
        before = flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec
        estim.contact_slopes(chain(2), PAIRS, ["0.1", "0.05"], factors=QK)

        own = Normalizer(np.exp, np.exp, name="own", taylor=lambda terms: [Fraction(1)])
        for ring in ("rational", "residues"):
            with pytest.raises(ValueError, match="normalizer 'own' must give 5 Taylor coefficients when asked; got 1"):
                estim.contact_orders(chain(2, own), PAIRS, ring=ring)
        zero = Normalizer(np.exp, np.exp, name="zero", taylor=lambda terms: [Fraction(0)] * terms)
        with pytest.raises(ValueError, match="normalizer 'zero' must be positive at zero; got 0"):
            estim.contact_orders(chain(2, zero), PAIRS)
        assert (flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec) == before


@pytest.mark.parametrize("scales", [("0.01", "0.0100000000000000000001"), ("1e-400", "0.01")])
def test_slopes_between_scales_that_float64_does_not_tell_apart_or_does_not_hold(scales):
    """The bound was infinite, with a division by zero, or the logarithm of a ratio of zero was asked for."""
    chain = Network([Layer([[1]], [[1]], [[1]])] * 2)
    found = estim.contact_slopes(chain, [[[0], [1]], [[0], [2]]], scales, factors=("query", "key"))
    assert found.slope_error.max() < 1e-80
    # The derivatives of log value by log scale at 0.01, by differences over 1 % of it.
    near = estim.contact_slopes(chain, [[[0], [1]], [[0], [2]]], ["0.00995", "0.01005"], factors=("query", "key"))
    expected = near.slopes if scales[0] == "0.01" else [found.orders]
    assert np.allclose(found.slopes.astype(float), np.array(expected, dtype=float), rtol=0.0, atol=1e-6)
    assert f"values at {'0.01' if scales[0] == '0.01' else '1.0e-400'} " in found.summary()
