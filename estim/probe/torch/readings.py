"""The readings of a module: called safely, checked, and what goes wrong put in a sentence."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from estim.probe.torch.bank import holds_words, length, mapped, selected
from estim.probe.torch.parameters import Trainable
from estim.probe.torch.untouched import Snapshot

#: Two calls may differ by this many roundings of the largest reading: no more is the order of a sum.
REPEATABLE = 1e4
#: Inputs tried one by one when a model refuses a batch.
_TRIED = 1000


@dataclass
class Subject:
    """A module in eval mode with its readings."""

    module: torch.nn.Module
    function: Callable[..., Any] | None
    parameters: Trainable
    snapshot: Snapshot
    notes: list[str] = field(default_factory=list)
    complex: bool = False
    """Whether the last readings were complex: of each input the real parts then come before the imaginary parts."""

    def __post_init__(self) -> None:
        """Refuse readings that cannot be called."""
        if self.function is not None and not callable(self.function):
            msg = f"readings must be a callable readings(module, inputs) -> tensor; got {self.function!r:.60}"
            raise TypeError(msg)

    def readings(self, batch: Any, where: str = "") -> torch.Tensor:
        """Return the readings of a batch, (inputs, readings of each), with their graph; complex ones as two.

        Raises
        ------
        TypeError, ValueError
            When the model raises, or returns something that is no tensor of readings.
        """
        output = self.values(batch, where)
        if not output.requires_grad:
            raise ValueError(where + NO_GRADIENT)
        return output

    def values(self, batch: Any, where: str = "") -> torch.Tensor:
        """Return the readings of a batch, (inputs, readings of each), whether they have a gradient or not."""
        output = self._called(batch, where)
        if not isinstance(output, torch.Tensor):
            raise TypeError(where + _no_tensor(output))
        if output.numel() == 0:
            msg = f"{where}the model must return at least one reading; got shape {tuple(output.shape)}"
            raise ValueError(msg)
        if output.layout != torch.strided:
            msg = f"{where}readings must be a dense tensor; got one of layout {output.layout}: to_dense() makes one"
            raise TypeError(msg)
        output = output.reshape(len(output) if output.ndim else 1, -1)
        self.complex = output.is_complex()
        if self.complex:
            output = torch.cat([output.real, output.imag], dim=1)
        if not output.is_floating_point():
            msg = f"{where}readings must be real numbers that change smoothly with the parameters; got {output.dtype}"
            raise ValueError(msg)
        return output

    def checked(self, batch: Any, where: str = "") -> torch.Tensor:
        """Return the readings of a batch, called twice to see whether they repeat; raises ValueError when not."""
        state = torch.get_rng_state()
        with torch.no_grad():
            once = self.values(batch, where).detach()  # of a scripted module they may need a gradient even here
        draws = not torch.equal(state, torch.get_rng_state())
        self._look_for_writes()
        again = self.readings(batch, where)
        self._compare(once, again.detach(), draws, where)
        return again

    def _called(self, batch: Any, where: str) -> Any:
        self.snapshot.rewind()
        try:
            return self.call(batch)
        except Exception as error:
            raise ValueError(where + self._refusal(batch, error)) from error

    def call(self, batch: Any) -> Any:
        """Call the model on a copy of the batch, which it may write into."""
        given = mapped(batch, lambda tensor: tensor.detach().clone())
        if self.function is not None:
            return self.function(self.module, given)
        if isinstance(given, Mapping):
            return self.module(**given)
        return self.module(*given) if isinstance(given, tuple) else self.module(given)

    def _refusal(self, batch: Any, error: Exception) -> str:
        said = f"the model raised {error!r} for this bank"
        if isinstance(batch, tuple) and self.function is None:
            said += (
                f"; a tuple or list of {len(batch)} is given as {len(batch)} arguments: readings=lambda model, inputs: "
                "... takes another way, and estim.Batches(lambda: batches) a list of batches"
            )
        if holds_words(batch) and self.function is None:
            said += "; readings=lambda model, words: ... says how words are read"
        count = length(batch)
        if count is None or not 2 <= count <= _TRIED:
            return said
        for k in range(count):
            try:
                self.snapshot.rewind()
                with torch.no_grad():
                    self.call(selected(batch, slice(k, k + 1)))
            except Exception as cause:
                return f"{said}; input {k} is the first that it also refuses on its own: {cause!r}"
        return f"{said}; it accepts every input of the bank on its own"

    def _look_for_writes(self) -> None:
        written = {id(tensor) for tensor in self.snapshot.written()}
        names = [name for name, tensor in self.module.named_buffers() if id(tensor) in written]
        if names:
            self._say(f"the model writes into its buffers in eval mode, too ({', '.join(names)}): put back every time")

    def _compare(self, once: torch.Tensor, again: torch.Tensor, draws: bool, where: str) -> None:
        difference = (once - again).abs().nan_to_num(0.0)
        finite = torch.where(again.isfinite(), again.abs(), torch.zeros_like(again))
        largest = float(difference.max())
        if largest > REPEATABLE * torch.finfo(again.dtype).eps * float(finite.max()):
            place = int(difference.argmax())
            why = (
                "it draws random numbers in eval mode: a dropout without training=self.training?"
                if draws
                else "something in it changes from call to call"
            )
            pair = f"{float(once.flatten()[place]):.6g}, then {float(again.flatten()[place]):.6g}"
            msg = (
                f"{where}the model must be deterministic; two calls differ by up to {largest:.3g} "
                f"(reading {place}: {pair}); {why}"
            )
            raise ValueError(msg)
        if largest:
            self._say(
                f"two calls, without gradients and with them, differ by up to {largest:.3g}: rounding, which may take "
                "another way in each of the two"
            )

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def explained(error: Exception) -> str:
    """Return what a failure of the derivative means."""
    text = str(error)
    if "inplace operation" in text or "in-place operation" in text:
        return (
            "the model overwrites a tensor that its derivative needs (an in-place operation, such as x += y or "
            f"inplace=True): make that a new tensor; torch says: {text}"
        )
    return f"torch cannot differentiate the readings: {text}"


def gradients_of(subject: Subject, flat: torch.Tensor, weights: Any, **options: bool) -> tuple[torch.Tensor, ...]:
    """Return the gradients, by each parameter, of readings (m,) with weights, (m,); ValueError says what failed."""
    seed = torch.as_tensor(weights, device=flat.device, dtype=flat.dtype)
    try:
        found: tuple[torch.Tensor, ...] = torch.autograd.grad(
            flat, list(subject.parameters.tensors), grad_outputs=seed, allow_unused=True, materialize_grads=True,
            **options,
        )  # fmt: skip
    except RuntimeError as error:
        raise ValueError(explained(error)) from error
    return found


def as_dtype(module: torch.nn.Module, dtype: Any) -> torch.nn.Module:
    """Return a copy of a module in another dtype; raises TypeError for no such dtype, ValueError without a copy."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        msg = f"dtype must be a torch.dtype of floating point, such as torch.float64; got {dtype!r:.60}"
        raise TypeError(msg)
    try:
        with torch.no_grad():  # parameters of scripted modules are copied by operations, and would have their graph
            copied = copy.deepcopy(module, _computed(module)).to(dtype)
    except Exception as error:
        msg = f"dtype={dtype} needs a copy of the model, which cannot be copied: {error!r}"
        raise ValueError(msg) from error
    for one, own in zip(copied.parameters(), module.parameters(), strict=True):
        one.requires_grad_(own.requires_grad)
    return copied


def _computed(module: torch.nn.Module) -> dict[int, torch.Tensor]:
    """Return copies of tensors that a module has computed and kept, which torch does not copy, by their identity.

    The weight of an older weight_norm, spectral_norm or pruning is one, and so is what a forward pass stores.
    """
    found: dict[int, torch.Tensor] = {}
    left: list[Any] = [part.__dict__ for part in module.modules()]
    seen: set[int] = set()
    while left:
        held = left.pop()
        if isinstance(held, torch.Tensor) and not held.is_leaf:
            found[id(held)] = held.detach().clone()
        elif isinstance(held, dict | list | tuple) and id(held) not in seen:
            seen.add(id(held))
            left.extend(held.values() if isinstance(held, dict) else held)
    return found


def _no_tensor(output: Any) -> str:
    kind = type(output).__name__
    if isinstance(output, Mapping):
        fields = [str(name) for name in output]
        pick = f"model(**inputs)[{fields[0]!r}]" if fields else ""
    else:
        held = getattr(output, "__dict__", {})
        fields = [name for name, value in held.items() if isinstance(value, torch.Tensor)]
        pick = f"model(inputs).{fields[0]}" if fields else ""
        if isinstance(output, tuple | list) and output:
            pick = "model(inputs)[0]"
    holds = f" holding {', '.join(fields)}" if fields else ""
    say = f"say what is read, such as readings=lambda model, inputs: {pick}" if pick else "return one that torch made"
    return f"readings must be a tensor; the model returned {kind}{holds}: {say}"


#: Said of readings that no trainable parameter moves.
NO_GRADIENT = (
    "readings must depend on the model's trainable parameters; these do not "
    "(a detach, torch.no_grad, .data, a checkpoint with use_reentrant=True, or a reading of another model than the one "
    "given to it)"
)


def flat_array(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    """Return the entries of a tensor, without its graph, as they are now: it may be a parameter that is moved."""
    return np.array(tensor.detach().reshape(-1).cpu().double().numpy())
