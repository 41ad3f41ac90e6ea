"""Spectra of a whole Jacobian and of each group's, from Gram matrices, taken again where these hide too much."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.groups import sizes_of_groups
from estim.probe.matrix_free.passes import Grams, Passes, progress_bar
from estim.probe.matrix_free.spectrum import (
    Gram,
    Spectrum,
    error_norm,
    hidden,
    preconditioner,
    spectrum_of,
    whitened,
)

Array = npt.NDArray[np.float64]


class Spectra:
    """Spectra of the whole, under "", and of each group, with the error of each.

    One Gram matrix a group is held, for the shares that only the whole's vectors tell, and no vectors of its own; it is
    forgotten before a second pass gives a better one.
    """

    def __init__(self, grams: Grams, noise: Whitening, relative: dict[str, float], most: dict[str, int]) -> None:
        self.noise, self.most, self.by_rows = noise, most, grams.by_rows
        self.names, self.rounding = tuple(grams.groups), dict(grams.rounding)
        sizes = {name: np.sqrt(np.maximum(np.diagonal(matrix), 0.0)) for name, matrix in grams.groups.items()}
        sizes[""] = np.sqrt(sum(np.square(size) for size in sizes.values()))
        self.errors = {name: error_norm(size, relative[name], noise) for name, size in sizes.items()}
        self.grams: dict[str, Gram] = {}
        self.spectra: dict[str, Spectrum] = {}
        self._take(grams.groups, None, 0.0)

    def _take(self, groups: dict[str, Array], factor: Array | None, shift: float) -> None:
        for name in list(groups):
            matrix = groups.pop(name)
            if factor is None:
                self.grams[name] = whitened(matrix, self.rounding[name], self.noise)
            else:
                self.grams[name] = Gram(matrix, self.rounding[name] * float(np.trace(matrix)), factor, shift)
            del matrix
            self.spectra[name] = replace(spectrum_of(self.grams[name], vectors=False), left=np.zeros((0, 0)))
        parts = [self.grams[name] for name in self.names]
        total = parts[0].matrix.copy()
        for part in parts[1:]:
            total += part.matrix
        self.grams[""] = Gram(total, float(sum(part.slack for part in parts)), factor, shift)
        self.spectra[""] = spectrum_of(self.grams[""])

    def hiding(self) -> frozenset[str]:
        """Return the groups in whose Gram matrix rounding hides what the Jacobian's own error would not."""
        names = {name for name, found in self.spectra.items() if hidden(found, self.errors[name], self.most[name])}
        return frozenset(self.names) if "" in names else frozenset(names)

    def forget(self, names: Iterable[str]) -> None:
        """Drop Gram matrices of groups, and with them that of the whole, before others take their place."""
        for name in ("", *names):
            self.grams.pop(name, None)
            self.spectra.pop(name, None)

    def replaced(self, grams: Grams, factor: Array | None, shift: float) -> None:
        """Take the Gram matrices of a second pass: of some groups, or of all groups with transformed rows."""
        self.rounding |= grams.rounding
        self._take(grams.groups, factor, shift)

    def resolution(self, name: str) -> float:
        """Return what a singular value must exceed."""
        return max(self.errors[name], self.spectra[name].smallest)

    def of_relative_changes(self, norms: dict[str, float]) -> tuple[Array, float]:
        """Return the singular values of all parameters in units of their groups' norms, and what these must exceed."""
        whole = self.grams[""]
        total, slack, error = np.zeros_like(whole.matrix), 0.0, 0.0
        largest = max(norms.values()) or 1.0  # whose square may be no float
        for name, norm in norms.items():
            total += (norm / largest) ** 2 * self.grams[name].matrix
            slack += (norm / largest) ** 2 * self.grams[name].slack
            error = math.hypot(error, norm * self.errors[name])
        found = spectrum_of(replace(whole, matrix=total, slack=slack), vectors=False)
        return largest * found.values[: self.most[""]], max(error, largest * found.smallest)


def spectra_of(passes: Passes, noise: Whitening, relative: dict[str, float], progress: bool) -> tuple[Spectra, str]:
    """Return the spectra, and how they were come by."""
    size, sizes = sum(passes.sizes), sizes_of_groups(passes.groups, passes.sizes)
    most = {name: min(count, len(noise.scale)) for name, count in {"": size, **sizes}.items()}
    with progress_bar(size, progress) as bar:
        first = passes.grams(tick=bar.update)
    found = Spectra(first, noise, relative, most)
    path = f"Gram matrix of the readings' gradients in {passes.dtype}, added up in float64"
    again = found.hiding()
    if not again:
        return found, f"{path}: one pass"
    again = again if passes.dtype != "float64" else frozenset(found.names)
    which = "all" if len(again) == len(found.names) else f"{len(again)} of {len(found.names)}"
    said = f"{path}; a second pass for {which} groups, where its rounding hid more than the Jacobian's error does"
    with progress_bar(sum(sizes[name] for name in again), progress) as bar:
        tick = bar.update
        if passes.dtype != "float64":
            found.forget(again)
            found.replaced(passes.grams(only=again, double=True, tick=tick), None, 0.0)
            return found, f"{said}: multiplied in float64"
        factor, shift = preconditioner(found.grams[""])
        forward = np.diag(noise.scale) if noise.forward is None else noise.forward
        found.forget(found.names)
        second = passes.grams(transform=solve_triangular(factor, forward, lower=True), tick=tick)
        found.replaced(second, factor, shift)
    return found, f"{said}: shifted Cholesky QR"
