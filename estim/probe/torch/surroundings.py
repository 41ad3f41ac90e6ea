"""What is set around a call of torch, held so that derivatives are those of the model as it stands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def plain_surroundings(module: torch.nn.Module) -> Iterator[None]:
    """Multiply float32 matrices as such, and let no autocast around the call keep its casts of weights.

    TensorFloat32, or bfloat16, in products that are our own would be an error that no figure says. Weights that are
    moved would be read as they were when an autocast first cast them. An LSTM is taken step by step, where gradients of
    its weights can be read off the graph, which does not look inside oneDNN's; filters are left to that.
    """
    with ExitStack() as stack:
        backends: Any = torch.backends  # some of its fields are not typed
        for products in (backends.cuda.matmul, backends.mkldnn.matmul):
            stack.callback(_set, products, products.fp32_precision)
            _set(products, "ieee")
        if _fused(module):
            stack.callback(_enable, backends.mkldnn, backends.mkldnn.enabled)
            _enable(backends.mkldnn, False)
        stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
        torch.set_autocast_cache_enabled(False)
        torch.clear_autocast_cache()
        yield


def _fused(module: torch.nn.Module) -> bool:
    kinds = {type(part) for part in module.modules()}
    return torch.nn.LSTM in kinds and not any(issubclass(kind, torch.nn.modules.conv._ConvNd) for kind in kinds)


def _enable(backend: Any, enabled: bool) -> None:
    backend.enabled = enabled


def _set(products: Any, precision: str) -> None:
    products.fp32_precision = precision
