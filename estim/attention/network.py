"""A network of attention layers: its outputs and their exact derivatives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estim.arithmetic import Array, as_float, midpoints
from estim.attention import gauge, jacobian
from estim.attention.bank import read_bank
from estim.attention.identifiable import Identifiable
from estim.attention.layer import (
    FACTORS,
    Layer,
    check_factors,
    check_layers,
    flatten,
    parameter_count,
    read_only,
    read_vector,
    with_vector,
)
from estim.attention.mean_response import mean_response
from estim.attention.named_normalizers import find_normalizer
from estim.attention.normalizers import Normalizer
from estim.recovery.response import MeanResponse
from estim.streams import generator


@dataclass(frozen=True, repr=False, init=False)
class Network(Identifiable):
    """Deep, unmasked, single-head attention with a known normalizer.

    Layer l maps the tokens X, one a row, to A(X Q K^T X^T) X V, where A(S) is phi(S) divided by its row sums.

    Parameters
    ----------
    layers : sequence of Layer
        Each as wide as what the one before puts out.
    normalizer : {"softmax", "sigmoid", "softplus", "quadratic", "cosh"} or Normalizer, default: "softmax"
        phi: exp(s), 1 / (1 + exp(-s)), log(1 + exp(s)), 1 + s^2, cosh(s), or one of your own.

    Raises
    ------
    TypeError, ValueError
        If a layer does not fit, or the normalizer is unknown.

    Notes
    -----
    A bank is an array (inputs, tokens, width) or a list of inputs (tokens, width) that may differ in their
    number of tokens; its entries are read like those of a Layer. Parameters are ordered by layer, then
    query, key, value, then row by row; readings by input, token, channel. All of them are dimensionless.

    References
    ----------
    The Identifiability and Observability of Deep Normalized Attention, arXiv:2610.09620.

    Examples
    --------
    >>> from estim.attention import Layer, Network
    >>> network = Network([Layer([["1/2"]], [[1]], [[2]])])
    >>> network([[[0], [1]]]).round(6)
    array([[[1.      ],
            [1.244919]]])
    >>> network.jacobian([[[0], [1]]]).round(6)
    array([[0.      , 0.      , 0.5     ],
           [0.470007, 0.235004, 0.622459]])
    """

    layers: tuple[Layer, ...]
    normalizer: Normalizer

    def __init__(self, layers: Iterable[Layer], normalizer: str | Normalizer = "softmax") -> None:
        object.__setattr__(self, "layers", check_layers(layers))
        object.__setattr__(self, "normalizer", find_normalizer(normalizer))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.layers, self.normalizer)

    def __repr__(self) -> str:
        widths = [self.width, *(layer.output_width for layer in self.layers)]
        ranks = [layer.rank for layer in self.layers]
        return f"Network(widths={widths}, ranks={ranks}, normalizer={self.normalizer.name!r})"

    @property
    def width(self) -> int:
        """Channels of an input token."""
        return self.layers[0].width

    @property
    def output_width(self) -> int:
        """Channels of an output token."""
        return self.layers[-1].output_width

    @cached_property
    def parameters(self) -> NDArray[np.float64]:
        """All factors as one float64 vector, (parameters,), read-only."""
        return read_only(flatten(self.layers, FACTORS))

    def with_parameters(self, parameters: Any, *, factors: Sequence[str] = FACTORS) -> "Network":
        """Return the network whose chosen factors have the entries given.

        Parameters
        ----------
        parameters : (parameters,) array_like
            In the order of the parameters; exact entries stay exact.
        factors : sequence of {"query", "key", "value"}
            Which factors they replace.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> network = Network([Layer([[1]], [[1]], [[1]])])
        >>> network.with_parameters([2, "0.1"], factors=("query", "key")).parameters
        array([2. , 0.1, 1. ])
        """
        return Network(with_vector(self.layers, parameters, check_factors(factors)), self.normalizer)

    def scaled(self, scale: Any) -> "Network":
        """Return the network with every query and key multiplied, exactly, by a number.

        Parameters
        ----------
        scale : float, int, Fraction or str
            Dimensionless; a string such as ``"0.06"`` means the decimal.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> Network([Layer([[1]], [[3]], [[1]])]).scaled("0.1").layers[0].key
        array([[Fraction(3, 10)]], dtype=object)
        """
        return Network([layer.scaled(scale) for layer in self.layers], self.normalizer)

    def __call__(self, bank: Any, *, digits: int | None = None) -> Array | list[Array]:
        """Return the outputs of every input.

        Parameters
        ----------
        bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
            Dimensionless.
        digits : int, optional
            At most 10000. Compute with balls: no output is off by more than ``10**-digits`` times the largest among
            the inputs with as many tokens. Float64 when left out.

        Returns
        -------
        (inputs, tokens, output width) array, or list of (tokens, output width) arrays
            A list where the inputs differ in their number of tokens. Float64, or object array of
            ``mpmath.mpf``.

        Raises
        ------
        TypeError, ValueError
            If the bank does not fit, or the normalizer leaves a row of scores without a positive finite sum.
        OverflowError
            If float64 does not hold the factors, the bank or what comes out.
        """
        inputs = read_bank(bank, self.width)
        if digits is not None:
            balls = [jacobian.ball_outputs(self.layers, group, self.normalizer, digits) for group in inputs.groups]
            return inputs.assemble([midpoints(outputs) for outputs in balls])
        floats = [layer.float64 for layer in self.layers]
        return inputs.assemble(
            jacobian.float_trace(floats, group, self.normalizer)[-1].outputs for group in inputs.groups
        )

    def jacobian(self, bank: Any, *, factors: Sequence[str] = FACTORS, digits: int | None = None) -> Array:
        """Return the exact derivatives of all readings with respect to the chosen factors.

        Parameters
        ----------
        bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
            Dimensionless.
        factors : sequence of {"query", "key", "value"}
            Which factors count as parameters.
        digits : int, optional
            At most 10000. Compute with balls: no entry is off by more than ``10**-digits`` times the largest.
            Float64 when left out.

        Returns
        -------
        (readings, parameters) array
            Float64, or object array of ``mpmath.mpf``.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit, or the normalizer leaves a row of scores without a positive finite sum.
        OverflowError
            If float64 does not hold the factors, the bank or what comes out.
        """
        chosen = check_factors(factors)
        bank = read_bank(bank, self.width)
        if digits is None:
            return jacobian.float_jacobian(self.layers, bank, self.normalizer, chosen)
        return midpoints(jacobian.ball_jacobian(self.layers, bank, self.normalizer, digits, factors=chosen))

    def jvp(self, bank: Any, tangent: Any, *, factors: Sequence[str] = FACTORS) -> NDArray[np.float64]:
        """Return Jacobian @ tangent without forming the Jacobian, at about twice the cost of the outputs.

        Parameters
        ----------
        bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
        tangent : (parameters,) array_like
            A change of the chosen factors.
        factors : sequence of {"query", "key", "value"}

        Returns
        -------
        (readings,) float64 array

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> network = Network([Layer([["1/2"]], [[1]], [[2]])])
        >>> network.jvp([[[0], [1]]], [1, 0, 0]).round(6)
        array([0.      , 0.470007])
        """
        chosen = check_factors(factors)
        vector = as_float(read_vector(tangent, "tangent", parameter_count(self.layers, chosen), "parameter"))
        return jacobian.jvp(self.layers, read_bank(bank, self.width), self.normalizer, vector, chosen)

    def vjp(self, bank: Any, cotangent: Any, *, factors: Sequence[str] = FACTORS) -> NDArray[np.float64]:
        """Return cotangent @ Jacobian without forming the Jacobian, at some three times the cost of outputs.

        Parameters
        ----------
        bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
        cotangent : (readings,) array_like
            A weight for each reading; inputs without a weight are not evaluated.
        factors : sequence of {"query", "key", "value"}

        Returns
        -------
        (parameters,) float64 array

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> network = Network([Layer([["1/2"]], [[1]], [[2]])])
        >>> network.vjp([[[0], [1]]], [0, 1]).round(6)
        array([0.470007, 0.235004, 0.622459])
        """
        chosen = check_factors(factors)
        bank = read_bank(bank, self.width)
        vector = as_float(read_vector(cotangent, "cotangent", bank.readings(self.output_width), "reading"))
        return jacobian.vjp(self.layers, bank, self.normalizer, vector, chosen)

    def mean_response(self, bank: Any, *, layer: int = -1, upper: Any) -> MeanResponse:
        """Return the mean of all readings as a known response of one unknown, the scale of one layer.

        Parameters
        ----------
        bank : (inputs, tokens, width) array_like, or list of (tokens, width) array_like
            Dimensionless.
        layer : int, default: -1
            The layer whose query and key are each multiplied by theta.
        upper : float, int, Fraction or str
            theta lies in [0, upper]; dimensionless.

        Returns
        -------
        MeanResponse
            Made from an excess over theta = 0 that is accurate to a few units in the last place however
            small it is.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit, the mean does not depend on theta, is not monotone, or the
            normalizer has no high-precision version.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> first, last = Layer([["0.05"]], [["0.05"]], [[1]]), Layer([[1]], [[1]], [[1]])
        >>> response = Network([first, last]).mean_response([[[0], [2]]], upper="0.15")
        >>> f"{response.excess(0.05):.13e}"
        '1.5663801110273e-08'
        """
        inputs = read_bank(bank, self.width)
        return mean_response(self.layers, self.normalizer, inputs, layer=layer, upper=upper)

    def canonical(self) -> "Network":
        """Return the one representative of all networks with the same effective parameters.

        Returns
        -------
        Network
            Exact. Each effective score matrix is a query of its pivot columns times a key in reduced
            echelon form (for an even normalizer with the sign that makes the first entry positive), each
            value but the last the identity. Gauge-equivalent networks have equal ones.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> a, b = Network([Layer([[2]], [[3]], [[1]])]), Network([Layer([[1]], [[6]], [[1]])])
        >>> a == b, a.canonical() == b.canonical()
        (False, True)
        """
        return Network(gauge.canonical(self.layers, even=self.normalizer.even), self.normalizer)

    def regauged(self, *, rng: Any = None) -> "Network":
        """Return another network of the same function: a random gauge acts on the factors, exactly.

        Parameters
        ----------
        rng : None, int or numpy.random.Generator
            Where the random matrices come from.

        Examples
        --------
        >>> from estim.attention import Layer, Network
        >>> network = Network([Layer([[2, 1]], [[3, 5]], [[7]])])
        >>> network.regauged(rng=1).canonical() == network.canonical()
        True
        """
        return Network(gauge.regauged(self.layers, generator(rng)), self.normalizer)
