"""What is seen of a model too large for single parameters, as tables."""

from typing import TYPE_CHECKING

import numpy as np

from estim.probe.status import Status
from estim.probe.verdict.any_change import called
from estim.report import MOST_ROWS, summary_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from statsmodels.iolib.summary import Summary

    from estim.probe.matrix_free.record import ModelSensitivity

#: Names of the facts on random changes: the first, and those below it.
RANDOM = ("Random changes seen:", "")
_HELPS = {
    Status.WEAK: "weak: seen, but not to the smallest change of interest: repeats, less noise, other inputs help.",
    Status.UNRESOLVED: "unresolved: hidden by the derivatives' own error, or beyond the number of readings.",
}
_GROUPS = (
    "a group by itself was not looked at: it sees at least so many, its best floor is at most that, its worst is not "
    "known (nan), its detectable change is at most that."
)
_FAR = (
    "detectable changes of 1 or more, 100 % of a group's norm, are farther from the model than its derivatives tell: "
    "smaller ones are not seen, and larger ones may or may not be."
)
_NOT_LOOKED_AT = "unresolved: hidden by the derivatives' own error, or not looked at."


def facts(result: "ModelSensitivity") -> list[tuple[str, str]]:
    """Return what is to be known first, in pairs."""
    counts = result.counts
    ends = [1.0 / result.singular_values[k] for k in (0, result.resolved - 1)] if result.resolved else []
    hidden, most = result.parameters - result.resolved, "at most " if result.rest else ""
    return [
        ("Not seen:", f"{most}{hidden:,} of {result.parameters:,} directions" if hidden else "nothing"),
        *_detectable(result),
        ("Dimension seen:", f"{'at least ' if result.rest else ''}{result.resolved} of {result.parameters:,}"),
        ("Directions:", ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)),
        ("Readings, parameters:", f"{result.readings:,}, {result.parameters:,} in {len(result.names)} tensors"),
        ("RMSE floors:", _floors(result, ends)),
        ("Derivatives:", f"{result.derivative}; error {result.jacobian_error:.2e}"),
        ("Resolution:", f"{result.resolution:.2e}"),
    ]


def _detectable(result: "ModelSensitivity") -> list[tuple[str, str]]:
    """Name the groups whose random changes show first and last, and tell how many show none."""
    sizes = result.detectable_changes
    shown, never = np.flatnonzero(np.isfinite(sizes)), int(np.isinf(sizes).sum())
    if not len(shown):
        return [(RANDOM[0], "none of any group alone")]
    most = "at most " if result.rest else ""
    first, last = shown[sizes[shown].argmin()], shown[sizes[shown].argmax()]
    names = result.group_names
    found = [(RANDOM[0], f"from {most}{100.0 * sizes[first]:.3g} % of {called(names[first])} (first)")]
    if last != first:
        found.append((RANDOM[1], f"from {most}{100.0 * sizes[last]:.3g} % of {called(names[last])} (last)"))
    if never:
        found.append((RANDOM[1], f"none of any size of {never} of the {len(sizes)} groups"))
    return found


def _floors(result: "ModelSensitivity", ends: list[float]) -> str:
    if not ends:
        return "not known" if result.rest else "none is finite"
    return f"{ends[0]:.4g} to {ends[1]:.4g}{', then not known' if result.rest else ''}"


def notes(result: "ModelSensitivity") -> list[str]:
    """Return what a reader must know, definitions first."""
    rest, sizes = result.rest, result.detectable_changes
    helps = _HELPS if rest is None else {**_HELPS, Status.UNRESOLVED: _NOT_LOOKED_AT}
    unknown = () if rest is None else rest.said(float(np.square(result.singular_values).sum()), len(result.status))
    return [
        *unknown,
        "best and worst floor: RMSE along the strongest and weakest direction of a group by itself; inf where not all "
        "of its parameters are seen.",
        "detectable change: relative size from which random changes of a group, the others held, are detected 4 times "
        "out of 5 by the change test at level 0.05; inf where no size is known to be, nan where its parameters are "
        "zero.",
        *((_FAR,) if ((sizes >= 1.0) & np.isfinite(sizes)).any() else ()),
        *(() if rest is None else (_GROUPS,)),
        f"spectrum: {result.path}.",
        *(text for status, text in helps.items() if result.counts[status]),
        *result.notes,
    ]


def model_summary(result: "ModelSensitivity") -> "Summary":
    """Return what is seen at the top, then the groups and the notes."""
    frame = result.by_group().drop(columns="gauge")
    columns = {name.replace("_", " "): frame[name].to_numpy()[:MOST_ROWS] for name in frame.columns}
    said = notes(result)
    if len(frame) > MOST_ROWS:
        said.append(f"The first {MOST_ROWS} of {len(frame)} groups are shown; by_group() has all.")
    rows = list(result.group_names[:MOST_ROWS])
    return summary_of("What these readings see of a model", facts(result), columns, said, rows)


def groups_frame(result: "ModelSensitivity") -> "DataFrame":
    """Return one row a group of tensors."""
    from estim.probe.summary import group_frame

    frame = group_frame(result)  # type: ignore[arg-type]  # which reads fields that both records have
    return frame.assign(detectable_change=result.detectable_changes)


def directions_frame(result: "ModelSensitivity") -> "DataFrame":
    """Return one row a direction."""
    from pandas import DataFrame, RangeIndex

    count = len(result.singular_values)
    main = [result.group_names[k] for k in result.group_share.argmax(axis=0)] if result.resolved else []
    with np.errstate(divide="ignore"):
        floors = np.where(np.arange(count) < result.resolved, 1.0 / result.singular_values, np.inf)
    columns = {
        "status": [str(status) for status in result.status],
        "singular_value": result.singular_values,
        "error": result.errors,
        "floor": floors,
        "main_group": main + [""] * (count - len(main)),
    }
    return DataFrame(columns, index=RangeIndex(1, count + 1, name="direction"))
