"""How well the Jacobian of a large module is known, from combinations of its rows: see `matrix_free.error`."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.matrix_free.error import error_of_combinations, relative_norms
from estim.probe.torch.asked import Double
from estim.probe.torch.bank import Parts, in_parts, length
from estim.probe.torch.graph import rounded_on_the_way
from estim.probe.torch.jacobian import moved_parameters
from estim.probe.torch.layout import Layout
from estim.probe.torch.readings import Subject, flat_array, gradients_of

Array = npt.NDArray[np.float64]

#: Parts of the bank in the sample, about, the inputs of each that are, and combinations of their readings.
_PARTS = 4
_INPUTS = 8
_DRAWS = 2
_CAUSE = "a hook that changes gradients, or gradients that depend on how many inputs a batch has?"


def relative_errors(
    subject: Subject, layout: Layout, weights: Array, double: Double | None
) -> tuple[dict[str, float], bool]:
    """Return |E|_F / |J|_F of each group, and of all under "", on a sample of the bank; whether `double` told it.

    Parameters
    ----------
    subject, layout
    weights : ndarray, shape (M,)
        1 / sd of each reading: what its row counts.
    double : Double, optional
        The module in float64. Without it, or where that has no derivatives, the parameters are moved a little instead.
    """
    eps = torch.finfo(subject.parameters.dtype).eps
    sizes = [tensor.numel() for tensor in subject.parameters.tensors]
    plain = _combinations(subject, layout.parts, layout, weights)
    truth = None if double is None else _in_double(double, layout, weights)
    above_below = []
    for side in (1.0, -1.0) if truth is None else ():
        with moved_parameters(subject, side):
            above_below.append(_combinations(subject, layout.parts, layout, weights))
    errors, known = error_of_combinations(plain, truth, above_below, sizes, eps)
    return relative_norms(errors, known, subject.parameters.groups, sizes, 0.5 * eps), truth is not None


def _in_double(double: Double, layout: Layout, weights: Array) -> list[Array] | None:
    """Return combinations of rows in float64; None where the copy does not follow."""
    try:
        return _combinations(double.subject, double.parts, layout, weights)
    except (TypeError, ValueError):
        return None


def _sampled(subject: Subject, parts: Parts, layout: Layout) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield readings of some inputs of some parts, (n, a), each with the number of the first reading."""
    start, outputs = 0, 0
    step = max(1, layout.count // _PARTS)
    for number, part in enumerate(parts()):
        inputs = length(part) if layout.separable or length(part) == 1 else None
        if number % step and inputs is not None:
            start += inputs * outputs
            continue
        readings = subject.readings(next(in_parts(part, _INPUTS)) if layout.separable else part)
        outputs = readings.shape[1]
        yield start, readings
        start += (len(readings) if inputs is None else inputs) * outputs
        del readings


def _combinations(subject: Subject, parts: Parts, layout: Layout, weights: Array) -> list[Array]:
    """Return combinations of rows with random signs, (P,) each; the same signs on every call."""
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for start, readings in _sampled(subject, parts, layout):
        flat = readings.reshape(-1)
        weight = weights[start : start + len(flat)]
        for _ in range(_DRAWS):
            signs = rng.choice((-1.0, 1.0), len(weight))
            grads = gradients_of(subject, flat, weight * signs, retain_graph=True)
            found.append(np.concatenate([flat_array(grad) for grad in grads]))
        del readings, flat
    return found


def require_borne_out(subject: Subject, layout: Layout, groups: dict[str, Array], relative: dict[str, float]) -> None:
    """Hold Gram matrices against plain backward passes: for weights w of some readings, w^T K w = |w^T J|^2.

    Each group's gradients are known to their `relative` error: those that are nothing but rounding contradict nothing.

    Raises
    ------
    ArithmeticError
        When they disagree by more than rounding: something in the model gives torch other gradients than it takes.
    """
    rng = np.random.default_rng(1)
    for start, readings in _sampled(subject, layout.parts, layout):
        signs = rng.choice((-1.0, 1.0), readings.numel())
        grads = gradients_of(subject, readings.reshape(-1), signs)
        squares = dict.fromkeys(subject.parameters.groups, 0.0)
        for group, grad in zip(subject.parameters.groups, grads, strict=True):
            squares[group] += float(grad.detach().double().square().sum())
        slack, own = torch.finfo(readings.dtype).eps ** 0.5, slice(start, start + len(signs))
        rounded = rounded_on_the_way(readings, subject.parameters.dtype)
        cause = f"{rounded}, and gradients with them" if rounded else f"{_CAUSE} {_advice(subject)} the model"
        del readings, grads
        for group, matrix in groups.items():
            gram = matrix[own, own]
            said = float(signs @ gram @ signs)
            if not abs(said - squares[group]) <= _allowed(gram, slack, relative[group]):
                msg = (
                    f"the gradients of {group} read off the graph contradict a plain backward pass: |w^T J|^2 is "
                    f"{said:.6g} and {squares[group]:.6g}; {cause}"
                )
                raise ArithmeticError(msg)


def _advice(subject: Subject) -> str:
    return "Report" if subject.parameters.dtype == torch.float64 else "Pass dtype=torch.float64, or report"


def _allowed(gram: Array, slack: float, error: float) -> float:
    """Return how far w^T K w, of signs w, may be from |w^T J|^2 for rounding."""
    rows = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    # Either side is known to |w|^2 |J|^2 (2 e + e^2).
    known = 2.0 * error * (2.0 + error) * len(rows) * float(rows @ rows)
    return float(slack * rows.sum() ** 2 + known + np.finfo(np.float64).tiny)
