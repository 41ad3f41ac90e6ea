"""Tables of the command line, as csv: a first row that may be readings is not taken for names, which would lose it."""

import csv
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

#: Spreadsheets write a mark in front, which else belonged to the first cell.
ENCODING = "utf-8-sig"
#: What stands in a table for a number that is missing. Case counts: Na is sodium.
_MISSING = frozenset(
    ["", "-", "--", ".", "?", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NULL", "null", "None", "none"]
)
_TRUTH_VALUES = frozenset({"True", "False", "TRUE", "FALSE", "true", "false"})
_BEGINS_LIKE_A_NUMBER = re.compile(r"\W*\d")
#: What 1st, 5 mV, 90%, 12:00 and 2020-01 have, and numbers in another notation, such as 1,5 or 1D3 or (5) or <0.1 or
#: 1/2, have not: a letter that begins no exponent, a sign of per cent or of a time, or a dash between digits.
_SAYS_MORE = re.compile(r"(?![eEdD][-+\u2212]?\d)[^\W\d_]|[%:]|\d\s*[-\u2013]\s*\d")


def read_table(file: Path) -> Any:
    """Return an array when the first row is numbers, else a DataFrame with that row as its columns.

    Lines above that begin with # are comments; among numbers NumPy leaves out those below, too.

    Raises
    ------
    ValueError
        When rows differ in length, or the first row may be readings as well as names.
    """
    with file.open(newline="", encoding=ENCODING) as lines:
        rows = ([cell.strip() for cell in row] for row in csv.reader(lines))
        rows = (row for row in rows if row not in ([], [""]))
        names = next((row for row in rows if not row[0].startswith("#")), [])
        # A row of numbers of which some are missing is no row of names: it would be lost, and NumPy refuses it.
        if names and all(map(_is_number_or_missing, _before_comment(names))):
            return np.loadtxt(file, delimiter=",", ndmin=1, quotechar='"', encoding=ENCODING)
        _check_names(names)
        columns = list(map(_column, zip(*_checked(rows, names), strict=True)))
    import pandas as pd

    # A first column without a name holds labels of the rows, as to_csv writes them.
    index = None if names[0] else columns[0]
    return pd.DataFrame({name: column for name, column in zip(names, columns, strict=True) if name}, index=index)


def _before_comment(row: list[str]) -> list[str]:
    for place, cell in enumerate(row):
        if "#" in cell:
            return [*row[:place], cell.partition("#")[0].strip()]
    return row


def _check_names(names: Sequence[str]) -> None:
    """Refuse a first row that cannot be names."""
    if not names:
        msg = "it is empty"
        raise ValueError(msg)
    spaced = all(map(_is_number_or_missing, names[0].split()))
    if len(names) == 1 and (";" in names[0] or "\t" in names[0] or spaced):
        msg = f"its cells must be separated by commas, and decimals by points; got {names[0]!r:.60}"
        raise ValueError(msg)
    for number, name in enumerate(names, 1):
        other_notation = _BEGINS_LIKE_A_NUMBER.match(name) and not _SAYS_MORE.search(name)
        if name in _TRUTH_VALUES or other_notation or (name and _is_number(name)):
            msg = (
                "its first row must be numbers, as in 1.5,-2e3, or names, of which none may be a number; "
                f"got {name!r:.60} in column {number}"
            )
            raise ValueError(msg)
        if number > 1 and not name:
            msg = f"column {number} must have a name, as others have; got {','.join(names)!r:.60}"
            raise ValueError(msg)
        if name in names[: number - 1]:
            msg = f"columns must have different names; got {name!r:.60} twice"
            raise ValueError(msg)


def _checked(rows: Iterable[list[str]], names: Sequence[str]) -> list[list[str]]:
    """Return the rows below the names; refuse one of another length, and one that makes a reading of a name."""
    found = list(rows)
    if not found:
        msg = f"there must be numbers below the names; got {','.join(names)!r:.60} alone"
        raise ValueError(msg)
    suspects = [place for place, name in enumerate(names) if _BEGINS_LIKE_A_NUMBER.match(name)]
    for number, row in enumerate(found, 1):
        if len(row) != len(names) or row[0].startswith("#"):
            rule = "must have as many cells as there are names, and not begin with # as comments do"
            msg = f"row {number} below the names {rule}; got {','.join(row)!r:.60}"
            raise ValueError(msg)
        for place in suspects:
            if not _is_number_or_missing(row[place]):
                msg = (
                    f"its first row may be readings: {names[place]!r:.60} begins like a number, and {row[place]!r:.60} "
                    "below it is none either; write numbers without units or commas, or names above them"
                )
                raise ValueError(msg)
    return found


def _column(cells: Sequence[str]) -> Any:
    """Return whole numbers, numbers as float() reads them (pandas 2 rounds some otherwise), truth values, or words."""
    if all(cell in _TRUTH_VALUES for cell in cells):
        return np.array([cell.lower() == "true" for cell in cells])
    with suppress(ValueError, OverflowError):
        return np.array(list(map(int, cells)), dtype=np.int64)
    known = np.array([cell not in _MISSING for cell in cells])
    with suppress(ValueError):
        numbers = np.full(len(cells), np.nan)
        numbers[known] = list(map(float, compress(cells, known)))
        return numbers
    return [cell if there else None for cell, there in zip(cells, known, strict=True)]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python allows between digits


def _is_number_or_missing(cell: str) -> bool:
    return cell in _MISSING or _is_number(cell)
