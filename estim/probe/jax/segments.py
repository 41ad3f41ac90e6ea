"""The columns of a Jacobian in segments: some leaves of a pytree together, or a piece of a large one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """Columns of some leaves, which follow one another."""

    leaves: tuple[int, ...]
    start: int
    """The first column, of those of its leaves; 0 but for a piece."""
    stop: int
    width: int
    """Columns that are computed: of all pieces of a leaf as many, so that one compilation does for all."""

    @property
    def columns(self) -> int:
        """Their number."""
        return self.stop - self.start


def segments_of(sizes: Sequence[int], chosen: Sequence[int], width: int) -> list[Segment]:
    """Put leaves in segments of at most so many columns, together where they are small, in pieces where large."""
    found: list[Segment] = []
    together: list[int] = []
    room = width
    for leaf in [*chosen, None]:
        if together and (leaf is None or sizes[leaf] > room):
            total = sum(sizes[one] for one in together)
            found.append(Segment(tuple(together), 0, total, total))
            together, room = [], width
        if leaf is None:
            break
        if sizes[leaf] > width:
            found += _pieces(leaf, sizes[leaf], width)
        elif sizes[leaf]:
            together.append(leaf)
            room -= sizes[leaf]
    return found


def _pieces(leaf: int, size: int, width: int) -> list[Segment]:
    width = -(-size // -(-size // width))  # as many pieces, of nearly equal size
    return [Segment((leaf,), start, min(start + width, size), width) for start in range(0, size, width)]


def runs(segment: Segment, sizes: Sequence[int], groups: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the groups of a segment in order, with their columns."""
    names = [groups[leaf] for leaf in segment.leaves]
    if len(names) == 1:
        yield names[0], segment.columns
        return
    width = 0
    for k, leaf in enumerate(segment.leaves):
        width += sizes[leaf]
        if k + 1 == len(names) or names[k + 1] != names[k]:
            yield names[k], width
            width = 0
