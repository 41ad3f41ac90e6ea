"""The forward derivative of the readings of a module: with other parameters put in the place of its own."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from estim.probe.torch.readings import Subject


class _Readings(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """The readings of a subject as the output of a module, so that torch can put other parameters in."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.inner = subject.module
        self._subject = [subject]  # not as a part of this module

    def forward(self, batch: Any) -> torch.Tensor:
        """Return the readings, (inputs, readings of each)."""
        return self._subject[0].values(batch)


def forward_derivative(
    subject: Subject, weights: Mapping[str, torch.Tensor], change: Mapping[str, torch.Tensor], batch: Any
) -> torch.Tensor:
    """Return the derivative of the readings of a batch along a change of some parameters, (inputs, readings of each).

    What torch raises where an operation has no forward derivative comes through.
    """
    wrapped = _Readings(subject)
    at, along = ({f"inner.{name}": tensor for name, tensor in some.items()} for some in (weights, change))
    with differentiable_attention():
        found: torch.Tensor = torch.func.jvp(
            lambda given: torch.func.functional_call(wrapped, given, (batch,)), (at,), (along,)
        )[1]
    return found


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Take torch's plain attention, as its fused kernels have no forward derivative, and none of a derivative."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, on its own internals
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
