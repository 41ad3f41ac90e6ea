"""The bank of a large JAX function: its readings, and whether its inputs can be taken one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from estim.probe.jax.pieces import Part, Parts, is_array, selected
from estim.probe.jax.precision import precision, rounding
from estim.probe.jax.readings import Function, coarsest_of, require_kept, require_smooth
from estim.probe.jax.slopes import line_of
from estim.probe.model.batches import Batches
from estim.probe.model.calls import refusal, require_inputs, spread
from estim.probe.model.readings import (
    flatten,
    input_of_each,
    places_of_parts,
    require_one_kind,
)

Array = npt.NDArray[np.float64]

#: Two readings of the same input may differ by this many roundings, to the power of 3/4, of the largest.
_SLACK = 100.0


@dataclass(frozen=True)
class Read:
    """A bank, read: batch after batch."""

    parts: Parts
    kept: npt.NDArray[np.bool_]
    """Which of all readings these are."""
    places: npt.NDArray[np.int64]
    """Of all readings, their places in the order that a user sees: of complex ones all real parts come first."""
    inputs: npt.NDArray[np.int64]
    """(M,) the input of each reading that is left, as they come."""
    complex: bool
    rounding: float
    """Of the readings with the fewest digits."""


def read_parts(function: Function, bank: Any, omit: bool, outputs: Sequence[Any] = ()) -> Read:
    """Evaluate the readings of a bank, each batch twice; `outputs` are of a first call, for the first batches.

    Raises
    ------
    TypeError, ValueError
        When the model refuses the bank, is not deterministic, returns what is no reading, or one is not finite and not
        to be left out.
    """
    parts: list[Part] = []
    first = 0
    for number, batch in enumerate(bank if isinstance(bank, Batches) else [bank]):
        where = f"batch {number}: " if isinstance(bank, Batches) else ""
        try:
            part = _left(_read(function, batch, outputs[number] if number < len(outputs) else None), omit)
        except (TypeError, ValueError) as error:
            msg = f"{where}{error}"
            raise type(error)(msg) from error
        parts.append(replace(part, inputs=part.inputs + first))
        first += part.count
    kept = np.concatenate([part.kept for part in parts])
    if not kept.any():
        msg = f"readings must be finite; none of {len(kept)} is"
        raise ValueError(msg)
    is_complex = require_one_kind([part.complex for part in parts])
    places = places_of_parts([part.shape for part in parts], is_complex)
    coarsest = max(part.rounding for part in parts)
    inputs = np.concatenate([part.inputs for part in parts])
    batches = bank if isinstance(bank, Batches) else [bank]
    return Read(Parts(lambda: batches, tuple(parts)), kept, places, inputs, is_complex, coarsest)


def _read(function: Function, batch: Any, output: Any) -> Part:
    require_inputs(batch)
    if output is None:
        output = require_kept(function, batch)
    with precision(function.tree.double):
        leaves = list(function.tree.leaves)
        if output is None:
            try:
                output = function.called(leaves, batch)
            except Exception as error:
                msg = refusal(lambda some: function.called(leaves, some), batch, error)
                raise ValueError(msg) from error
        raw = flatten(output)
        if raw.size == 0:
            msg = f"the model must return at least one reading; got {output!r:.80}"
            raise ValueError(msg)
        require_smooth(output)
        rows, is_complex, coarsest = function.rows_of(output), raw.dtype.kind == "c", coarsest_of(output)
        again = flatten(function.called(leaves, batch))
        if again.size != raw.size:
            msg = f"the model must always return the same number of readings; got {raw.size}, then {again.size}"
            raise ValueError(msg)
        readings = np.array(_real(raw, rows))
        spread(readings, _real(again, rows), coarsest)
        inputs = input_of_each(output)
        count = int(inputs.max()) + 1
        if is_complex:
            inputs = np.tile(inputs.reshape(rows, -1), 2).ravel()
        shape = (rows, len(readings) // rows)
        apart, kept = _apart(function, batch, output), np.ones(len(readings), dtype=bool)
        return Part(readings, inputs, apart, count, kept, shape, is_complex, coarsest)


def _real(raw: npt.NDArray[Any], rows: int) -> Array:
    """Return readings as real numbers, as `Function.flat` does."""
    if raw.dtype.kind != "c":
        return raw
    table = raw.reshape(rows, -1)
    return np.concatenate([table.real, table.imag], axis=1).ravel()


def _apart(function: Function, batch: Any, output: Any) -> int:
    """Return the number of inputs of a batch, if these read alone, and in other places, as in the whole of it; else 0.

    Both halves are read backwards: what draws random numbers gives the first inputs the same, however many there are.
    They must read so at other parameters, too: of a mean over the batch with a weight of zero only derivatives tell.
    """
    if not hasattr(output, "ndim") or not output.ndim:
        return 0
    count = len(output)
    arrays = [leaf for leaf in jax.tree_util.tree_leaves(batch) if is_array(leaf)]
    if not arrays or any(leaf.ndim == 0 or len(leaf) != count for leaf in arrays):
        return 0
    leaves = list(function.tree.leaves)
    try:
        moved = line_of(function.tree)[1](0.0)
        elsewhere = function.called(moved, batch)
    except Exception:  # not at those parameters
        return 0
    alike = _alike(function, leaves, batch, output) and _alike(function, moved, batch, elsewhere)
    return count if alike else 0


def _alike(function: Function, leaves: list[Any], batch: Any, output: Any) -> bool:
    """Tell whether inputs of a batch read alone, and in other places, as in the whole of it, at some leaves."""
    count, whole = len(output), _long(output)
    slack = _SLACK * rounding(output.dtype) ** 0.75 * np.abs(whole[np.isfinite(whole)]).max(initial=0.0)
    backwards, half = np.arange(count)[::-1], count // 2
    singles = {0, half, count - 1}
    for some in (backwards[:half], backwards[half:], *(np.array([k]) for k in singles)):
        if not len(some):
            continue
        try:
            alone = function.called(leaves, selected(batch, some))
        except Exception:
            return False
        if np.shape(alone) != whole[some].shape:
            return False
        with np.errstate(invalid="ignore"):  # of infinities
            off = np.abs(_long(alone) - whole[some])
        if (np.nan_to_num(off) > slack).any():
            return False
    return True


def _long(output: Any) -> npt.NDArray[Any]:
    """Return an array of any floats, complex ones included, in double precision."""
    array = np.asarray(output)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _left(part: Part, omit: bool) -> Part:
    """Leave out inputs with a reading that is not finite."""
    finite = np.isfinite(part.readings)
    if finite.all():
        return part
    if not omit or not part.apart:
        i = int(np.argmin(finite))
        place = int(places_of_parts([part.shape], part.complex)[i])
        msg = (
            f"readings must be finite; reading {place} (input {part.inputs[i]}) is {part.readings[i]}; "
            "nan_policy='omit' of estim.sensitivity leaves such inputs out, where the readings of the others do not "
            "depend on them"
        )
        raise ValueError(msg)
    whole = finite.reshape(part.apart, -1).all(axis=1)
    kept = np.repeat(whole, len(finite) // part.apart)
    return replace(part, readings=part.readings[kept], inputs=part.inputs[kept], apart=int(whole.sum()), kept=kept)
