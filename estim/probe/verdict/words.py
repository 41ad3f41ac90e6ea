"""A verdict in sentences: its reason, with the numbers that decided, and what to do."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from estim.probe.verdict.margin import Margin
from estim.probe.verdict.record import Outcome

if TYPE_CHECKING:
    from estim.probe.verdict.judge import Projected


@dataclass(frozen=True)
class Said:
    """What the sentences are made of."""

    observed: "Projected"
    margin: Margin
    count: int
    """Repeats averaged."""
    level: float
    alarm: float
    wanted: float
    power: float
    p_value: float
    residual_p_value: float
    equivalence_p_value: float
    sides: int
    correlation: float
    most: float
    repeats_needed: int | None
    sigma_factor: float
    average: bool = False
    """Whether no reading was given, and this is the average one of a known change."""


# So small a shift is met once in so many readings of a model that did not change.
_ONCE_IN = 10_000


def p_of(value: float) -> str:
    """Return a p-value in words; one that underflowed is not 0."""
    return f"p = {value:.2g}" if value >= 1e-300 else "p < 1e-300"


def reason_for(outcome: Outcome, said: Said) -> str:
    """Return why, in a sentence or two."""
    if outcome is Outcome.CHANGED:
        return " ".join(_moved(said))
    if outcome is Outcome.EQUIVALENT:
        return (
            f"{_silence(said)}; {said.margin.words} is rejected "
            f"(equivalence {p_of(said.equivalence_p_value)}), and would have been detected with probability "
            f"{said.power:.3g}."
        )
    return _blind(said)


def _silence(said: Said) -> str:
    what = "The average reading shows no change" if said.average else "No change was detected"
    return f"{what} ({p_of(said.p_value)})"


def _moved(said: Said) -> list[str]:
    seen, parts = said.observed, []
    moved = "On average the readings move" if said.average else "The readings moved"
    if seen.certain:
        parts.append("A reading without noise moved: that is certain.")
    if seen.degrees and said.p_value <= said.level:
        figure = _figure(seen.statistic, seen.degrees, seen.noise_degrees)
        parts.append(f"{moved} as parameters can move them: {figure}, {p_of(said.p_value)}.")
        if said.equivalence_p_value <= said.alarm:
            parts.append(f"The shift is nevertheless smaller than that of {said.margin.words}.")
    if seen.residual_degrees and said.residual_p_value <= said.level:
        figure = _figure(seen.residual, seen.residual_degrees, seen.noise_degrees)
        parts.append(
            f"{moved} in a way that no small change of the parameters can: {figure}, "
            f"{p_of(said.residual_p_value)}. The change is outside the model, or too large for its linearisation, "
            "or the noise is larger than stated."
        )
    return parts


def _figure(statistic: float, degrees: int, noise_degrees: float) -> str:
    if math.isinf(noise_degrees):
        return f"chi-square {statistic:.4g} on {degrees} degrees of freedom"
    return f"F {statistic / degrees:.4g} on {degrees} and {noise_degrees:.0f} degrees of freedom"


def _blind(said: Said) -> str:
    margin = said.margin
    if margin.gauge:
        return f"{_capital(margin.words)} is a gauge: the same function on all inputs. There is nothing to see."
    if not said.observed.degrees and not said.observed.known:
        return "Nothing is resolved: no reading depends on a parameter by more than the error of the Jacobian."
    if margin.unseen:
        what = f"{_capital(margin.words)} can hide where these readings see nothing: {'; '.join(margin.unseen)}."
        kinds = ["proven to have no effect on this bank (null)"] * margin.null
        kinds += ["hidden by the error of the Jacobian (unresolved)"] * margin.unresolved
        why = f" That is {' or '.join(kinds)}." if kinds else ""
        few = f" So few readings cannot show at least {margin.beyond:,} of these, whatever the digits."
        return what + why + few * (margin.beyond > 0)
    if said.power < said.wanted:
        return (
            f"{_silence(said)}, but {margin.words} would have been detected with "
            f"probability {said.power:.3g} only, below {said.wanted:g}{_along(margin)}: the silence proves nothing."
        )
    return (
        f"The shift is too small for a change ({p_of(said.p_value)}) and too large to reject {margin.words} "
        f"(equivalence {p_of(said.equivalence_p_value)} above {said.alarm:.3g}), which would have been detected with "
        f"probability {said.power:.3g}."
    )


def _along(margin: Margin) -> str:
    """Name what new inputs should show."""
    return f" (hardest to see along {margin.hardest})" if margin.hardest else ""


def prescribe(outcome: Outcome, said: Said) -> str:
    """Return what to do."""
    if outcome is Outcome.CHANGED:
        largest = ", ".join(str(i) for i in said.observed.largest)
        if not largest:
            return "Look at what changed."
        return f"Look at what changed: reading{'s' * (len(said.observed.largest) > 1)} {largest} moved most."
    if outcome is Outcome.EQUIVALENT:
        return "The silence may be believed."
    return _for_the_blind(said)


def stillness_note(seen: "Projected") -> tuple[str, ...]:
    """Say that the readings moved less than their noise alone makes them, where that is next to impossible."""
    from scipy import stats

    degrees = seen.degrees + seen.residual_degrees
    if seen.certain or not degrees:
        return ()
    square = (seen.statistic + seen.residual) / degrees
    if stats.f.cdf(square, degrees, min(seen.noise_degrees, 1e12)) * _ONCE_IN >= 1.0:
        return ()
    return (
        f"The readings moved less than their noise alone makes them, but for one time in {_ONCE_IN:,}: is sigma too "
        "large, or are the readings rounded? Power and equivalence are those of the noise given.",
    )


def _for_the_blind(said: Said) -> str:
    margin = said.margin
    if margin.gauge:
        return "Ask for a change of the function."
    if margin.unseen or not said.observed.degrees:
        return advice_for_the_unseen(margin, nothing=not said.observed.degrees)
    if said.wanted >= said.most:
        return (
            f"Impossible, because a power of {said.wanted:g} exceeds {said.most:.4g}, the probability of no "
            "false alarm: ask for less power or a higher confidence level."
        )
    if said.sigma_factor == 0.0:
        return "Impossible by repeats or less noise, because the change hardly moves the readings: other inputs may."
    noise = f"noise {said.sigma_factor:.3g} times the present one"
    if said.repeats_needed is None:
        return f"Impossible by repeats, because {_why_not(said)}. {_capital(noise)} would do, or inputs that show more."
    side = " before the change and as many after it" if said.sides == 2 else ""
    return (
        f"{said.repeats_needed} repeats{side} in place of {said.count}, or {noise}: then silence is believed with "
        f"probability {said.wanted:g}."
    )


def advice_for_the_unseen(margin: Margin, *, nothing: bool = False) -> str:
    """Return what may show a change that is not seen; `nothing` where no change is."""
    advice = ["Other inputs may show it; repeats cannot."] * (margin.null or margin.beyond > 0)
    unresolved = (margin.unresolved and not margin.beyond) or nothing
    advice += ["More digits, better derivatives or other inputs may show it; repeats cannot."] * unresolved
    return " ".join(advice)


def _why_not(said: Said) -> str:
    if said.correlation > 0.0:
        return f"their common correlation of {said.correlation:g} leaves noise that no average removes"
    if said.correlation < 0.0:
        most = math.floor(1.0 - 1.0 / said.correlation)
        return f"no more than {most} repeats can have a common correlation of {said.correlation:g}"
    return "more than 2^53 would be needed"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
