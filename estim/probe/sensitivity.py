"""What a monitor can see: which directions of parameter space its readings resolve, and which they are blind to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from estim.attention import Network
from estim.probe.assemble import assemble, certified_directions
from estim.probe.derivatives.rough import without_rough
from estim.probe.directions.noise import noise_of
from estim.probe.model.batches import Batches, joined
from estim.probe.model.finite import require_nan_policy
from estim.probe.model.kinds import (
    is_function_of_jax,
    is_torch_module,
    require_keep,
    require_left_out,
    require_own_derivatives,
)
from estim.probe.model.names_of_inputs import names_of_inputs
from estim.probe.model.probe import probe
from estim.probe.model.same_batches import same_batches
from estim.probe.order_of_inputs import require_order_of_bank
from estim.probe.record import Sensitivity
from estim.streams import Seed, check_flag, generator

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity


def sensitivity(
    model: Any,
    bank: Any,
    sigma: Any,
    *,
    params: Any = None,
    jac: Any = None,
    symmetry: "npt.ArrayLike | None" = None,
    repeats: int = 1,
    repeat_correlation: float = 0.0,
    smallest_change: "npt.ArrayLike | None" = None,
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    inputs: "npt.ArrayLike | None" = None,
    rtol: float | None = None,
    atol: float | None = None,
    digits: int | None = None,
    nan_policy: str = "raise",
    workers: Any = 1,
    rng: "Seed" = None,
    progress: bool = False,
    readings: Callable[..., Any] | None = None,
    dtype: Any = None,
    keep: int = 0,
) -> "Sensitivity | ModelSensitivity":
    """Find what a monitor can see: which parameter directions these readings resolve at this noise, and which not.

    Parameters
    ----------
    model : callable, torch module, Network, fitted statsmodels result, or object with ``parameters`` and ``jacobian``
        A callable is ``model(params, bank) -> readings``, an array of any shape or nested arrays; complex readings
        count their real and imaginary parts. It is never changed. Complex steps evaluate it about five times per
        parameter, differences 20 to 40 times, up to 400 for awkward ones.
    bank : any
        What the model takes, passed whole; `Batches` for one too large to hold. None for a statsmodels result: its
        own data. For a torch module a tensor, a dict of tensors (as of a tokenizer), a tuple of them, a list of
        words with `readings`, a DataLoader, or `Batches`; their first axis is the inputs.
    sigma : float, array_like of shape (readings,) or (readings, readings), or scipy.stats.Covariance
        Noise of the readings: one standard deviation, one for each reading (zero is legal), or a covariance. Readings
        of shape (inputs, outputs) are taken flat, and so is their noise: ``numpy.ravel(sigma)``.
    params : array_like, or nested dict and list of them
        Where to linearise, for a callable. Names come from the keys. A pytree with arrays of JAX makes the callable one
        of JAX, which differentiates it: ``model(params, bank)`` in jax.numpy; leaves not of floating point are held.
    jac : callable, optional
        ``jac(params, bank) -> d readings / d params``, (readings, parameters).
    symmetry : array_like, shape (parameters, symmetries), optional
        Tangents of changes that you know to leave the function as it is on all inputs: they are then GAUGE.
    repeats : int
        Repeated measurements of the whole bank, averaged.
    repeat_correlation : float
        Common correlation between two repeats of a reading.
    smallest_change : float or array_like of shape (parameters,), optional
        Smallest change of interest, in the parameters' units, (parameters,) or by name; a direction whose floor exceeds
        it is WEAK.
    names, groups : sequence of str, (parameters,), optional
        In place of those found in `params`. Groups of a torch module: "layers", by the path of the module that owns a
        parameter (when left out); one for each of its tensors; or a mapping from group to names of tensors or modules.
        All three are possible for a pytree of JAX, too, where a layer is the path of a leaf without its last key.
    inputs : array_like of int, (readings,), optional
        Which input each reading belongs to; by default the first axis of the readings.
    rtol, atol : float, optional
        Error of the Jacobian's entries known to you, ``atol + rtol |J|``, where it exceeds what was found: readings
        computed in float32, say. Dimensionless, and in the Jacobian's units.
    digits : int, optional
        For an attention.Network, or exact entries: decide unresolved directions again, in certified arithmetic of
        that many digits.
    nan_policy : {"raise", "omit"}
        Whether a reading that is NaN is an error or left out.
    workers : int or map-like callable
        For the evaluations of differences.
    rng : None, int or numpy.random.Generator
        Nothing is drawn for models that fit in memory; checked all the same, for those that will not.
    progress : bool
        Whether to show a progress bar.
    readings : callable, optional
        For a torch module: ``readings(module, inputs) -> tensor``, such as the logit of a class, a score, or a probe
        on a hidden layer; by default the module's output.
    dtype : torch.dtype, optional
        For a torch module: probe a copy of it in this dtype, such as ``torch.float64``.
    keep : int
        For a large torch module or function of JAX: how many of the strongest, and of the weakest resolved, directions
        to keep.

    Returns
    -------
    Sensitivity
        A ModelSensitivity, with tensors in place of single parameters, for a torch module or a function of
        JAX too large for these.

    Raises
    ------
    TypeError
        When the model is none of the kinds, `params` is missing, or sigma is not real.
    ValueError
        When the bank or the parameters are empty or not finite, a reading is NaN, sigma does not fit, the model
        refuses the bank (the message names the input) or is not deterministic (and by how much), or has other
        derivatives than torch or JAX take of it.

    Notes
    -----
    W = Sigma^(-1/2) J. The Fisher information is W^T W; W itself is factored, never its square. A direction is
    resolved when, in units in which every column of W has norm one, its singular value exceeds the norm of the error
    of W: rounding and derivative error together. Nothing is called null or gauge because float64 says so.
    Parameters of a torch module are moved and put back while it is read: no other thread may train or use it then;
    calls of estim from several threads wait for each other.
    A few readings whose derivatives are known only roughly, as at a kink, are left out where more is resolved without
    them: that can only lose information, so statuses and floors hold. `Sensitivity.left_out` and a note name them.

    Examples
    --------
    >>> import numpy as np, estim
    >>> def decay(p, t):
    ...     return (p["a"] + p["b"]) * np.exp(-p["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 7)
    >>> found = estim.sensitivity(decay, t, 0.01, params={"a": 1.0, "b": 2.0, "rate": 0.5})
    >>> found.unseen
    ('a - b',)
    >>> found.identifiable
    ('a + b',)
    >>> found.floor({"rate": 1}) < 0.01
    True
    """
    generator(rng)
    check_flag(progress, "progress")
    require_nan_policy(nan_policy)
    keep = require_keep(keep)
    require_order_of_bank(sigma, bank, model)
    bank = same_batches(bank)
    if is_torch_module(model):
        from estim.probe.torch.asked import Asked
        from estim.probe.torch.sensitivity import sensitivity_of_module

        require_left_out(params=params, jac=jac, digits=digits)
        asked = Asked(readings, groups, names, inputs, dtype, keep, nan_policy, progress)
        of_module = sensitivity_of_module(
            model, bank, sigma, asked, symmetry=symmetry, repeats=repeats, repeat_correlation=repeat_correlation,
            smallest_change=smallest_change, rtol=rtol, atol=atol,
        )  # fmt: skip
        return _named(of_module, bank, inputs)
    if is_function_of_jax(model, params):
        from estim.probe.jax import large

        require_left_out(readings=readings, dtype=dtype)
        require_own_derivatives(jac)
        if digits is not None:
            _require_network(model)
        of_jax = large.Asked(names, groups, inputs, nan_policy, keep, progress)
        given: dict[str, Any] = {
            "symmetry": symmetry, "repeats": repeats, "repeat_correlation": repeat_correlation,
            "smallest_change": smallest_change, "rtol": rtol, "atol": atol,
        }  # fmt: skip
        if large.is_large(params):
            return _named(large.sensitivity_of_large(model, bank, sigma, params, of_jax, **given), bank, inputs)
        if outputs := large.outputs_of_long(model, bank, params):
            long = large.sensitivity_of_long(model, bank, sigma, params, of_jax, outputs=outputs, **given)
            return _named(long, bank, inputs)
        keep = 0
    require_left_out(readings=readings, dtype=dtype, keep=keep or None)
    if digits is not None:
        _require_network(model)
    probed = probe(
        model, bank, params=params, jac=jac, names=names, groups=groups, inputs=inputs, nan_policy=nan_policy,
        workers=workers, progress=progress,
    )  # fmt: skip
    certified = None
    if digits is not None:
        noise = noise_of(probed, sigma, repeats, repeat_correlation)
        certified = certified_directions(model, joined(bank) if isinstance(bank, Batches) else bank, noise, digits)
    else:
        probed, sigma = without_rough(probed, sigma, repeats, repeat_correlation)
    found = assemble(
        probed, sigma, symmetry=symmetry, repeats=repeats, repeat_correlation=repeat_correlation,
        smallest_change=smallest_change, rtol=rtol, atol=atol, certified=certified,
    )  # fmt: skip
    return _named(found, bank, inputs)


def _named(found: "Sensitivity | ModelSensitivity", bank: Any, inputs: Any) -> "Sensitivity | ModelSensitivity":
    """Return a record with the names that a bank has for its inputs, unless their numbers are given."""
    if inputs is not None:
        return found
    count = int(found.inputs.max()) + 1 if isinstance(found, Sensitivity) else len(found.input_share)
    named = names_of_inputs(bank, count)
    return replace(found, input_names=named) if named else found


def _require_network(model: Any) -> None:
    if not isinstance(model, Network):
        kind = type(model).__name__
        msg = f"digits need an attention.Network, or exact entries in Sensitivity.from_jacobian; got {kind}"
        raise TypeError(msg)
