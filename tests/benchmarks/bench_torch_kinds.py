"""Modules of several kinds beside their whole Jacobian: ``python tests/benchmarks/bench_torch_kinds.py``.

A residual network of convolutions (2.8 million parameters, 32 images of 32 x 32), a model of language whose 10,000
words are read out by what they are read in by (5.7 million, 32 texts of 32 words), and a perceptron by einsum (0.6
million, 32 inputs of 16 rows), of which a backward pass is taken for each reading, in float32 on two threads. Each
figure is of a process of its own; ours and the peer, torch.func's Jacobian of two inputs at a time, in turn.
"""

import itertools
import json
import resource
import subprocess
import sys
import time

import numpy as np

ROUNDS = 3
INPUTS, OUTPUTS = 32, 16


def residual():
    """Return a residual network of eight blocks with images."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inner, outer, stride) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer))
            self.second = nn.Sequential(nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
            short = [nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)]
            self.short = nn.Sequential(*short) if inner != outer else nn.Identity()

        def forward(self, x):
            return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))

    torch.manual_seed(0)
    widths = [32, 32, 32, 64, 64, 128, 128, 256, 256]
    blocks = [Block(inner, outer, 1 if inner == outer else 2) for inner, outer in itertools.pairwise(widths)]
    first = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    module = nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, OUTPUTS))
    return module.eval(), torch.randn(INPUTS, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def language():
    """Return a model of language with tied words, the readings logits of some words after the last, with texts."""
    import torch
    from torch import nn

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(10_000, 256), nn.Embedding(64, 256)
            layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
            self.stack = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(256, 10_000, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            return self.head(self.stack(x))[:, -1, :OUTPUTS]

    torch.manual_seed(0)
    ids = torch.randint(0, 10_000, (INPUTS, 32), generator=torch.Generator().manual_seed(1))
    return Language().eval(), ids


def heads():
    """Return a perceptron whose weights are those of heads side by side, of which no factors are known."""
    import torch
    from torch import nn

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 256, 32) / 16.0)

        def forward(self, x):
            return torch.einsum("btd,hde->bthe", x, self.weight).flatten(2)

    torch.manual_seed(0)
    layers = [part for _ in range(8) for part in (Heads(), nn.GELU())]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 256, OUTPUTS))
    return module.eval(), torch.randn(INPUTS, 16, 256, generator=torch.Generator().manual_seed(1))


def ours(module, given) -> float:
    """Return the largest singular value of the record."""
    import estim

    return float(estim.sensitivity(module, given, 0.01).singular_values[0])


def whole(module, given) -> float:
    """Hold the whole Jacobian, then multiply it by itself."""
    import torch
    from torch.func import functional_call, jacrev, vmap

    parameters = {name: tensor.detach() for name, tensor in module.named_parameters()}
    jacobian = torch.empty(INPUTS * OUTPUTS, sum(tensor.numel() for tensor in parameters.values()))
    one = vmap(jacrev(lambda p, x: functional_call(module, p, (x[None],))[0]), in_dims=(None, 0))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one that vmap batches
        for k in range(0, INPUTS, 2):
            rows = [part.reshape(2 * OUTPUTS, -1) for part in one(parameters, given[k : k + 2]).values()]
            torch.cat(rows, dim=1, out=jacobian[k * OUTPUTS : (k + 2) * OUTPUTS])
    return float(torch.linalg.eigvalsh((jacobian @ jacobian.T).double())[-1].sqrt()) * 100.0


def measured(how: str, kind: str) -> dict[str, float]:
    """Return seconds and the largest singular value, with everything imported and tried first."""
    import torch

    import estim

    torch.set_num_threads(2)
    estim.sensitivity(torch.nn.Linear(2, 2), torch.randn(4, 2), 0.01)
    module, given = globals()[kind]()
    torch.autograd.grad(module(given[:1]).sum(), list(module.parameters()))
    start = time.perf_counter()
    largest = globals()[how](module, given)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds, "largest": largest,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def run(how: str, kind: str) -> dict[str, float]:
    """Measure in a process of its own."""
    done = subprocess.run([sys.executable, __file__, how, kind], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print times, memory, and their ratios."""
    for kind in ("residual", "language", "heads"):
        rounds = [(run("ours", kind), run("whole", kind)) for _ in range(ROUNDS)]
        times = [mine["seconds"] / peer["seconds"] for mine, peer in rounds]
        mine, peer = rounds[int(np.argsort(times)[ROUNDS // 2])]
        said = {how: f"{one['seconds']:.1f} s, {one['memory']:.2f} GiB" for how, one in (("ours", mine), ("J", peer))}
        print(f"{kind}: {said['ours']}; whole J, then J J^T {said['J']}")
        print(f"  time {np.median(times):.2f}, the median of {', '.join(f'{ratio:.2f}' for ratio in times)}; memory "
              f"{mine['memory'] / peer['memory']:.2f}; largest singular values {mine['largest']:.6g}, "
              f"{peer['largest']:.6g}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measured(*sys.argv[1:])))
    else:
        main()
