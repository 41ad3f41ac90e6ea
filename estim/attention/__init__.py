"""Deep normalized attention: its outputs, exact derivatives, and what they can determine at all."""

from estim.attention.layer import Layer
from estim.attention.network import Network
from estim.attention.normalizers import Normalizer

__all__ = ["Layer", "Network", "Normalizer"]
