"""The family once more, number by number with mpmath: slow, plain, and sharing no line with the package."""

import mpmath

PHI = {
    "softmax": lambda s: mpmath.e**s,
    "sigmoid": lambda s: 1 / (1 + mpmath.e ** (-s)),
    "softplus": lambda s: mpmath.log(1 + mpmath.e**s),
    "quadratic": lambda s: 1 + s**2,
    "cosh": lambda s: (mpmath.e**s + mpmath.e ** (-s)) / 2,
}


def number(entry):
    """Read a float, an integer or a Fraction at the working precision."""
    numerator, denominator = entry.as_integer_ratio()
    return mpmath.mpf(numerator) / denominator


def readings(layers, tokens, normalizer):
    """Return the outputs for one input as a flat list; `layers` and `tokens` are nested lists of mpf."""
    phi = PHI[normalizer]
    for query, key, value in layers:
        count, width, rank, out = len(tokens), len(query), len(query[0]), len(value[0])
        asked = [[sum(t[a] * query[a][k] for a in range(width)) for k in range(rank)] for t in tokens]
        offered = [[sum(t[a] * key[a][k] for a in range(width)) for k in range(rank)] for t in tokens]
        moved = []
        for i in range(count):
            scores = [sum(asked[i][k] * offered[j][k] for k in range(rank)) for j in range(count)]
            weights = [phi(s) for s in scores]
            total = sum(weights)
            mean = [sum(weights[j] * tokens[j][a] for j in range(count)) / total for a in range(width)]
            moved.append([sum(mean[a] * value[a][b] for a in range(width)) for b in range(out)])
        tokens = moved
    return [entry for token in tokens for entry in token]


def factors(network):
    """Return the factors of a network as nested lists of mpf."""
    return [
        tuple([[number(x) for x in row] for row in factor.tolist()] for factor in (layer.query, layer.key, layer.value))
        for layer in network.layers
    ]


def shifted(layers, direction, step):
    """Move all factors along a direction, a list with one entry for each parameter."""
    entries = iter(direction)
    return [tuple([[x + step * next(entries) for x in row] for row in factor] for factor in layer) for layer in layers]


def bank_readings(network, layers, bank):
    """Return the readings of all inputs, in the order the package promises."""
    inputs = [[[number(x) for x in token] for token in item.tolist()] for item in bank]
    return [reading for item in inputs for reading in readings(layers, item, network.normalizer.name)]


def central_difference(network, bank, direction, step):
    """Return the change of all readings along a direction, to second order in the step."""
    layers = factors(network)
    ahead = bank_readings(network, shifted(layers, direction, step), bank)
    behind = bank_readings(network, shifted(layers, direction, -step), bank)
    return [(one - other) / (2 * step) for one, other in zip(ahead, behind, strict=True)]
