"""Masked arrays: `numpy.asarray` reads what lies under a mask, here it is NaN."""

from typing import Any

import numpy as np


def unmasked(values: Any) -> Any:
    """Return a masked array as a plain one with NaN where it is masked, anything else as it is.

    NaN is then refused or left out by whoever asks for numbers, as any missing value.

    Examples
    --------
    >>> import numpy as np
    >>> unmasked(np.ma.masked_greater([1, 999], 100))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    if values.dtype.kind not in "fcO":
        return np.where(np.ma.getmaskarray(values), np.nan, values.data)
    return values.filled(np.nan)
