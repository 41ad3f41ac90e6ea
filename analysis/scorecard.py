"""The score card: every figure of the note (arXiv:2610.09620, section 6) beside ours, and why where they differ."""

import html
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath

import estim
from analysis import contact_orders, growth, growth_fits, recovery, spectrum
from estim import ContactSlopes
from estim.files import write_whole
from estim.html import STYLE, inline_svg

STUDIES = {"recovery": recovery, "spectrum": spectrum, "contact-orders": contact_orders, "growth": growth}
TITLES = {
    "recovery": "One unknown under noise",
    "spectrum": "The matrix spectrum",
    "contact-orders": "Contact orders",
    "growth": "Singular values and the growth of the RMSE",
}
ENTRIES = "the note does not disclose its entries; ours are small exact rationals"


@dataclass(frozen=True)
class Row:
    """One figure of the note."""

    what: str
    note: str
    ours: str
    same: bool
    why: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return "same" if self.same else "differs"


def rows(studies: dict[str, dict[str, Any]]) -> list[Row]:
    """Return every figure of the note beside ours."""
    return [*_orders(studies["contact-orders"]), *_spectrum(studies["spectrum"]), *_recovery(studies["recovery"])]


def _orders(study: dict[str, Any]) -> list[Row]:
    slopes = ContactSlopes.from_dict(study["slopes"])
    note = contact_orders.NOTE
    found = [
        Row("contact orders, depth four", str(note["orders"]), str(slopes.orders), slopes.orders == note["orders"],
            "ours are exact integers, not slopes"),
    ]  # fmt: skip
    for order, theirs, ours in zip(slopes.orders, note["slopes"], slopes.slopes[0], strict=True):
        why = f"same order; the last digits depend on tokens and values: {ENTRIES}"
        what = f"slope of order {order}, scales 0.04 and 0.02"
        found.append(_number(what, f"{theirs:.6f}", f"{float(ours):.6f}", why))
    found.append(
        Row("largest error of a slope", "below 0.0023", f"{slopes.deviation:.6f}", bool(slopes.deviation < 0.0023))
    )
    weakest = mpmath.nstr(slopes.singular_values[-1][-1], 3)
    found.append(_number("weakest singular value, scale 0.02", str(note["weakest"]), weakest, ENTRIES))
    return found


def _spectrum(study: dict[str, Any]) -> list[Row]:
    plain, *_, best = spectrum.spectra(study)
    threshold, note = study["threshold"], spectrum.NOTE
    weak = (best.positive_rank or 0) - best.rank(threshold)
    pairs = [
        ("shape of the native Jacobian", note["shape"], best.shape, ""),
        ("positive rank", note["positive"], best.positive_rank, "ours is proven by enclosures"),
        ("rank at 1e-10, float64", note["at 1e-10"], plain.rank(threshold), "automatic differentiation there"),
        (f"rank at 1e-10, {best.digits} digits, scale 0.06", note["at 1e-10"], best.rank(threshold), ""),
        ("weak positive values resolved", note["weak"], weak, ""),
    ]
    return [Row(what, str(theirs), str(ours), str(theirs) == str(ours), why) for what, theirs, ours, why in pairs]


def _recovery(study: dict[str, Any]) -> list[Row]:
    exact = estim.Recovery.from_dict(study["exact"])
    simulated = estim.Recovery.from_dict(study["monte_carlo"])
    whys = (
        "equal figures mean equal slopes of the two fixtures",
        "the cap on theta decides it: 0.15 in ours, not given in the note, nor is its number of trials",
    )
    found = []
    for (sigma, theirs), k, digits, why in zip(recovery.NOTE, (0, -1), (4, 2), whys, strict=True):
        ours = f"{exact.relative_rmse[k]:.{digits}f}"
        spread = simulated.rmse_se[k] / simulated.theta
        full = f"{exact.relative_rmse[k]:.6f} exact, {simulated.relative_rmse[k]:.6f} +- {spread:.1e} Monte Carlo"
        found.append(_number(f"relative RMSE at sigma {sigma:.2e}", f"{theirs:.{digits}f}", ours, why, full))
    return found


def _number(what: str, theirs: str, ours: str, why: str, full: str = "") -> Row:
    """Compare at the digits that the note prints."""
    return Row(what, theirs, f"{ours} ({full})" if full else ours, theirs == ours, why)


def table(studies: dict[str, dict[str, Any]]) -> str:
    """Return the score card as text."""
    found = rows(studies)
    lines = [f"{'figure':<42}{'note':>18}  {'ours':<62}verdict"]
    for row in found:
        lines.append(f"{row.what:<42}{row.note:>18}  {row.ours:<62}{row.verdict}")
        lines += textwrap.wrap(row.why, 100, initial_indent="      ", subsequent_indent="      ")
    same = sum(row.same for row in found)
    lines += ["", f"{same} of {len(found)} figures are the same at the digits printed."]
    lines += [f"{one.study}: {_said(one)}" for one in growth_fits.linear_regimes(studies["growth"])]
    return "\n".join(lines)


def _said(one: growth_fits.Linear) -> str:
    verdict = "agrees with 1/s" if one.agrees else "DEPARTS from 1/s" if one.compared else "no level is linear"
    return f"{verdict}, {one.compared} comparisons, worst {one.worst:.2f} standard errors"


def write_page(studies: dict[str, dict[str, Any]], target: Path) -> None:
    """Write one self-contained page, whole or not at all: the card, then every study's picture and table."""
    cells = "".join(
        f"<tr><td>{html.escape(row.what)}</td><td>{html.escape(row.note)}</td><td>{html.escape(row.ours)}</td>"
        f'<td class="{row.verdict}">{row.verdict}</td><td class="why">{html.escape(row.why)}</td></tr>'
        for row in rows(studies)
    )
    items = "".join(
        f"<li>{html.escape(one.study)}: {html.escape(_said(one))}</li>"
        for one in growth_fits.linear_regimes(studies["growth"])
    )
    pictures = "".join(
        f"<h2>{html.escape(TITLES[name])}</h2>{inline_svg(module.draw(studies[name]))}"
        f"<details><summary>All figures</summary><pre>{html.escape(module.table(studies[name]))}</pre></details>"
        for name, module in STUDIES.items()
    )
    style = STYLE + (
        ".same { color: #00724f; } .differs { color: #a84300; font-weight: 600; } .why { text-align: left; }\n"
        "body { max-width: 72rem; } pre { overflow-x: auto; font-size: 0.75rem; }\n"
    )
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>estim: score card</title>'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body><h1>The note\'s figures beside ours</h1>'
        "<table><thead><tr><th>figure</th><th>note</th><th>ours</th><th>verdict</th>"
        '<th class="why">why</th></tr></thead>'
        f"<tbody>{cells}</tbody></table><h2>Singular values predict the RMSE where theory says so</h2><ul>{items}</ul>"
        f"{pictures}</body></html>\n"
    )
    write_whole(target, lambda draft: draft.write_text(page, encoding="utf-8"))
