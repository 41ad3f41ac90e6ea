"""Print tables and draw pictures from the JSON that ``sims`` wrote: ``python -m analysis recovery``.

Without a study: the score card, every figure of the note beside ours, and a page with all pictures.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

STUDIES = {"recovery": "recovery", "spectrum": "spectrum", "contact-orders": "contact_orders", "growth": "growth"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Analyse the studies named, or write the score card of all."""
    options = _options(arguments)
    names = options.studies or STUDIES
    sources = {name: options.results / f"{name}.json" for name in names}
    for name, source in sources.items():
        if not source.is_file():
            print(f"analysis: no {source}; run first: python -m sims {name}", file=sys.stderr)
            return 1
    studies = {name: json.loads(source.read_text()) for name, source in sources.items()}
    if not options.studies:
        return _score(studies, options.results / "scorecard.html")
    for name, study in studies.items():
        module = import_module(f"analysis.{STUDIES[name]}")
        print(module.table(study))
        picture = sources[name].with_suffix(".png")
        module.draw(study).savefig(picture, dpi=150)
        print(f"wrote {picture}", file=sys.stderr)
    return 0


def _score(studies: dict[str, Any], page: Path) -> int:
    from analysis import scorecard

    print(scorecard.table(studies))
    scorecard.write_page(studies, page)
    print(f"wrote {page}", file=sys.stderr)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.studies:
        if name not in STUDIES:
            near = get_close_matches(name, STUDIES, 1)
            hint = f"did you mean {near[0]}?" if near else f"the studies are {', '.join(STUDIES)}"
            parser.error(f"there is no study {name!r}; {hint}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description="Print tables, draw pictures.")
    parser.add_argument(
        "studies",
        nargs="*",
        metavar="STUDY",
        help="default: the score card of all",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder (default %(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
