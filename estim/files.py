"""Data of the command line: npy, npz, csv, parquet and json files; never pickles, which run code."""

import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

#: Endings of a page.
PAGES = (".html", ".htm")


def load_data(path: str, argument: str) -> Any:
    """Read a file by its ending: an array, a dict of arrays (npz), a DataFrame (csv with a header, parquet), or JSON.

    Raises
    ------
    ModuleNotFoundError
        When parquet is asked for and pandas has no engine for it.
    ValueError
        When the file does not exist, its ending is unknown, or it holds Python objects.
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
    try:
        return reader(file)
    except (ValueError, OSError) as error:
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
    return _plain(file)


def _plain(file: Path) -> Any:
    """Load arrays of numbers; what NumPy says of pickles would advise to load them all the same."""
    try:
        return np.load(file, allow_pickle=False)
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise
        msg = "it is no array file, or holds Python objects, which are never loaded as they can run code"
        raise ValueError(msg) from error


def _npz(file: Path) -> Any:
    loaded = _plain(file)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded as archive:
        arrays = {name: archive[name] for name in archive.files}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _csv(file: Path) -> Any:
    """Return an array when the first line is numbers, else a DataFrame with that line as its columns."""
    with file.open() as lines:
        first = lines.readline()
    try:
        [float(cell) for cell in first.split(",")]
    except ValueError:
        import pandas as pd

        return pd.read_csv(file)
    return np.loadtxt(file, delimiter=",", ndmin=1)


def _parquet(file: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(file)
    except ImportError as error:
        msg = "parquet files need pyarrow: pip install pyarrow"
        raise ModuleNotFoundError(msg) from error


def _json(file: Path) -> Any:
    return json.loads(file.read_text())
