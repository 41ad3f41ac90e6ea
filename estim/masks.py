"""What `numpy.asarray` reads wrongly, or not at all: what lies under a mask, and tensors of torch with a graph."""

from typing import Any

import numpy as np


def unmasked(values: Any) -> Any:
    """Return a masked array as one with NaN where it is masked, a tensor of torch as an array, anything else as it is.

    NaN is then refused or left out by whoever asks for numbers, as any missing value; rows in a list are read, too.
    Tensors come without their graph; bfloat16 of torch and JAX, which NumPy does not have, is float32. What holds no
    values stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> unmasked(np.ma.masked_greater([1, 999], 100))
    array([ 1., nan])
    """
    if hasattr(values, "detach") and hasattr(values, "device"):
        return _of_torch(values)
    if str(getattr(values, "dtype", "")) == "bfloat16":  # of JAX
        return np.asarray(values).astype(np.float32)
    if isinstance(values, list | tuple):
        return _of_rows(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    if values.dtype.kind not in "fcO":
        return np.where(np.ma.getmaskarray(values), np.nan, values.data)
    return values.filled(np.nan)


def _of_rows(rows: Any) -> Any:
    """Return rows, nested to any depth, of which some are masked arrays or masked numbers, without masks."""
    kinds = (np.ma.MaskedArray, list, tuple)
    if not any(isinstance(row, kinds) for row in rows):
        return rows
    plain = [unmasked(row) if isinstance(row, kinds) else row for row in rows]
    plain = [row[()] if isinstance(row, np.ndarray) else row for row in plain]  # numbers of no axis as numbers
    return rows if all(one is row for one, row in zip(plain, rows, strict=True)) else plain


def _of_torch(tensor: Any) -> Any:
    if tensor.is_meta or str(tensor.layout) != "torch.strided":
        return tensor
    held = tensor.detach().cpu()
    short = str(held.dtype) == "torch.bfloat16"
    return (held.float() if short else held.resolve_conj().resolve_neg()).numpy()
