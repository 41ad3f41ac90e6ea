"""The forward map and its derivatives, written once for every number system.

Notation: X (inputs, tokens, width) enters a layer with factors Q, K, V; W = [Q | K | V] side by side.

    P = X W = [Pq | Pk | Pv],  S = Pq Pk^T,  A = phi(S) / row sums,  Y = A Pv.

For a cotangent G of Y (one for each reading),

    dPv = A^T G,  dS_tj = G_t . E_t[:, j]  with  E_t[c, j] = phi'(S_tj) / (sum_k phi(S_tk)) (Pv_jc - Y_tc),
    dPq = dS Pk,  dPk = dS^T Pq,  dW = X^T dP,  dX = dP W^T.

E is the derivative of the normalized weights folded with what they weigh: the readings meet it in one
product. Cotangents are held token-major, (inputs, tokens, readings, channels), so that every product merges
the readings of an input into one long side of a matrix.

Everything here takes plain arrays: `weights` is a list of (Q, K, V), `normalizer` any callable that returns
phi and phi' for an array of scores. No argument is checked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from estim.arithmetic import Array, matmul
from estim.attention.layer import FACTORS, places_of

Weights = Sequence[tuple[Array, Array, Array]]
Weigh = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Trace:
    """What one layer leaves behind for its derivatives; first axis inputs, second axis tokens."""

    inputs: Array
    """X, (inputs, tokens, width)."""
    projections: Array
    """P, (inputs, tokens, 2 rank + width of the outputs)."""
    attention: Array
    """A, (inputs, tokens, tokens)."""
    slope: Array
    """phi'(S) divided by the row sums of phi(S), (inputs, tokens, tokens)."""
    outputs: Array
    """Y, (inputs, tokens, width of the outputs)."""

    def take(self, chosen: slice) -> "Trace":
        """Return the trace of some of the inputs."""
        return Trace(
            self.inputs[chosen],
            self.projections[chosen],
            self.attention[chosen],
            self.slope[chosen],
            self.outputs[chosen],
        )


def side_by_side(layer: tuple[Array, Array, Array]) -> Array:
    """Return W = [Q | K | V] of a layer, (width, 2 rank + width of the outputs)."""
    return np.concatenate(layer, axis=-1)


def split(array: Array, rank: int) -> tuple[Array, Array, Array]:
    """Cut the last axis of P, or of its derivatives, into the parts of query, key and value."""
    return array[..., :rank], array[..., rank : 2 * rank], array[..., 2 * rank :]


def transpose(array: Array) -> Array:
    """Swap the last two axes."""
    return array.swapaxes(-1, -2)


def trace_layer(x: Array, layer: tuple[Array, Array, Array], normalizer: Weigh) -> Trace:
    """Apply one layer to x, (inputs, tokens, width)."""
    projections = matmul(x, side_by_side(layer))
    query, key, value = split(projections, layer[0].shape[-1])
    phi, slope = normalizer(matmul(query, transpose(key)))
    total = phi.sum(axis=-1, keepdims=True)
    if total.dtype != object:
        _check_rows(total)
    attention = phi / total
    return Trace(x, projections, attention, slope / total, matmul(attention, value))


def _check_rows(total: Array) -> None:
    bad = ~((total.real > 0) & np.isfinite(total))
    if bad.any():
        item, token = (int(i) for i in np.argwhere(bad)[0][:2])
        raise RowError(item, token, total[item, token, 0].real)


class RowError(ValueError):
    """The normalizer gives a row of scores no usable sum; its place in the bank is not known yet."""

    def __init__(self, item: int, token: int, total: float) -> None:
        self.item, self.token, self.total = item, token, total
        super().__init__(item, token, total)

    def explain(self, layer: int, position: int) -> ValueError:
        """Return the error that a user sees."""
        what = "underflows to zero" if self.total == 0 else f"sums to {self.total}"
        return ValueError(
            f"the normalizer {what} on a row of scores: input {position}, token {self.token}, layer {layer}"
        )


def trace(weights: Weights, x: Array, normalizer: Weigh, positions: Array | None = None) -> list[Trace]:
    """Apply the layers one after the other and keep what each leaves behind.

    `positions` names the inputs in an error, where they are not simply counted from zero.
    """
    traces: list[Trace] = []
    for number, layer in enumerate(weights):
        try:
            traces.append(trace_layer(x, layer, normalizer))
        except RowError as error:
            raise error.explain(number, error.item if positions is None else int(positions[error.item])) from None
        x = traces[-1].outputs
    return traces


def forward(weights: Weights, x: Array, normalizer: Weigh, positions: Array | None = None) -> Array:
    """Return the outputs of the last layer, (inputs, tokens, width)."""
    return trace(weights, x, normalizer, positions)[-1].outputs


def pull_back_layer(at: Trace, layer: tuple[Array, Array, Array], cotangent: Array) -> Array:
    """Return dP, (inputs, tokens, readings, 2 rank + width of the outputs), for the cotangent of Y."""
    count, tokens, readings, _ = cotangent.shape
    rank = layer[0].shape[-1]
    query, key, value = split(at.projections, rank)
    # E, (inputs, tokens, channels, tokens)
    gain = at.slope[:, :, None, :] * (transpose(value)[:, None] - at.outputs[..., None])
    scores = matmul(cotangent, gain)

    def over_tokens(matrix: Array, of: Array) -> Array:
        return matmul(matrix, of.reshape(count, tokens, -1)).reshape(count, -1, readings, of.shape[-1])

    return np.concatenate(
        [
            matmul(scores.reshape(count, -1, tokens), key).reshape(count, tokens, readings, rank),
            over_tokens(transpose(query), scores).transpose(0, 3, 2, 1),
            over_tokens(transpose(at.attention), cotangent),
        ],
        axis=-1,
    )


def pull_back(
    weights: Weights, traces: Sequence[Trace], cotangent: Array, wanted: Callable[[int, Array], None]
) -> None:
    """Carry cotangents of the outputs, (inputs, tokens, readings, width), down to the first layer.

    ``wanted(number, dW)`` receives the derivatives of the readings with respect to W of each layer, last
    layer first: dW (inputs, width, readings, 2 rank + width of the outputs).
    """
    for number in range(len(weights) - 1, -1, -1):
        at, layer = traces[number], weights[number]
        pulled = pull_back_layer(at, layer, cotangent)
        count, tokens, readings, columns = pulled.shape
        product = matmul(transpose(at.inputs), pulled.reshape(count, tokens, -1))
        wanted(number, product.reshape(count, -1, readings, columns))
        if number > 0:
            cotangent = matmul(pulled, transpose(side_by_side(layer)))


def push_forward(weights: Weights, tangents: Weights, traces: Sequence[Trace]) -> Array:
    """Return the change of the outputs, (inputs, tokens, width), per unit of a change of the factors."""
    moved: Array | None = None
    for layer, tangent, at in zip(weights, tangents, traces, strict=True):
        rank = layer[0].shape[-1]
        change = matmul(at.inputs, side_by_side(tangent))
        if moved is not None:
            change = change + matmul(moved, side_by_side(layer))
        query, key, value = split(at.projections, rank)
        d_query, d_key, d_value = split(change, rank)
        scores = matmul(d_query, transpose(key)) + matmul(query, transpose(d_key))
        weighted = at.slope * scores
        d_attention = weighted - at.attention * weighted.sum(axis=-1, keepdims=True)
        moved = matmul(d_attention, value) + matmul(at.attention, d_value)
    assert moved is not None
    return moved


def identity_cotangent(like: Array) -> Array:
    """Return the cotangents of all readings of one input, (1, tokens, tokens * width, width).

    `like` holds outputs, (inputs, tokens, width); one and zero are taken from its number system.
    """
    _, tokens, width = like.shape
    # Arrays all the way: as a lone operand a flint series would be taken for a sequence of its coefficients.
    zero = like[0, 0, :1] * 0
    basis = np.repeat(zero, tokens**2 * width**2).reshape(tokens, tokens, width, width)
    token, channel = np.arange(tokens)[:, None], np.arange(width)
    basis[token, token, channel, channel] = basis[token, token, channel, channel] + 1
    return basis.reshape(1, tokens, tokens * width, width)


def jacobian(
    weights: Weights,
    x: Array,
    normalizer: Weigh,
    factors: Sequence[str] = FACTORS,
    *,
    traces: Sequence[Trace] | None = None,
    out: Array | None = None,
) -> Array:
    """Return the derivatives of all outputs, in the number system of its arguments.

    Parameters
    ----------
    weights : list of (query, key, value)
        Arrays of one number system.
    x : (inputs, tokens, width) array
        Of the same number system.
    normalizer : callable
        ``normalizer(scores)`` -> (phi, phi').
    factors : sequence of str
        Which of ``"query"``, ``"key"``, ``"value"`` count as parameters.
    traces : list, optional
        What :func:`trace` returned for the same arguments.
    out : (inputs, readings, parameters) array, optional
        Where to write.

    Returns
    -------
    (inputs, tokens * width, parameters) array
        Readings of an input are ordered by token, then channel; parameters by layer, then query, key,
        value, each row by row.
    """
    traces = trace(weights, x, normalizer) if traces is None else traces
    count, tokens, width = traces[-1].outputs.shape
    offsets = places_of(weights, factors)
    size = max(place.stop for places in offsets for place in places.values())
    if out is None:
        out = np.empty((count, tokens * width, size), dtype=x.dtype)

    def store(number: int, derivative: Array) -> None:
        parts = split(derivative, weights[number][0].shape[-1])
        for name, part in zip(FACTORS, parts, strict=True):
            if name in offsets[number]:
                block = out[:, :, offsets[number][name]].reshape(count, tokens * width, *part.shape[1::2])
                block[...] = part.swapaxes(1, 2)

    cotangent = identity_cotangent(traces[-1].outputs)
    pull_back(weights, traces, np.broadcast_to(cotangent, (count, *cotangent.shape[1:])), store)
    return out
