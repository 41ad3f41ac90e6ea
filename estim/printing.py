"""The result of a command, on the standard output."""

import os
import sys


def print_result(text: str) -> None:
    """Print the result, all of it: what is left in the buffer fails at the end of Python, too late for a sentence."""
    known = getattr(sys.stdout, "encoding", None) or "utf-8"  # a locale may not have the letters of a name
    try:
        print(text.encode(known, "backslashreplace").decode(known), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader, head or less, has seen enough; pictures may follow
            raise
