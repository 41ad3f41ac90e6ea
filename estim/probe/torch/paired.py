"""Products of the rows of one weight, pair of inputs by pair of inputs, without forming the rows.

The readings of an input share its x: with C = x_n x_m^T, tokens by tokens, the product of rows (n, a) and (m, b) is the
sum over t and s of C_ts g_nat . g_mbs. That takes fewer operations than rows do where inputs have few tokens.

notation: n, m inputs; t, s tokens (rows) of each; a, b readings of each; x, g as in `uses`.
"""

from collections.abc import Iterator

import torch

from estim.probe.torch.capture import Factors

#: Rows of a product of rows with all rows, (count, M - first), from the first of them on, and that first.
Strip = tuple[int, torch.Tensor]
#: g and x of one input, (a, t, o) and (t, in), or of several.
Pair = tuple[torch.Tensor, torch.Tensor]

#: Products in pairs are small ones, slower by about that than large ones.
_SLOWER = 1.5
#: Entries that stay near the processor between two products.
_ROOM = 2**20


def takes_less(parts: list[Factors]) -> bool:
    """Tell whether products in pairs take less time than rows that are formed."""
    if not {part.kind for part in parts} <= {"linear", "transposed"}:
        return False
    if any(part.outs is not None or part.beside is not None for part in parts):
        return False
    tokens = max(part.right.shape[1] for part in parts)
    readings, outs, width = len(parts[0].left), parts[0].left[0].shape[2], parts[0].right.shape[2]
    paired = float(readings * outs) * tokens * (tokens + readings) + float(tokens) ** 2 * width
    return bool(_SLOWER * paired < float(readings) ** 2 * outs * width)


def paired_strips(parts: list[Factors]) -> Iterator[Strip]:
    """Yield the rows' products with each other, those of an input at a time, from its own on."""
    stacked = [(torch.stack(part.left, dim=1), part.right) for part in parts]  # (n, a, t, o)
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + part.rows)
    for number, (left, right) in enumerate(stacked):
        for n in range(len(left)):
            own = starts[number] + n * left.shape[1]
            strip = left.new_empty((left.shape[1], starts[-1] - own))
            for k in range(number, len(parts)):
                first = n if k == number else 0
                others = stacked[k][0][first:], stacked[k][1][first:]
                place = starts[k] + first * left.shape[1] - own
                _fill((left[n], right[n]), others, strip[:, place : starts[k + 1] - own])
            yield own, strip


def _fill(one: Pair, others: Pair, out: torch.Tensor) -> None:
    """Write the products of the rows of an input with those of others, (a, all (m, b))."""
    given, (left, right) = one[0].flatten(1), others  # (a, t o)
    inputs, readings, _, outs = left.shape
    tokens = len(one[1])
    alike = (right.flatten(0, 1) @ one[1].T).view(inputs, -1, tokens).transpose(1, 2)  # (m, t, s)
    step = max(1, _ROOM // (readings * given.shape[1]))
    moved = left.new_empty((min(step, inputs), readings, tokens, outs))
    for start in range(0, inputs, step):
        count = min(step, inputs - start)
        for k in range(count):  # each with all readings of an input: a product of all inputs copied it for each
            torch.bmm(alike[start + k].expand(readings, -1, -1), left[start + k], out=moved[k])
        columns = out[:, start * readings : (start + count) * readings]
        torch.mm(given, moved[:count].view(-1, tokens * outs).T, out=columns)
