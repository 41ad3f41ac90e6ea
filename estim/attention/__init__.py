"""Deep normalized attention: its outputs, exact derivatives, and what they can determine at all.

A :class:`Network` of :class:`Layer` maps banks of token matrices to outputs. Its formulas are written once
(`formula`) and run on float64 numbers, on balls of any number of digits, on power series and on residues.
What the outputs determine are the effective parameters (`effective`); all other changes of the factors are
gauge (`gauge`).
"""

from estim.attention.effective import EffectiveParameters
from estim.attention.equivalence import Equivalence, equivalent
from estim.attention.layer import Layer
from estim.attention.network import Network
from estim.attention.normalizers import Normalizer

__all__ = ["EffectiveParameters", "Equivalence", "Layer", "Network", "Normalizer", "equivalent"]
