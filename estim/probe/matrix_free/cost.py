"""What a pass over a Gram matrix takes, before it is begun."""

import os

#: Matrices like a Gram matrix, beside one for each group, that their sum, its singular vectors and LAPACK's work on
#: them take at the most; that work is traced from NumPy 2.5 on.
_BESIDE = 14


def cost(readings: int, parameters: int, groups: int, element: int, held: float, holding: str) -> str:
    """Return what a pass over the Gram matrix takes, in words.

    Parameters
    ----------
    readings, parameters, groups : int
        Their numbers.
    element : int
        Bytes of an entry of the Jacobian.
    held : float
        Bytes that are held beside the Gram matrices.
    holding : str
        What these are, and what is not counted.
    """
    gram, whole = gram_bytes(readings, groups), float(readings) * parameters * element
    return (
        f"path: Gram matrix of {readings} readings, {parameters} parameters; about "
        f"{float(readings) ** 2 * parameters:.1e} operations and {in_bytes(gram + held)} ({in_bytes(gram)} for Gram "
        f"matrices of {groups} groups and their singular vectors, {in_bytes(held)} for {holding}), where the whole "
        f"Jacobian would take {in_bytes(whole)}"
    )


def gram_bytes(readings: int, groups: int) -> float:
    """Return the bytes that the Gram matrices of the groups, all held until the shares are known, take at the most."""
    return 8.0 * float(readings) ** 2 * (groups + _BESIDE)


def available() -> float:
    """Return the bytes of memory that are free now."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not on this system
        return 4.0 * 2**30


def in_bytes(count: float) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**30:.2g} GiB" if count >= 2**29 else f"{count / 2**20:.3g} MiB"
