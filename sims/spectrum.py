"""The matrix fixture at scale 0.06: its singular values at four precisions, and the rank that each precision shows.

Four tokens, width four, depth three, query/key rank two, softmax, 48 inputs: a Jacobian of 768 readings by 96 native
parameters. Entries and inputs are small exact rationals, ours; the note's own are not disclosed.
"""

import sys
from fractions import Fraction
from typing import Any

import mpmath

import estim
from sims.fixtures import matrix_bank, matrix_network

SCALE = Fraction(6, 100)
DIGITS = (None, 30, 60, 120)
SCALES = (Fraction(1), Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), SCALE, Fraction(3, 100))
THRESHOLD = 1e-10


def run(*, progress: bool = False) -> dict[str, Any]:
    """Compute the spectra; return the study, ready for JSON."""
    network, bank = matrix_network(), matrix_bank()
    spectra = []
    for digits in DIGITS:
        if progress:
            print(f"spectrum: {digits or 'float64'}", file=sys.stderr)
        spectra.append(estim.spectrum(network.scaled(SCALE), bank, digits=digits))
    float64 = [estim.spectrum(network.scaled(scale), bank) for scale in SCALES]
    return {
        "fixture": {
            "what": (__doc__ or "").split("\n\n")[1].replace("\n", " "),
            "scale": str(SCALE),
            "native_parameters": len(network.parameters),
            "gauge_dimension": network.gauge_dimension,
            "rng": "entries drawn with the seeds written in sims/fixtures.py",
        },
        "threshold": THRESHOLD,
        "spectra": [spectrum.to_dict() for spectrum in spectra],
        "singular_values": [mpmath.nstr(value, 30) for value in spectra[-1].singular_values],
        "float64_rank_by_scale": [
            [str(scale), spectrum.rank(THRESHOLD)] for scale, spectrum in zip(SCALES, float64, strict=True)
        ],
    }
