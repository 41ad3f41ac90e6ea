"""A large module with its bank: what `matrix_free.passes` asks of a library, by torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator

from estim.probe.matrix_free.groups import sizes_of_groups
from estim.probe.matrix_free.passes import Grams
from estim.probe.matrix_free.sums import out_of_range
from estim.probe.torch.error import require_borne_out
from estim.probe.torch.gram import combined_rows, grams_of
from estim.probe.torch.layout import Layout
from estim.probe.torch.operator import jacobian_operator
from estim.probe.torch.parameters import name_of
from estim.probe.torch.readings import Subject

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TorchPasses:
    """A module with its bank."""

    subject: Subject
    layout: Layout
    relative: dict[str, float]
    """Relative error of each group's gradients."""

    @property
    def names(self) -> tuple[str, ...]:
        """(tensors,)."""
        return self.subject.parameters.names

    @property
    def sizes(self) -> tuple[int, ...]:
        """(tensors,)."""
        return tuple(tensor.numel() for tensor in self.subject.parameters.tensors)

    @property
    def norms(self) -> tuple[float, ...]:
        """(tensors,)."""
        tensors = self.subject.parameters.tensors
        return tuple(float(torch.linalg.vector_norm(tensor.detach(), dtype=torch.float64)) for tensor in tensors)

    @property
    def groups(self) -> tuple[str, ...]:
        """(tensors,)."""
        return self.subject.parameters.groups

    @property
    def dtype(self) -> str:
        """The module's."""
        return name_of(self.subject.parameters.dtype)

    def grams(self, **options: Any) -> Grams:
        """Return the Gram matrices, as `grams_of`."""
        found = grams_of(self.subject, self.layout, **options)
        if options.get("transform") is None:
            if not options.get("double"):
                found = self._within_range(found)
            require_borne_out(self.subject, self.layout, found.groups, self.relative)
        return found

    def _within_range(self, found: Grams) -> Grams:
        """Return Gram matrices, those by products in float64 that the range of the module's numbers does not hold."""
        kind = self.subject.parameters.dtype
        if kind == torch.float64:
            return found
        sizes, tiny = sizes_of_groups(self.groups, self.sizes), torch.finfo(kind).tiny
        lost = frozenset(name for name, gram in found.groups.items() if out_of_range(gram, tiny, sizes[name]))
        if not lost:
            return found
        again = grams_of(self.subject, self.layout, only=lost, double=True)
        return Grams(found.groups | again.groups, found.rounding | again.rounding, found.by_rows)

    def combined_rows(self, combinations: Array, tick: Any = None) -> Array:
        """Return combinations of the rows."""
        return combined_rows(self.subject, self.layout, combinations, tick)

    def operator(self, scale: Array, tick: Any = None) -> LinearOperator:
        """Return the whitened Jacobian by its products."""
        return jacobian_operator(self.subject, self.layout.parts, scale, tick)
