"""What sets parameters and banks apart from generic ones, in words."""

from collections.abc import Iterator, Sequence

import numpy as np

from estim.arithmetic import as_rationals
from estim.attention.bank import Bank
from estim.attention.effective import effective
from estim.attention.gauge import irregular
from estim.attention.layer import Layer
from estim.attention.normalizers import Normalizer


def exceptional(layers: Sequence[Layer], normalizer: Normalizer, bank: Bank | None) -> Iterator[str]:
    """Yield a sentence for each exceptional fact."""
    yield from irregular(layers)
    scores, value_map = effective([layer.factors_in(as_rationals) for layer in layers])
    for number, score in enumerate(scores):
        if not (score != 0).any():
            yield f"layer {number}: effective scores are zero, later scores have no effect"
            break
    if not (value_map != 0).any():
        yield "the combined value map is zero, and so is every output"
    if np.ravel(normalizer.derivative(np.zeros(1)))[0] == 0:
        yield f"normalizer {normalizer.name!r} has zero slope at zero: small scores act only by their squares"
    if bank is not None:
        yield from _equal_tokens(bank)


def _equal_tokens(bank: Bank) -> Iterator[str]:
    equal = [
        position
        for group in bank.groups
        for position, item in zip(group.positions, group.entries, strict=True)
        if (item == item[:1]).all()
    ]
    for position in sorted(equal):
        yield f"input {position}: all tokens equal, no score has an effect"
