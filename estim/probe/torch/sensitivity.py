"""`estim.sensitivity` of a torch module: what is asked is checked, and the way chosen that fits its size."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from estim.probe.arguments import numbers_of_inputs, real_number
from estim.probe.assemble import assemble
from estim.probe.matrix_free.large import at_least, in_order, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.streamed import streamed_sensitivity
from estim.probe.matrix_free.way import record_of
from estim.probe.record import Sensitivity
from estim.probe.torch.asked import Asked, Double, in_double, opened, precision_note, vector_of
from estim.probe.torch.bank import Bank, Parts, in_batches, in_parts
from estim.probe.torch.dense import probed
from estim.probe.torch.error import relative_errors
from estim.probe.torch.large import TorchPasses, noise_of
from estim.probe.torch.layout import layout_of, way_of_module
from estim.probe.torch.parameters import name_of
from estim.probe.torch.readings import Subject
from estim.probe.torch.slopes import require_derivative
from estim.probe.torch.streamed import stream_of
from estim.probe.torch.survey import Survey, parts_of, sample_of, survey
from estim.probe.torch.untouched import alone

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
        if asked.inputs is not None:
            seen = replace(seen, inputs=numbers_of_inputs(asked.inputs, len(seen.inputs))[seen.places])
        small = subject.parameters.size <= DENSE
        if not small:
            require_large(asked.names, *(options[name] for name in ("symmetry", "atol", "rtol", "smallest_change")))
        subject.notes.extend(require_derivative(subject, _told_by(batches, seen, small)))
        tried, readings = partial(_tried_on, seen=seen, small=small), int(seen.kept.sum())
        with in_double(subject, module, bank, asked, tried, readings if small else None) as double:
            if double is not None and double.throughout:  # differences say more there
                require_derivative(double.subject, _told_by(double.bank, seen, small))
            if not small:
                return _large(sigma, asked, subject, batches, seen, double, options)
            if subject.parameters.dtype != torch.float64:
                subject.notes.append(precision_note(subject.parameters.dtype, double is not None))
            if readings * subject.parameters.size > ENTRIES:
                return _streamed(sigma, asked, subject, batches, seen, double, options)
            found = probed(subject, batches, seen, double, asked)
    return assemble(found, sigma, **options)


def _told_by(batches: Bank, seen: Survey, small: bool) -> Parts:
    """Return what tells of all derivatives: of a small module the whole bank, which costs little, and else a sample."""
    if small:
        return parts_of(batches, seen)
    sample = sample_of(batches, seen)
    return lambda: iter(sample)


def _tried_on(batches: Bank, seen: Survey, small: bool) -> Iterable[Any]:
    """Return what a copy in float64 is tried on: of a small module the whole bank, of a large one an input."""
    parts = parts_of(batches, seen)
    if small:
        return parts()
    first = next(parts())
    return [next(in_parts(first, 1)) if all(seen.separable) else first]


def _streamed(
    sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey, double: Double | None,
    options: dict[str, Any],
) -> Sensitivity:  # fmt: skip
    """Make the record of a small module on a bank too large for its Jacobian."""
    noise = noise_of(sigma, seen, options["repeats"], options["repeat_correlation"])
    layout = layout_of(subject, batches, seen)
    beside = None if double is None else (double.subject, parts_of(double.bank, seen))
    return streamed_sensitivity(
        stream_of(subject, layout, seen, beside), vector_of(subject.parameters, asked), sigma, noise,
        derivative=f"autograd in {name_of(subject.parameters.dtype)}", notes=lambda: tuple(subject.notes),
        progress=asked.progress, **options,
    )  # fmt: skip


def _large(
    sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey, double: Double | None,
    options: dict[str, Any],
) -> ModelSensitivity:  # fmt: skip
    """Make the record of a module whose Jacobian is not held."""
    noise = noise_of(sigma, seen, options["repeats"], options["repeat_correlation"])
    layout = layout_of(subject, batches, seen)
    way = way_of_module(subject, layout, asked.keep, noise)
    if asked.progress:
        print(way.said, file=sys.stderr)
    beside = None if double is None else (double.subject, parts_of(double.bank, seen))
    relative, measured = relative_errors(subject, layout, noise.weights, beside)
    if subject.parameters.dtype != torch.float64:
        subject.notes.append(precision_note(subject.parameters.dtype, measured))
    relative, change = at_least(relative, options["rtol"]), options["smallest_change"]
    passes = TorchPasses(subject, layout, relative)
    found = record_of(
        passes, way, noise, relative, derivative=f"autograd in {passes.dtype}", notes=(*subject.notes, way.said),
        repeats=options["repeats"], repeat_correlation=options["repeat_correlation"],
        smallest_change=None if change is None else real_number(change, "smallest_change"),
        inputs=seen.inputs[seen.kept], keep=asked.keep, progress=asked.progress,
    )  # fmt: skip
    return in_order(found, seen.places, seen.kept)
