"""What the monitor sees: its noise, the weights it watches, quantised layers, and sentences to add."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from monitor import LAYERS, covariance, embedding, group_of, quantised, watched
from pandas import DataFrame, Index, MultiIndex
from scipy import stats

import estim

#: Relative size of the changes that are asked for.
SIZE = 0.01
ALARM, POWER = 0.05, 0.8
ATTENTION = r"encoder\.layer\.{}\.attention\.self\.(query|key)\."
LAYER = r"encoder\.layer\.{}\."


def power(shift, readings):
    """Return the probability that a change that moves the readings by so many standard deviations is detected."""
    return stats.ncx2.sf(stats.chi2.isf(ALARM, readings), readings, np.square(shift))


def aimed(found):
    """Return the power of the one-sided test along the predicted shift, for who knows which change to look for."""
    return stats.norm.sf(stats.norm.isf(ALARM) - found.actual * found.cosine)


def needed(readings):
    """Return the shift that is detected with the power asked for."""
    return float(np.interp(POWER, power(grid := np.linspace(0.01, 40.0, 4000), readings), grid))


def noise_table(errors, names):
    """Return, for each kind of inference, the errors of the readings."""
    rows = {}
    for kind, error in errors.items():
        correlation = np.corrcoef(error.T)[np.triu_indices(error.shape[1], 1)]
        rows[kind] = [*error.std(axis=0, ddof=1), *error.mean(axis=0), correlation.min(), correlation.max()]
    columns = [*(f"sd, {name}" for name in names), *(f"mean, {name}" for name in names), "corr. from", "to"]
    return DataFrame.from_dict(rows, orient="index", columns=columns)


def unchanged(errors, sentences):
    """Return chi-square, its degrees of freedom and p-value, for the readings of the encoder that did not change."""
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(errors.T)))
    statistic = float(np.square(errors[:sentences] @ whiten.T).sum())
    degrees = sentences * errors.shape[1]
    return statistic, degrees, float(stats.chi2.sf(statistic, degrees))


def sensitivity(monitor, sentences, errors, kinds=("query/key", "value")):
    """Return what the readings of these sentences see of the watched maps."""
    groups = watched(monitor.model, kinds)
    noise = covariance(errors, len(sentences))
    return estim.sensitivity(monitor.model, monitor.tokens(sentences), noise, readings=monitor.scores, groups=groups)


def typical_shifts(found):
    """Return the root mean square shift by random changes of each group by SIZE of its norm, (groups,)."""
    squares = np.square(found.group_singular_values).sum(axis=1)
    return SIZE * found.group_norms * np.sqrt(squares / found.by_group()["parameters"].to_numpy())


def seen_table(found, coarse):
    """Return a row for each map: what is seen at the noise of bfloat16, and of int8."""
    fine, rough = typical_shifts(found), typical_shifts(coarse)
    by_group = found.by_group()
    rows = []
    for k, group in enumerate(found.group_names):
        values = found.group_singular_values[k]
        resolved = values[values > found.group_resolution[k]]
        floors = 100.0 / (found.group_norms[k] * resolved[[0, -1]])
        shifts = [(shift, power(shift, found.readings)) for shift in (fine[k], rough[k])]
        share = by_group["information_share"][group]
        rows.append([by_group["parameters"][group], len(resolved), *floors, *shifts[0], *shifts[1], share])
    columns = ["weights", "dimension seen", "best floor, %", "worst seen, %", "shift", "power", "shift, int8"]
    return DataFrame(rows, index=Index(found.group_names, name="map"), columns=[*columns, "power, int8", "share"])


def input_table(found, sentences):
    """Return the share of each sentence in the squared shift of a random change, largest first."""
    share = _squares_by_input(found)
    order = np.argsort(-share)
    return DataFrame(
        {"share, %": 100.0 * share[order] / share.sum()}, index=Index([sentences[k] for k in order], name="sentence")
    )


def _squares_by_input(found):
    return found.by_input().to_numpy() @ np.square(found.singular_values[: found.resolved])


@dataclass
class Case:
    """One way to quantise each layer, and the noise at which it is judged."""

    name: str
    part: str
    per_channel: bool
    noise: str
    beside: bool = False
    """Whether it is judged beside random changes of SIZE of the same map."""


CASES = (
    Case("layer, a scale per tensor", LAYER, False, "bfloat16"),
    Case("layer, a scale per channel", LAYER, True, "bfloat16"),
    Case("query and key, per channel", ATTENTION, True, "bfloat16", beside=True),
    Case("layer, per channel, int8 noise", LAYER, True, "int8"),
)


def judge(monitor, sentences, errors, case, layer):
    """Return what the monitor says of a layer that went to int8 and back."""
    names = [name for name, _ in monitor.model.named_parameters()]
    map_of_interest = estim.AnyChange(SIZE, group=f"layer{layer}.query/key", case="typical")
    return estim.judge_models(
        monitor.model, quantised(monitor.model, case.part.format(layer), case.per_channel), monitor.tokens(sentences),
        covariance(errors[case.noise], len(sentences)), readings=monitor.scores, repeat_correlation=1.0,
        groups=[group_of(name) or "other weights" for name in names],
        smallest_change=map_of_interest if case.beside else None, rng=layer,
    )  # fmt: skip


def judged_table(monitor, sentences, errors, layers=range(LAYERS), cases=CASES, others=None):
    """Return a row for each layer and way to quantise it; `others` are sentences that the monitor does not read."""
    rows, index = [], []
    elsewhere = None if others is None else Elsewhere(monitor, others)
    for case in cases:
        for layer in layers:
            found = judge(monitor, sentences, errors, case, layer)
            state = quantised(monitor.model, case.part.format(layer), case.per_channel)
            moved = [] if elsewhere is None else [elsewhere(state)]
            shifts = (found.predicted, found.actual, 100.0 * found.linear_up_to)
            beside = found.verdict.power if case.beside else np.nan
            rows.append([*shifts, found.power, aimed(found), beside, found.outcome.name, *moved])
            index.append((case.name, layer))
    columns = ["predicted", "actual", "linear up to, %", "power", "power, aimed", "power of 1 %", "verdict"]
    extra = [] if elsewhere is None else ["elsewhere"]
    return DataFrame(rows, index=MultiIndex.from_tuples(index, names=["int8", "layer"]), columns=columns + extra)


class Elsewhere:
    """How far embeddings of sentences that the monitor does not read move, over what bfloat16 moves them."""

    def __init__(self, monitor, sentences):
        self._model, self._tokens = copy.deepcopy(monitor.model), monitor.tokens(sentences)
        with torch.no_grad():
            self._exact = embedding(self._model, self._tokens)
            short = embedding(copy.deepcopy(self._model).bfloat16(), self._tokens).float()
        self._noise = (short - self._exact).norm()

    def __call__(self, state):
        """Return the ratio of root mean squares, for the weights of a state dict."""
        self._model.load_state_dict(state)
        with torch.no_grad():
            return float((embedding(self._model, self._tokens) - self._exact).norm() / self._noise)


def ranked(monitor, sentences, errors):
    """Return the squared shift that each sentence adds for a random change of one layer's query and key.

    The noise of sentences is independent, so that squared shifts add up: no search is needed.
    """
    found = sensitivity(monitor, sentences, errors["bfloat16"], ("query/key",))
    squares = _squares_by_input(found)
    return squares / squares.sum() * np.square(typical_shifts(found)).mean()


def power_by_number(gains, topics):
    """Return the power after each sentence, in the order given."""
    readings = topics * np.arange(1, len(gains) + 1)
    return power(np.sqrt(np.cumsum(gains)), readings)


def sentences_needed(gains, topics):
    """Return how many sentences, as good as these on average, would do."""
    count = np.unique(np.geomspace(len(gains), 1e6, 400).astype(int))
    enough = power(np.sqrt(count * np.mean(gains)), topics * count) >= POWER
    return int(count[np.argmax(enough)]) if enough.any() else None
