"""Every argument given junk: an error that names it, never one from inside a library."""

import math

import numpy as np
import pytest

import estim

X = np.linspace(0.1, 2.0, 5)
PARAMS = {"a": 1.0, "b": 0.5}

JUNK = {
    "text": "x", "digits in text": "1e400", "nan": math.nan, "inf": math.inf, "empty": [], "beyond floats": 10**400,
    "negative": -1, "matrix": np.ones((3, 3)), "complex": 1j, "complex vector": np.ones(2) * 1j, "bytes": b"x",
    "object array": np.array(["a", None], dtype=object), "object": object(), "mapping": {"a": "x"}, "set": {1, 2},
    "unknown name": {"q": 1.0}, "nan within": [math.nan, 1.0], "function": lambda *given: None, "type": float,
    "ragged": [[1], [1, 2]], "number": 2.5, "none": None,
}  # fmt: skip


def model(p, x):
    return p["a"] * np.exp(-p["b"] * x)


def probe(**changes):
    return estim.sensitivity(model, X, **{"sigma": 0.1, "params": PARAMS, **changes})


def matrix(**changes):
    return estim.Sensitivity.from_jacobian(**{"jacobian": np.eye(2), "sigma": 0.1, **changes})


def along(**changes):
    return estim.response_along(model, X, **{"direction": [1, 0], "params": PARAMS, "upper": 0.1, **changes})


def linear(**changes):
    return estim.linearity(model, X, **{"delta": [1, 0], "sigma": 0.1, "params": PARAMS, **changes})


FOUND = matrix()
SHARED = ["repeats", "repeat_correlation", "smallest_change", "names", "groups", "inputs", "rtol", "atol", "digits",
          "nan_policy", "sigma", "symmetry"]  # fmt: skip
CALLS = [
    *((probe, argument) for argument in ["params", "jac", "workers", "rng", *SHARED]),
    *((matrix, argument) for argument in ["jacobian", "jac_error", "parameters", *SHARED]),
    *((along, argument) for argument in ["direction", "lower", "upper", "sigma", "names"]),
    *((linear, argument) for argument in ["delta", "sigma", "names"]),
    (lambda **given: FOUND.rank(**given), "rtol"),
    (lambda **given: FOUND.floor(**given), "functional"),
    (lambda **given: FOUND.shift(**given), "delta"),
    (lambda **given: FOUND.power(**given), "delta"),
    (lambda **given: FOUND.power([1, 1], **given), "confidence_level"),
    (lambda **given: FOUND.minimum_detectable(**given), "direction"),
    (lambda **given: FOUND.minimum_detectable([1, 1], **given), "power"),
    (lambda **given: FOUND.minimum_detectable([1, 1], **given), "confidence_level"),
]


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize(("call", "argument"), CALLS)
def test_junk_is_refused_by_the_name_of_the_argument(call, argument, junk):
    if argument == "workers" and callable(junk):
        pytest.skip("a map of the user's own, with errors of its own")
    said = _refusal(call, argument, junk)
    assert argument in said or "the model raised" in said or "digits need" in said
    assert len(said) < 500


def _refusal(call, argument, junk):
    """Return what the error says, or the name of the argument where there is no error."""
    try:
        call(**{argument: junk})
    except (TypeError, ValueError) as error:
        return str(error)
    return argument


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_a_record_comes_from_its_own_json_only(junk):
    for read in (estim.Sensitivity.from_json, estim.Sensitivity.from_dict):
        with pytest.raises((TypeError, ValueError), match=r"^Sensitivity (must come from|lacks)"):
            read(junk)


def test_missing_fields_are_named_once():
    with pytest.raises(ValueError, match=r"^Sensitivity lacks names, groups, ") as caught:
        estim.Sensitivity.from_json("{}")
    assert str(caught.value).count(" groups,") == 1


def test_numbers_of_inputs_take_no_room_beyond_the_readings():
    with pytest.raises(
        ValueError, match=r"inputs must number the inputs from 0; got 1000000000000 for 5 readings: .*ique"
    ):
        probe(inputs=[0, 1, 2, 3, 10**12])


def test_what_a_jacobian_raises_is_said():
    class Broken:
        parameters = PARAMS

        def jacobian(self, bank):
            raise KeyError("x")

    with pytest.raises(ValueError, match=r"Broken\.jacobian raised KeyError\('x'\) for this bank"):
        estim.sensitivity(Broken(), X, 0.1)
    with pytest.raises(ValueError, match=r"jac raised KeyError\('x'\) for this bank"):
        probe(jac=Broken().jacobian.__func__)
    Broken.jacobian = lambda self, bank: 3
    with pytest.raises(TypeError, match=r"jacobian\(bank\) must return \(readings, P\) or be nested .*; got 3"):
        estim.sensitivity(Broken(), X, 0.1)
    Broken.jacobian = lambda self, bank: {"a": X, "b": np.ones(5)}
    assert estim.sensitivity(Broken(), X, 0.1).resolved == 2


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (lambda run, items: None, "one result for each of 2 calls; it yielded 0"),
        (lambda run, items: [], "one result for each of 2 calls; it yielded 0"),
        (lambda run, items: list(map(run, items))[:-1], "one result for each of 2 calls; it yielded 1"),
        (lambda run, items: 2 * list(map(run, items)), "one result for each of 2 calls; it yielded 4"),
        (lambda run, items: iter([1]), "what the function it is given returns; got 1"),
    ],
    ids=["none", "empty", "short", "long", "other"],
)
@pytest.mark.parametrize("analytic", [True, False])
def test_a_map_that_is_none_is_found_out(workers, said, analytic):
    def plain(p, x):
        return [float(p["a"]) * math.exp(-float(p["b"]) * v) for v in x]

    with pytest.raises((TypeError, ValueError), match=f"^workers, a map-like callable, must yield {said}"):
        estim.sensitivity(model if analytic else plain, X, 0.1, params=PARAMS, workers=workers)


RECOVERY = ["sigma", "params", "jac", "bounds", "trials", "rng", "names"]


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("argument", RECOVERY)
def test_recovery_of_parameters_refuses_junk_by_name(argument, junk):
    def recovered(**changes):
        return estim.recover_parameters(model, X, **{"sigma": 0.01, "params": PARAMS, "trials": 5, "rng": 0, **changes})

    said = _refusal(recovered, argument, junk)
    assert argument in said or "the model raised" in said
    assert len(said) < 500


def test_a_bank_that_cannot_be_cut_is_refused_with_what_the_model_said():
    with pytest.raises(ValueError, match=r"^the model raised TypeError.* for this bank$"):
        estim.sensitivity(lambda p, x: p["a"] * x[0], {1, 2}, 0.1, params=PARAMS)
