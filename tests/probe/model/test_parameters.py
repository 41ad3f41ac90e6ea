from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estim.probe.model.given import columns_of
from estim.probe.model.parameters import read_parameters

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
KEYS = st.text("abcdef", min_size=1, max_size=3)
LEAVES = st.one_of(
    st.floats(-1e9, 1e9),
    st.integers(-1000, 1000),
    SHAPES.flatmap(
        lambda shape: st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=shape))
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


def entries(tree):
    if isinstance(tree, dict):
        return [number for item in tree.values() for number in entries(item)]
    if isinstance(tree, list | tuple):
        return [number for item in tree for number in entries(item)]
    return np.ravel(tree).tolist()


@given(TREES)
def test_rebuilding_gives_the_structure_back(tree):
    parameters = read_parameters(tree)
    rebuilt = parameters.rebuild(parameters.values)
    assert entries(rebuilt) == entries(tree) == parameters.values.tolist()
    assert str(type(rebuilt)) == str(type(tree)) or np.isscalar(tree)
    assert len(set(parameters.names)) == len(parameters.names) == len(parameters.groups)
    assert read_parameters(rebuilt).names == parameters.names


def test_names_and_groups_come_from_keys():
    tree = {"layer1": {"weight": np.zeros((1, 2)), "bias": 0.5}, "rates": [1, np.ones(2)], "k": 3}
    parameters = read_parameters(tree)
    assert parameters.names == (
        "layer1.weight[0, 0]", "layer1.weight[0, 1]", "layer1.bias", "rates[0]", "rates[1][0]", "rates[1][1]", "k",
    )  # fmt: skip
    assert parameters.groups == ("layer1", "layer1", "layer1", "rates", "rates", "rates", "k")


@pytest.mark.parametrize("params", [np.arange(3), [0, 1, 2], (0.0, 1.0, 2.0), np.arange(3, dtype=np.float32)])
def test_a_vector_is_one_group_named_theta(params):
    parameters = read_parameters(params)
    assert parameters.names == ("theta[0]", "theta[1]", "theta[2]")
    assert parameters.groups == ("theta",) * 3
    assert parameters.values.dtype == np.float64
    assert parameters.values.tolist() == [0.0, 1.0, 2.0]


def test_a_number_a_fraction_and_a_series():
    assert read_parameters(3).names == ("theta",)
    assert read_parameters({"a": Fraction(1, 4)}).values.tolist() == [0.25]
    series = pd.Series({"a": 1, "b": 2})
    parameters = read_parameters(series)
    assert parameters.names == ("a", "b")
    pd.testing.assert_series_equal(parameters.rebuild(parameters.values), series.astype(float))


def test_kinds_of_containers_survive():
    Pair = namedtuple("Pair", "left right")
    rebuilt = read_parameters(Pair(1, OrderedDict(z=2, y=3)))
    assert rebuilt.names == ("theta[0]", "theta[1].z", "theta[1].y")
    assert rebuilt.rebuild(np.array([4.0, 5.0, 6.0])) == Pair(4.0, {"z": 5.0, "y": 6.0})


def test_the_same_array_twice_is_counted_once_and_said():
    weight = np.arange(6.0).reshape(2, 3)
    parameters = read_parameters({"encoder": weight, "decoder": weight.T, "other": weight.copy()})
    assert len(parameters.values) == 12
    assert parameters.notes == (
        "decoder: 6 of 6 entries share memory with others (such as encoder[0, 0]) and are counted once",
    )
    moved = parameters.rebuild(np.arange(12.0) + 10)
    np.testing.assert_array_equal(moved["encoder"], moved["decoder"].T)
    np.testing.assert_array_equal(moved["other"], np.arange(16.0, 22.0).reshape(2, 3))


def test_overlapping_views_and_broadcast_numbers_are_tied_too():
    base = np.arange(4.0)
    parameters = read_parameters({"a": base[:3], "b": base[1:], "c": np.broadcast_to(7.0, (2, 2))})
    assert parameters.values.tolist() == [0.0, 1.0, 2.0, 3.0, 7.0]
    assert parameters.rebuild(parameters.values)["c"].tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_equal_numbers_are_not_ties():
    assert len(read_parameters({"a": 1.0, "b": 1.0, "c": [1.0, 1.0]}).values) == 4


def test_columns_of_ties_are_added_up():
    shared = np.array([1.0, 2.0])
    parameters = read_parameters({"a": shared, "b": shared[::-1]})
    columns = columns_of({"a": np.array([[1.0, 2.0]]), "b": np.array([[10.0, 20.0]])}, 1, parameters)
    assert columns.tolist() == [[21.0, 12.0]]


def test_names_and_groups_can_be_given():
    parameters = read_parameters([1, 2, 3], names=["a", "b", "c"], groups={"first": ["a"], "rest": ["b", "c"]})
    assert parameters.names == ("a", "b", "c")
    assert parameters.groups == ("first", "rest", "rest")
    assert read_parameters([1, 2], groups=["x", "y"]).groups == ("x", "y")


def test_read_only_and_strided_arrays_are_read_alike(read_only):
    wide = np.arange(12.0).reshape(3, 4)
    expected = wide[::-1, ::2].copy()
    for view in (wide[::-1, ::2], np.asfortranarray(expected), read_only(expected)):
        assert read_parameters(view).values.tolist() == expected.ravel().tolist()


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({}, ValueError, "params must hold at least one parameter; got none"),
        ({"": 1.0}, ValueError, "params must have a name for every entry; got an empty key$"),
        ({"a": {"": 1.0}}, ValueError, "params must have a name for every entry; got an empty key in a$"),
        (pd.Series({"a": 1.0, "": 2.0}), ValueError, "names must not be empty words; got one at place 1"),
        ({"a": []}, ValueError, "params must hold at least one parameter; got none"),
        ({"a": {"b": [1.0, np.inf]}}, ValueError, r"params must be finite; got inf for a\.b\[1\]"),
        (np.array([np.nan]), ValueError, r"params must be finite; got nan for theta\[0\]"),
        ({"mask": np.array([True])}, TypeError, "params must be real numbers.*; got dtype bool for mask"),
        ({"a": 1j}, TypeError, "got dtype complex128 for a"),
        ({"a": "x"}, TypeError, "got dtype <U1 for a"),
        ({"a": None}, TypeError, r"got array\(None, dtype=object\) for a"),
        ({"a": {"b": 1}, "a.b": 2}, ValueError, r"names must be distinct; got 'a\.b' more than once"),
    ],
)
def test_what_is_no_parameter_is_refused(params, kind, message):
    with pytest.raises(kind, match=message):
        read_parameters(params)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"]}, r"names must be a list of one word for each of the 2 parameters; got \['a'\]"),
        ({"names": ["a", "a"]}, "names must be distinct; got 'a' more than once"),
        ({"names": ["a", ""]}, "names must not be empty words; got one at place 1"),
        ({"groups": ["", "g"]}, "groups must not be empty words; got one at place 0"),
        ({"groups": {"": ["theta[0]", "theta[1]"]}}, "groups must have names; got an empty one"),
        ({"groups": ["g"]}, "groups must be a list of one word for each of the 2 parameters"),
        ({"groups": {"g": ["theta[0]"]}}, r"groups must hold every parameter once; missing or unknown: theta\[1\]"),
        (
            {"groups": {"g": ["theta[0]", "theta[1]"], "h": ["theta[1]"]}},
            "groups must hold every parameter once; a name is in two groups",
        ),
    ],
)
def test_names_and_groups_must_fit(options, message):
    with pytest.raises(ValueError, match=message):
        read_parameters([1.0, 2.0], **options)


@pytest.mark.parametrize("given", ["ab", {"a", "b"}, 3, None.__class__, (word for word in "ab")])
@pytest.mark.parametrize("argument", ["names", "groups"])
def test_names_and_groups_are_ordered_lists_of_words(given, argument):
    with pytest.raises(TypeError, match=f"{argument} must be a list of one word for each of the 2 parameters; got "):
        read_parameters([1.0, 2.0], **{argument: given})


@pytest.mark.parametrize("argument", ["names", "groups"])
def test_a_function_of_names_is_no_list(argument):
    with pytest.raises(TypeError, match=rf"^{argument} must be .*: \[function\(name\) for name in names\] is a list$"):
        read_parameters([1.0, 2.0], **{argument: str.upper})


def test_a_dataclass_is_named():
    @dataclass
    class Weights:
        gain: float

    message = (
        r"; got the dataclass Weights for a: vars\(...\) of it is a dict; .*register_dataclass\(Weights\) makes it"
    )
    with pytest.raises(TypeError, match=message):
        read_parameters({"a": Weights(1.0)})
    assert read_parameters({"a": vars(Weights(1.0))}).names == ("a.gain",)


def test_groups_map_to_lists_of_names():
    with pytest.raises(TypeError, match=r"groups must map each group to a list of names; got 1.0 for 'g'"):
        read_parameters([1.0, 2.0], groups={"g": 1.0})


def test_a_table_is_named_by_its_rows_and_columns_and_comes_back_as_one():
    frame = pd.DataFrame({"u": [1.0, 2.0], "v": [3.0, 4.0]}, index=["x", "y"])
    found = read_parameters(frame)
    assert found.names == ("x.u", "x.v", "y.u", "y.v")
    assert found.groups == ("u", "v", "u", "v")
    pd.testing.assert_frame_equal(found.rebuild(found.values), frame)
    assert read_parameters({"w": frame}).names[0] == "w[x, u]"


def test_a_table_of_words_is_refused():
    with pytest.raises(TypeError, match=r"params must be real numbers, .* for theta"):
        read_parameters(pd.DataFrame({"u": ["a"]}))
