"""Data of the command line: npy, npz, csv, parquet and json files; never pickles, which run code."""

import csv
import json
import os
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

#: Of text files: spreadsheets write a mark in front, which else belonged to the first cell.
_ENCODING = "utf-8-sig"
#: What stands in a table, in small letters, for a number that is missing.
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "null", "none"})
#: Endings of a page.
PAGES = (".html", ".htm")


def load_data(path: str, argument: str) -> Any:
    """Read a file by its ending: an array, a dict of arrays (npz), a DataFrame (csv with a header, parquet), or JSON.

    Raises
    ------
    ModuleNotFoundError
        When parquet is asked for and pandas has no engine for it.
    ValueError
        When the file does not exist or is not whole, its ending is unknown, or it holds Python objects.
    """
    file = Path(path)
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet, ".json": _json}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        msg = f"{argument} must end in one of {', '.join(readers)}; got {path!r}"
        raise ValueError(msg)
    if not file.is_file():
        msg = f"{argument} must be a file that exists; got {path!r}"
        raise ValueError(msg)
    from zipfile import BadZipFile
    from zlib import error as ZlibError  # noqa: N812 - an exception that zlib calls error

    try:
        return reader(file)
    except (ValueError, OSError, EOFError, BadZipFile, ZlibError) as error:  # the last three: files cut short
        msg = f"{argument} could not be read from {path!r}: {error}"
        raise ValueError(msg) from error


def check_folder(path: Any, argument: str) -> None:
    """Refuse a file that is a folder, or that may not be written, or whose folder does not exist.

    Raises
    ------
    TypeError
        When the path is none.
    OSError
        Naming the folder.
    """
    if not isinstance(path, str | PathLike):
        msg = f"{argument} must be the path of a file; got {path!r:.60}"
        raise TypeError(msg)
    target = Path(path)
    if target.is_dir():
        msg = f"{argument} must be a file; got the folder {str(path)!r}"
        raise IsADirectoryError(msg)
    if not target.parent.is_dir():
        msg = f"{argument} must be in a folder that exists; {str(target.parent)!r} does not, got {str(path)!r}"
        raise FileNotFoundError(msg)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        msg = f"{argument} must be a file that may be written; got {str(path)!r}"
        raise PermissionError(msg)


def check_page(path: Any, argument: str) -> None:
    """Refuse a page that could not be written, or whose ending would make it open as what it is not.

    Raises
    ------
    TypeError, ValueError
        When the path is none, or ends in neither .html nor .htm.
    OSError
        As for `check_folder`.
    """
    check_folder(path, argument)
    if Path(path).suffix.lower() not in PAGES:
        msg = (
            f"{argument} must end in {' or '.join(PAGES)}, as a page is HTML (plot() makes pictures); got {str(path)!r}"
        )
        raise ValueError(msg)


def _npy(file: Path) -> Any:
    with file.open("rb") as held:
        return _plain(held)


def _plain(held: BinaryIO) -> Any:
    """Load arrays of numbers; what NumPy says of pickles would advise to load them all the same."""
    try:
        return np.load(held, allow_pickle=False)
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise
        msg = "it is no array file, or holds Python objects, which are never loaded as they can run code"
        raise ValueError(msg) from error


def _npz(file: Path) -> Any:
    with file.open("rb") as held:  # which np.load leaves open where the archive is cut short
        loaded = _plain(held)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded as archive:
            arrays = {name: archive[name] for name in archive.files}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _csv(file: Path) -> Any:
    """Return an array when the first line is numbers, else a DataFrame with that line as its columns.

    A line of numbers of which some are missing is no header: it would be lost without a word. It is refused by NumPy.
    """
    with file.open(newline="", encoding=_ENCODING) as lines:
        rows = (row for row in csv.reader(lines) if any(cell.strip() for cell in row))
        first = [cell.strip().lower() for cell in next(rows, [])]
    known = [cell for cell in first if cell not in _MISSING]
    if known and all(map(_is_number, known)):
        return np.loadtxt(file, delimiter=",", ndmin=1, quotechar='"', encoding=_ENCODING)
    import pandas as pd

    return pd.read_csv(file, encoding=_ENCODING)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet(file: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(file)
    except ImportError as error:
        msg = "parquet files need pyarrow: pip install pyarrow"
        raise ModuleNotFoundError(msg) from error


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding=_ENCODING))
