"""The order of noise beside the names of a bank's inputs."""

from typing import Any

from estim.order_of_labels import labels_of, require_order
from estim.probe.model.names_of_inputs import names_of_inputs


def require_order_of_bank(sigma: Any, bank: Any, model: Any = None) -> None:
    """Refuse noise that names the inputs of a bank, or of the model's own data, in another order than these do."""
    labels = labels_of(sigma)
    if not labels:
        return
    own = getattr(getattr(getattr(model, "model", None), "data", None), "row_labels", None) if bank is None else None
    named = own is not None or bool(labels_of(bank))
    if not named and all(type(axis).__name__ == "RangeIndex" and axis.step == 1 for axis in labels):
        return  # places without names are not the doses 2, 0, 1, though they look like these in another order
    try:
        names = names_of_inputs(bank, len(bank)) if own is None else [str(label) for label in own]
    except TypeError:  # a bank of no length: one number, or batches
        names = []
    require_order(labels, names, "sigma", "the bank's inputs")
