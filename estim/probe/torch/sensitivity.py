"""`estim.sensitivity` of a torch module: what is asked is checked, and the way chosen that fits its size."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.arguments import numbers_of_inputs, real_number
from estim.probe.assemble import assemble
from estim.probe.matrix_free.large import at_least, in_order, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.streamed import streamed_sensitivity
from estim.probe.matrix_free.way import record_of
from estim.probe.record import Sensitivity
from estim.probe.torch.asked import Asked, in_double, name_of, opened, precision_note, vector_of
from estim.probe.torch.bank import Bank, in_batches, in_parts
from estim.probe.torch.error import relative_errors
from estim.probe.torch.large import TorchPasses, noise_of
from estim.probe.torch.layout import Layout, layout_of, way_of_module
from estim.probe.torch.probe import probe_module
from estim.probe.torch.readings import Subject
from estim.probe.torch.slopes import require_derivative
from estim.probe.torch.streamed import stream_of
from estim.probe.torch.survey import Parts, Survey, parts_of, sample_of, survey
from estim.probe.torch.untouched import alone
from estim.probe.torch.uses import computed_in, require_reached

Array = npt.NDArray[np.float64]

#: Parameters up to which each has its own name, column and direction, and entries of a Jacobian that is held.
DENSE = 3000
ENTRIES = 20_000_000


@alone
def sensitivity_of_module(
    module: Any, bank: Any, sigma: Any, asked: Asked, **options: Any
) -> Sensitivity | ModelSensitivity:
    """Make the record of a module, by the way that fits its size."""
    bank = in_batches(bank)
    with opened(module, bank, asked) as (subject, batches):
        seen = survey(subject, batches, asked.nan_policy == "omit")
        inputs, size = seen.inputs, subject.parameters.size
        if asked.inputs is not None:
            inputs = numbers_of_inputs(asked.inputs, len(seen.inputs))[seen.places]
        if size > DENSE:
            require_large(asked.names, *(options[name] for name in ("symmetry", "atol", "rtol", "smallest_change")))
        said = require_derivative(subject, _held_against_differences(batches, seen, size))
        subject.notes.extend(said)
        if size <= DENSE and subject.parameters.tensors[0].dtype != torch.float64:
            with in_double(module, bank, asked, seen) as double:
                if double is not None:  # differences say more there
                    require_derivative(*double)
        if size <= DENSE and int(seen.kept.sum()) * size > ENTRIES:
            return _streamed(module, bank, sigma, asked, subject, batches, replace(seen, inputs=inputs), options)
        if size > DENSE:
            return _large(module, bank, sigma, asked, subject, batches, replace(seen, inputs=inputs), options)
    probed = probe_module(module, bank, asked)
    owners = inputs[np.argsort(seen.places)][probed.kept]
    return assemble(replace(probed, inputs=owners, notes=(*probed.notes, *said)), sigma, **options)


def _held_against_differences(batches: Bank, seen: Survey, size: int) -> Parts:
    """Return the whole bank of a small module, for which that costs little beside its Jacobian, and else a sample."""
    if size <= DENSE:
        return parts_of(batches, seen)
    sample = sample_of(batches, seen)
    return lambda: iter(sample)


def _streamed(
    module: Any, bank: Any, sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey,
    options: dict[str, Any],
) -> Sensitivity:  # fmt: skip
    """Make the record of a small module on a bank too large for its Jacobian."""
    noise = noise_of(sigma, seen, options["repeats"], options["repeat_correlation"])
    layout, vector = layout_of(subject, batches, seen), vector_of(subject.parameters, asked)
    kind = subject.parameters.tensors[0].dtype

    def record(double: tuple[Subject, Parts] | None, notes: tuple[str, ...]) -> Sensitivity:
        return streamed_sensitivity(
            stream_of(subject, layout, seen, double), vector, sigma, noise, derivative=f"autograd in {name_of(kind)}",
            notes=lambda: notes, progress=asked.progress, **options,
        )  # fmt: skip

    if kind == torch.float64:
        return record(None, tuple(subject.notes))
    with in_double(module, bank, asked, seen) as double:
        return record(double, (*subject.notes, precision_note(kind, double is not None)))


def _large(
    module: Any, bank: Any, sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey,
    options: dict[str, Any],
) -> ModelSensitivity:  # fmt: skip
    """Make the record of a module whose Jacobian is not held."""
    noise = noise_of(sigma, seen, options["repeats"], options["repeat_correlation"])
    layout = layout_of(subject, batches, seen)
    way = way_of_module(subject, layout, asked.keep, noise)
    if asked.progress:
        print(way.said, file=sys.stderr)
    relative = _relative(module, bank, asked, subject, layout, seen, noise.weights)
    relative = at_least(relative, options["rtol"])
    change = options["smallest_change"]
    common: dict[str, Any] = {
        "repeats": options["repeats"], "repeat_correlation": options["repeat_correlation"],
        "smallest_change": None if change is None else real_number(change, "smallest_change"),
        "inputs": seen.inputs[seen.kept], "keep": asked.keep, "progress": asked.progress,
    }  # fmt: skip
    passes = TorchPasses(subject, layout, relative)
    found = record_of(
        passes, way, noise, relative, derivative=f"autograd in {passes.dtype}", notes=(*subject.notes, way.said),
        **common,
    )  # fmt: skip
    return in_order(found, seen.places, seen.kept)


def _relative(
    module: Any, bank: Any, asked: Asked, subject: Subject, layout: Layout, seen: Survey, weights: Array
) -> dict[str, float]:
    """Return the relative error of the Jacobian, beside a copy in float64 where there can be one."""
    if subject.parameters.tensors[0].dtype == torch.float64:
        return relative_errors(subject, layout, weights)
    kind = subject.parameters.tensors[0].dtype
    with ExitStack() as stack:
        try:
            copied, batches = stack.enter_context(opened(module, bank, replace(asked, dtype=torch.float64)))
            parts = parts_of(batches, seen)
            first = next(iter(parts()))
            some = next(in_parts(first, 1)) if layout.separable else first
            readings = copied.readings(some)
            require_reached(readings, copied.parameters.tensors)
            double = computed_in(readings) == {torch.float64}
            del readings
            found = relative_errors(subject, layout, weights, (copied, parts))
        except (TypeError, ValueError):
            stack.close()
            subject.notes.append(precision_note(kind, False))
            return relative_errors(subject, layout, weights)
        if double:  # differences say more there
            sample = sample_of(batches, seen)
            require_derivative(copied, lambda: iter(sample))
    subject.notes.append(precision_note(kind, True))
    return found
