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
#: Entries that stay near the processor between two products.
_ROOM = 2**20


def takes_less(parts: list[Factors]) -> bool:
    """Tell whether products in pairs take less time than rows that are formed."""
    if not {part.kind for part in parts} <= {"linear", "transposed"}:
        return False
    tokens = max(part.left.shape[2] for part in parts)
    readings, outs, width = parts[0].left.shape[1], parts[0].left.shape[3], parts[0].right.shape[2]
    paired = float(readings * outs) * tokens * (tokens + readings) + float(tokens) ** 2 * width
    return bool(_SLOWER * paired < float(readings) ** 2 * outs * width)


def paired_product(parts: list[Factors], out: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return the upper half, at least, of the rows' products with each other, (M, M), in `out`."""
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + part.left.shape[0] * part.left.shape[1])
    for number, part in enumerate(parts):
        inputs, readings = part.left.shape[:2]
        for n in range(inputs):
            rows = out[starts[number] + n * readings :][:readings]
            for other in range(number, len(parts)):
                first = n if other == number else 0
                _fill(part, n, parts[other], first, rows[:, starts[other] : starts[other + 1]], buffer)
    return out


def _fill(part: Factors, n: int, other: Factors, first: int, out: Any, buffer: torch.Tensor) -> None:
    """Write the products of input n of a part with the inputs of another, from the first on, (a, all (m, b))."""
    given = part.left[n].flatten(1)  # (a, t o)
    inputs, readings, _, outs = other.left.shape
    tokens, size = part.left.shape[2], readings * given.shape[1]
    step = max(1, min(buffer.numel(), _ROOM) // max(1, size))
    for start in range(first, inputs, step):
        right, left = other.right[start : start + step], other.left[start : start + step]
        count = len(right)
        alike = (right @ part.right[n].T).transpose(1, 2)  # (m, t, s)
        needed = count * size
        room = buffer[:needed] if needed <= buffer.numel() else buffer.new_empty(needed)
        moved = torch.bmm(
            alike[:, None].expand(-1, readings, -1, -1).flatten(0, 1),
            left.flatten(0, 1),
            out=room.view(-1, tokens, outs),
        )  # (m b, t, o)
        torch.mm(given, moved.view(count * readings, -1).T, out=out[:, start * readings : (start + count) * readings])
