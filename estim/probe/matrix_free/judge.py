"""The verdict on a shift of the readings of a model too large for single parameters."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from estim.probe.verdict.judge import check_power, decide, project
from estim.probe.verdict.margin import Margin
from estim.probe.verdict.observed import noise_factor, observe
from estim.probe.verdict.record import Verdict

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity

_WORDS = "the change that shifts the readings as given"
_TOP_NOTE = (
    "Only the shift along the {count} strongest directions was tested: what moves the readings elsewhere may be the "
    "model's or not, and is not judged."
)


def judge_shift(
    found: "ModelSensitivity",
    observed_shift: Any,
    smallest_shift: Any,
    *,
    baseline: str,
    confidence_level: float,
    power: float,
    absolute_sigma: bool,
) -> Verdict:
    """Return the verdict of `ModelSensitivity.judge`, by the core of `Sensitivity.judge`, of readings only."""
    check_power(power, confidence_level)
    seen: Any = found  # the readings, their noise and the readout are what is asked of it
    observed = observe(seen, observed_shift, baseline, absolute_sigma)
    in_noise = noise_factor(seen, observed)
    shift = found.shift(smallest_shift)
    hidden = {} if shift > 0.0 else {"unseen": (_WORDS,), "unresolved": True}
    margin = Margin(_WORDS, np.array([shift]), None, single=True, **hidden)  # type: ignore[arg-type]
    projected, notes = project(seen, observed, in_noise), observed.notes
    if found.rest is not None:
        projected = replace(projected, residual=0.0, residual_degrees=0)
        notes = (*notes, _TOP_NOTE.format(count=found.resolved))
    return decide(
        projected, margin.in_units_of(in_noise), observed.repeats, observed.count,
        confidence_level=confidence_level, power=power, notes=notes,
    )  # fmt: skip
