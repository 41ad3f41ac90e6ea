"""The spectrum study: rank against precision and threshold, beside the note's 52, 40 and 12."""

from typing import TYPE_CHECKING, Any

import mpmath

import estim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The note's figures (arXiv:2610.09620, section 6): shape, positive rank, rank at 1e-10, weak values.
NOTE = {"shape": (768, 96), "positive": 52, "at 1e-10": 40, "weak": 12}


def spectra(study: dict[str, Any]) -> list[estim.Spectrum]:
    """Return the spectra of the study, float64 first."""
    return [estim.Spectrum.from_dict(fields) for fields in study["spectra"]]


def table(study: dict[str, Any]) -> str:
    """Return the rank table, and below it the note's figures beside ours."""
    *others, best = spectra(study)
    threshold = study["threshold"]
    weak = (best.positive_rank or 0) - best.rank(threshold)
    smallest = best.singular_values[: best.positive_rank][-1] if best.positive_rank else 0
    rows = [
        ("shape of the Jacobian", NOTE["shape"], best.shape),
        ("positive rank, exact in the note, proven in ours", NOTE["positive"], best.positive_rank),
        ("rank at 1e-10 in float64", NOTE["at 1e-10"], others[0].rank(threshold)),
        (f"rank at 1e-10 in {best.digits} digits", NOTE["at 1e-10"], best.rank(threshold)),
        ("weak values resolved", NOTE["weak"], weak),
    ]
    lines = [
        f"Matrix fixture at scale {study['fixture']['scale']}: rank above a threshold relative to the largest value"
    ]
    lines += [str(best.rank_table(*others)), "", f"{'':<50}{'note':>12}{'ours':>12}"]
    lines += [f"{what:<50}{theirs!s:>12}{ours!s:>12}" for what, theirs, ours in rows]
    lines += [
        "",
        f"weakest value {mpmath.nstr(smallest, 12)}, largest {mpmath.nstr(best.singular_values[0], 12)}, "
        f"known to a relative error of {max(best.relative_error[: best.positive_rank]):.1e}",
        "float64 rank at 1e-10 by scale: " + ", ".join(f"{s}: {r}" for s, r in study["float64_rank_by_scale"]),
        "",
        "By theory 52, which is 96 less 44 gauge directions, is the same for every generic fixture of this shape, and",
        "so is the order scale^17 of the twelve weak values. The values, and so the thresholds they fall below, depend",
        "on the entries, which the note does not disclose.",
    ]
    return "\n".join(lines)


def draw(study: dict[str, Any]) -> "Figure":
    """Draw the singular values, one colour a precision, with float64's noise floor and the threshold."""
    from estim.plotting import new_figure

    figure = new_figure(figsize=(8.0, 4.6))
    axes = figure.subplots()
    *others, best = spectra(study)
    best.plot(*others, rtol=(study["threshold"],), ax=axes)
    axes.set_title(f"Matrix fixture at scale {study['fixture']['scale']}: {best.positive_rank} positive, proven")
    return figure
