"""Objects named on the command line, and what their code may do there."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any


def load(place: str) -> Any:
    """Import the object at ``package.module:name.of.it``, from the current directory too.

    Raises
    ------
    ValueError
        When the text has no colon, the module no such name, or the module raises when it is imported.
    ModuleNotFoundError
        When there is no such module.
    """
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        msg = f"the model or response must be given as PACKAGE.MODULE:NAME; got {place!r}"
        raise ValueError(msg)
    if module.endswith(".py"):
        msg = f"a module is named without its ending: {module[:-3].replace('/', '.')}:{name}; got {place!r}"
        raise ValueError(msg)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        msg = f"{module} could not be imported, from the current directory or elsewhere: {error}"
        raise ModuleNotFoundError(msg) from error
    except (Exception, SystemExit) as error:  # a script ends Python where it does not ask for __main__
        msg = f"{module} could not be imported: it raises {error!r}"
        raise ValueError(msg) from error
    for part in name.split("."):
        if not hasattr(found, part):
            msg = f"module {module} has no {name!r}"
            raise ValueError(msg)
        found = getattr(found, part)
    return found


@contextmanager
def users_code() -> Iterator[None]:
    """Keep what the user's code prints out of the output, and let it not end Python as if all were well.

    Raises
    ------
    ValueError
        When the code calls for the end of Python.
    """
    with redirect_stdout(sys.stderr), _started_programs_print_errors():
        try:
            yield
        except SystemExit as error:
            msg = f"what was named ended Python with {error!r}"
            raise ValueError(msg) from error


@contextmanager
def _started_programs_print_errors() -> Iterator[None]:
    """Lead the output of the process, which programs that a model starts inherit, to where errors go."""
    try:
        os.fstat(2)
        output = os.dup(1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)
