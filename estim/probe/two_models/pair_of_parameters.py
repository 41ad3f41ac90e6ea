"""Two sets of parameters of one callable, or two attention networks, compared."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.attention import Network
from estim.probe.along import error_of_change, noisy, start
from estim.probe.assemble import assemble
from estim.probe.model.calls import Calls
from estim.probe.model.kinds import is_function_of_jax
from estim.probe.model.parameters import read_parameters
from estim.probe.two_models.pair import Pair, require_finite, third_margin
from estim.probe.verdict.any_change import AnyChange
from estim.probe.verdict.judge import Projected, project
from estim.probe.verdict.margin import Margin, margin_of
from estim.probe.verdict.observed import Observation
from estim.probe.verdict.planning import Repeats

Array = npt.NDArray[np.float64]


def pair_of_parameters(before: Any, after: Any, bank: Any, sigma: Any, model: Any) -> Pair:
    """Return two sets of parameters of a callable, or two networks."""
    network, of_jax = isinstance(before, Network), False
    if not network and not callable(model):
        msg = (
            "before must be a torch.nn.Module or an attention.Network, or parameters with model=a callable "
            f"model(params, bank); got {type(before).__name__} and model={model!r:.80}"
        )
        raise TypeError(msg)
    if network:
        _require_left_out_model(model)
        found, calls = start(before, bank, None, None)
    else:
        of_jax = is_function_of_jax(model, before)
        if of_jax:
            from estim.probe.jax.large import is_large
            from estim.probe.jax.other import read_argument
            from estim.probe.jax.two_models import pair_of_large

            read_argument(before, "before")
            if is_large(before):
                return pair_of_large(model, before, after, bank, sigma)
        else:
            read_parameters(before, argument="before")
        found, calls = start(model, bank, before, None)

    def read(given: Any, argument: str) -> tuple[Array, Calls, tuple[str, ...]]:
        if of_jax:
            from estim.probe.jax.two_models import calls_of_other

            return calls_of_other(calls, model, before, given, bank, argument)
        return _other(before, given, found.names, argument), calls, ()

    end, ahead, notes = read(after, "after")
    delta = end - found.parameters
    if not delta.any() and not notes:
        msg = "after must differ from before; all parameters are the same"
        raise ValueError(msg)
    noise = noisy(sigma, found.total)
    moved = ahead(found.parameters + delta)
    require_finite(moved, "after")
    level = error_of_change(found, calls, delta, moved)
    record = assemble(
        found, sigma, symmetry=None, repeats=1, repeat_correlation=0.0, smallest_change=None, rtol=None, atol=None
    )

    def split(change: Array) -> Projected:
        seen = Observation(change, np.zeros_like(change), Repeats(1.0, 1, 0.0), 1, 1.0, math.inf, ())
        return project(record, seen, 1.0)

    def margin(smallest: Any, rng: np.random.Generator) -> Margin:
        if isinstance(smallest, AnyChange):
            return margin_of(record, smallest, rng)
        values, calls_there, _ = read(smallest, "smallest_change")
        return third_margin(calls_there(values) - found.readings, split)

    return Pair(
        expected=found.jacobian @ delta, changed=moved - found.readings, error=level,
        partly=lambda t: ahead(found.parameters + t * delta) - found.readings,
        noise=noise, project=split, margin=margin,
        delta=np.array([np.linalg.norm(delta), np.linalg.norm(found.parameters)]),
        parameters=int(np.count_nonzero(delta)), notes=(*found.notes, *notes),
    )  # fmt: skip


def _require_left_out_model(model: Any) -> None:
    """Refuse a callable beside models that hold their parameters."""
    if model is not None:
        msg = f"model must be left out: before and after are models themselves; got {model!r:.80}"
        raise ValueError(msg)


def _other(before: Any, given: Any, names: tuple[str, ...], argument: str) -> Array:
    """Return the parameters of another model as a vector like those of the first."""
    if isinstance(before, Network):
        if not isinstance(given, Network):
            msg = f"{argument} must be an attention.Network as before is; got {type(given).__name__}"
            raise TypeError(msg)
        if given.normalizer is not before.normalizer and given.normalizer != before.normalizer:
            msg = f"{argument} must have the normalizer of before; got {given.normalizer!r} and {before.normalizer!r}"
            raise ValueError(msg)
        from estim.probe.model.networks import nested_parameters

        given = nested_parameters(given)
    found = read_parameters(given, argument=argument)
    if odd := set(found.names) ^ set(names):
        msg = f"{argument} must have the {len(names)} parameters of before; got {len(found.names)}"
        msg += f": {min(odd)} is in one of them only"
        raise ValueError(msg)
    by_name = dict(zip(found.names, found.values, strict=True))
    return np.array([by_name[name] for name in names])
