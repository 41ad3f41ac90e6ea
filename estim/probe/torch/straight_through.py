"""Fake quantisers of torch, which round on the way forth and let gradients pass on the way back."""

import torch

from estim.probe.torch.graph import users_of


def require_no_quantiser(module: torch.nn.Module, readings: torch.Tensor) -> None:
    """Refuse readings behind a fake quantiser: their derivative is zero almost everywhere, and torch says another.

    Differences tell only of few weights: of many, some cross a step of theirs however short the way is, and on average
    the readings move as the gradients say. So the graph is asked, which names these operations.

    Raises
    ------
    ValueError
        Naming the operation.
    """
    operations = (node.name() for node in users_of(readings))
    found = next((name for name in operations if "FakeQuant" in name or "FqHelper" in name), None)
    # The fused one stands in the graph where it is switched off, too.
    if found is None or ("FqHelper" in found and not _switched_on(module)):
        return
    msg = (
        f"the derivative that torch takes must be that of the model; {found} rounds, and gradients pass through it as "
        "if it did not: module.apply(torch.ao.quantization.disable_fake_quant) leaves the model without it, which "
        "estim.judge_models compares with others"
    )
    raise ValueError(msg)


def _switched_on(module: torch.nn.Module) -> bool:
    switches = (getattr(part, "fake_quant_enabled", None) for part in module.modules())
    return any(isinstance(switch, torch.Tensor) and bool(switch.any()) for switch in switches)
