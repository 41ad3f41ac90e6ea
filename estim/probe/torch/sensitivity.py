"""`estim.sensitivity` of a torch module: what is asked is checked, and the way chosen that fits its size."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from estim.probe.arguments import numbers_of_inputs
from estim.probe.assemble import assemble
from estim.probe.directions.noise import Whitening
from estim.probe.matrix_free.large import at_least, noise_of, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.streamed import streamed_sensitivity
from estim.probe.matrix_free.way import record_of
from estim.probe.record import Sensitivity
from estim.probe.torch.asked import Asked, Double, in_double, opened, precision_note, vector_of
from estim.probe.torch.bank import Bank, Parts, in_batches
from estim.probe.torch.dense import probed
from estim.probe.torch.error import relative_errors
from estim.probe.torch.layout import layout_of, way_of_module
from estim.probe.torch.parameters import name_of
from estim.probe.torch.passes import TorchPasses
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
        if not small:
            return _large(module, bank, sigma, asked, subject, batches, seen, options)
        with _checked_double(subject, module, bank, asked, seen, small) as double:
            if subject.parameters.dtype != torch.float64:
                subject.notes.append(precision_note(subject.parameters.dtype, double is not None))
            if int(seen.kept.sum()) * subject.parameters.size > ENTRIES:
                return _streamed(sigma, asked, subject, batches, seen, double, options)
            found = probed(subject, batches, seen, double, asked)
    return assemble(found, sigma, **options)


@contextmanager
def _checked_double(
    subject: Subject, module: Any, bank: Any, asked: Asked, seen: Survey, small: bool
) -> Iterator[Double | None]:
    """Yield a copy in float64, as `in_double`, held against differences, which say more there."""
    with in_double(subject, module, bank, asked, seen, small) as double:
        if double is not None and double.throughout:
            require_derivative(double.subject, _told_by(double.bank, seen, small))
        yield double


def _told_by(batches: Bank, seen: Survey, small: bool) -> Parts:
    """Return what tells of all derivatives: of a small module the whole bank, which costs little, and else a sample."""
    if small:
        return parts_of(batches, seen)
    sample = sample_of(batches, seen)
    return lambda: iter(sample)


def _noise_of(sigma: Any, seen: Survey, options: dict[str, Any]) -> Whitening:
    """Return the whitening of the readings that are left, as they come."""
    places = seen.places[seen.kept]
    return noise_of(sigma, places, len(seen.kept), options["repeats"], options["repeat_correlation"])


def _streamed(
    sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey, double: Double | None,
    options: dict[str, Any],
) -> Sensitivity:  # fmt: skip
    """Make the record of a small module on a bank too large for its Jacobian."""
    noise = _noise_of(sigma, seen, options)
    layout = layout_of(subject, batches, seen)
    return streamed_sensitivity(
        stream_of(subject, layout, seen, double), vector_of(subject.parameters, asked), sigma, noise,
        derivative=f"autograd in {name_of(subject.parameters.dtype)}", notes=lambda: tuple(subject.notes),
        progress=asked.progress, **options,
    )  # fmt: skip


def _large(
    module: Any, bank: Any, sigma: Any, asked: Asked, subject: Subject, batches: Bank, seen: Survey,
    options: dict[str, Any],
) -> ModelSensitivity:  # fmt: skip
    """Make the record of a module whose Jacobian is not held."""
    noise = _noise_of(sigma, seen, options)
    layout = layout_of(subject, batches, seen)
    way = way_of_module(subject, layout, asked.keep, noise)
    if asked.progress:
        print(way.said, file=sys.stderr)
    with _checked_double(subject, module, bank, asked, seen, False) as double:
        relative, measured = relative_errors(subject, layout, noise.weights, double)
    del double  # before gradients are held
    if subject.parameters.dtype != torch.float64:
        subject.notes.append(precision_note(subject.parameters.dtype, measured))
    relative = at_least(relative, options["rtol"])
    passes = TorchPasses(subject, layout, relative)
    return record_of(
        passes, way, noise, relative, derivative=f"autograd in {passes.dtype}", notes=(*subject.notes, way.said),
        repeats=options["repeats"], repeat_correlation=options["repeat_correlation"],
        smallest_change=options["smallest_change"], inputs=seen.inputs[seen.kept], places=seen.places, kept=seen.kept,
        keep=asked.keep, progress=asked.progress,
    )  # fmt: skip
