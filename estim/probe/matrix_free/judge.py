"""The verdict on a shift of the readings of a model too large for single parameters."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from estim.probe.matrix_free.margin import margin_of_model
from estim.probe.verdict.any_change import size_notes
from estim.probe.verdict.judge import check_power, decide, project
from estim.probe.verdict.observed import noise_factor, observe
from estim.probe.verdict.record import Verdict
from estim.streams import Seed, generator

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

_TOP_NOTE = (
    "Only the shift along the {count} strongest directions was tested: what moves the readings elsewhere may be the "
    "model's or not, and is not judged."
)


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
