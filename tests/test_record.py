import copy
import dataclasses
import json
import math
import pickle
import pydoc
import re

import numpy as np
import pytest

import estim
from estim.record import Record


def exact_at_the_lower_end():
    """NaN relative figures, an infinite linear prediction."""
    return estim.recover(estim.MeanResponse(lambda t: t**2, upper=1.0), 0.0, [0.1, 1e-12], method="exact")


def simulated_with_notes():
    response = estim.MeanResponse(lambda t: 1 + 1e-6 * t, upper=1.0, name='quoted "µ"\n')
    return estim.recover(response, 0.5, [1e-10, 1e-7], trials=10, rng=1)


def single_level_of_integers():
    return estim.recover(estim.MeanResponse(lambda t: t), np.int64(1), 1, trials=np.int64(10), rng=0)


def single_level_of_short_floats():
    return estim.recover(estim.MeanResponse(lambda t: t), np.float32(0.1), np.float32(0.3), method="exact")


each = pytest.mark.parametrize(
    "make",
    [exact_at_the_lower_end, simulated_with_notes, single_level_of_integers, single_level_of_short_floats],
    ids=lambda make: make.__name__,
)


def identical(one, other):
    """Whether all fields agree in type, kind of number, shape and bits."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert type(a) is type(b), field.name
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), field.name
        else:
            assert a == b or (a != a and b != b), field.name
    return True


@each
def test_a_record_survives_json_dict_pickle_and_copy(make):
    record = make()
    text = record.to_json()
    for twin in (
        type(record).from_json(text),
        type(record).from_json(record.to_json(indent=2)),
        type(record).from_dict(record.to_dict()),
        type(record).from_dict(json.loads(json.dumps(record.to_dict()))),
        pickle.loads(pickle.dumps(record)),
        copy.copy(record),
        copy.deepcopy(record),
    ):
        assert identical(record, twin)
        assert twin == record
        assert hash(twin) == hash(record)
        assert twin.to_json() == text
        assert repr(twin) == repr(record)


@each
def test_the_json_is_strict(make):
    def refuse(constant):
        raise AssertionError(constant)

    json.loads(make().to_json(), parse_constant=refuse)


def test_infinities_and_nan_are_strings_in_the_dict():
    fields = exact_at_the_lower_end().to_dict()
    assert fields["relative_rmse"] == ["nan", "nan"]
    assert fields["linear_rmse"] == ["inf", "inf"]
    assert isinstance(fields["rmse"], list)
    assert isinstance(fields["notes"], list)


def test_negative_infinity_and_every_bit_of_a_float_survive():
    values = np.array([-math.inf, math.inf, math.nan, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3])
    record = dataclasses.replace(exact_at_the_lower_end(), rmse=values)
    back = estim.Recovery.from_json(record.to_json())
    assert np.array_equal(back.rmse, values, equal_nan=True)
    assert np.signbit(back.rmse[4])


def test_an_empty_array_and_empty_notes_keep_their_types():
    record = dataclasses.replace(exact_at_the_lower_end(), rmse=np.zeros(0), notes=())
    back = estim.Recovery.from_json(record.to_json())
    assert back.rmse.dtype == np.float64
    assert back.notes == ()


def test_an_array_without_entries_keeps_its_shape():
    found = estim.Sensitivity.from_jacobian(np.eye(3)[:, :2], 0.1)
    assert found.noiseless.shape == (0, 3)
    assert identical(found, estim.Sensitivity.from_json(found.to_json()))
    assert identical(found, pickle.loads(pickle.dumps(found)))
    old = found.to_dict() | {"noiseless": [], "known_readout": []}
    assert estim.Sensitivity.from_dict(old).shift([1.0, 0.0]) == found.shift([1.0, 0.0])


@pytest.mark.parametrize("shape", [[2, 3], [-1, 0], [2.0, 0], "0", None, []])
def test_no_entries_are_made_up_for_a_shape(shape):
    fields = estim.Sensitivity.from_jacobian(np.eye(3), 1.0).to_dict()
    with pytest.raises(ValueError, match="shape must be that of an array without entries, such as"):
        estim.Sensitivity.from_dict({**fields, "noiseless": {"shape": shape}})


def test_records_that_differ_in_one_bit_are_unequal():
    record = exact_at_the_lower_end()
    other = dataclasses.replace(record, rmse=np.nextafter(record.rmse, 1.0))
    assert record != other
    assert record != dataclasses.replace(record, method="monte-carlo")
    assert record != record.to_dict()
    assert record != 3


def test_a_record_is_frozen():
    record = exact_at_the_lower_end()
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.theta = 3.0


def test_a_missing_or_unknown_field_is_named():
    fields = exact_at_the_lower_end().to_dict()
    del fields["rmse"]
    fields["rsme"] = [1.0]
    with pytest.raises(ValueError, match=r"^Recovery lacks rmse and has no field rsme$"):
        estim.Recovery.from_dict(fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theta", "a"),
        ("theta", None),
        ("sigma", [1.0, "a"]),
        ("sigma", [[1.0], [1.0, 2.0]]),
        ("trials", 2.5),
        ("trials", "2"),
        ("trials", True),
        ("method", 3),
        ("notes", "one"),
        ("notes", None),
        ("notes", [True]),
        ("sigma", None),
        ("sigma", 0.1),
        ("sigma", [0.1, None]),
        ("sigma", {"size": 3}),
        ("theta", 10**400),
        ("bias", [1.0, 10**400]),
    ],
)
def test_a_field_that_is_not_of_its_kind_is_named(name, value):
    with pytest.raises(ValueError, match=rf"^Recovery: {name} cannot be read from "):
        estim.Recovery.from_dict({**exact_at_the_lower_end().to_dict(), name: value})


@pytest.mark.parametrize(("name", "value"), [("shape", [3]), ("shape", [3, "2"]), ("digits", "20"), ("lower", 1)])
def test_so_is_one_of_a_spectrum(name, value):
    fields = estim.spectrum([[1, 2], [3, 4]]).to_dict()
    with pytest.raises((TypeError, ValueError)):
        estim.Spectrum.from_dict({**fields, name: value})


def test_whole_numbers_are_not_cut_off():
    found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0).to_dict()
    with pytest.raises(ValueError, match=r"^Sensitivity: inputs cannot be read from \[0\.5, 1\]: its entries must be"):
        estim.Sensitivity.from_dict({**found, "inputs": [0.5, 1]})


def test_a_record_written_before_a_field_was_added_is_read():
    found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0)
    fields = found.to_dict()
    del fields["input_names"]
    assert estim.Sensitivity.from_dict(fields) == found


def test_text_that_is_no_json_is_a_value_error():
    with pytest.raises(ValueError, match="Expecting"):
        estim.Recovery.from_json("{")


def test_the_text_of_a_long_record_is_short():
    sigma = np.geomspace(1e-3, 1.0, 1000)
    record = estim.recover(estim.MeanResponse(np.tanh, upper=2.0), 1.0, sigma, method="exact")
    assert len(repr(record)) < 2000
    assert "..." in repr(record)
    assert repr(record).startswith("Recovery(theta=1.0, sigma=array([")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Pair(Record):
    name: str
    value: float
    count: int
    values: np.ndarray
    words: tuple[str, ...]


def test_any_record_of_these_kinds_round_trips():
    pair = _Pair("a", -math.inf, 3, np.array([[1.0, math.nan], [2.0, 3.0]])[0], ("x", "inf"))
    assert identical(pair, _Pair.from_json(pair.to_json()))


def test_help_shows_what_each_field_means():
    import estim

    for record in (estim.Recovery, estim.Sensitivity, estim.Spectrum):
        assert "Attributes\n----------" in record.__doc__
    assert "linear_limit : float\n    The sigma beyond which" in estim.Recovery.__doc__
    assert "UNRESOLVED\n" in estim.Status.__doc__
    # Of what it inherits, too, and once.
    assert estim.ModelChange.__doc__.count("predicted : float\n") == 1
    assert estim.ModelChange.__doc__.count("Attributes\n") == 1


def test_help_shows_no_private_method():
    shown = pydoc.plain(pydoc.render_doc(estim.Sensitivity))
    assert "to_frame" in shown
    assert not re.search(r"\| {2}_[a-z]\w*\(", shown.replace("_repr_html_", ""))


def test_print_shows_the_summary():
    found = exact_at_the_lower_end()
    assert str(found) == str(found.summary())
    interval = estim.confidence_interval(estim.MeanResponse(lambda t: t), 1.0, 1.0)
    assert str(interval) == repr(interval)  # it has none


def test_a_notebook_shows_the_summary():
    jacobian = [[1.0, 0.0], [0.0, 1e-3], [1.0, 1.0]]
    seen = estim.Sensitivity.from_jacobian(jacobian, 0.1, names=["p<q", "rate"])
    assert "rate" in seen._repr_html_()
    assert "p&lt;q" in seen._repr_html_()
    assert "p<q" not in seen._repr_html_()
    spectrum = estim.spectrum(jacobian, digits=20)
    assert spectrum._repr_html_().startswith("<pre>")
    assert spectrum.summary().splitlines()[0] in spectrum._repr_html_()
    interval = estim.confidence_interval(estim.MeanResponse(lambda t: t), [1.0], 1.0)
    assert interval._repr_html_() is None  # which shows what repr says
