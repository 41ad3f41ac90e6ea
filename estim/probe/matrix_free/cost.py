"""What a pass over a Gram matrix takes, before it is begun."""

import os


def cost(readings: int, parameters: int, groups: int, element: int, held: float) -> str:
    """Return what a pass over the Gram matrix takes, in words.

    Parameters
    ----------
    readings, parameters, groups : int
        Their numbers.
    element : int
        Bytes of an entry of the Jacobian.
    held : float
        Bytes that are held beside the Gram matrices.
    """
    need, whole = gram_bytes(readings, groups) + held, float(readings) * parameters * element
    return (
        f"path: Gram matrix of {readings} readings, {parameters} parameters; about "
        f"{float(readings) ** 2 * parameters:.1e} operations and {in_bytes(need)}, where the whole Jacobian would take "
        f"{in_bytes(whole)}"
    )


def require_room(readings: int, groups: int) -> None:
    """Raise MemoryError when the Gram matrices of the groups do not fit in the memory that is free."""
    gram = gram_bytes(readings, groups)
    if gram > available():
        msg = (
            f"the Gram matrices of {groups} groups of {readings} readings take {in_bytes(gram)}, and "
            f"{in_bytes(available())} are free: fewer groups (groups=...), inputs or readings take less"
        )
        raise MemoryError(msg)


def gram_bytes(readings: int, groups: int) -> float:
    """Return the bytes that the Gram matrices of the groups take."""
    return 8.0 * float(readings) ** 2 * (2 * groups + 4)


def available() -> float:
    """Return the bytes of memory that are free now."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not on this system
        return 4.0 * 2**30


def in_bytes(count: float) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**30:.2g} GiB" if count >= 2**29 else f"{count / 2**20:.2g} MiB"
