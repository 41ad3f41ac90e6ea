"""What the outputs of a network determine of its factors, and what is gauge."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from estim.arithmetic import Array, as_float, as_fractions
from estim.attention import gauge
from estim.attention.bank import read_bank
from estim.attention.effective import EffectiveParameters, effective_parameters
from estim.attention.exceptional import exceptional
from estim.attention.layer import FACTORS, Layer, check_factors, parameter_count
from estim.attention.normalizers import Normalizer


class Identifiable:
    """The part of `estim.attention.Network` that says what its outputs can determine; `Network` has the rest."""

    layers: tuple[Layer, ...]
    normalizer: Normalizer

    def effective(self, *, exact: bool = False) -> EffectiveParameters:
        """Return the effective scores P Q K^T P^T (P: the values before) and the combined value map.

        Parameters
        ----------
        exact : bool, default: False
            ``Fraction`` entries instead of correctly rounded float64.

        Returns
        -------
        EffectiveParameters
            ``scores`` (layers, width, width), ``value_map`` (width, output width), and ``layers()``, the same
            function written with them.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> parameters = Network([Layer([[2]], [["0.5"]], [[3]])] * 2).effective()
        >>> parameters.scores.ravel(), parameters.value_map
        (array([1., 9.]), array([[9.]]))
        """
        return effective_parameters(self.layers, exact=exact)

    def gauge_tangents(self, *, factors: Sequence[str] = FACTORS, exact: bool = False) -> Array:
        """Return a basis of the changes of the chosen factors that leave the effective parameters as they are.

        Parameters
        ----------
        factors : sequence of {"query", "key", "value"}
            The factors that may change; the rest is held.
        exact : bool, default: False
            ``Fraction`` entries instead of float64.

        Returns
        -------
        (parameters, dimension) array
            To first order no output on any input moves along a column. There are `gauge_dimension` of them
            for generic parameters, more for :meth:`exceptional` ones.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> Network([Layer([[2]], [["0.5"]], [[3]])]).gauge_tangents()
        array([[ 2. ],
               [-0.5],
               [ 0. ]])
        """
        return gauge.tangents_in(self.layers, as_fractions if exact else as_float, factors=check_factors(factors))

    @cached_property
    def gauge_dimension(self) -> int:
        """Parameters that no output determines, for generic networks of these shapes."""
        return parameter_count(self.layers, FACTORS) - self.identifiable_dimension

    @cached_property
    def identifiable_dimension(self) -> int:
        """Parameters that the outputs determine, for generic networks of these shapes.

        The exact rank of the derivative of (query, key, value) -> effective parameters at a generic point.
        """
        return gauge.identifiable_dimension(self.layers)

    def exceptional(self, bank: Any = None) -> tuple[str, ...]:
        """Name what sets these parameters, and the bank if given, apart from generic ones.

        Returns
        -------
        tuple of str
            Factors of deficient rank, zero effective scores, a zero value map, a normalizer without slope
            at zero, inputs with equal tokens; empty for generic parameters.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> Network([Layer([[0]], [[1]], [[1]])]).exceptional([[[2], [2]]])
        ('layer 0: query of rank 0 below its 1 columns',
         'layer 0: effective scores are zero, later scores have no effect',
         'input 0: all tokens equal, no score has an effect')
        """
        inputs = None if bank is None else read_bank(bank, self.layers[0].width)
        return tuple(exceptional(self.layers, self.normalizer, inputs))
