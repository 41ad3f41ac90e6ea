"""How commands end: with a result on the standard output and in files, or with a sentence and an exit code."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any


def exit_code(
    program: str, run: Callable[[], int], refused: tuple[type[Exception], ...], interrupted: str = "interrupted"
) -> int:
    """Return what a program returns; 2 where it raises what is refused, 130 on Ctrl-C, with a sentence each."""
    try:
        return run()
    except refused as error:
        said, code = str(error), 2
    except KeyboardInterrupt:
        said, code = interrupted, 130
    if sys.stderr is not None:  # it is where it was closed, and print would take the output for it
        print(f"{program}: {said}", file=sys.stderr)
    return code


def check_places(options: argparse.Namespace) -> None:
    """Refuse before the work what `write_result` could not write after it."""
    from estim.files import check_page
    from estim.plotting import check_picture, new_figure

    if options.plot is not None:
        check_picture(options.plot, "--plot")
    if options.report is not None:
        check_page(options.report, "--report")
        new_figure()  # a page has pictures


def write_result(found: Any, options: argparse.Namespace) -> None:
    """Print a record, then write its picture and its page where they are asked for."""
    from estim.plotting import write_picture

    print_result(found.to_json(indent=2) if options.json else str(found.summary()))
    if options.plot is not None:
        write_picture(found.plot(), options.plot)
    if options.report is not None:
        found.report(options.report)


def print_result(text: str) -> None:
    """Print the result, all of it: what is left in the buffer fails at the end of Python, too late for a sentence."""
    known = getattr(sys.stdout, "encoding", None) or "utf-8"  # a locale may not have the letters of a name
    try:
        print(text.encode(known, "backslashreplace").decode(known), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader, head or less, has seen enough; pictures may follow
            raise
