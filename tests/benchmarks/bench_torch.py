"""Cost of the matrix-free path of torch modules beside the whole Jacobian: ``python tests/benchmarks/bench_torch.py``.

An encoder of four layers (width 256, eight heads, 64 tokens, inner width 1024, 3.2 million parameters, 16 outputs) in
float32 on two threads. Every figure comes from a process of its own, in which everything is imported first; ratios to
the peer and to matrix products are of the same run and taken in turn, as the speed of a machine swings by half
within minutes. ``--quick`` leaves out the 128 inputs, ``--long`` takes four layers of them, too (two minutes);
``--loaded`` measures processor time of one thread instead, on a machine that others use. curvlinops, which has products
with the Jacobian, is measured beside where it is installed: install torch first, and the rest with ``--no-deps``.
"""

import json
import os
import resource
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
clock = time.perf_counter if THREADS > 1 else time.process_time
#: Times that ours and a peer are run in turn.
ROUNDS = 3
OUTPUTS, TOKENS, WIDTH, HEADS, INNER, DEPTH = 16, 64, 256, 8, 1024, 4


def encoder(depth: int = DEPTH):
    """Return torch's own encoder with a readout of the mean token, its weights drawn."""
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True)
            self.stack = torch.nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = torch.nn.Linear(WIDTH, OUTPUTS)

        def forward(self, x):
            return self.head(self.stack(x).mean(dim=1))

    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    return Encoder().eval()


def bank(inputs: int):
    """Return random inputs."""
    import torch

    return torch.randn(inputs, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def base(inputs: int, depth: int) -> dict[str, float]:
    """Import everything and run a model of no size: what any process takes."""
    import torch

    import estim

    estim.sensitivity(torch.nn.Linear(2, 2), torch.randn(4, 2), 0.01)
    return {}


def ours(inputs: int, depth: int) -> dict[str, float]:
    """Take the matrix-free path; "pass" is the time of the Gram matrices, without spectra and errors."""
    import estim
    from estim.probe.torch.passes import TorchPasses

    base(inputs, depth)
    module, given = encoder(depth), bank(inputs)
    warmed(module, given)
    grams, passes = TorchPasses.grams, []

    def timed(self, **options):
        start = clock()
        found = grams(self, **options)
        passes.append(clock() - start)
        return found

    TorchPasses.grams = timed
    start = clock()
    found = estim.sensitivity(module, given, 0.01)
    seconds = clock() - start
    print(found.path, file=sys.stderr)
    return {"seconds": seconds, "pass": sum(passes), "largest": float(found.singular_values[0])}


def warmed(module, given) -> None:
    """Take a gradient, for which torch imports what it needs once."""
    import torch

    torch.autograd.grad(module(given[:1]).sum(), list(module.parameters()))


def whole(inputs: int, depth: int) -> dict[str, float]:
    """Hold the whole Jacobian, one input at a time through torch.func, then multiply it by itself."""
    import torch
    from torch.func import functional_call, jacrev, vmap

    module, given = encoder(depth), bank(inputs)
    warmed(module, given)
    parameters = {name: tensor.detach() for name, tensor in module.named_parameters()}
    size = sum(tensor.numel() for tensor in parameters.values())
    start = clock()
    jacobian = torch.empty(inputs * OUTPUTS, size)
    one = vmap(jacrev(lambda p, x: functional_call(module, p, (x[None],))[0]), in_dims=(None, 0))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one that vmap batches
        for k in range(0, inputs, 2):
            place = 0
            for part in one(parameters, given[k : k + 2]).values():
                rows = part.reshape(2 * OUTPUTS, -1)
                jacobian[k * OUTPUTS : (k + 2) * OUTPUTS, place : place + rows.shape[1]] = rows
                place += rows.shape[1]
    gram = jacobian @ jacobian.T
    largest = float(torch.linalg.eigvalsh(gram.double())[-1].sqrt()) * 100.0
    return {"seconds": clock() - start, "largest": largest}


def products(inputs: int, depth: int) -> dict[str, float]:
    """Take some columns of J J^T by curvlinops' products with J^T and J: their number is what all would take more."""
    import torch
    from curvlinops import JacobianLinearOperator, TransposedJacobianLinearOperator

    module, given = encoder(depth), bank(inputs)
    warmed(module, given)
    torch.backends.mha.set_fastpath_enabled(False)  # it has no forward derivatives
    data = [(given, torch.zeros(inputs, OUTPUTS))]
    back, forth = (
        kind(module, list(module.parameters()), data, check_deterministic=False)
        for kind in (TransposedJacobianLinearOperator, JacobianLinearOperator)
    )
    seeds = torch.eye(inputs * OUTPUTS)[:, :OUTPUTS]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one that has
        start = clock()
        forth @ (back @ seeds)
    return {"seconds": clock() - start, "columns": OUTPUTS}


def peak(inputs: int, depth: int) -> dict[str, float]:
    """Return the best rate of a matrix product of this size, in 1e9 operations a second."""
    import torch

    torch.set_num_threads(THREADS)
    readings = inputs * OUTPUTS
    block = torch.randn(readings, 16384)
    out = torch.empty(readings, readings)
    best = 0.0
    for _ in range(12):
        start = clock()
        torch.mm(block, block.T, out=out)
        best = max(best, 2.0 * readings**2 * 16384 / (clock() - start) / 1e9)
    return {"rate": best}


def run(what: str, inputs: int, depth: int = DEPTH) -> dict[str, float]:
    """Run one of the above in a process of its own; adds its peak memory, in GiB."""
    command = [sys.executable, __file__, what, str(inputs), str(depth)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    print(done.stderr, end="", file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def parameters(depth: int) -> int:
    """Return the number of parameters."""
    layer = 4 * WIDTH * (WIDTH + 1) + 2 * WIDTH * INNER + WIDTH + INNER + 4 * WIDTH
    return depth * layer + OUTPUTS * (WIDTH + 1)


def operations(inputs: int, depth: int) -> float:
    """Return the operations of the upper half of J J^T and of forming J, in 1e9; gradients are not counted.

    What is multiplied in pairs of inputs takes fewer: the rate is one at which this would have been done.
    """
    readings = inputs * OUTPUTS
    return (readings**2 + 2.0 * readings * TOKENS) * parameters(depth) / 1e9


def main() -> None:
    """Print times, memory, and their ratios."""
    small = run("base", 2)["memory"]
    rounds = [(run("ours", 32), run("whole", 32)) for _ in range(ROUNDS)]
    times = [mine["seconds"] / peer["seconds"] for mine, peer in rounds]
    mine, peer = rounds[int(np.argsort(times)[ROUNDS // 2])]
    print(f"32 inputs: {mine['seconds']:.1f} s, {mine['memory']:.2f} GiB ({mine['memory'] - small:.2f} beyond imports)")
    print(f"whole J, then J J^T: {peer['seconds']:.1f} s, {peer['memory']:.2f} GiB")
    print(f"largest singular values {mine['largest']:.6g}, {peer['largest']:.6g}")
    print(f"time {mine['seconds'] / peer['seconds']:.2f} (target: <= 0.5), the median of "
          f"{', '.join(f'{ratio:.2f}' for ratio in times)}; memory "
          f"{mine['memory'] / peer['memory']:.2f} (target: <= 0.25)")  # fmt: skip
    if find_spec("curvlinops"):
        peer = run("products", 32)
        share = 32 * OUTPUTS / peer["columns"]
        print(f"curvlinops: {peer['columns']} of {32 * OUTPUTS} columns of J J^T by products with J^T and J "
              f"{peer['seconds']:.1f} s, all of them {share * peer['seconds']:.0f} s at that rate")  # fmt: skip
    else:
        print("curvlinops: not installed")
    seconds = {depth: run("ours", 32, depth)["seconds"] for depth in (2, 4, 8)}
    for depth, once in seconds.items():
        print(f"{parameters(depth) / 1e6:.1f} million parameters: {once / parameters(depth) * 1e6:.2f} s a million")
    print(f"twice the layers: {seconds[4] / seconds[2]:.2f} and {seconds[8] / seconds[4]:.2f} times the time "
          "(linear: 2)")  # fmt: skip
    if "--quick" not in sys.argv:
        many(1)
        if "--long" in sys.argv:
            many(DEPTH)


def many(depth: int) -> None:
    """Print what part of the peak of matrix products, measured before and after, a pass over 128 inputs reaches."""
    rates = [run("peak", 128)["rate"]]
    for _ in range(1 if depth > 1 else ROUNDS):
        mine = run("ours", 128, depth)
        rates.append(run("peak", 128)["rate"])
        rate = (rates[-2] + rates[-1]) / 2.0
        limit = operations(128, depth) / rate
        print(f"128 inputs, layers {depth}: {mine['seconds']:.1f} s, the pass {mine['pass']:.1f} s, "
              f"{mine['memory']:.2f} GiB; at {rate:.0f} GFLOP/s {limit:.1f} s: the pass at {limit / mine['pass']:.0%} "
              f"of the peak of matrix products (target: >= 80 %), with errors and spectra "
              f"{limit / mine['seconds']:.0%}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 3:
        figures = globals()[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
        figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(figures))
    else:
        if "--loaded" in sys.argv:
            os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        main()
