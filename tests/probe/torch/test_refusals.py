import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from tests.probe.torch.networks import everything, inputs, perceptron  # noqa: E402


def refused(module, bank, error, match, **options):
    before = everything(module)
    with pytest.raises(error, match=match):
        estim.sensitivity(module, bank, 0.1, **options)
    assert everything(module) == before


class Reading(torch.nn.Module):
    """A perceptron with something done to its output."""

    def __init__(self, done):
        super().__init__()
        self.inner, self.done = perceptron(), done

    def forward(self, x):
        return self.done(self, x)


@pytest.mark.parametrize(
    ("done", "error", "match"),
    [
        (
            lambda m, x: {"logits": m.inner(x), "hidden": x},
            TypeError,
            r"^readings must be a tensor; the model returned dict holding logits, hidden: say what is read, such as "
            r"readings=lambda model, inputs: model\(\*\*inputs\)\['logits'\]$",
        ),
        (lambda m, x: (m.inner(x), x), TypeError, r"the model returned tuple: say what is read, such as .*\[0\]$"),
        (lambda m, x: m.inner(x).argmax(-1), ValueError, r"change smoothly with the parameters; got torch.int64$"),
        (lambda m, x: m.inner(x).detach(), ValueError, r"^readings must depend on the model's trainable parameters"),
        (lambda m, x: m.inner(x)[:0], ValueError, r"must return at least one reading; got shape \(0, 2\)$"),
        (
            lambda m, x: torch.nn.functional.dropout(m.inner(x)),
            ValueError,
            r"^the model must be deterministic; two calls differ by up to .* it draws random numbers in eval mode: a "
            r"dropout without training=self.training\?$",
        ),
        (
            lambda m, x: (lambda h: h.exp().mul(h.add_(1.0)))(m.inner(x)) * m.inner(x).exp_().add_(1.0).exp().exp_(),
            ValueError,
            None,
        ),
    ],
    ids=["dict", "tuple", "integers", "detached", "empty", "dropout", "in place"],
)
def test_readings_that_cannot_be_used_are_refused(done, error, match):
    match = match or r"overwrites a tensor that its derivative needs \(an in-place operation, .*\): make that a new"
    refused(Reading(done), inputs(6, 3), error, match)


def test_a_module_without_trainable_parameters_is_refused():
    refused(torch.nn.ReLU(), inputs(6, 3), ValueError, r"parameters that require gradients; ReLU: it has none$")
    frozen = perceptron().requires_grad_(False)
    refused(frozen, inputs(6, 3), ValueError, r"Sequential: all 4 are frozen \(requires_grad=False\)$")


def test_parameters_that_are_none_are_refused():
    odd = torch.nn.Linear(3, 2, dtype=torch.complex128)
    refused(odd, inputs(6, 3), TypeError, r"^parameters must be real; got torch.complex128 for weight: hold its real")
    broken = perceptron()
    broken[2].weight.data[1, 3] = torch.nan
    refused(broken, inputs(6, 3), ValueError, r"^parameters must be finite; got nan for 2.weight, entry 7$")
    with pytest.raises(ValueError, match=r"^0.weight is not initialised yet: call the model once on a batch$"):
        estim.sensitivity(torch.nn.Sequential(torch.nn.LazyLinear(2)), inputs(6, 3), 0.1)


def test_sparse_gradients_are_refused():
    module = torch.nn.Sequential(torch.nn.Embedding(5, 3, sparse=True), torch.nn.Linear(3, 2))
    match = r"^gradients must be dense; 0 is an embedding with sparse=True: set its sparse to False$"
    refused(module, torch.arange(4), ValueError, match)


def test_parameters_over_shared_memory_are_refused():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).double()
    module[1].weight.data = module[0].weight.data
    match = r"^0.weight and 1.weight share memory, but are two parameters: tie them by making them the same Parameter$"
    refused(module, inputs(6, 3), ValueError, match)


@pytest.mark.parametrize(
    ("bank", "error", "match"),
    [
        (inputs(6, 3).to("meta"), ValueError, r"^bank must be on the device of the model, cpu; got meta$"),
        (inputs(0, 3), ValueError, r"^bank must hold at least one input; got shape \(0, 3\)$"),
        ("words", TypeError, r"^bank must be a tensor, a dict or tuple of tensors, .*; got str$"),
        (["a", "b"], TypeError, r"got list$"),
        (
            torch.utils.data.DataLoader(list(inputs(6, 3)), batch_size=2, shuffle=True),
            ValueError,
            r"^bank must come in the same order each time; got a DataLoader with shuffle=True$",
        ),
        (
            torch.utils.data.DataLoader([]),
            ValueError,
            r"hold at least one input; the DataLoader gave no batch$",
        ),
        ((inputs(6, 3), inputs(6)), ValueError, r"a tuple of 2 is given as 2 arguments: readings=lambda model, inputs"),
        (inputs(6, 3, dtype=torch.float32), ValueError, r"^the model raised RuntimeError\(.*dtype"),
    ],
    ids=["device", "empty", "words", "list", "shuffled", "no batch", "tuple", "dtype"],
)
def test_banks_that_do_not_fit_are_refused(bank, error, match):
    refused(perceptron(), bank, error, match)


class Picky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = perceptron()

    def forward(self, x):
        if (x > 90.0).any():
            raise RuntimeError("too large")
        return self.inner(x)


def test_the_batch_and_the_input_that_a_model_refuses_are_named():
    bank = inputs(9, 3)
    bank[7, 1] = 99.0
    refused(
        Picky(), bank, ValueError, r"^the model raised RuntimeError\('too large'\) for this bank; input 7 is the first"
    )
    batches = estim.Batches(lambda: (bank[k : k + 3] for k in (0, 3, 6)))
    refused(Picky(), batches, ValueError, r"^batch 2: the model raised .* input 1 is the first that it refuses alone")


@pytest.mark.parametrize(("argument", "value"), [("params", {"a": 1.0}), ("jac", np.sin), ("digits", 50)])
def test_arguments_of_other_models_are_refused(argument, value):
    refused(
        perceptron(), inputs(6, 3), ValueError,
        rf"^{argument} must be left out with a model that is a torch.nn.Module; got ", **{argument: value},
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^keep must be left out with a model that is not a torch.nn.Module; got 3$"):
        estim.sensitivity(lambda p, x: p * x, np.ones(3), 0.1, params=[1.0], keep=3)


def test_a_copy_that_cannot_be_made_is_explained():
    module = perceptron()
    module.handle = (k for k in range(3))  # generators cannot be copied
    with pytest.raises(ValueError, match=r"^dtype=torch.float32 needs a copy of the model, which cannot be copied: "):
        estim.sensitivity(module, inputs(6, 3), 0.1, dtype=torch.float32)
