"""A model called: with copies of its parameters, with its errors explained, and found deterministic or not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.derivatives.rounding import EPS
from estim.probe.model.missing import missing_key
from estim.probe.model.parameters import Parameters, read_parameters
from estim.probe.model.readings import flatten, input_of_each, split_complex
from estim.probe.model.untouched import call_with_copy

Array = npt.NDArray[np.float64]

#: Two calls that differ by more than this part of the largest reading differ by more than the order of a sum can do.
REPEATABLE = 1e-10
#: The same in roundings, for floats shorter than these.
_ORDER = 1e4
#: Inputs tried one by one when a model refuses a bank.
_TRIED = 10_000
#: Seconds after which that is given up.
_SECONDS = 10.0


@dataclass(frozen=True)
class Calls:
    """The readings of one bank as a function of the parameter vector; pickles when the model does."""

    model: Callable[..., Any]
    bank: Any
    parameters: Parameters
    size: int
    """Number of readings, complex ones counted once, that every call must return."""
    kept: npt.NDArray[np.intp]
    """Readings to give back, among all; complex ones count as real, then imaginary parts."""

    def raw(self, vector: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Call the model; whatever it raises comes through. Complex readings stay complex."""
        readings = flatten(self.model(self.parameters.rebuild(vector), self.bank))
        if readings.size != self.size:
            msg = f"the model must always return the same number of readings; got {self.size}, then {readings.size}"
            raise ValueError(msg)
        return readings

    def __call__(self, vector: Array) -> Array:
        """Return the readings, (M,); NaN where the model fails, which is an answer at a trial step."""
        with np.errstate(all="ignore"):
            try:
                readings = split_complex(self.raw(vector))
            except Exception:
                return np.full(len(self.kept), np.nan)
        return readings[self.kept]

    def at_complex(self, vector: npt.NDArray[np.complex128]) -> npt.NDArray[Any]:
        """Return the readings of a real model for complex parameters, (M,); what the model raises comes through."""
        with np.errstate(all="ignore"):
            return self.raw(vector)[self.kept]


@dataclass(frozen=True)
class First:
    """What two first calls showed."""

    calls: Calls
    readings: Array
    """(M,), complex ones as real, then imaginary parts."""
    inputs: npt.NDArray[np.int64]
    """(M,)."""
    complex: bool
    spread: float
    """Largest difference between the two calls, in the units of the readings."""
    bank_size: int
    """Number of inputs that the readings belong to."""
    notes: tuple[str, ...]

    @property
    def places(self) -> npt.NDArray[np.intp]:
        """Place of each reading among all, (M,)."""
        return self.calls.kept

    @property
    def total(self) -> int:
        """Number of readings before any were left out."""
        return self.calls.size * (2 if self.complex else 1)


def first_calls(model: Callable[..., Any], bank: Any, parameters: Parameters) -> First:
    """Call a model twice at its parameters.

    Raises
    ------
    ValueError
        When the model raises (the message shows its error and the input that caused it), returns no readings or
        something that is no number, or is not deterministic (the message says how much).
    """
    require_inputs(bank)
    given = parameters.rebuild(parameters.values)
    output = call_with_copy(lambda copy: _first_call(model, given, copy, parameters), bank, "the model")
    raw = flatten(output)
    if raw.size == 0:
        msg = f"the model must return at least one reading; got {output!r:.80}"
        raise ValueError(msg)
    inputs = input_of_each(output)
    # A model may return the same array again and again, and fill it anew.
    readings = np.array(split_complex(raw))
    calls = Calls(model, bank, parameters, raw.size, np.arange(len(readings)))
    apart = spread(readings, split_complex(calls.raw(parameters.values)))
    notes = []
    if apart:
        notes.append(f"the model is not deterministic to the last bit: two calls differ by up to {apart:.3g}")
    if _changed(parameters, given):
        notes.append("the model writes into its parameters; every call was given a fresh copy")
    is_complex = raw.dtype.kind == "c"
    if is_complex:
        inputs = np.concatenate([inputs, inputs])
    return First(calls, readings, inputs, is_complex, apart, int(inputs.max()) + 1, tuple(notes))


def _first_call(model: Callable[..., Any], given: Any, bank: Any, parameters: Parameters) -> Any:
    try:
        return model(given, bank)
    except Exception as error:
        absent = missing_key(lambda watched: model(watched, bank), parameters.rebuild(parameters.values), error)
        if absent:
            msg = f"the model raised {error!r}: {absent}"
            raise ValueError(msg) from error
        call = lambda some: model(parameters.rebuild(parameters.values), some)  # noqa: E731
        raise ValueError(refusal(call, bank, error)) from error


def without_readings(count: int, parameters: Parameters) -> First:
    """Stand in for the first calls of a model that has derivatives but gives no readings: each its own input."""
    calls = Calls(_no_readings, None, parameters, count, np.arange(count))
    note = "the model gives no readings, only derivatives"
    return First(calls, np.full(count, np.nan), np.arange(count, dtype=np.int64), False, 0.0, count, (note,))


def _no_readings(params: Any, bank: Any) -> Any:
    raise NotImplementedError


def restricted(first: First, rows: npt.NDArray[np.intp]) -> First:
    """Leave out all readings but some of those that are left."""
    if len(rows) == len(first.readings):
        return first
    calls = replace(first.calls, kept=first.places[rows])
    return replace(first, calls=calls, readings=first.readings[rows], inputs=first.inputs[rows])


def require_inputs(bank: Any) -> None:
    """Refuse a bank that has a length, which is zero, and one that can be read only once."""
    if isinstance(bank, Iterator):
        msg = (
            f"bank must last for more than one call; got the iterator {bank!r:.60}, which the first call uses up: give "
            "list(bank), or estim.Batches(factory) when its items are batches"
        )
        raise TypeError(msg)
    if bank is not None and _length(bank) == 0:
        msg = f"bank must hold at least one input; got {bank!r:.80}"
        raise ValueError(msg)


def _length(bank: Any) -> int | None:
    try:
        return len(bank)
    except TypeError:
        return None


def spread(once: Array, again: Array, eps: float = EPS) -> float:
    """Return the largest difference of two calls, or raise when it is more than floats of rounding `eps` explain."""
    if once.tobytes() == again.tobytes():
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(once - again)
    same = (once == again) | (np.isnan(once) & np.isnan(again))
    difference[same] = 0.0
    difference[np.isnan(difference)] = np.inf
    largest = float(difference.max())
    finite = np.abs(once[np.isfinite(once)])
    if largest > max(REPEATABLE, _ORDER * eps) * finite.max(initial=0.0):
        i = int(np.argmax(difference))
        msg = (
            f"the model must be deterministic; two calls with the same parameters and bank differ by up to "
            f"{largest:.3g} (reading {i}: {once[i]:.6g}, then {again[i]:.6g}); fix its random state"
        )
        raise ValueError(msg)
    return largest


def _changed(parameters: Parameters, given: Any) -> bool:
    """Tell whether a model wrote into the parameters it was given."""
    try:
        now = read_parameters(given).values
    except (TypeError, ValueError):
        return True
    fresh = read_parameters(parameters.rebuild(parameters.values)).values
    return not np.array_equal(now, fresh)


def refusal(call: Callable[[Any], Any], bank: Any, error: Exception) -> str:
    """Say what a model, called with a bank, raised, and for which input."""
    said = f"the model raised {error!r} for this bank"
    if isinstance(error, TypeError) and "positional argument" in str(error):
        said += ", as it is called with two arguments, model(params, bank)"
    length = _length(bank)
    if length is None or length < 2 or length > _TRIED or isinstance(bank, str | dict):
        return said
    rows = bank.iloc if hasattr(bank, "iloc") else bank
    if not hasattr(rows, "__getitem__"):  # a set, say
        return said
    first: tuple[int, Exception] | None = None
    accepted = False
    deadline = monotonic() + _SECONDS
    for i in range(length):
        if monotonic() > deadline:
            return said
        cause = _raised(call, rows[i : i + 1])
        accepted |= cause is None
        if cause is not None and first is None:
            first = (i, cause)
        if accepted and first is not None:
            return f"{said}; input {first[0]} is the first that it also refuses on its own: {first[1]!r}"
    if accepted:
        return f"{said}; it accepts every input of the bank on its own"
    if hasattr(bank, "columns"):
        return (
            f"{said}; it refuses every row on its own, too, so no single one is the cause; the columns are "
            f"{list(bank.columns)}"
        )
    return f"{said}; it refuses every input on its own, too, so no single one is the cause"


def _raised(call: Callable[[Any], Any], bank: Any) -> Exception | None:
    try:
        call(bank)
    except Exception as error:
        return error
    return None
