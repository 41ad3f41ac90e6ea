"""The forward map and its derivatives, written once for every number system.

Notation: X (inputs, tokens, width) enters a layer with factors Q, K, V; W = [Q | K | V] side by side.

    P = X W = [Pq | Pk | Pv],  S = Pq Pk^T,  A = phi(S) / row sums,  Y = A Pv.

For a cotangent G of Y (one for each reading),

    dPv = A^T G,  dS_tj = G_t . E_t[:, j]  with  E_t[c, j] = phi'(S_tj) / (sum_k phi(S_tk)) (Pv_jc - Y_tc),
    dPq = dS Pk,  dPk = dS^T Pq,  dW = X^T dP,  dX = dP W^T.

E is the derivative of the normalized weights folded with what they weigh, so that the readings meet it in one
product. Cotangents are (inputs, readings, tokens, channels).

Everything here takes plain arrays: `weights` is a list of (Q, K, V), `normalizer` any callable that returns
phi and phi' for an array of scores. No argument is checked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def gain(self) -> Array:
        """E, (inputs, tokens, width of the outputs, tokens)."""
        value = self.projections[..., -self.outputs.shape[-1] :]
        return np.ascontiguousarray(self.slope[:, :, None, :] * (transpose(value)[:, None] - self.outputs[..., None]))

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
        advice = "" if np.isfinite(self.total) else "; lower factors or inputs, or give `digits`"
        return ValueError(
            f"the normalizer {what} on a row of scores: input {position}, token {self.token}, layer {layer}{advice}"
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
    """Return the outputs of the last layer, (inputs, tokens, width); x itself where there is no layer."""
    traces = trace(weights, x, normalizer, positions)
    return traces[-1].outputs if traces else x


def pull_back_layer(at: Trace, layer: tuple[Array, Array, Array], cotangent: Array) -> Array:
    """Return dP, (inputs, readings, tokens, 2 rank + width of the outputs), for the cotangent of Y."""
    count, readings, tokens, _ = cotangent.shape
    rank = layer[0].shape[-1]
    query, key, _ = split(at.projections, rank)
    scores = np.empty((count, readings, tokens, tokens), dtype=cotangent.dtype)
    pulled = np.empty((count, readings, tokens, at.projections.shape[-1]), dtype=cotangent.dtype)
    to_query, to_key, to_value = split(pulled, rank)
    # E differs from token to token: with these before the readings, small products become large ones.
    matmul(cotangent.swapaxes(1, 2), at.gain, out=scores.swapaxes(1, 2))
    matmul(scores, key[:, None], out=to_query)
    matmul(transpose(scores), query[:, None], out=to_key)
    matmul(transpose(at.attention)[:, None], cotangent, out=to_value)
    return pulled


def pull_back(
    weights: Weights, traces: Sequence[Trace], cotangent: Array, wanted: Callable[[int, Array], None]
) -> None:
    """Carry cotangents of the outputs, (inputs, readings, tokens, width), down to the first layer.

    ``wanted(number, dP)`` receives the derivatives of the readings with respect to P of each layer, last
    layer first: dP (inputs, readings, tokens, 2 rank + width of the outputs).
    """
    for number in range(len(weights) - 1, -1, -1):
        pulled = pull_back_layer(traces[number], weights[number], cotangent)
        wanted(number, pulled)
        if number > 0:
            cotangent = to_inputs(weights[number], pulled)


def add_pulled(total: list[Array], weights: Weights, traces: Sequence[Trace], cotangent: Array) -> None:
    """Add dW of each layer, summed over inputs and readings, for cotangents of the outputs as for :func:`pull_back`."""

    def add(number: int, pulled: Array) -> None:
        # Inputs and tokens together are one long side: the sum over inputs is part of the product.
        x = traces[number].inputs
        total[number] += x.reshape(-1, x.shape[-1]).T @ pulled.reshape(-1, pulled.shape[-1])

    pull_back(weights, traces, cotangent, add)


def to_inputs(layer: tuple[Array, Array, Array], pulled: Array) -> Array:
    """Return dX, (inputs, readings, tokens, width), for dP."""
    # Rows in order: a product with the transpose of W as it lies in memory takes half as long again.
    return matmul(pulled, np.ascontiguousarray(side_by_side(layer).T))


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


def pull_back_readings(at: Trace, layer: tuple[Array, Array, Array], readings: slice) -> Array:
    """Return dP, (inputs, readings, tokens, 2 rank + width), for some readings of the outputs of this very layer.

    Their cotangents have a single one each: what :func:`pull_back_layer` would multiply is only picked out.
    """
    _, tokens, width = at.outputs.shape
    rank = layer[0].shape[-1]
    query, key, _ = split(at.projections, rank)
    token, channel = np.divmod(np.arange(tokens * width)[readings], width)
    # Arrays all the way: as a lone operand a flint series would be taken for a sequence of its coefficients.
    zero = at.outputs[:, :1, :1, None] * 0
    pulled = np.repeat(np.repeat(np.repeat(zero, len(token), 1), tokens, 2), at.projections.shape[-1], 3)
    to_query, to_key, to_value = split(pulled, rank)
    rows = np.arange(len(token))
    scores = at.gain[:, token, channel]
    to_query[:, rows, token] = matmul(scores, key)
    to_key[...] = scores[..., None] * query[:, token, None]
    to_value[:, rows, :, channel] = at.attention[:, token].swapaxes(0, 1)
    return pulled


def jacobian(weights: Weights, x: Array, normalizer: Weigh, factors: Sequence[str] = FACTORS) -> Array:
    """Return the derivatives of all outputs, (inputs, tokens * width, parameters), in the number system of x.

    Parameters
    ----------
    weights : list of (query, key, value)
        Arrays of one number system.
    x : (inputs, tokens, width) array
        Of the same number system.
    normalizer : callable
        ``normalizer(scores)`` -> (phi, phi').
    factors : sequence of str
        Which of ``"query"``, ``"key"``, ``"value"`` count as parameters: by layer, then query, key, value, each row
        by row.
    """
    traces = trace(weights, x, normalizer)
    count, tokens, width = traces[-1].outputs.shape
    size = sum(place.stop - place.start for places in places_of(weights, factors) for place in places.values())
    out = np.empty((count, tokens * width, size), dtype=x.dtype)
    fill_jacobian(weights, traces, factors, slice(None), out)
    return out


def fill_jacobian(
    weights: Weights, traces: Sequence[Trace], factors: Sequence[str], readings: slice, out: Array
) -> None:
    """Write the derivatives of some readings of every input into `out`, (inputs, readings, parameters).

    `traces` is what :func:`trace` returned; `readings` cuts the tokens * width readings of an input, ordered by token,
    then channel.
    """
    places = places_of(weights, factors)

    def store(number: int, pulled: Array) -> None:
        x = transpose(traces[number].inputs)[:, None]
        parts = split(pulled, weights[number][0].shape[-1])
        for name, part in zip(FACTORS, parts, strict=True):
            if name in places[number]:
                block = out[:, :, places[number][name]].reshape(*out.shape[:2], x.shape[-2], part.shape[-1])
                matmul(x, part, out=block)

    last = len(weights) - 1
    pulled = pull_back_readings(traces[last], weights[last], readings)
    store(last, pulled)
    if last > 0:
        pull_back(weights[:last], traces[:last], to_inputs(weights[last], pulled), store)
