"""Two models and one monitor: whether it sees the change from the one to the other, and what its silence says."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from estim.probe.along import absolute, compared, whitened
from estim.probe.arguments import is_one_number
from estim.probe.model.kinds import is_torch_module, require_left_out
from estim.probe.model.same_batches import same_batches
from estim.probe.order_of_inputs import require_order_of_bank
from estim.probe.two_models.model_change import ModelChange
from estim.probe.two_models.pair import Pair
from estim.probe.two_models.pair_of_parameters import pair_of_parameters
from estim.probe.verdict.any_change import size_notes
from estim.probe.verdict.change import change_powers
from estim.probe.verdict.judge import Projected, check_power, decide
from estim.probe.verdict.margin import Margin
from estim.probe.verdict.planning import Repeats
from estim.real_numbers import real_number
from estim.streams import Seed, generator

Array = npt.NDArray[np.float64]

#: Parts of the change at which the model is evaluated, and halvings of the step in which linearity ends.
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
_HALVINGS = 6
#: A difference that is still above one at this fraction of the change is taken for a jump.
_LEAST = 2.0**-40
_OWN = "the change from before to after"


def judge_models(
    before: Any,
    after: Any,
    bank: Any,
    sigma: Any,
    *,
    model: Callable[..., Any] | None = None,
    smallest_change: Any = None,
    baseline: str = "known",
    repeat_correlation: float = 0.0,
    confidence_level: float = 0.95,
    power: float = 0.8,
    readings: Callable[..., Any] | None = None,
    groups: Any = None,
    dtype: Any = None,
    rng: "Seed" = None,
) -> ModelChange:
    """Say whether a monitor sees the change from one model to another: fine-tuned, quantised, pruned, merged.

    Both models are evaluated. What a linear model predicts of the shift, from the derivative at `before`, is compared
    with what happens, and the fraction of the change found up to which the two agree within the noise.

    Parameters
    ----------
    before : torch module, Network, or parameters
        Parameters, nested or an array, go with `model`.
    after : state dict, torch module, Network, or parameters
        For a module a state dict with the same names, or a module that has one: quantised weights are dequantised,
        buffers not compared. A module is evaluated as it is, so that its own arithmetic shows. Arrays of JAX are read
        in the dtypes of `before`; what has no derivative, such as whole numbers, may differ, too: a note names it.
    bank, sigma, readings, groups, dtype
        As for `estim.sensitivity`; sigma without zeros.
    model : callable, optional
        ``model(params, bank) -> readings``, when `before` and `after` are its parameters.
    smallest_change : AnyChange, or a third model like `after`, optional
        What must not be missed. When left out the change itself: then the verdict is CHANGED or BLIND, as there is
        nothing to be equivalent to.
    baseline : {"known", "noisy"}
        Whether the readings before are exact or have the same noise as those after: a difference then has both.
    repeat_correlation : float
        Common correlation between two repeats of a reading, in [0, 1]; 1 where the same computation is repeated, so
        that no number of repeats helps.
    confidence_level, power
        As for `Sensitivity.judge`.
    rng : None, int or numpy.random.Generator
        For changes of random direction.

    Returns
    -------
    ModelChange

    Raises
    ------
    TypeError, ValueError
        When the two do not fit each other (the message names the parameter), do not differ, or an argument does not
        fit; or the readings of `after` are not finite.

    Notes
    -----
    No noise is drawn: the verdict is on the statistic that a reading of the change has on average, the squared shift
    and the degrees of freedom. Of a module, and of a function of JAX with more than 3000 parameters, the test takes all
    readings, for these parameters are taken to move them in every way; of other models, as in `Sensitivity.judge`,
    those directions that the parameters can move. Random changes of the former (`AnyChange` with ``case="typical"``)
    are 16, a Jacobian product each.

    References
    ----------
    Bates and Watts, Relative curvature measures of nonlinearity, 1980, doi:10.1111/j.2517-6161.1980.tb01094.x.

    Examples
    --------
    >>> import numpy as np, estim
    >>> def decay(p, t):
    ...     return p["a"] * np.exp(-p["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 7)
    >>> before, after = {"a": 2.0, "rate": 0.5}, {"a": 2.0, "rate": 0.6}
    >>> found = estim.judge_models(before, after, t, 0.05, model=decay)
    >>> found.outcome.name, round(found.predicted, 2), round(found.actual, 2)
    ('CHANGED', 6.35, 5.78)
    >>> 0.9 < found.linear_up_to <= 1.0
    True
    """
    check_power(power, confidence_level)
    if not isinstance(baseline, str) or baseline not in ("known", "noisy"):
        msg = f"baseline must be 'known' or 'noisy'; got {baseline!r}"
        raise ValueError(msg)
    correlation = real_number(repeat_correlation, "repeat_correlation")
    if not 0.0 <= correlation <= 1.0:
        msg = f"repeat_correlation must lie between 0 and 1; got {repeat_correlation!r}"
        raise ValueError(msg)
    if is_one_number(smallest_change) and not is_one_number(before):
        msg = (
            f"smallest_change must be an AnyChange, or a third model like after; got {smallest_change!r}: any change "
            f"of that size in the parameters' units is AnyChange({smallest_change!r}, relative=False)"
        )
        raise TypeError(msg)
    sides = 1 + (baseline == "noisy")
    wanted = {"confidence_level": confidence_level, "power": power}
    repeats, random = Repeats(float(sides), sides, correlation), generator(rng)
    require_order_of_bank(sigma, bank)
    bank = same_batches(bank)
    if is_torch_module(before):
        from estim.probe.torch.two_models import compared_modules

        if model is not None:
            msg = f"model must be left out: before is a torch.nn.Module; got {model!r:.80}"
            raise ValueError(msg)
        with compared_modules(before, after, bank, sigma, readings, groups, dtype) as pair:
            return _judged(pair, smallest_change, repeats, random, **wanted)
    require_left_out(readings=readings, groups=groups, dtype=dtype)
    pair = pair_of_parameters(before, after, bank, sigma, model)
    return _judged(pair, smallest_change, repeats, random, **wanted)


def _judged(pair: Pair, smallest: Any, repeats: Repeats, rng: np.random.Generator, **wanted: float) -> ModelChange:
    noise = math.sqrt(repeats.sides)
    expected, actual = (whitened(pair.noise, part) / noise for part in (pair.expected, pair.changed))
    error = float(np.linalg.norm(absolute(pair.noise, pair.error))) / noise
    line = compared(expected, actual, error)
    shift, predicted = (_scaled(pair.project(part), noise) for part in (pair.changed, pair.expected))
    if smallest is None:
        margin = Margin(_OWN, np.array([math.sqrt(shift.statistic)]), None, single=True)
    else:
        margin = pair.margin(smallest, rng).in_units_of(noise)
    verdict = decide(
        replace(shift, statistic=shift.statistic + shift.degrees, residual=shift.residual + shift.residual_degrees),
        margin, repeats, 1, **wanted,
        notes=(
            "No reading was given: the verdict is on the one that the change gives on average.",
            *size_notes(smallest),
        ),
        average=True,
    )  # fmt: skip
    linear = {field.name: getattr(line, field.name) for field in fields(line)}
    fractions, differences, up_to = _scan(
        lambda t: whitened(pair.noise, pair.partly(t) - t * pair.expected) / noise, line
    )
    return ModelChange(
        **linear,
        power=_power(shift, verdict.level),
        predicted_power=_power(predicted, verdict.level),
        linear_up_to=up_to,
        fractions=fractions,
        differences=differences,
        parameters=pair.parameters,
        relative_size=float(pair.delta[0] / pair.delta[1]) if pair.delta[1] else math.inf,
        verdict=verdict,
        notes=(*pair.notes, *verdict.notes),
    )


def _scaled(shift: Projected, noise: float) -> Projected:
    return replace(shift, statistic=shift.statistic / noise**2, residual=shift.residual / noise**2)


def _power(shift: Projected, level: float) -> float:
    return float(change_powers(np.array([math.sqrt(shift.statistic)]), shift.degrees, level)[0])


def _scan(difference: Callable[[float], Array], line: Any) -> tuple[Array, Array, float]:
    """Return fractions of the change, the differences there, and up to where these stay below one."""
    fractions = np.array(FRACTIONS)
    sizes = np.array([*(float(np.linalg.norm(difference(t))) for t in FRACTIONS[:-1]), line.difference])
    beyond = ~(sizes <= 1.0)
    if not line.error < 1.0:
        return fractions, sizes, math.nan
    if not beyond.any():
        return fractions, sizes, 1.0
    first = int(np.argmax(beyond))

    def below(fraction: float) -> bool:
        return bool(np.linalg.norm(difference(fraction)) <= 1.0)

    low, high = (FRACTIONS[first - 1] if first else 0.0), FRACTIONS[first]
    while not low and high > _LEAST:
        low, high = (0.5 * high, high) if below(0.5 * high) else (0.0, 0.5 * high)
    for _ in range(_HALVINGS if low else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return fractions, sizes, low
