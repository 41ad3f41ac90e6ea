import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estim.probe.model.probe import probe
from estim.probe.model.probed import Probed

X = np.array([1.0, 2.0, 3.0])


def model(theta, x):
    return theta[0] * np.exp(theta[1] * x)


def jacobian(theta, x):
    return np.stack([np.exp(theta[1] * x), theta[0] * x * np.exp(theta[1] * x)], axis=1)


class Held:
    """A model with parameters and a Jacobian of its own."""

    def __init__(self, matrix):
        self.matrix = np.asarray(matrix)
        self.parameters = {"a": 1.0, "b": 2.0}

    def jacobian(self, bank):
        return self.matrix


class Evaluated(Held):
    def __call__(self, bank):
        return np.asarray(bank) * 2.0


def test_integers_give_the_same_as_floats():
    """Case C16."""
    x = np.array([0.0, 0.5, 1.0])
    for theta in (np.array([1, 2]), [1, 2], np.array([1, 2], dtype=np.float32)):
        found = probe(model, x, params=theta)
        np.testing.assert_allclose(found.jacobian, [[1, 0], [2.718282, 1.359141], [7.389056, 7.389056]], rtol=1e-6)
        np.testing.assert_allclose(found.jacobian, jacobian([1.0, 2.0], x), rtol=1e-15)


def test_one_input_one_reading_three_parameters():
    """Case C19."""
    found = probe(lambda p, x: p["a"] + 2 * p["b"] + p["c"] * x[0], [4.0], params={"a": 1, "b": 2, "c": 3})
    np.testing.assert_allclose(found.jacobian, [[1.0, 2.0, 4.0]], rtol=1e-14)
    assert found.names == found.groups == ("a", "b", "c")
    assert found.inputs.tolist() == [0]


def test_the_record_is_complete_and_pickles_without_the_model():
    found = probe(lambda t, x: model(t, x), X, params=[1.0, 0.5])
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, Probed)
    np.testing.assert_array_equal(again.jacobian, found.jacobian)
    assert found.derivative == "complex step"
    assert found.tangents is found.exact is None
    assert found.total == 3
    assert found.kept.tolist() == [0, 1, 2]


def test_nothing_given_is_changed(read_only):
    params = {"a": read_only([1.0, 2.0]), "b": [0.5]}
    bank = read_only(X)
    probe(lambda p, x: p["a"][0] * np.exp(p["a"][1] * x) + p["b"][0], bank, params=params)
    mine = np.array([1.0, 0.5])
    found = probe(lambda t, x: t.__imul__(2.0)[0] * x, X, params=mine)
    assert mine.tolist() == [1.0, 0.5]
    assert found.notes == ("the model writes into its parameters; every call was given a fresh copy",)
    np.testing.assert_allclose(found.jacobian[:, 0], 2 * X, rtol=1e-14)


def written_once(bank):
    bank[0] = 5.0


def doubled(bank):
    bank *= 2.0


def with_another_key(bank):
    bank["more"] = bank["x"]


def deep_inside(bank):
    bank["rest"][1][0] += 1.0


@pytest.mark.parametrize(
    ("write", "bank"),
    [
        (written_once, X),
        (doubled, X),
        (with_another_key, {"x": X}),
        (with_another_key, pd.DataFrame({"x": X})),
        (deep_inside, {"x": X, "rest": (1, [X, X])}),
    ],
)
def test_a_model_that_writes_into_its_bank_is_refused_and_the_bank_is_as_it_was(write, bank):
    given = copy.deepcopy(bank)

    def writing(t, bank):
        write(bank)
        return t[0] * np.arange(3.0)

    def differentiated(t, bank):
        write(bank)
        return np.arange(3.0)[:, None]

    with pytest.raises(ValueError, match=r"the model must not change the bank, but writes into it; yours is as it was"):
        probe(writing, given, params=[1.0])
    with pytest.raises(ValueError, match=r"jac must not change the bank, but writes into it; yours is as it was"):
        probe(lambda t, bank: t[0] * np.arange(3.0), given, params=[1.0], jac=differentiated)
    assert repr(given) == repr(bank)


def test_what_cannot_be_written_is_not_copied():
    bank = np.broadcast_to(X, (1000, 3))
    seen = []
    probe(lambda t, x: seen.append(x is bank) or t[0] * x[0], bank, params=[1.0])
    assert all(seen)


def test_a_model_that_returns_the_same_array_again_is_read_in_time():
    shared = np.zeros(3)

    def filling(t, x):
        np.multiply(float(t[0]), x, out=shared)
        return shared

    np.testing.assert_allclose(probe(filling, X, params=[2.0]).jacobian[:, 0], X, rtol=1e-12)


class TestJacobianGiven:
    def test_is_taken_as_it_is(self):
        found = probe(model, X, params=[1.0, 0.5], jac=jacobian)
        np.testing.assert_array_equal(found.jacobian, jacobian([1.0, 0.5], X))
        assert found.derivative == "given"
        assert found.error is None
        np.testing.assert_array_equal(found.bound, np.finfo(float).eps * np.abs(found.jacobian))

    def test_may_be_nested_like_the_parameters(self):
        found = probe(
            lambda p, x: x[:, None] * p["w"] + p["b"],
            X,
            params={"w": np.array([1.0, 2.0]), "b": 0.5},
            jac=lambda p, x: {"w": x[:, None, None] * np.eye(2), "b": np.ones((3, 2))},
        )
        expected = np.concatenate([np.kron(X[:, None], np.eye(2)), np.ones((6, 1))], axis=1)
        np.testing.assert_array_equal(found.jacobian, expected)

    def test_exact_entries_are_kept(self):
        found = probe(lambda t, x: t[0] * x, X, params=[2.0], jac=lambda t, x: [[Fraction(1)], [2], [3]])
        assert found.exact.tolist() == [[1], [2], [3]]
        assert found.jacobian.dtype == np.float64
        whole = probe(lambda t, x: t[0] * x, X, params=[2.0], jac=lambda t, x: np.array([[1], [2], [3]]))
        assert whole.exact.tolist() == [[1], [2], [3]]

    def test_floats_among_fractions_are_not_exact(self):
        found = probe(lambda t, x: t[0] * x, X, params=[2.0], jac=lambda t, x: [[Fraction(1)], [2.0], [3]])
        assert found.exact is None

    def test_of_complex_readings_is_split_like_them(self):
        found = probe(
            lambda t, x: np.exp(1j * t[0] * x),
            X,
            params=[0.5],
            jac=lambda t, x: (1j * x * np.exp(1j * t[0] * x))[:, None],
        )
        np.testing.assert_allclose(found.jacobian[:, 0], [*(-X * np.sin(X / 2)), *(X * np.cos(X / 2))])

    @pytest.mark.parametrize("accuracy", [1e-6, 1e-8, 1e-10])
    def test_carries_what_is_between_it_and_the_model_as_its_error(self, accuracy):
        x, wrong = np.linspace(0.1, 2.0, 40), np.random.default_rng(1).normal(size=(40, 2))
        found = probe(model, x, params=[1.0, 0.5], jac=lambda t, x: jacobian(t, x) * (1.0 + accuracy * wrong))
        assert (np.abs(found.jacobian - jacobian([1.0, 0.5], x)) <= found.bound).all()
        assert found.bound.max() < 100.0 * accuracy * np.abs(found.jacobian).max()
        assert "jac agrees with differences of the model only to" in found.notes[0]

    def test_in_short_floats_is_known_to_their_rounding(self):
        short = probe(model, X, params=[1.0, 0.5], jac=lambda t, x: jacobian(t, x).astype(np.float32))
        stored = probe(Held(jacobian([1.0, 0.5], X).astype(np.float32).astype(np.float64)[:, :2]), X)
        for found in (short, stored):
            assert (np.abs(found.jacobian - jacobian([1.0, 0.5], X)) <= found.bound).all()
            assert found.notes
        assert probe(Held([[1.0, 2.5], [3.0, 0.25]]), X).error is None

    def test_that_contradicts_the_model_is_refused(self):
        with pytest.raises(
            ValueError,
            match=r"jac must be the derivative of the model; along .* reading 0 changes by 1\.5, jac says 3",
        ):
            probe(lambda t, x: t[0] * x, X, params=[2.0], jac=lambda t, x: 2 * x[:, None])

    def test_of_a_noisy_or_kinked_model_is_accepted(self):
        probe(lambda t, x: np.round(t[0] * x, 3), X, params=[2.0], jac=lambda t, x: x[:, None])
        probe(lambda t, x: np.maximum(t[0], 0.0) * x, X, params=[0.0], jac=lambda t, x: x[:, None])

    @pytest.mark.parametrize(
        ("jac", "kind", "message"),
        [
            (
                lambda t, x: np.ones((2, 2)),
                ValueError,
                r"jac must return shape \(3, 2\) for theta, readings first; got \(2, 2\)",
            ),
            (lambda t, x: {"a": x}, ValueError, "jac must return .* nested like params; got"),
            (lambda t, x: [["a", "b"]] * 3, TypeError, "jac must return numbers; got dtype <U1"),
            (lambda t, x: [[1.0, None]] * 3, TypeError, "jac must return real numbers"),
        ],
    )
    def test_of_the_wrong_kind_is_refused(self, jac, kind, message):
        with pytest.raises(kind, match=message):
            probe(model, X, params=np.array([1.0, 0.5]), jac=jac)


class TestModelsWithAJacobian:
    def test_are_exact(self):
        found = probe(Evaluated([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), X)
        assert found.derivative == "exact"
        assert found.names == ("a", "b")
        np.testing.assert_array_equal(found.readings, 2 * X)

    def test_may_have_no_readings(self):
        found = probe(Held([[1, 2], [3, 4]]), X)
        assert np.isnan(found.readings).all()
        assert found.notes == ("the model gives no readings, only derivatives",)
        assert found.exact.tolist() == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("argument", ["params", "jac"])
    def test_take_neither_parameters_nor_derivatives(self, argument):
        value = {"params": [1.0], "jac": jacobian}[argument]
        with pytest.raises(ValueError, match=f"{argument} must be left out: Held has its own; got "):
            probe(Held(np.eye(2)), X, **{argument: value})


class TestReadings:
    def test_complex_ones_count_twice(self):
        found = probe(lambda t, x: np.exp(1j * t[0] * x), X, params=[0.5])
        assert found.notes == ("complex readings: 3 real parts, then 3 imaginary parts",)
        assert found.inputs.tolist() == [0, 1, 2, 0, 1, 2]
        np.testing.assert_allclose(found.jacobian[:, 0], [*(-X * np.sin(X / 2)), *(X * np.cos(X / 2))], rtol=1e-12)

    def test_of_a_data_frame(self):
        frame = pd.DataFrame({"u": X, "v": X**2})
        found = probe(lambda p, d: p["a"] * d["u"] + p["b"] * d["v"], frame, params=pd.Series({"a": 1, "b": 2}))
        np.testing.assert_allclose(found.jacobian, frame.to_numpy(), rtol=1e-14)
        assert found.names == ("a", "b")

    @pytest.mark.parametrize("with_jac", [False, True])
    def test_that_are_nan_are_named_or_left_out(self, with_jac):
        """Case C17."""
        jac = (lambda t, x: [[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]]) if with_jac else None
        hole = 0.0 if with_jac else np.nan

        def holed(t, x):
            return np.stack([t[0], hole * t[0], t[1]])

        with pytest.raises(
            ValueError, match=r"in row 1 \(input 1\) is nan; nan_policy='omit' of estim\.sensitivity leaves"
        ):
            probe(holed, X, params=[1.0, 1.0], jac=jac)
        found = probe(holed, X, params=[1.0, 1.0], jac=jac, nan_policy="omit")
        np.testing.assert_allclose(found.jacobian, np.eye(2), atol=1e-14)
        assert found.kept.tolist() == found.inputs.tolist() == [0, 2]
        assert found.total == 3
        assert found.notes == ("1 of 3 readings are not finite and were left out",)

    def test_none_of_which_is_finite_are_refused(self):
        with pytest.raises(ValueError, match="readings and derivatives must be finite; none of 3 is"):
            probe(lambda t, x: t[0] * x * np.nan, X, params=[1.0], nan_policy="omit")

    def test_belong_to_the_inputs_given(self):
        found = probe(lambda t, x: np.array([t[0], np.nan, t[0]]), X, params=[1.0], inputs=[5, 6, 7], nan_policy="omit")
        assert found.inputs.tolist() == [5, 7]

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ([0, 0], r"inputs must be whole numbers, one for each of the 3 readings; got dtype int64, shape \(2,\)"),
            ([0.5, 1, 2], "got dtype float64"),
            ([0, -1, 2], "inputs must be nonnegative; got -1"),
        ],
    )
    def test_belong_to_one_input_each(self, inputs, message):
        with pytest.raises(ValueError, match=message):
            probe(lambda t, x: t[0] * x, X, params=[1.0], inputs=inputs)


class TestDeterminism:
    def test_a_random_model_is_refused_with_how_much(self):
        rng = np.random.default_rng(0)
        with pytest.raises(
            ValueError,
            match=r"must be deterministic; two calls .* differ by up to 0\.\d+ \(reading \d: .* random state",
        ):
            probe(lambda t, x: t[0] * x + rng.uniform(size=3), X, params=[1.0])

    def test_differences_of_the_order_of_a_sum_go_into_the_error(self):
        toggle = iter([0.0, 1e-13] * 10_000)
        found = probe(lambda t, x: t[0] * x + next(toggle), X, params=[1.0])
        assert found.notes[0] == "the model is not deterministic to the last bit: two calls differ by up to 9.99e-14"
        assert (np.abs(found.jacobian[:, 0] - X) <= found.error[:, 0]).all()

    def test_a_changing_number_of_readings_is_refused(self):
        sizes = iter(range(1, 100))
        with pytest.raises(ValueError, match="must always return the same number of readings; got 1, then 2"):
            probe(lambda t, x: np.ones(next(sizes)), X, params=[1.0])


class TestRefusals:
    def test_a_bank_is_refused_with_the_input_that_caused_it(self):
        with pytest.raises(
            ValueError,
            match=r"the model raised ValueError\('math domain error'\) for this bank; input 2 is the first",
        ):
            probe(lambda t, x: [t[0] * math.sqrt(v) for v in x], [1.0, 2.0, -3.0, -4.0], params=[1.0])

    def test_a_function_of_other_arguments_is_told_how_it_is_called(self):
        with pytest.raises(ValueError, match=r"as it is called with two arguments, model\(params, bank\)"):
            probe(lambda x, a, b: a + b * x, np.ones(3), params=[1.0, 2.0])

    def test_a_key_that_params_do_not_have_is_no_fault_of_the_bank(self):
        params = {"a": 1.0, "rates": [{"fast": 2.0}, {"slow": 3.0}]}
        with pytest.raises(
            ValueError, match=r"^the model raised KeyError\('b'\): params has no 'b'; it has 'a', 'rates'$"
        ):
            probe(lambda p, x: p["a"] * x + p["b"], X, params=params)
        expected = r"^the model raised KeyError\('fast'\): params\['rates'\]\[1\] has no 'fast'; it has 'slow'$"
        with pytest.raises(ValueError, match=expected):
            probe(lambda p, x: p["rates"][1]["fast"] * x, X, params=params)
        with pytest.raises(ValueError, match=r"^jac raised KeyError\('b'\): params has no 'b'; it has 'a'$"):
            probe(lambda p, x: p["a"] * x, X, params={"a": 1.0}, jac=lambda p, x: p["b"] * x[:, None])
        # Of the bank, or one that the model has seen to.
        with pytest.raises(ValueError, match=r"^the model raised KeyError\('b'\) for this bank$"):
            probe(lambda p, bank: p["a"] * bank["b"], {"x": X}, params={"a": 1.0})
        with pytest.raises(ValueError, match=r"^the model raised KeyError\('y'\) for this bank$"):
            probe(lambda p, bank: [p[k] if k in p else bank[k] for k in "axy"], {"x": 1.0}, params={"a": 1.0})

    @given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
    def test_the_first_culprit_is_named_whoever_else_is_one(self, case):
        count, bad = case

        def picky(t, x):
            if bad & set(x):
                raise KeyError("bad")
            return [float(v) for v in x]

        expected = "it refuses every input on its own, too, so no single one is the cause"
        if len(bad) < count:
            expected = f"input {min(bad)} is the first that it also refuses on its own"
        with pytest.raises(ValueError, match=expected):
            probe(picky, list(range(count)), params=[1.0])

    def test_inputs_that_fail_together_only_are_said_to(self):
        def picky(t, x):
            if len(x) > 1:
                raise ValueError("too many")
            return x

        with pytest.raises(ValueError, match=r"too many.*; it accepts every input of the bank on its own"):
            probe(picky, X, params=[1.0])

    def test_of_a_table_its_columns_are_shown(self):
        with pytest.raises(
            ValueError,
            match=r"KeyError\('q'\) .*every row on its own, too, so no single one is the cause; the columns are \[",
        ):
            probe(lambda p, d: p["a"] * d["q"], pd.DataFrame({"u": X}), params={"a": 1.0})

    @pytest.mark.parametrize(
        ("arguments", "kind", "message"),
        [
            ((model, X, None), TypeError, "params must be given with a callable model; got None"),
            ((model, [], [1.0, 2.0]), ValueError, r"bank must hold at least one input; got \[\]"),
            ((model, X[:0], [1.0, 2.0]), ValueError, "bank must hold at least one input"),
            ((lambda t, x: [], X, [1.0]), ValueError, r"the model must return at least one reading; got \[\]"),
            ((lambda t, x: None, X, [1.0]), TypeError, "the model must return readings that are numbers; got None"),
            ((np.eye(3), X, None), TypeError, "got ndarray; for a matrix use Sensitivity.from_jacobian"),
            ((3, X, None), TypeError, "model must be a callable .* or a fitted statsmodels result; got int"),
        ],
    )
    def test_name_argument_rule_and_value(self, arguments, kind, message):
        evaluate, bank, params = arguments
        with pytest.raises(kind, match=message):
            probe(evaluate, bank, params=params)

    def test_nan_policy_is_one_of_two(self):
        with pytest.raises(ValueError, match="nan_policy must be 'raise' or 'omit'; got 'propagate'"):
            probe(model, X, params=[1.0, 2.0], nan_policy="propagate")


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_permuting_inputs_or_parameters_permutes_the_result(inputs, parameters):
    values = {"a": 1.2, "b": -0.4, "c": 2.0}

    def curve(p, x):
        return p["a"] * np.exp(p["b"] * x) + np.sin(p["c"] * x)

    plain = probe(curve, X, params=values)
    names = [list(values)[i] for i in parameters]
    moved = probe(curve, X[inputs], params={name: values[name] for name in names})
    assert list(moved.names) == names
    np.testing.assert_allclose(moved.jacobian, plain.jacobian[np.ix_(inputs, parameters)], rtol=1e-14)
