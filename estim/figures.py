"""A figure that a notebook shows although pyplot, which would tell it how, is never imported."""

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A matplotlib Figure that draws itself where a cell ends with it."""

    def _repr_png_(self) -> bytes:
        """Return the picture; the inline backend of a notebook, where it is in use, comes before this."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()
