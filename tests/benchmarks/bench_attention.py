"""Cost of the attention family beside named peers, in the same run.

    python tests/benchmarks/bench_attention.py

Prints one line for each promise: what was measured, the peer, the ratio, the ratio promised. Nothing here is a test:
a loaded machine gives other numbers. torch is optional. Pin BLAS to one thread (OPENBLAS_NUM_THREADS=1) to compare
with one core.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from estim.arithmetic import as_balls, midpoints
from estim.attention import Layer, Network, formula
from estim.attention.jacobian import jacobian_in
from estim.precision import ball_digits
from sims.fixtures import matrix_bank, matrix_network


def best(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the shortest of several times in seconds, after one run to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def beside(run: Callable[[], Any], peer: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    """Return the shortest times of both, measured in turn: the speed of a virtual machine swings by two in seconds."""
    run(), peer()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        middle = time.perf_counter()
        peer()
        times.append((middle - start, time.perf_counter() - middle))
    return min(ours for ours, _ in times), min(theirs for _, theirs in times)


def say(what: str, seconds: float, peer: str, peer_seconds: float, promised: str) -> None:
    """Print one comparison."""
    ratio = peer_seconds / seconds
    print(f"{what}: {seconds:.3g} s; {peer}: {peer_seconds:.3g} s; ratio {ratio:.3g} (promised {promised})", flush=True)


def against_torch() -> None:
    """Compare the 768 x 96 float64 Jacobian with torch's, reverse and forward mode."""
    try:
        import torch
    except ImportError:
        print("torch is not installed: its comparison is left out")
        return
    network, bank = matrix_network(), matrix_bank().astype(float)
    weights = [torch.tensor(factor) for layer in network.layers for factor in layer.float64]
    x = torch.tensor(bank)

    def outputs(*factors: Any, y: Any = x) -> Any:
        for query, key, value in zip(factors[::3], factors[1::3], factors[2::3], strict=True):
            y = torch.softmax((y @ query) @ (y @ key).mT, dim=-1) @ (y @ value)
        return y

    def dense(transform: Any) -> Any:
        parts = transform(outputs, argnums=tuple(range(len(weights))))(*weights)
        return torch.cat([part.reshape(768, -1) for part in parts], dim=1)

    def by_input() -> Any:
        """Take each input alone, 16 readings of it in reverse: the cheapest arrangement for torch that we found."""

        def one(tokens: Any, *factors: Any) -> Any:
            return outputs(*factors, y=tokens)

        numbers = tuple(range(1, len(weights) + 1))
        batched = torch.func.vmap(torch.func.jacrev(one, argnums=numbers), in_dims=(0, *(None for _ in weights)))
        return torch.cat([part.reshape(768, -1) for part in batched(x, *weights)], dim=1)

    ours = network.jacobian(bank)
    peers = {
        "torch.func.jacrev": partial(dense, torch.func.jacrev),
        "torch.func.jacfwd": partial(dense, torch.func.jacfwd),
        "torch.func.vmap(jacrev)": by_input,
    }
    for name, peer in peers.items():
        error = np.abs(peer().numpy() - ours).max()
        seconds, theirs = beside(lambda: network.jacobian(bank), peer, 20)
        say("768 x 96 float64 Jacobian", seconds, f"{name} (differs by {error:.0e})", theirs, "3")


def mpmath_softmax(scores: Any) -> tuple[Any, Any]:
    """Weigh with mpmath's exponential."""
    phi = np.frompyfunc(mpmath.exp, 1, 1)(scores)
    return phi, phi


def against_mpmath(digits: int = 120) -> None:
    """Compare balls with the same lines on mpmath numbers, at 120 digits."""
    network, bank = matrix_network().scaled("0.5"), matrix_bank()
    with ball_digits(digits), mpmath.workdps(digits):
        arguments = network.layers, bank
        balls, peer = beside(
            lambda: jacobian_in(*arguments, as_balls, network.normalizer),
            lambda: jacobian_in(*arguments, lambda x: midpoints(as_balls(x)), mpmath_softmax),
        )
    backend = f"mpmath with {mpmath.libmp.BACKEND}"
    say(f"768 x 96 Jacobian, {digits}-digit balls", balls, backend, peer, "10, 40 with arb_mat")
    public = best(lambda: network.jacobian(bank, digits=digits), 3)
    say(f"network.jacobian(digits={digits}), radii checked, as mpf", public, backend, peer, "none")


def cost_is_linear() -> None:
    """Show the time per input and per parameter as both grow tenfold."""
    rng = np.random.default_rng(0)

    def layer() -> Layer:
        return Layer(rng.normal(size=(8, 2)), rng.normal(size=(8, 2)), np.eye(8) + 0.1 * rng.normal(size=(8, 8)))

    network, bank = Network([layer() for _ in range(4)]), rng.normal(size=(1000, 8, 8))
    few, many = best(lambda: network.jacobian(bank[:100]), 3), best(lambda: network.jacobian(bank), 3)
    say("Jacobian, 100 inputs", few, "1000 inputs", many, "about 10")
    deep = Network([layer() for _ in range(40)])
    shallow_time = best(lambda: network.jacobian(bank[:50]), 3)
    say("Jacobian, 4 layers", shallow_time, "40 layers", best(lambda: deep.jacobian(bank[:50]), 3), "about 10")


def product_seconds(run: Callable[[], Any]) -> float:
    """Return the time that the matrix products of `run` would take at the speed of a large matrix product."""
    operations = 0
    product = formula.matmul

    def counted(a: Any, b: Any, out: Any = None) -> Any:
        nonlocal operations
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        operations += 2 * int(np.prod(batch)) * a.shape[-2] * a.shape[-1] * b.shape[-1]
        return product(a, b, out)

    formula.matmul = counted  # type: ignore[assignment]
    try:
        run()
    finally:
        formula.matmul = product
    square = np.random.default_rng(0).normal(size=(1500, 1500))
    return operations / (2 * 1500**3 / best(lambda: square @ square, 5))


def against_products() -> None:
    """Compare a larger network with its own matrix products, and a reverse product with a forward pass."""
    rng = np.random.default_rng(0)
    width, rank, tokens, inputs = 32, 4, 16, 50
    layers = []
    for _ in range(6):
        value = np.linalg.qr(rng.normal(size=(width, width)))[0]
        query, key = rng.normal(size=(2, width, rank)) / width**0.5
        layers.append(Layer(query, key, value))
    network, bank = Network(layers), rng.normal(size=(inputs, tokens, width))

    def both() -> None:
        network(bank)
        network.jacobian(bank)

    def fresh() -> None:
        np.empty((inputs * tokens * width, network.parameters.size)).fill(0)

    # Pages that the system hands out for the first time cost several times what they cost after: take turns.
    turns = [(best(both, 1), best(fresh, 1)) for _ in range(5)]
    seconds, written = (min(times) for times in zip(*turns, strict=True))
    products = product_seconds(both)
    what = "outputs and 25600 x 7680 Jacobian"
    say(what, seconds, "its matrix products", products, "1/3")
    say(what, seconds, "merely writing a fresh array of that size", written, "none")
    say(what, seconds, "the products and the writing", products + written, "none")
    one_reading = np.zeros(inputs * tokens * width)
    one_reading[7] = 1
    forward = best(lambda: network(bank))
    say("vjp of one reading", best(lambda: network.vjp(bank, one_reading)), "forward pass", forward, "1/4")
    every = rng.normal(size=inputs * tokens * width)
    say("vjp of all readings", best(lambda: network.vjp(bank, every)), "forward pass", forward, "none")


if __name__ == "__main__":
    against_torch()
    against_mpmath()
    cost_is_linear()
    against_products()
