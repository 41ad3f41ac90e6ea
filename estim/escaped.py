"""A statsmodels Summary whose HTML, which notebooks show, has names as they are."""

import copy
import html

from statsmodels.iolib.summary import Summary


class EscapedSummary(Summary):  # type: ignore[misc]
    """A Summary that escapes in HTML what statsmodels writes there raw: names of parameters are a user's text."""

    def as_html(self) -> str:
        """Return the tables and notes as HTML."""
        safe = Summary()
        safe.tables = copy.deepcopy(self.tables)
        for table in safe.tables:
            table.title = html.escape(table.title) if table.title else table.title
            for cell in (cell for row in table for cell in row):
                cell.data = html.escape(str(cell.data))
        safe.extra_txt = None if self.extra_txt is None else html.escape(self.extra_txt)
        return str(safe.as_html())


def printable(name: str) -> str:
    """Return a name in one line: what does not print, such as a newline, by its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
