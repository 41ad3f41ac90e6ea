"""Print tables and draw pictures from the JSON that ``sims`` wrote: ``python -m analysis recovery``.

Without a study: the score card, every figure of the note beside ours, and a page with all pictures.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from estim.printing import exit_code, print_result

STUDIES = {"recovery": "recovery", "spectrum": "spectrum", "contact-orders": "contact_orders", "growth": "growth"}
RESULTS = Path("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Analyse the studies named, or write the score card of all.

    Return 0, 1 where a study is missing or outdated, 2 where nothing can be written, 130 on Ctrl-C.
    """
    options = _options(arguments)
    return exit_code("analysis", lambda: _run(options), (OSError, ImportError))


def _run(options: argparse.Namespace) -> int:
    names = list(dict.fromkeys(options.studies)) or list(STUDIES)
    sources = {name: options.results / f"{name}.json" for name in names}
    studies = {name: study for name, source in sources.items() if (study := _study(name, source)) is not None}
    lacking = [name for name in names if name not in studies]
    out = "" if options.results == RESULTS else f" --out {shlex.quote(str(options.results))}"
    if lacking:
        missing = ", ".join(str(sources[name]) for name in lacking)
        print(f"analysis: no study in {missing}; run first: python -m sims {' '.join(lacking)}{out}", file=sys.stderr)
        return 1
    if len({json.dumps(study.get("versions"), sort_keys=True) for study in studies.values()}) > 1:
        print(f"analysis: other versions wrote some of these studies than others; python -m sims{out} runs those again "
              "that are not of the versions installed", file=sys.stderr)  # fmt: skip
    try:
        _analyse(studies, options)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        said = f"{type(error).__name__}: {error}"
        print(
            f"analysis: a study in {options.results} cannot be read, as if another version had written it ({said}); "
            f"run again: python -m sims {' '.join(names)}{out}",
            file=sys.stderr,
        )
        return 1
    return 0


def _analyse(studies: dict[str, Any], options: argparse.Namespace) -> None:
    from estim.plotting import write_picture

    if not options.studies:
        from analysis import scorecard

        page = options.results / "scorecard.html"
        print_result(scorecard.table(studies))
        scorecard.write_page(studies, page)
        print(f"wrote {page}", file=sys.stderr)
        return
    for name, study in studies.items():
        module = import_module(f"analysis.{STUDIES[name]}")
        picture = options.results / f"{name}.png"
        print_result(module.table(study))
        write_picture(module.draw(study), picture)
        print(f"wrote {picture}", file=sys.stderr)


def _study(name: str, source: Path) -> dict[str, Any] | None:
    """Read a study, None when there is no file, or one that is no whole study of that name."""
    try:
        study = json.loads(source.read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(study, dict) and study.get("study") == name and "fixture" in study
    return study if whole else None


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
        help=f"of {', '.join(STUDIES)}; default: the score card of all",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder (default %(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
