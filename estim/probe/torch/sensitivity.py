"""`estim.sensitivity` of a torch module: what is asked is checked, and the way chosen that fits its size."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.arguments import numbers_of_inputs
from estim.probe.assemble import assemble
from estim.probe.matrix_free.large import at_least, in_order, require_large
from estim.probe.matrix_free.record import ModelSensitivity
from estim.probe.matrix_free.streamed import streamed_sensitivity
from estim.probe.matrix_free.way import record_of
from estim.probe.model.calls import Calls, First, restricted
from estim.probe.model.given import finite_rows
from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.model.probed import Probed
from estim.probe.model.readings import complex_note, places_of_parts, require_one_kind
from estim.probe.record import Sensitivity
from estim.probe.torch.bank import Bank, in_batches, read_bank
from estim.probe.torch.dense import batches_of, jacobian_of, measured_error, moved_jacobian
from estim.probe.torch.error import relative_errors
from estim.probe.torch.gram import Layout
from estim.probe.torch.large import TorchPasses, noise_of
from estim.probe.torch.parameters import Trainable, trainable
from estim.probe.torch.readings import Subject, as_dtype
from estim.probe.torch.slopes import require_derivative
from estim.probe.torch.streamed import stream_of
from estim.probe.torch.survey import Parts, Survey, layout_of, parts_of, sample_of, survey, way_of_module
from estim.probe.torch.untouched import untouched

Array = npt.NDArray[np.float64]

#: Parameters up to which each has its own name, column and direction, and entries of a Jacobian that is held.
DENSE = 3000
ENTRIES = 20_000_000


@dataclass(frozen=True)
class Asked:
    """The arguments of `estim.sensitivity` that a module takes beyond sigma."""

    readings: Callable[..., Any] | None
    groups: Any
    names: Any
    inputs: Any
    dtype: Any
    keep: int
    nan_policy: str
    progress: bool


def probe_module(module: Any, bank: Any, asked: Asked) -> Probed:
    """Return the readings of a small module with their whole Jacobian.

    In float64 the error of the Jacobian is estimated from two more at moved parameters; in a lower precision it is
    measured beside a copy of the module in float64, entry by entry.
    """
    with opened(module, bank, asked) as (subject, batches):
        kind = subject.parameters.tensors[0].dtype
        parts, complex_ones = [], []
        for where, batch in batches_of(batches):
            parts.append(_differentiated(subject, batch, where))
            complex_ones.append(subject.complex)
        places = places_of_parts([part[0].shape for part in parts], require_one_kind(complex_ones))
        doubled = None if kind == torch.float64 else _doubled(module, bank, asked, parts)
        notes = subject.notes
        if kind != torch.float64:
            notes.append(_precision(kind, doubled is not None))
        vector = _vector(subject.parameters, asked)
    double: list[tuple[Any, Any]] = [(None, part[2]) for part in parts] if doubled is None else doubled
    error = np.concatenate([measured_error(part[1], *twin, kind) for part, twin in zip(parts, double, strict=True)])
    order = np.argsort(places)
    error, jacobian = error[order], np.concatenate([part[1] for part in parts])[order]
    first = _first(vector, [part[0] for part in parts], order, tuple(notes))
    omit = asked.nan_policy == "omit"
    left = restricted(first, finite_rows(first.readings[:, None], first, ("the reading",), omit))
    columns = tuple(f"the derivative with respect to {name}" for name in vector.names)
    left = restricted(left, finite_rows(jacobian[left.places], left, columns, omit))
    return Probed(
        readings=left.readings,
        jacobian=jacobian[left.places],
        error=error[left.places],
        parameters=vector.values,
        names=vector.names,
        groups=vector.groups,
        inputs=left.inputs,
        derivative=f"autograd in {_name(kind)}",
        tangents=None,
        exact=None,
        notes=(*vector.notes, *notes, *_said_of(complex_ones[0], len(left.readings), first.total)),
        kept=left.places.astype(np.int64),
        total=first.total,
        complex=complex_ones[0],
        bank_size=first.bank_size,
    )


def _said_of(is_complex: bool, left: int, total: int) -> tuple[str, ...]:
    notes = [complex_note(total)] if is_complex else []
    if left < total:
        notes.append(f"{total - left} of {total} readings are not finite and were left out")
    return tuple(notes)


@contextmanager
def opened(module: Any, bank: Any, asked: Asked) -> Iterator[tuple[Subject, Bank]]:
    """Make a module, or its copy in another dtype, ready to be read, with its bank; it is left as it was found."""
    copied = module if asked.dtype is None else as_dtype(module, asked.dtype)
    parameters = trainable(copied, asked.groups)
    device = parameters.tensors[0].device
    batches = read_bank(bank, device, (parameters.tensors[0].dtype, asked.dtype is not None))
    with untouched(copied) as snapshot:
        yield Subject(copied, asked.readings, parameters, snapshot, list(parameters.notes)), batches


@contextmanager
def _in_double(module: Any, bank: Any, asked: Asked, seen: Survey) -> Iterator[tuple[Subject, Parts] | None]:
    """Yield a copy of a module in float64 with its bank in parts; None where it does not follow."""
    with ExitStack() as stack:
        found = None
        try:
            copied, batches = stack.enter_context(opened(module, bank, replace(asked, dtype=torch.float64)))
            parts = parts_of(batches, seen)
            with torch.no_grad():
                for part in parts():
                    copied.values(part)
            found = copied, parts
        except (TypeError, ValueError):
            pass
        yield found


def _differentiated(subject: Subject, batch: Any, where: str) -> tuple[Any, Any, Any]:
    """Return readings, Jacobian, and its twins at parameters moved to both sides."""
    subject.checked(batch, where)
    readings, jacobian = jacobian_of(subject, batch, where)
    return readings, jacobian, tuple(moved_jacobian(subject, batch, side, where) for side in (1.0, -1.0))


def _doubled(module: Any, bank: Any, asked: Asked, parts: list[Any]) -> list[Any] | None:
    """Return (Jacobian, its moved twins) for each batch of a copy in float64; None where the copy does not follow."""
    double = replace(asked, dtype=torch.float64)
    found = []
    try:
        with opened(module, bank, double) as (subject, batches):
            for where, batch in batches_of(batches):
                _, jacobian, moved = _differentiated(subject, batch, where)
                found.append((jacobian, moved))
    except (TypeError, ValueError):
        return None
    alike = all(one[0].shape == part[1].shape for one, part in zip(found, parts, strict=True))
    return found if alike else None


def _precision(kind: Any, measured: bool) -> str:
    how = "beside a copy in float64" if measured else "by moving the parameters a little, as float64 is out of reach"
    return f"derivatives are {_name(kind)}'s, their error measured {how}; dtype=torch.float64 probes a double copy"


def _name(kind: Any) -> str:
    return str(kind).removeprefix("torch.")


def _vector(parameters: Trainable, asked: Asked) -> Parameters:
    """Return the parameters as one vector with a name for each entry."""
    pairs = list(zip(parameters.names, parameters.tensors, strict=True))
    nested = {name: tensor.detach().to(torch.float64).cpu().numpy() for name, tensor in pairs}
    groups = [group for (_, t), group in zip(pairs, parameters.groups, strict=True) for _ in range(t.numel())]
    return read_parameters(nested, names=asked.names, groups=groups, argument="model")


def _first(vector: Parameters, readings: list[Any], order: npt.NDArray[np.int64], notes: tuple[str, ...]) -> First:
    values = np.concatenate([part.ravel() for part in readings])
    starts = np.cumsum([0, *(len(part) for part in readings)]).tolist()
    inputs = np.concatenate(
        [np.repeat(start + np.arange(len(part)), part.shape[1]) for start, part in zip(starts, readings, strict=False)]
    )
    calls = Calls(_not_called, None, vector, len(values), np.arange(len(values)))
    return First(
        calls=calls, readings=values[order], inputs=inputs[order].astype(np.int64), complex=False, spread=0.0,
        bank_size=starts[-1], notes=notes,
    )  # fmt: skip


def _not_called(params: Any, bank: Any) -> Any:
    raise NotImplementedError


def sensitivity_of_module(
    module: Any, bank: Any, sigma: Any, asked: Asked, **options: Any
) -> Sensitivity | ModelSensitivity:
    """Make the record of a module, by the way that fits its size."""
    if asked.readings is not None and not callable(asked.readings):
        msg = f"readings must be a callable readings(module, inputs) -> tensor; got {asked.readings!r:.60}"
        raise TypeError(msg)
    bank = in_batches(bank)
    with opened(module, bank, asked) as (subject, batches):
        seen = survey(subject, batches, asked.nan_policy == "omit")
        inputs, size = seen.inputs, subject.parameters.size
        if asked.inputs is not None:
            inputs = numbers_of_inputs(asked.inputs, len(seen.inputs))[seen.places]
        if size > DENSE:
            require_large(asked.names, *(options[name] for name in ("symmetry", "atol", "rtol", "smallest_change")))
        require_derivative(subject, _held_against_differences(batches, seen, size))
        if size <= DENSE and subject.parameters.tensors[0].dtype != torch.float64:
            with _in_double(module, bank, asked, seen) as double:
                if double is not None:  # differences say more there
                    require_derivative(*double)
        if size <= DENSE and int(seen.kept.sum()) * size > ENTRIES:
            return _streamed(module, bank, sigma, asked, subject, batches, replace(seen, inputs=inputs), options)
        if size > DENSE:
            return _large(module, bank, sigma, asked, subject, batches, replace(seen, inputs=inputs), options)
    probed = probe_module(module, bank, asked)
    return assemble(replace(probed, inputs=inputs[np.argsort(seen.places)][probed.kept]), sigma, **options)


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
    layout, vector = layout_of(subject, batches, seen), _vector(subject.parameters, asked)
    kind = subject.parameters.tensors[0].dtype

    def record(double: tuple[Subject, Parts] | None, notes: tuple[str, ...]) -> Sensitivity:
        return streamed_sensitivity(
            stream_of(subject, layout, seen, double), vector, sigma, noise, derivative=f"autograd in {_name(kind)}",
            notes=lambda: notes, progress=asked.progress, **options,
        )  # fmt: skip

    if kind == torch.float64:
        return record(None, tuple(subject.notes))
    with _in_double(module, bank, asked, seen) as double:
        return record(double, (*subject.notes, _precision(kind, double is not None)))


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
        "smallest_change": None if change is None else float(change), "inputs": seen.inputs[seen.kept],
        "keep": asked.keep, "progress": asked.progress,
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
    try:
        with opened(module, bank, replace(asked, dtype=torch.float64)) as (copied, batches):
            found = relative_errors(subject, layout, weights, (copied, parts_of(batches, seen)))
        subject.notes.append(_precision(subject.parameters.tensors[0].dtype, True))
    except (TypeError, ValueError):
        found = relative_errors(subject, layout, weights)
        subject.notes.append(_precision(subject.parameters.tensors[0].dtype, False))
    return found
