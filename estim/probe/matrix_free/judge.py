"""The verdict on a shift of the readings of a model too large for single parameters."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from estim.probe.matrix_free.margin import margin_of_model
from estim.probe.matrix_free.shifts import read_shift
from estim.probe.record import Sensitivity
from estim.probe.verdict.any_change import size_notes
from estim.probe.verdict.judge import check_power, decide, project
from estim.probe.verdict.observed import noise_factor, observe, variance_of_mean
from estim.probe.verdict.record import Verdict
from estim.probe.verdict.statistic import unwhitening
from estim.streams import Seed, generator

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

_TOP_NOTE = (
    "Only the shift along the {count} strongest directions was tested: what moves the readings elsewhere may be the "
    "model's or not, and is not judged."
)


def judge_by_rule(
    found: "ModelSensitivity", observed_shift: Any, smallest_change: Any, smallest_shift: Any, **options: Any
) -> Verdict:
    """Return the verdict by a statistic of the user's.

    That asks of the model no more than how one change shifts the readings: it is as one of a single parameter.
    """
    if smallest_change is not None or smallest_shift is None:
        msg = (
            "a statistic or threshold of your own is judged beside one change: give smallest_shift, the readings of a "
            f"changed copy less the model's own, and no smallest_change; got {smallest_change!r:.80}"
        )
        raise ValueError(msg)
    shift = read_shift(found, smallest_shift, "smallest_shift")
    seen: Any = found  # the readings and their noise are what is asked of it
    back = unwhitening(seen) / math.sqrt(variance_of_mean(seen, found.repeats))
    noise = back @ back.T if back.ndim == 2 else back
    single = Sensitivity.from_jacobian(
        shift[:, None], noise, names=["smallest_shift"], repeats=found.repeats,
        repeat_correlation=found.repeat_correlation,
    )  # fmt: skip
    return replace(single, left_out=found.left_out).judge(observed_shift, smallest_change=[1.0], **options)


def judge_shift(
    found: "ModelSensitivity",
    observed_shift: Any,
    smallest_change: Any,
    smallest_shift: Any,
    *,
    baseline: str,
    confidence_level: float,
    power: float,
    absolute_sigma: bool,
    rng: Seed,
) -> Verdict:
    """Return the verdict of `ModelSensitivity.judge`, by the core of `Sensitivity.judge`, of readings only."""
    check_power(power, confidence_level)
    seen: Any = found  # the readings, their noise and the readout are what is asked of it
    observed = observe(seen, observed_shift, baseline, absolute_sigma)
    in_noise = noise_factor(seen, observed)
    margin = margin_of_model(found, smallest_change, smallest_shift, generator(rng)).in_units_of(in_noise)
    projected = project(seen, observed, in_noise)
    notes = (*size_notes(smallest_change), *observed.notes, *margin.notes)
    if found.rest is not None:
        projected = replace(projected, residual=0.0, residual_degrees=0)
        notes = (*notes, _TOP_NOTE.format(count=found.resolved))
    return decide(
        projected, margin, observed.repeats, observed.count,
        confidence_level=confidence_level, power=power, notes=notes,
    )  # fmt: skip
