"""The readings of a module with other parameters put in its place, and their forward derivative."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
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

    def forward(self, batch: Any, where: str) -> torch.Tensor:
        """Return the readings, (inputs, readings of each)."""
        return self._subject[0].values(batch, where)


def readings_with(subject: Subject, weights: Mapping[str, torch.Tensor], batch: Any, where: str = "") -> torch.Tensor:
    """Return the readings of a batch with some parameters replaced, (inputs, readings of each)."""
    given = {f"inner.{name}": tensor for name, tensor in weights.items()}
    readings: torch.Tensor = torch.func.functional_call(_Readings(subject), given, (batch, where))
    return readings


def forward_derivative(
    subject: Subject, weights: Mapping[str, torch.Tensor], change: Mapping[str, torch.Tensor], batch: Any
) -> torch.Tensor:
    """Return the derivative of the readings of a batch along a change of some parameters, (inputs, readings of each).

    What torch raises where an operation has no forward derivative comes through.
    """
    with differentiable_attention():
        at = partial(readings_with, subject, batch=batch)
        found: torch.Tensor = torch.func.jvp(at, (dict(weights),), (dict(change),))[1]
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
