"""Data of the command line: npy, npz, csv, parquet and json files; never pickles, which run code."""

import json
import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np

from estim.tables import ENCODING, read_table

#: Endings of a page.
PAGES = (".html", ".htm")


def load_data(path: str, argument: str, *, named: bool = False) -> Any:
    """Read a file by its ending: an array, a dict of arrays (npz), a DataFrame (csv with a header, parquet), or JSON.

    The only array of an npz file comes without its name, unless what it holds is `named`, as parameters are.

    Raises
    ------
    ModuleNotFoundError
        When parquet is asked for and pandas has no engine for it.
    ValueError
        When the file does not exist or is not whole, its ending is unknown, or it holds Python objects.
    """
    file = Path(path)
    readers = {".npy": _npy, ".npz": _npz, ".csv": read_table, ".parquet": _parquet, ".json": _json}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        msg = f"{argument} must end in one of {', '.join(readers)}; got {path!r}"
        raise ValueError(msg)
    if not file.is_file():
        msg = f"{argument} must be a file that exists; got {path!r}"
        raise ValueError(msg)
    try:
        found = reader(file)
    except ImportError:
        raise
    except Exception as error:  # of a file that is cut short or damaged, readers raise whatever they stumble over
        said = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).strip()
        msg = f"{argument} could not be read from {path!r}: {said}"
        raise ValueError(msg) from error
    alone = reader is _npz and len(found) == 1 and (not named or "arr_0" in found)  # np.savez's own name
    return next(iter(found.values())) if alone else found


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
    places = [target.parent, target] if target.exists() else [target.parent]  # it is written beside its place first
    if not all(os.access(place, os.W_OK) for place in places):
        msg = f"{argument} must be a file that may be written; got {str(path)!r}"
        raise PermissionError(msg)


def write_whole(path: Any, write: Callable[[Path], object]) -> None:
    """Have `write` make a file beside its place, and put it there: whole or not at all, whoever else writes it, too."""
    target = Path(path).resolve()  # a link stays one
    draft = target.with_name(f".{uuid4().hex[:8]}.{target.name}")  # the same ending, which tells matplotlib the format
    try:
        write(draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


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


def _npz(file: Path) -> dict[str, Any]:
    with file.open("rb") as held:  # which np.load leaves open where the archive is cut short
        loaded = _plain(held)
        if isinstance(loaded, np.ndarray):  # an npy file under this name
            return {"arr_0": loaded}
        with loaded as archive:
            return {name: archive[name] for name in archive.files}


def _parquet(file: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(file)
    except ImportError as error:
        msg = "parquet files need pyarrow: pip install pyarrow"
        raise ModuleNotFoundError(msg) from error


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding=ENCODING), object_pairs_hook=_without_repetition)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of what a JSON object holds; of a name that comes twice the first would be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        msg = f"names must differ; got {next(name for name in names if names.count(name) > 1)!r:.60} twice"
        raise ValueError(msg)
    return found
