"""Read a concentration off a dose-response curve, and say how precise that is.

An assay's mean signal rises with the concentration and saturates. Where it saturates, one reading says little: the
linear error bar is wrong there on both sides, and readings above the plateau have to be clipped.
"""

import numpy as np

import estim

# Calibration points of a four-parameter logistic: concentration in nM, mean signal in arbitrary units.
CONCENTRATION = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
SIGNAL = np.array([0.02, 0.31, 0.55, 0.90, 1.32, 1.70, 1.96, 2.11])


def main() -> None:
    """Print the recovery error at three concentrations for a reading noise of 0.02 and 0.1."""
    curve = estim.MeanResponse.from_table(CONCENTRATION, SIGNAL, name="assay")
    print(curve)
    for concentration in (1.0, 8.0, 28.0):
        print(estim.recover(curve, concentration, [0.02, 0.1], method="exact").summary())


if __name__ == "__main__":
    main()
