"""Print a study's table and draw its picture from the JSON that ``sims`` wrote: ``python -m analysis recovery``."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

STUDIES = {"recovery": "recovery", "spectrum": "spectrum", "contact-orders": "contact_orders", "growth": "growth"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Analyse the studies named, or all."""
    options = _parser().parse_args(arguments)
    for name in options.studies or STUDIES:
        source = options.results / f"{name}.json"
        if not source.is_file():
            print(f"analysis: no {source}; run first: python -m sims {name}", file=sys.stderr)
            return 1
        study = json.loads(source.read_text())
        module = import_module(f"analysis.{STUDIES[name]}")
        print(module.table(study))
        picture = source.with_suffix(".png")
        module.draw(study).savefig(picture, dpi=150)
        print(f"wrote {picture}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description="Print tables, draw pictures.")
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES], help="default: all", metavar="STUDY")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder (default %(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
