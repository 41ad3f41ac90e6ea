import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import estim
from estim.probe.model.same_batches import same_batches

X = np.linspace(0.1, 2.0, 24)
PARAMS = {"a": 1.0, "b": 0.5}
OTHER = r"^bank must give the same batches each time, in the same order; batch \d is not what it was: use shuffle=False"


def decay(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def shuffled(size=4):
    """Return batches of the same inputs in another order each time."""
    rng = np.random.default_rng(0)
    return estim.Batches(lambda: np.split(rng.permutation(X), len(X) // size))


@pytest.mark.parametrize(
    "ask",
    [
        lambda bank: estim.sensitivity(decay, bank, 0.1, params=PARAMS),
        lambda bank: estim.linearity(decay, bank, {"a": 0.1}, 0.1, params=PARAMS),
        lambda bank: estim.response_along(decay, bank, {"a": 1.0}, params=PARAMS, upper=1.0),
        lambda bank: estim.judge_models(PARAMS, PARAMS | {"a": 1.1}, bank, 0.1, model=decay),
        lambda bank: estim.recover_parameters(decay, bank, 0.1, params=PARAMS, trials=10),
    ],
    ids=["sensitivity", "linearity", "response_along", "judge_models", "recover_parameters"],
)
@pytest.mark.parametrize("size", [1, 4])
def test_a_shuffled_bank_is_refused(ask, size):
    with pytest.raises(ValueError, match=OTHER):
        ask(shuffled(size))


def test_more_or_fewer_batches_are_refused():
    counts = iter([3, 2, 4])
    bank = same_batches(estim.Batches(lambda: np.split(X, 4)[: next(counts)]))
    list(bank)
    for count in ("2", "more"):
        with pytest.raises(
            ValueError, match=rf"^bank must give the same batches each time; got 3 of them, then {count}$"
        ):
            list(bank)


ONE, TWO = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [["it", "is"], ["so"], ["no"]]
TABLE = pd.DataFrame({"dose": [1.0, 2.0], "drug": ["a", "b"]})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ONE, ONE[[1, 0, 2]]),
        (ONE, ONE[:, ::-1]),
        (ONE, ONE.reshape(2, 3)),
        (ONE + 1j, ONE + 1.01j),
        (np.arange(1000), np.arange(1000)[np.r_[1, 0, 2:1000]]),
        ({"ids": ONE, "mask": ONE > 2.0}, {"ids": ONE, "mask": ONE > 1.0}),
        ((ONE, 3), (ONE, 4)),
        (TWO, TWO[::-1]),
        (np.array(["a", "b"]), np.array(["b", "a"])),
        ([np.ones((2, 3)), np.ones((3, 3))], [np.ones((3, 3)), np.ones((2, 3))]),
        (np.array([Fraction(1, 3), 2]), np.array([Fraction(1, 2), 2])),
        (TABLE, TABLE.assign(drug=["b", "a"])),
        ("it is so", "it is not so"),
    ],
)  # fmt: skip
def test_batches_of_all_kinds_are_told_apart(first, second):
    given = iter([first, first, second])
    bank = same_batches(estim.Batches(lambda: [next(given)]))
    assert len(list(bank)) == len(list(bank)) == 1
    with pytest.raises(ValueError, match=OTHER):
        list(bank)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_batches_computed_anew_may_differ_in_the_last_digit(dtype):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(40, 300)).astype(dtype)
    values[3, 5] = np.nan
    other = values * (1.0 + np.finfo(dtype).eps * rng.choice([-1.0, 0.0, 1.0], values.shape)).astype(dtype)
    given = iter([values, other])
    bank = same_batches(estim.Batches(lambda: [next(given)]))
    list(bank)
    np.testing.assert_array_equal(next(iter(bank)), other)


def test_other_batches_in_a_later_call_are_none_of_its_business():
    held = [X[:4]]
    bank = estim.Batches(lambda: held)
    assert estim.sensitivity(decay, bank, 0.1, params=PARAMS).readings == 4
    held.append(X[4:])
    assert estim.sensitivity(decay, bank, 0.1, params=PARAMS).readings == len(X)


def test_a_bank_gone_through_often_costs_no_more_than_itself():
    bank = estim.Batches(lambda: np.split(X, 6))

    def seconds(given):
        start = time.perf_counter()
        for _ in range(3000):
            list(given)
        return time.perf_counter() - start

    assert seconds(same_batches(bank)) < 3.0 * seconds(bank)
