"""Products of the rows of one weight, pair of inputs by pair of inputs, without forming the rows.

The readings of an input share its x: with C = x_n x_m^T, tokens by tokens, the product of rows (n, a) and (m, b) is the
sum over t and s of C_ts g_nat . g_mbs. That takes fewer operations than rows do where inputs have few tokens.

notation: n, m inputs; t, s tokens (rows) of each; a, b readings of each; x, g as in `uses`.
"""

from typing import Any

import torch

from estim.probe.torch.capture import Factors

#: Products in pairs are small ones, slower by about that than large ones.
_SLOWER = 1.5


def takes_less(parts: list[Factors]) -> bool:
    """Tell whether products in pairs take less time than rows that are formed."""
    if not {part.kind for part in parts} <= {"linear", "transposed"}:
        return False
    tokens = max(part.left.shape[1] for part in parts)
    readings, outs, width = parts[0].left.shape[2], parts[0].left.shape[3], parts[0].right.shape[2]
    paired = float(readings * outs) * tokens * (tokens + readings) + float(tokens) ** 2 * width
    return bool(_SLOWER * paired < float(readings) ** 2 * outs * width)


def paired_product(parts: list[Factors], out: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return the upper half, at least, of the rows' products with each other, (M, M), in `out`."""
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + part.left.shape[0] * part.left.shape[2])
    for number, part in enumerate(parts):
        inputs, _, readings, _ = part.left.shape
        for n in range(inputs):
            rows = out[starts[number] + n * readings :][:readings]
            for other in range(number, len(parts)):
                first = n if other == number else 0
                _fill(part, n, parts[other], first, rows[:, starts[other] : starts[other + 1]], buffer)
    return out


def _fill(part: Factors, n: int, other: Factors, first: int, out: Any, buffer: torch.Tensor) -> None:
    """Write the products of input n of a part with the inputs of another, from the first on, (a, all (m, b))."""
    given = part.left[n].reshape(part.left.shape[1], -1)
    inputs, tokens, readings, outs = other.left.shape
    step = max(1, buffer.numel() // max(1, tokens * given.shape[1]))
    for start in range(first, inputs, step):
        right, left = other.right[start : start + step], other.left[start : start + step]
        count = len(right)
        alike = right.reshape(count * tokens, -1) @ part.right[n].T  # (m s, t)
        needed = len(alike) * given.shape[1]
        room = buffer[:needed] if needed <= buffer.numel() else buffer.new_empty(needed)
        moved = torch.mm(alike, given, out=room.view(len(alike), -1)).view(count * tokens, -1, outs)
        found = torch.bmm(moved, left.reshape(count * tokens, readings, outs).transpose(1, 2))
        summed = found.view(count, tokens, -1, readings).sum(dim=1)  # (m, a, b)
        out[:, start * readings : (start + count) * readings] = summed.transpose(0, 1).reshape(len(out), -1)
