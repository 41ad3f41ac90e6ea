"""What is set around a call of torch, held so that derivatives are those of the model as it stands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def plain_surroundings() -> Iterator[None]:
    """Multiply float32 matrices as such, and let no autocast around the call keep its casts of weights.

    TensorFloat32, or bfloat16, in products that are our own would be an error that no figure says. Weights that are
    moved would be read as they were when an autocast first cast them.
    """
    with ExitStack() as stack:
        backends: Any = torch.backends  # some of its fields are not typed
        for products in (backends.cuda.matmul, backends.mkldnn.matmul):
            stack.callback(_set, products, products.fp32_precision)
            _set(products, "ieee")
        stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
        torch.set_autocast_cache_enabled(False)
        torch.clear_autocast_cache()
        yield


def _set(products: Any, precision: str) -> None:
    products.fp32_precision = precision
