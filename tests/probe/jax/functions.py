"""Small functions of JAX for the tests, and their twins in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

import estim.attention


def arrays(tree, dtype=None):
    """Return nested NumPy arrays as arrays of JAX."""
    return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf, dtype=dtype), tree)


def perceptron_of(numbers):
    """Return a perceptron of two layers over numpy or jax.numpy."""

    def perceptron(params, bank):
        hidden = numbers.tanh(bank @ params["first"]["weight"] + params["first"]["bias"])
        return hidden @ params["second"]["weight"]

    return perceptron


PERCEPTRON = perceptron_of(jnp)


def mixed(params, bank):
    """Return readings each of which depends on all inputs."""
    return PERCEPTRON(params, bank - bank.mean(axis=0))


def branching(params, bank):
    """Return readings that cannot be compiled."""
    return PERCEPTRON(params, bank) * (1.0 if params["first"]["bias"][0] > -9.0 else 2.0)


def perceptron_weights(inner=4, seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return {"first": {"bias": draw(inner), "weight": draw((3, inner))}, "second": {"weight": draw((inner, 2))}}


def inputs(count=12, width=3, seed=1):
    return np.random.default_rng(seed).standard_normal((count, width))


def attention(layers, bank):
    """Return the outputs of a stack of the attention family: softmax(X Q K^T X^T) X V, layer after layer."""
    x = bank
    for layer in layers:
        scores = (x @ layer["query"]) @ jnp.swapaxes(x @ layer["key"], -1, -2)
        x = jax.nn.softmax(scores, axis=-1) @ (x @ layer["value"])
    return x


def attention_weights(depth=2, width=3, rank=2, seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return [
        {
            "query": 0.5 * draw((width, rank)),
            "key": 0.5 * draw((width, rank)),
            "value": draw((width, width)) / width**0.5,
        }
        for _ in range(depth)
    ]


def as_network(layers):
    return estim.attention.Network(
        [estim.attention.Layer(layer["query"], layer["key"], layer["value"]) for layer in layers]
    )


def whole_jacobian(function, params, bank):
    """Return the Jacobian by jax.jacrev, (M, P)."""
    found = jax.jacrev(lambda given: jnp.ravel(function(given, bank)))(params)
    leaves = jax.tree_util.tree_leaves(found)
    return np.concatenate([np.asarray(leaf).astype(float).reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)
