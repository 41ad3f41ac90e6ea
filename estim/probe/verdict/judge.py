"""The decision: changed, equivalent or blind, from what was projected on the resolved directions and what was left.

The core, `decide`, takes numbers alone, so that it serves every way to come by them.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.blas import one_blas_thread
from estim.probe.verdict.any_change import size_notes
from estim.probe.verdict.change import change_p_value, change_powers, critical_value
from estim.probe.verdict.margin import Margin, margin_of
from estim.probe.verdict.observed import Observation, noise_factor, noiseless_movement, observe, rounding_note, whiten
from estim.probe.verdict.planning import Repeats, Situation
from estim.probe.verdict.record import Outcome, Verdict
from estim.probe.verdict.words import Said, prescribe, reason_for, stillness_note
from estim.real_numbers import probability
from estim.streams import Seed, generator

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]

_RESIDUAL_NOTE = (
    "A change that no parameter can make is looked for in the residual alone: EQUIVALENT speaks of changes of the "
    "parameters. The two tests share the false alarms, so each detects a little less than one alone would "
    "(Sensitivity.minimum_detectable)."
)


@dataclass(frozen=True)
class Projected:
    """A shift of the readings split in two, in units of the variance of its noise."""

    statistic: float
    """Squared length along the resolved directions."""
    degrees: int
    residual: float
    """Squared length of the rest."""
    residual_degrees: int
    noise_degrees: float = math.inf
    noise_scale: float = 1.0
    certain: bool = False
    """Whether a reading without noise moved."""
    known: int = 0
    """Directions resolved by readings without noise."""
    largest: tuple[int, ...] = ()
    """The readings that moved most."""


# Its matrices are small: threads cost more than they bring, and those of two libraries wait for one another.
@one_blas_thread()
def judge(
    found: "Sensitivity",
    observed_shift: Any,
    *,
    smallest_change: Any,
    baseline: str,
    confidence_level: float,
    power: float,
    absolute_sigma: bool,
    rng: Seed,
) -> Verdict:
    """Return the verdict of `Sensitivity.judge` by the package's own tests."""
    check_power(power, confidence_level)
    seen = observe(found, observed_shift, baseline, absolute_sigma)
    in_noise = noise_factor(found, seen)
    margin = margin_of(found, smallest_change, generator(rng)).in_units_of(in_noise)
    return decide(
        project(found, seen, in_noise),
        margin,
        seen.repeats,
        seen.count,
        confidence_level=confidence_level,
        power=power,
        notes=(
            *size_notes(smallest_change),
            *seen.notes,
            *margin.notes,
            *rounding_note(found, seen, certain=bool(np.isinf(margin.shifts).any())),
        ),
    )


def check_power(power: Any, confidence_level: Any) -> tuple[float, float]:
    """Return both as floats; refuse what is no probability, and a power that the test has without any change."""
    level, wanted = probability(confidence_level, "confidence_level"), probability(power, "power")
    if wanted <= 1.0 - level:
        msg = f"power must exceed the false-alarm rate {1.0 - level:.6g} = 1 - confidence_level; got {power!r}"
        raise ValueError(msg)
    return wanted, level


def project(found: "Sensitivity", seen: Observation, in_noise: float) -> Projected:
    """Split the shift into what the resolved directions can do and the rest."""
    whitened = whiten(found, seen.shift) / in_noise
    noisy = len(whitened) if found.whitening.ndim == 2 else int(np.count_nonzero(found.whitening))
    along = found.readout.T @ whitened
    rest = whitened - found.readout @ along
    rest -= found.readout @ (found.readout.T @ rest)  # once more: what is left is orthogonal to rounding
    size = np.abs(whiten_back(found, seen.shift))
    with np.errstate(over="ignore"):  # a shift beyond the root of the float range is a change all the same
        statistic, residual = float(np.square(along).sum()), float(np.square(rest).sum())
    return Projected(
        statistic=statistic, degrees=len(along), residual=residual,
        residual_degrees=noisy - len(along), noise_degrees=seen.noise_degrees, noise_scale=seen.noise_scale,
        certain=noiseless_movement(found, seen), known=found.resolved - len(along),
        largest=tuple(int(i) for i in np.argsort(-size, kind="stable")[:3] if size[i] > 0.0),
    )  # fmt: skip


def whiten_back(found: "Sensitivity", shift: Array) -> Array:
    """Return each reading's shift over its own standard deviation; infinite for one without noise that moved."""
    if found.whitening.ndim == 1:
        over = np.abs(shift) * found.whitening
        return np.where((found.whitening == 0.0) & (shift != 0.0), np.inf, over)
    return np.asarray(np.abs(shift) * np.sqrt(np.square(found.whitening).sum(axis=0)))


def decide(
    observed: Projected,
    margin: Margin,
    repeats: Repeats,
    count: int,
    *,
    confidence_level: float,
    power: float,
    notes: tuple[str, ...] = (),
    average: bool = False,
) -> Verdict:
    """Decide, from numbers alone.

    Parameters
    ----------
    observed : Projected
    margin : Margin
        Its shifts in standard deviations of the same noise as `observed`.
    repeats : Repeats
        How that noise falls with repeats.
    count : int
        Repeats that were averaged.
    confidence_level, power : float
        As for `Sensitivity.judge`.
    notes : tuple of str
        To be handed on.
    average : bool
        Whether no reading was given, and `observed` is the average one of a known change.

    Returns
    -------
    Verdict
    """
    power, confidence_level = check_power(power, confidence_level)
    alarm = 1.0 - confidence_level
    tests = (observed.degrees > 0) + (observed.residual_degrees > 0)
    # Sidak: exact for independent statistics; for F's with one variance estimate an upper bound (Kimball 1951,
    # doi:10.1214/aoms/1177729448).
    level = -math.expm1(math.log1p(-alarm) / max(tests, 1))
    nu = observed.noise_degrees
    situation = Situation(margin.shifts, observed.degrees, level, alarm, observed.residual_degrees, power, nu)
    each = change_powers(margin.shifts, observed.degrees, level, nu)
    said = Said(
        observed=observed, margin=margin, count=count, level=level, alarm=alarm, wanted=power, power=float(each.mean()),
        p_value=change_p_value(observed.statistic, observed.degrees, nu),
        residual_p_value=change_p_value(observed.residual, observed.residual_degrees, nu),
        equivalence_p_value=situation.test.p_value(observed.statistic), sides=repeats.sides,
        correlation=repeats.correlation, most=situation.most(), average=average, **_needed(situation, repeats),
    )  # fmt: skip
    outcome = _outcome(said)
    return Verdict(
        outcome=outcome,
        reason=reason_for(outcome, said),
        prescription=prescribe(outcome, said),
        change=margin.words,
        test="chi-square" if math.isinf(nu) else "F",
        statistic=observed.statistic,
        degrees=observed.degrees,
        p_value=said.p_value,
        residual_statistic=observed.residual,
        residual_degrees=observed.residual_degrees,
        residual_p_value=said.residual_p_value,
        noise_degrees=nu,
        noise_scale=observed.noise_scale,
        confidence_level=confidence_level,
        level=level,
        false_alarm_rate=alarm if tests else 0.0,
        false_alarm_se=0.0,
        wanted_power=power,
        shifts=margin.shifts,
        power=said.power,
        power_se=float(each.std() / math.sqrt(len(each))) if len(each) > 1 else 0.0,
        equivalence_p_value=said.equivalence_p_value,
        equivalence_limit=situation.test.limit,
        equivalence_probability=situation.equivalent(1.0) if said.power >= power else 0.0,
        critical_value=critical_value(observed.degrees, level, nu),
        detectable_factor=situation.detectable_factor,
        repeats_needed=said.repeats_needed,
        sigma_factor=said.sigma_factor,
        worst_change=margin.change,
        unseen=margin.unseen,
        needs_inputs=outcome is Outcome.BLIND and (margin.null or margin.beyond > 0),
        notes=(
            *(() if average else stillness_note(observed)),
            *notes,
            *((_RESIDUAL_NOTE,) if observed.residual_degrees else ()),
        ),
        average=average,
    )


def _needed(situation: Situation, repeats: Repeats) -> dict[str, Any]:
    """Return the repeats and the noise with which silence is believed."""
    factor = situation.factor_needed
    return {"repeats_needed": repeats.needed(situation), "sigma_factor": 1.0 / factor if factor else math.inf}


def _outcome(said: "Said") -> Outcome:
    moved = (
        said.observed.certain
        or (said.observed.degrees > 0 and said.p_value <= said.level)
        or (said.observed.residual_degrees > 0 and said.residual_p_value <= said.level)
    )
    if moved:
        return Outcome.CHANGED
    if said.power >= said.wanted and said.equivalence_p_value <= said.alarm:
        return Outcome.EQUIVALENT
    return Outcome.BLIND
