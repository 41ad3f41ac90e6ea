"""The gradients of a module held against differences of its readings: see `matrix_free.slopes`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.coarse import COMBINATIONS, require_coarse_slopes
from estim.probe.matrix_free.slopes import AWAY, require_slopes, sizes_of_steps, weights_of
from estim.probe.torch.bank import Parts
from estim.probe.torch.graph import rounded_on_the_way
from estim.probe.torch.parameters import name_of
from estim.probe.torch.readings import Subject, flat_array, gradients_of
from estim.probe.torch.straight_through import require_no_quantiser

Array = npt.NDArray[np.float64]
_CAUSES = "a detach, a backward of its own, a checkpoint with use_reentrant=True"
_PAST_CASTS = (
    "derivatives are those without it, and sigma must cover the rounding; differences of the readings say less past "
    "it: a derivative that is not the model's, as of a detach, may not show"
)
#: Readings, all of which are numbers of 16 bits, that are so by no accident.
_FEWEST = 4


def require_derivative(subject: Subject, parts: Parts) -> tuple[str, ...]:
    """Hold the gradients of the readings of some parts of a bank against differences.

    Where readings are rounded to 16 bits, as under an autocast, those over long steps tell.

    Returns
    -------
    tuple of str
        Notes, where readings are so rounded, or numbers on the way to them.

    Raises
    ------
    ValueError
        When they are not those of the readings, or torch cannot take them.
    """
    steps, moved = line_of(subject)
    kinds: set[torch.dtype] = set()

    def at(step: float) -> Array:
        found = []
        with moved(step), torch.no_grad():
            for part in parts():
                try:
                    values = subject.values(part)
                except (TypeError, ValueError):  # not at these parameters
                    return np.array(np.nan)
                kinds.add(values.dtype)
                found.append(flat_array(values))
        return np.concatenate(found)

    start = at(0.0)
    if not np.isfinite(start).all():
        return ()
    eps = torch.finfo(subject.parameters.dtype).eps
    short = _short_floats(start, kinds, eps)
    weights = weights_of(len(start)) if short is None else weights_of(len(start), COMBINATIONS)
    with moved(0.0):
        said, squares, rounded = _terms(subject, parts(), steps, weights)
    cast = f"{rounded}, in steps that differences see and gradients do not; or " if rounded else ""
    library = (
        f"torch ({cast}{_CAUSES}, a hook, or another rounding that gradients pass through? "
        "requires_grad_(False) leaves out what is detached on purpose)"
    )
    if short is None:
        require_slopes(at, start, said, np.sqrt(squares), eps=eps, library=library)
        return (f"{rounded}: {_PAST_CASTS}",) if rounded else ()
    enough = require_coarse_slopes(
        lambda step: weights @ (at(step) - start), lambda step: step * said, np.sqrt(squares), library
    )
    return _notes_on(short, enough)


def _short_floats(readings: Array, kinds: set[torch.dtype], eps: float) -> str | None:
    """Return the name of floats of 16 bits that hold all readings of a model in longer ones, of rounding `eps`."""
    found = np.unique(readings[readings != 0.0])
    values = torch.from_numpy(found)
    for kind in (torch.bfloat16, torch.float16):  # what the first holds the second may hold, too
        by_value = len(found) >= _FEWEST and bool((values.to(kind).double() == values).all())
        if torch.finfo(kind).eps > eps and (kinds == {kind} or by_value):
            return name_of(kind)
    return None


def _notes_on(kind: str, checked: bool) -> tuple[str, ...]:
    rounded = (
        f"readings are rounded to {kind}, by a cast or an autocast: derivatives are those before it, and sigma must "
        "cover the rounding"
    )
    unknown = (
        f"derivatives were not held against differences of the readings, which say too little in {kind}: one that is "
        "not the model's, as of a detach, would not show"
    )
    return (rounded,) if checked else (rounded, unknown)


def require_derivative_along(
    at: Callable[[dict[str, torch.Tensor]], Array], held: dict[str, torch.Tensor], change: dict[str, torch.Tensor],
    start: Array, said: Array,
) -> None:  # fmt: skip
    """Hold the derivative of all readings along a change of some parameters against differences along it.

    Parameters
    ----------
    at : callable
        Some parameters by name -> readings with these, (M,).
    held, change : dict of str to tensor
        Parameters, and how some of them change.
    start, said : ndarray, shape (M,)
        Readings of the parameters that are held, and the derivative.

    Raises
    ------
    ValueError
        When they contradict each other.
    """
    sizes = [float(np.hypot.reduce([_norm(some[name]) for name in change])) for some in (held, change)]
    # Steps are parts of the parameters, however small the change is.
    unit = (sizes[0] or 1.0) / sizes[1]
    weights, eps = weights_of(len(start)), torch.finfo(next(iter(change.values())).dtype).eps
    require_slopes(
        lambda step: at({name: held[name] + step * unit * one for name, one in change.items()}), start,
        unit * (weights @ said), np.full(len(weights), unit * float(np.linalg.norm(said))), eps=eps,
        library=f"torch ({_CAUSES}, a rounding that derivatives pass through, or parameters that readings take from "
        "elsewhere than the module?)",
    )  # fmt: skip


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))


def line_of(subject: Subject) -> tuple[list[torch.Tensor], Callable[[float], AbstractContextManager[None]]]:
    """Return a direction that moves all parameters, and a block in which they are moved along it, `AWAY` and a step."""
    tensors = subject.parameters.tensors
    held = [tensor.detach().clone() for tensor in tensors]
    steps = _steps(subject, held)

    @contextmanager
    def moved(step: float) -> Iterator[None]:
        try:
            for tensor, value, one in zip(tensors, held, steps, strict=True):
                tensor.data.copy_(value).add_(one, alpha=AWAY + step)
            yield
        finally:
            for tensor, value in zip(tensors, held, strict=True):
                tensor.data.copy_(value)

    return steps, moved


def _steps(subject: Subject, held: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the direction for each tensor; rows for padding, which torch gives no gradient, are not moved."""
    squares = [_norm(value) ** 2 for value in held]
    sizes = sizes_of_steps([square / max(1, value.numel()) for square, value in zip(squares, held, strict=True)])
    drawn = torch.Generator().manual_seed(0)
    padding = {
        id(part.weight): part.padding_idx
        for part in subject.module.modules()
        if isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag) and part.padding_idx is not None
    }
    found = []
    for tensor, value, size in zip(subject.parameters.tensors, held, sizes, strict=True):
        normal = torch.randn(value.shape, generator=drawn, dtype=torch.float32, device="cpu")
        step = normal.to(value.device, value.dtype).mul_(size)
        if id(tensor) in padding:
            step[padding[id(tensor)]] = 0.0
        found.append(step)
    return found


def _terms(
    subject: Subject, parts: Iterable[Any], steps: list[torch.Tensor], weights: Array
) -> tuple[Array, Array, str]:
    """Return slopes of combined readings along the steps, and the sums of squares of their terms, (COMBINATIONS,).

    And, in words, which casts to 16 bits are on the way.
    """
    said, squares, first, rounded = np.zeros(len(weights)), np.zeros(len(weights)), 0, ""
    for part in parts:
        readings = subject.readings(part).reshape(-1)
        require_no_quantiser(subject.module, readings)
        rounded = rounded or rounded_on_the_way(readings, subject.parameters.dtype)
        for k, combination in enumerate(weights[:, first : first + len(readings)]):
            for gradient, step in zip(_gradients(subject, readings, combination), steps, strict=True):
                product = gradient * step
                said[k] += float(product.sum(dtype=torch.float64))
                squares[k] += _norm(product) ** 2
        first += len(readings)
    return said, squares, rounded


def _gradients(subject: Subject, readings: torch.Tensor, weights: Array) -> tuple[torch.Tensor, ...]:
    gradients = gradients_of(subject, readings, weights, retain_graph=True)
    for name, gradient in zip(subject.parameters.names, gradients, strict=True):
        if gradient.layout != torch.strided:
            msg = f"gradients must be dense; those of {name} are not (an embedding with sparse=True?)"
            raise ValueError(msg)
    return gradients
