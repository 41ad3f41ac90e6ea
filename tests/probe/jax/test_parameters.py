import dataclasses
from collections import namedtuple

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import estim  # noqa: E402
from estim.probe.jax import large  # noqa: E402
from estim.probe.jax.parameters import read_tree, vector_of  # noqa: E402
from estim.probe.model.kinds import holds_jax_arrays  # noqa: E402

Affine = namedtuple("Affine", ["weight", "bias"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scale:
    by: jax.Array
    name: str = dataclasses.field(metadata={"static": True}, default="scale")


@pytest.mark.parametrize(
    ("params", "names", "groups"),
    [
        (jnp.ones(2), ("theta[0]", "theta[1]"), ("theta", "theta")),
        (jnp.ones(()), ("theta",), ("theta",)),
        ({"b": jnp.ones(1), "a": jnp.ones((1, 2))}, ("a[0, 0]", "a[0, 1]", "b[0]"), ("a", "a", "b")),
        ([{"w": jnp.ones(1)}, {"w": jnp.ones(1)}], ("theta[0].w[0]", "theta[1].w[0]"), ("theta[0]", "theta[1]")),
        ({"net": [jnp.ones(1), (jnp.ones(()),)]}, ("net[0][0]", "net[1][0]"), ("net", "net")),
        (Affine(jnp.ones((1, 1)), jnp.ones(1)), ("weight[0, 0]", "bias[0]"), ("weight", "bias")),
        ({"s": Scale(jnp.ones(1))}, ("s.by[0]",), ("s",)),
        (
            {"params": {"Dense_0": {"bias": jnp.ones(1)}, "Dense_1": {"bias": jnp.ones(1)}}},
            ("params.Dense_0.bias[0]", "params.Dense_1.bias[0]"),
            ("params.Dense_0", "params.Dense_1"),
        ),
    ],
    ids=["array", "number", "dict", "list", "nested", "namedtuple", "dataclass", "Flax"],
)
def test_names_and_groups_come_from_the_paths(params, names, groups):
    found = vector_of(read_tree(params))
    assert (found.names, found.groups) == (names, groups)


def test_names_are_those_of_the_same_nested_arrays_in_numpy(double):
    weights = {"a": [np.ones(2), np.ones((1, 2))], "b": {"c": np.ones(1)}}
    params = jax.tree_util.tree_map(jnp.asarray, weights)
    bank = np.ones(3)
    sensitivity = estim.sensitivity(lambda p, x: p["a"][0][0] * x, bank, 0.1, params=weights)
    found = estim.sensitivity(lambda p, x: p["a"][0][0] * jnp.asarray(x), bank, 0.1, params=params)
    assert found.names == sensitivity.names


def test_the_function_gets_the_pytree_that_was_given():
    def checked(params, bank):
        assert isinstance(params["affine"], Affine)
        assert isinstance(params["scale"], Scale)
        assert params["scale"].name == "scale"
        assert params["kind"] == "tanh"
        assert params["steps"].dtype == jnp.int32
        assert isinstance(params["affine"].weight, jax.Array)
        return params["scale"].by * (bank * params["affine"].weight + params["affine"].bias) * params["steps"]

    params = {
        "affine": Affine(jnp.ones(1), jnp.ones(1)), "scale": Scale(jnp.ones(1)), "kind": "tanh",
        "steps": jnp.asarray(3), "flag": jnp.asarray(True), "key": jax.random.key(0), "seed": 7,
    }  # fmt: skip
    found = estim.sensitivity(checked, np.array([1.0, 2.0]), 0.1, params=params)
    assert found.names == ("affine.weight[0]", "affine.bias[0]", "scale.by[0]")
    assert "4 leaves that are not of floating point are held as they are: flag, key, seed, steps" in found.notes


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Variable:
    value: jax.Array


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize(
    ("params", "groups"),
    [
        (jnp.ones(3), ("theta",)),
        ([jnp.ones(3), jnp.ones(3)], ("theta", "theta")),
        ({"a": jnp.ones(3), "b": {"c": jnp.ones(3)}}, ("theta", "b")),
        ({"mlp/~/linear_0": {"b": jnp.ones(3), "w": jnp.ones(3)}}, ("mlp/~/linear_0",) * 2),
        (
            {"params": {"Block_0": {"Dense_0": Affine(jnp.ones(3), jnp.ones(3)), "Dense_1": {"bias": jnp.ones(3)}}}},
            ("params.Block_0.Dense_0", "params.Block_0.Dense_0", "params.Block_0.Dense_1"),
        ),
        ({"net": {"layers": [Affine(jnp.ones(3), jnp.ones(3))] * 2}}, ("net.layers[0]",) * 2 + ("net.layers[1]",) * 2),
        ({"lin": {"kernel": Variable(jnp.ones(3)), "bias": Variable(jnp.ones(3))}}, ("lin", "lin")),
    ],
    ids=["array", "list", "root", "Haiku", "Flax", "Equinox", "nnx"],
)
def test_layers_are_the_paths_without_their_last_key(monkeypatch, dense, params, groups):
    monkeypatch.setattr(large, "DENSE", dense)
    model = lambda p, x: sum(jnp.asarray(x) * leaf for leaf in jax.tree_util.tree_leaves(p))  # noqa: E731
    found = estim.sensitivity(model, np.ones((2, 3), dtype=np.float32), 0.1, params=params, groups="layers")
    assert found.groups == (groups if dense == 0 else tuple(group for group in groups for _ in range(3)))
    message = (
        rf"^groups must be 'layers', one group for each of the {len(groups)} leaves, or a mapping .*; got 'tensors'$"
    )
    with pytest.raises(ValueError, match=message):
        estim.sensitivity(model, np.ones((2, 3), dtype=np.float32), 0.1, params=params, groups="tensors")


def test_groups_and_names_may_be_given():
    params = {"a": {"w": jnp.ones(2), "v": jnp.ones(1)}, "b": jnp.ones(1)}
    assert vector_of(read_tree(params, ["x", "y", "z"]), groups=["x", "y", "z"]).groups == ("x", "y", "y", "z")
    assert read_tree(params, {"in": "a", "out": ["b"]}).groups == ("in", "in", "out")
    each = ["p", "q", "r", "s"]
    assert vector_of(read_tree(params, each), names=["1", "2", "3", "4"], groups=each).groups == tuple(each)
    with pytest.raises(ValueError, match=r"groups must hold every parameter once; b is in none"):
        read_tree(params, {"in": "a"})
    with pytest.raises(ValueError, match=r"groups must have one entry for each of the 3 tensors of parameters; got 2"):
        read_tree(params, ["x", "y"])


def test_the_same_array_in_two_places_is_two_parameters_and_said():
    one = jnp.ones(2)
    found = estim.sensitivity(lambda p, x: (p["a"] + p["b"]).sum() * x, np.ones(2), 0.1, params={"a": one, "b": one})
    assert len(found.names) == 4
    assert "b is the same array as a; as in JAX, the two are two parameters" in found.notes


def test_only_arrays_of_jax_make_a_function_one_of_jax():
    assert holds_jax_arrays({"a": [jnp.ones(1)], "b": 1.0})
    assert not holds_jax_arrays({"a": [np.ones(1)], "b": 1.0})
    assert not holds_jax_arrays(None)
    assert not holds_jax_arrays({1: 2.0, "a": 1.0})
