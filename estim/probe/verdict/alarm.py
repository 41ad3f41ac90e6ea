"""A statistic of the user's own and an alarm rule: its false alarms and its power, exact where it is linear."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from estim.probe.verdict.judge import check_power, judge
from estim.probe.verdict.margin import Margin, margin_of
from estim.probe.verdict.observed import noise_factor, observe
from estim.probe.verdict.record import Outcome, Verdict
from estim.probe.verdict.statistic import (
    Statistic,
    as_one_reading,
    from_whitened,
    gradient_of,
    one_reading,
    read_statistic,
    unwhitening,
)
from estim.probe.verdict.words import advice_for_the_unseen
from estim.real_numbers import real_number
from estim.streams import Seed, check_flag, generator

if TYPE_CHECKING:
    from estim.probe.record import Sensitivity

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Rates:
    """What a rule does, with Monte Carlo standard errors; 0 where exact."""

    false_alarms: float
    false_alarms_se: float
    power: float
    power_se: float
    p_value: float
    """So large a statistic though nothing changed."""
    equivalence_p_value: float
    """So small a statistic though the smallest change was made."""
    shift: float
    """Of the statistic under the smallest change, in its standard deviations; NaN where that means nothing."""


def judge_by_statistic(
    found: "Sensitivity",
    observed_shift: Any,
    *,
    smallest_change: Any,
    baseline: str,
    confidence_level: float,
    power: float,
    absolute_sigma: bool,
    statistic: Any,
    threshold: float | None,
    trials: int,
    rng: Seed,
) -> Verdict:
    """Return the verdict of `Sensitivity.judge` by a statistic of the user's."""
    if statistic is None:
        msg = "threshold needs the statistic that it is for; got statistic=None"
        raise ValueError(msg)
    power, confidence_level = check_power(power, confidence_level)
    check_flag(absolute_sigma, "absolute_sigma")
    draw = generator(rng)
    chosen = read_statistic(found, statistic)
    if threshold is None:
        if chosen.weights is None:
            msg = "threshold must be given for a statistic that is not linear; got None"
            raise ValueError(msg)
        one = one_reading(found, chosen.weights)
        verdict = judge(
            one, as_one_reading(found, chosen.weights, observed_shift), smallest_change=smallest_change,
            baseline=baseline, confidence_level=confidence_level, power=power, absolute_sigma=absolute_sigma, rng=draw,
        )  # fmt: skip
        # It has one reading, which is all of them.
        changed = verdict.outcome is Outcome.CHANGED
        return replace(verdict, prescription="Look at what changed.") if changed else verdict
    if not absolute_sigma:
        msg = "absolute_sigma=False leaves nothing to compute the rates of a threshold from; give sigma"
        raise ValueError(msg)
    limit = real_number(threshold, "threshold")
    if not math.isfinite(limit):
        msg = f"threshold must be finite; got {threshold!r}"
        raise ValueError(msg)
    value, noise = _observed(found, chosen, observed_shift, baseline)
    margin = _one_change(found, smallest_change)
    if chosen.weights is not None:
        rates = _exact(found, chosen.weights, noise, value, limit, margin)
    else:
        rates = _simulated(found, chosen.function, noise, value, limit, margin, _count(trials), draw)
    return _by_rule(value, limit, rates, margin, confidence_level, power)


def _count(trials: Any) -> int:
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer) or not 1 <= trials < 2**63:
        msg = f"trials must be a positive integer below 2^63; got {trials!r:.60}"
        raise ValueError(msg)
    return int(trials)


def _observed(found: "Sensitivity", chosen: Statistic, observed: Any, baseline: str) -> tuple[float, float]:
    """Return the statistic's value, given or of the shift, and the noise of the shift over the record's."""
    if not isinstance(observed, tuple) and np.ndim(observed) == 0:
        given, value = np.zeros(found.readings), real_number(observed, "observed_shift")
        if not math.isfinite(value):
            msg = f"observed_shift must be finite; got {observed!r}"
            raise ValueError(msg)
        return value, noise_factor(found, observe(found, given, baseline, True))
    seen = observe(found, observed, baseline, True)
    return chosen.function(seen.shift), noise_factor(found, seen)


def _one_change(found: "Sensitivity", smallest_change: Any) -> Margin:
    margin = margin_of(found, smallest_change, np.random.default_rng(0))
    if not margin.single or margin.change is None:
        if margin.gauge:
            msg = f"smallest_change, {margin.words}, is a gauge: the same function on all inputs"
            raise ValueError(msg)
        msg = "smallest_change must be one change beside a threshold: a vector, names, or two sets of parameters"
        raise ValueError(msg)
    return margin


def _exact(
    found: "Sensitivity", weights: Array, noise: float, value: float, threshold: float, margin: Margin
) -> _Rates:
    from scipy import stats

    gradient, deviation = gradient_of(found, weights)
    moved = float(gradient @ np.asarray(margin.change))
    # What may be the Jacobian's error does not count.
    doubt = found._doubt(np.asarray(margin.change)) * deviation
    moved = math.copysign(max(abs(moved) - doubt, 0.0), moved)
    deviation *= noise
    none, changed = stats.norm(0.0, deviation), stats.norm(moved, deviation)
    return _Rates(
        float(none.sf(threshold)), 0.0, float(changed.sf(threshold)), 0.0, float(none.sf(value)),
        float(changed.cdf(value)), moved / deviation,
    )  # fmt: skip


def _simulated(
    found: "Sensitivity",
    function: Callable[[Array], float],
    noise: float,
    value: float,
    threshold: float,
    margin: Margin,
    trials: int,
    rng: np.random.Generator,
) -> _Rates:
    """Draw the noise of the shift without and with the smallest change, the same draws for both."""
    if np.isnan(found.singular_values).any():
        msg = "statistic needs a record whose singular values are all known"
        raise ValueError(msg)
    back, values = unwhitening(found), found.singular_values[: found.resolved]
    known = np.isinf(values)
    along = found.directions[: found.resolved] @ np.asarray(margin.change)
    if not margin.shifts.any():
        along[:] = 0.0  # what is left of a change that is not seen is rounding
    if known.any() and np.abs(along[known]).max() > 0.0:
        msg = "smallest_change moves a reading without noise: it is seen for certain, by any statistic of that reading"
        raise ValueError(msg)
    moved = from_whitened(back, found.readout @ (values[~known] * along[~known]))
    none, changed = np.empty(trials), np.empty(trials)
    width = len(found.readout)
    for k in range(trials):
        drawn = noise * from_whitened(back, rng.standard_normal(width))
        none[k], changed[k] = function(drawn), function(moved + drawn)
    alarms, detected = (int(np.count_nonzero(drawn > threshold)) for drawn in (none, changed))
    return _Rates(
        alarms / trials, _standard_error(alarms, trials), detected / trials, _standard_error(detected, trials),
        (1 + int(np.count_nonzero(none >= value))) / (trials + 1),
        (1 + int(np.count_nonzero(changed <= value))) / (trials + 1), math.nan,
    )  # fmt: skip


def _standard_error(count: int, trials: int) -> float:
    """Return the standard error of a frequency; of none or all it is not 0."""
    rate = (count + 1) / (trials + 2)
    return math.sqrt(rate * (1.0 - rate) / trials)


def _by_rule(
    value: float, threshold: float, rates: _Rates, margin: Margin, confidence_level: float, power: float
) -> Verdict:
    alarm = 1.0 - confidence_level
    sure = rates.power - 2.0 * rates.power_se
    if value > threshold:
        outcome = Outcome.CHANGED
    elif sure >= power and rates.equivalence_p_value <= alarm:
        outcome = Outcome.EQUIVALENT
    else:
        outcome = Outcome.BLIND
    notes = ["The rule was judged against one change; another of the same size may be easier or harder for it."]
    if margin.notes and math.isnan(rates.shift):
        notes.append(
            f"Within the error of the Jacobian, the change may move the readings by up to {margin.doubt:.3g} standard "
            "deviations more or less than was simulated."
        )
    if rates.false_alarms > alarm:
        notes.append(f"The rule's false-alarm rate, {rates.false_alarms:.3g}, exceeds the {alarm:.3g} asked for.")
    reason, advice = _in_words(outcome, value, threshold, rates, margin, power, alarm)
    shift = abs(rates.shift) if math.isfinite(rates.shift) else float(margin.shifts[0])
    return Verdict(
        outcome=outcome, reason=reason, prescription=advice, change=margin.words, test="statistic > threshold",
        statistic=value, degrees=0, p_value=rates.p_value, residual_statistic=0.0, residual_degrees=0,
        residual_p_value=1.0, noise_degrees=math.inf, noise_scale=1.0, confidence_level=confidence_level,
        level=rates.false_alarms, false_alarm_rate=rates.false_alarms, false_alarm_se=rates.false_alarms_se,
        wanted_power=power, shifts=np.array([shift]), power=rates.power, power_se=rates.power_se,
        equivalence_p_value=rates.equivalence_p_value, equivalence_limit=math.nan, equivalence_probability=math.nan,
        critical_value=threshold, detectable_factor=math.nan, repeats_needed=None, sigma_factor=math.nan,
        worst_change=margin.change, unseen=margin.unseen, needs_inputs=False, notes=tuple(notes),
    )  # fmt: skip


def _in_words(
    outcome: Outcome, value: float, threshold: float, rates: _Rates, margin: Margin, power: float, alarm: float
) -> tuple[str, str]:
    against = f"the rule detects {margin.words} with probability {_rate(rates.power, rates.power_se)}"
    false = f"false alarms: {_rate(rates.false_alarms, rates.false_alarms_se)}"
    if outcome is Outcome.CHANGED:
        return f"Alarm: the statistic, {value:.4g}, exceeds {threshold:.4g} ({false}).", "Look at what changed."
    silence = f"No alarm: the statistic, {value:.4g}, does not exceed {threshold:.4g}"
    if outcome is Outcome.EQUIVALENT:
        return f"{silence}, and {against} ({false}).", "The silence may be believed."
    if rates.power < power:
        reason = f"{silence}, but {against} only, below {power:g} ({false}): the silence proves nothing."
    else:
        reason = f"{silence}, and {against}; yet with that change a statistic as small has probability "
        reason += f"{rates.equivalence_p_value:.2g}, above {alarm:.3g}."
    if margin.gauge:
        return reason, "Ask for a change of the function."
    if margin.unseen:
        return reason, advice_for_the_unseen(margin)
    return reason, "Lower the threshold at the price of false alarms, or judge by all readings: leave out statistic."


def _rate(value: float, error: float) -> str:
    return f"{value:.3g} +- {error:.1g}" if error else f"{value:.3g}"
