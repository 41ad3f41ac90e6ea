"""Run studies and write each as JSON: ``python -m sims recovery``.

Without a study: all of them, but for those already written by these versions with the same seed and trials, so that an
interrupted run goes on where it stopped.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from estim.printing import exit_code

STUDIES = {"recovery": "recovery", "spectrum": "spectrum", "contact-orders": "contact_orders", "growth": "growth"}
PACKAGES = ("estim", "numpy", "scipy", "numba", "mpmath", "python-flint")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the studies named, or all, in the order of `STUDIES`; return 0, 2 when something does not fit."""
    options = _options(arguments)
    kept = "interrupted; studies already written are kept"
    return exit_code("sims", lambda: _run(options), (ValueError, OSError, MemoryError), kept)


def _run(options: argparse.Namespace) -> int:
    from estim.files import check_folder, write_whole  # here, where an interrupt is no traceback

    options.out.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(options.studies or STUDIES):
        run = import_module(f"sims.{STUDIES[name]}").run
        accepted = inspect.signature(run).parameters
        options_set = {key: getattr(options, key) for key in ("rng", "trials", "workers")}
        given = {key: value for key, value in options_set.items() if value is not None}
        refused = sorted(set(given) - set(accepted)) if options.studies else []
        if refused:
            print(f"sims: the study {name} has no --{refused[0]}", file=sys.stderr)
            return 2
        versions = {"python": python_version(), **{package: version(package) for package in PACKAGES}}
        target = options.out / f"{name}.json"
        drawn = {key: given.get(key, accepted[key].default) for key in ("rng", "trials") if key in accepted}
        asked = {"study": name, "versions": versions, **drawn}
        if not (options.studies or options.again) and _written_with(target, asked) == asked:
            print(f"kept {target}; --again computes it again", file=sys.stderr)
            continue
        check_folder(target, "the study's file")
        study = run(progress=options.progress, **{key: value for key, value in given.items() if key in accepted})
        text = json.dumps({"study": name, "versions": versions, **study}, indent=1, allow_nan=False) + "\n"
        write_whole(target, partial(Path.write_text, data=text))
        print(f"wrote {target}", file=sys.stderr)
    return 0


def _written_with(target: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a study was written with of what is asked for, None when there is none."""
    try:
        study = json.loads(target.read_text())
        return {key: study[key] for key in asked}
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
    parser = argparse.ArgumentParser(prog="python -m sims", description="Run studies and write each as JSON.")
    parser.add_argument("studies", nargs="*", help=f"of {', '.join(STUDIES)}; default: all", metavar="STUDY")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the JSON (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="compute studies that are already written, too")
    parser.add_argument("--rng", type=int, help="seed, where a study draws")
    parser.add_argument("--trials", type=int, help="Monte Carlo trials, where a study draws")
    parser.add_argument("--workers", type=int, help="threads, where a study can use them")
    parser.add_argument("--progress", action="store_true", help="show progress bars")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
