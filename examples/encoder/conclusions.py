"""A sentence or two on each table, made of its numbers."""

import numpy as np
import scaling
from study import ALARM, POWER, SIZE
from tables import ADDED, AGAIN, INPUTS, JUDGED, NOISE, SCALED, SEEN, STACK


def conclusions(results):
    """Return what each table says, by its title."""
    return {
        NOISE: _on_noise(results["noise"], *results["unchanged"]),
        SEEN: _on_maps(results),
        INPUTS: _on_inputs(results["inputs"]["share, %"]),
        JUDGED: _on_quantised(results["judged"]),
        ADDED: _on_candidates(results),
        AGAIN: _on_more_sentences(results),
        SCALED: _on_scaling(results),
        STACK: f"The torch stack has the orders {results['stack'][3].counts} that contact_orders proves for the "
        "network with the same weights; its singular values agree with certified ones to the last column.",
    }


def in_short(results):
    """Return the answer in a few sentences."""
    judged = results["judged"]
    counts = ", ".join(f"{count} {word}" for word, count in judged["verdict"].value_counts().items())
    return (
        f"The bank would miss a random {100 * SIZE:g} % change of {_blind(results['seen'])}; with the candidates of "
        f"section 5, of {_blind(results['seen after'])}. Of {len(judged)} quantised models {counts}; "
        "only EQUIVALENT would mean that silence may be believed."
    )


def _on_noise(noise, statistic, degrees, p_value):
    sds = {kind: row.filter(like="sd, ").mean() for kind, row in noise.iterrows()}
    return (
        f"Scores move by {sds['bfloat16']:.2g} (sd) when the encoder runs in bfloat16, and by {sds['int8']:.2g} after "
        f"dynamic int8 quantisation, {sds['int8'] / sds['bfloat16']:.0f} times as much. The topics of a sentence move "
        "together, so their noise is taken as correlated, sentences as independent. The error is the same each time: "
        "repeats do not average it out. A mean common to all sentences is left to calibration. Read in bfloat16, the "
        f"unchanged encoder gives the bank a chi-square of {statistic:.0f} on {degrees} degrees of freedom "
        f"(p = {p_value:.2f}): {'no change is read' if p_value > ALARM else 'a false alarm'}. "
        "What follows asks what that silence is worth."
    )


def _blind(seen):
    """Name the maps whose random changes are not seen: the layers of each kind."""
    kinds = {}
    for name in seen.index[seen["power"] < POWER]:
        layer, kind = name.removeprefix("layer").split(".")
        kinds.setdefault(kind, []).append(layer)
    return "; ".join(f"{kind} of layer {', '.join(layers)}" for kind, layers in kinds.items()) or "none of them"


def _on_maps(results):
    seen, found = results["seen"], results["found"]
    return (
        f"{found.readings} readings see at most {found.readings} directions of {found.parameters:,} weights, and of "
        f"each map alone {seen['dimension seen'].min()} to {seen['dimension seen'].max()}: a change made to be unseen "
        f"always can be. So the question is a random change, here of {100 * SIZE:g} % of a map. It must shift the "
        f"readings by {results['needed'][0]:.1f} to be detected with power {POWER:g}; the bank is blind "
        f"to {_blind(seen)}. At the noise of int8 inference no map shifts them by more than "
        f"{seen['shift, int8'].max():.2f}: blind to all. Floors, best and worst of what is seen, are in per cent "
        "of the norm of the map."
    )


def _on_inputs(share):
    return (
        f"The most telling sentence carries {share.iloc[0]:.1f} %, the least {share.iloc[-1]:.1f} %, of the squared "
        f"shift that a random change makes; {100.0 / len(share):.1f} % each, were all alike."
    )


def _on_quantised(judged):
    parts = []
    for name, rows in judged.groupby(level=0, sort=False):
        verdicts = ", ".join(f"{count} {word}" for word, count in rows["verdict"].value_counts().items())
        parts.append(f"{name}: {verdicts} (shift {rows['actual'].min():.2g} to {rows['actual'].max():.3g})")
    beside = judged[judged["power of 1 %"].notna()]
    power, elsewhere = beside["power of 1 %"], beside["elsewhere"]
    return (
        f"{'; '.join(parts)}. BLIND is not equivalence: a random {100 * SIZE:g} % change of query and key would have "
        f"been detected with probability {power.min():.2f} to {power.max():.2f} only. What is true elsewhere: on "
        f"sentences that the monitor does not read, int8 query and key move the embeddings by {elsewhere.min():.2f} to "
        f"{elsewhere.max():.2f} of what bfloat16 does ('elsewhere'), so the change is small, but this bank cannot say "
        "so. 'aimed' is the power of a one-sided test along the predicted shift, for who knows the change to look for. "
        "The linear prediction holds where 'linear up to' is 100 %."
    )


def _on_candidates(results):
    return (
        "Sentences have independent noise, so squared shifts add up and ranking them is exact. The best candidate adds "
        f"{results['extra'][0][1]:.2f}, the mean sentence {results['gains'].mean():.2f}, to the squared shift by a "
        f"random {100 * SIZE:g} % change of one layer's query and key, of which "
        f"{results['needed'][0] ** 2:.0f} is needed."
    )


def _on_more_sentences(results):
    before = results["judged"].loc[results["judged after"].index]
    after, count = results["judged after"], results["sentences needed"]
    enough = f"about {count:,} sentences as good as these would do" if count else "no number of them would do"
    judged, changed = (
        ", ".join(str(layer) for _, layer in after.index),
        int((after["verdict"] != before["verdict"]).sum()),
    )
    aimed = [rows["power, aimed"].mean() for rows in (before, after)]
    return (
        f"With the {len(results['extra'])} best candidates a shift of {results['needed'][1]:.1f} is needed, and the "
        f"bank is blind to {_blind(results['seen after'])}. The shift grows as the square root of the number of "
        f"sentences, what it must exceed as the fourth root: for query and key {enough}. "
        f"Judged again (layers {judged}), {changed} of {len(after)} verdicts on int8 query and key change; the power "
        f"of the aimed test rises from {aimed[0]:.2f} to {aimed[1]:.2f} on average."
    )


def _on_scaling(results):
    last = {}
    for key in ("with", "without"):
        slopes = scaling.slopes(results["scales"], *results[key])
        known = [column[np.isfinite(column)] for column in slopes.T]
        last[key] = ", ".join(f"{column[-1]:.2f}" for column in known if len(column))
    return (
        "The last resolved slope of each layer, first layer first. With the residual stream every layer keeps its "
        f"tokens apart, and a singular value falls in proportion to the scale: {last['with']}. Without it, all that "
        "tells the tokens of a layer apart is what the attention before it left: slopes tend to the contact orders of "
        f"the note, 1, 5, 17, 53, until float64 sees no more: {last['without']}. Empty: not resolved."
    )
