"""The verdict on a direction."""

from enum import StrEnum


class Status(StrEnum):
    """What a direction can be, and what helps.

    Attributes
    ----------
    SEEN
        Above the resolution. Repeats, less noise and other inputs sharpen it.
    WEAK
        Above the resolution, but its floor exceeds the smallest change of interest.
    UNRESOLVED
        Below the resolution: rounding and derivative error hide it. More digits or better derivatives decide.
    NULL
        Proven to have no effect on this bank. Other inputs may; repeats never.
    GAUGE
        Proven, or declared, to be the same function on all inputs. There is nothing to see.
    """

    SEEN = "seen"
    WEAK = "weak"
    UNRESOLVED = "unresolved"
    NULL = "null"
    GAUGE = "gauge"
