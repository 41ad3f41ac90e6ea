import types

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import doubled, everything, inputs, perceptron  # noqa: E402


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
        (
            lambda m, x: types.SimpleNamespace(loss=0.1, logits=m.inner(x)),
            TypeError,
            r"returned SimpleNamespace holding logits: say what is read, such as .*: model\(inputs\).logits$",
        ),
        (
            lambda m, x: m.inner(x).detach().numpy(),
            TypeError,
            r"^readings must be a tensor; the model returned ndarray: return one that torch made$",
        ),
        (lambda m, x: None, TypeError, r"^readings must be a tensor; the model returned NoneType: return one that"),
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
    ids=["dict", "tuple", "object", "numpy", "none", "integers", "detached", "empty", "dropout", "in place"],
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
    with pytest.raises(
        ValueError,
        match=r"^parameters must hold values; 0.weight is not initialised yet: call the model once on a batch$",
    ):
        estim.sensitivity(torch.nn.Sequential(torch.nn.LazyLinear(2)), inputs(6, 3), 0.1)


def test_parameters_without_values_or_on_two_devices_are_refused():
    match = r"^parameters must hold values; 0.weight is on the device meta$"
    with pytest.raises(ValueError, match=match):
        estim.sensitivity(perceptron().to("meta"), inputs(6, 3), 0.1)
    match = r"^parameters must hold values; 1.running_mean is not initialised yet: call the model once on a batch$"
    parts = [torch.nn.Linear(3, 2).double(), torch.nn.LazyBatchNorm1d(affine=False)]
    with pytest.raises(ValueError, match=match):
        estim.sensitivity(torch.nn.Sequential(*parts), inputs(6, 3), 0.1)


def test_a_parameter_that_is_computed_is_refused():
    module = perceptron()
    module[0]._parameters["weight"] = 2.0 * module[0].weight
    with pytest.raises(ValueError, match=r"^parameters must be leaves of the graph; 0.weight is computed from other"):
        estim.sensitivity(module, inputs(6, 3), 0.1)


@pytest.mark.parametrize("dense", [3000, 0])
def test_sparse_gradients_of_a_function_are_refused(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)

    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.ones(5, 3, dtype=torch.float64))

        def forward(self, words):
            return torch.nn.functional.embedding(words, self.table, sparse=True).tanh()

    match = r"^gradients must be dense; those of table are not \(an embedding with sparse=True\?\)$"
    refused(Table(), torch.arange(4), ValueError, match)


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
        ([["a"], ["b"]], TypeError, r"got list: batches = list"),
        (
            ["a", "b"],
            ValueError,
            r"not list.* for this bank; readings=lambda model, words: ... says how words are read$",
        ),
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
        (
            pd.DataFrame(np.ones((6, 3))),
            TypeError,
            r"^bank must be a tensor, .*; got a DataFrame of pandas: bank.to_numpy\(\) is read as a tensor$",
        ),
        ({"input": pd.DataFrame(np.ones((6, 3)))}, TypeError, r"got a DataFrame of pandas"),
        (
            torch.utils.data.TensorDataset(inputs(6, 3)),
            TypeError,
            r"got TensorDataset, a Dataset: torch.utils.data.DataLoader\(bank, batch_size=32\) reads it in batches$",
        ),
        (np.array(["a", "b"], dtype=object), TypeError, r"^bank must hold numbers; got an array of object$"),
        (
            (inputs(6, 3), inputs(6)),
            ValueError,
            r"a tuple or list of 2 is given as 2 arguments: readings=lambda model, inputs",
        ),
        (inputs(6, 3, dtype=torch.float32), ValueError, r"^the model raised RuntimeError\(.*dtype"),
    ],
    ids=["device", "empty", "words", "list", "list of words", "shuffled", "no batch", "table",
         "tables", "dataset", "objects", "tuple", "dtype"],
)  # fmt: skip
def test_banks_that_do_not_fit_are_refused(bank, error, match):
    refused(perceptron(), bank, error, match)


def test_an_array_of_jax_is_no_tensor():
    jnp = pytest.importorskip("jax.numpy")
    refused(
        perceptron(), jnp.ones((6, 3)), TypeError, r"got an array of JAX: numpy.asarray\(bank\) is read as a tensor$"
    )


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_loader_without_batches_gives_what_its_dataset_holds(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    x, module = inputs(6, 3), perceptron()
    loader = torch.utils.data.DataLoader([x[:4], x[4:]], batch_size=None)
    found = estim.sensitivity(module, loader, 0.1)
    whole = estim.sensitivity(module, x, 0.1)
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-9)


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
    refused(Picky(), batches, ValueError, r"^batch 2: the model raised .* input 1 is the first that it also refuses")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"nan_policy": "drop"}, ValueError, r"^nan_policy must be 'raise' or 'omit'; got 'drop'$"),
        ({"keep": "3"}, ValueError, r"^keep must be a whole number, at least 0; got '3'$"),
        ({"dtype": "float64"}, TypeError, r"^dtype must be a torch.dtype of floating point, .*; got 'float64'$"),
        ({"dtype": torch.int32}, TypeError, r"^dtype must be a torch.dtype of floating point, .*; got torch.int32$"),
        (
            {"groups": lambda name: name[0]},
            ValueError,
            r"^groups must have one entry for each of the 4 tensors of parameters; got <function .*>: "
            r"\[function\(name\) for name in names\] is a list$",
        ),
        ({"readings": 3}, TypeError, r"^readings must be a callable readings\(module, inputs\) -> tensor; got 3$"),
    ],
)
def test_options_that_are_none_are_refused(options, error, match):
    refused(perceptron(), inputs(6, 3), error, match, **options)


@pytest.mark.parametrize("dense", [3000, 0])
def test_a_bank_without_a_finite_reading_is_refused(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    lost = Reading(lambda m, x: m.inner(x) * torch.nan)
    refused(lost, inputs(6, 3), ValueError, r"^readings must be finite; none of 12 is left$", nan_policy="omit")


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize(
    "done",
    [
        lambda m, x: m.inner[2](torch.tanh(m.inner[0](x)).detach()),
        lambda m, x: m.inner(x).round(decimals=6) * 0.0 + m.inner(x).detach() + 0.5 * m.inner(x),
        lambda m, x: doubled(m.inner(x)),
    ],
    ids=["detached layer", "detached part", "backward of its own"],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_that_are_not_those_of_the_readings_are_refused(monkeypatch, dense, done, dtype):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    match = (
        r"^the derivative that torch takes must be that of the model; along one direction of all parameters a "
        r"combination of readings changes by \S+, torch says \S+ \(a detach, .*\?\)|requires_grad_\(False\)"
    )
    refused(Reading(done).to(dtype), inputs(6, 3, dtype=dtype), ValueError, match)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("entries", [20_000_000, 0])
@pytest.mark.parametrize("steps", [8.0, 512.0])
def test_a_rounding_that_gradients_pass_through_is_refused(monkeypatch, steps, entries, dtype):
    monkeypatch.setattr(module_sensitivity, "ENTRIES", entries)

    def rounded(m, x):
        hidden = torch.tanh(m.inner[0](x))
        return m.inner[2](hidden + ((steps * hidden).round() / steps - hidden).detach())

    match = r"^the derivative that torch takes must be that of the model"
    refused(Reading(rounded).to(dtype), inputs(6, 3, dtype=dtype), ValueError, match)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["relu", "at a kink", "steep", "frozen"])
def test_gradients_that_are_those_of_the_readings_are_not(kind, seed, dtype):
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(3, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8), torch.nn.ReLU())
    bank = inputs(12, 3, seed=seed)
    if kind == "at a kink":  # every unit stands at zero for one input
        module[0].bias.data.zero_()
        bank[0] = 0.0
    if kind == "steep":
        module[2].weight.data.mul_(1e3)
    if kind == "frozen":
        module[0].requires_grad_(False)
    readings = lambda model, x: model(x).detach().mean(1) * 0.0 + torch.tanh(model(x)).sum(1)  # noqa: E731
    # Not refused; where tanh is saturated, nothing may be seen.
    assert estim.sensitivity(module.to(dtype), bank.to(dtype), 0.1, readings=readings).readings == 12


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


def shuffling(bank):
    """Return a bank in batches of two whose order changes each time, though no sampler says so."""

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(bank[torch.randperm(len(bank))])

    return torch.utils.data.DataLoader(Stream(), batch_size=2)


@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize("entries", [20_000_000, 0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_bank_that_shuffles_unseen_is_refused(monkeypatch, dense, entries, dtype):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    monkeypatch.setattr(module_sensitivity, "ENTRIES", entries)
    loader, module = shuffling(inputs(30, 3, dtype=dtype)), perceptron(dtype=dtype)
    shuffled = torch.utils.data.DataLoader(inputs(30, 3, dtype=dtype), batch_size=2, shuffle=True)
    match = r"^bank must give the same batches each time, in the same order; batch 0 is not what it was: use shuffle="
    for bank in (loader, estim.Batches(lambda: shuffled)):
        refused(module, bank, ValueError, match)
        with pytest.raises(ValueError, match=match):
            estim.judge_models(module, perceptron(dtype=dtype, seed=1), bank, 0.1)


@pytest.mark.parametrize("once", [iter, lambda batches: (batch for batch in batches)])
def test_what_can_be_read_only_once_is_no_bank(once):
    bank = inputs(6, 3).split(2)
    match = r"^bank must be a tensor, .* or estim.Batches; got \w+: batches = list\(...\), and then estim.Batches"
    refused(perceptron(), once(bank), TypeError, match)
    match = r"^factory must return a fresh iterator each time; got the same one again$"
    same = once(bank)
    refused(perceptron(), estim.Batches(lambda: same), ValueError, match)
    refused(perceptron(), list(bank), ValueError, r"and estim.Batches\(lambda: batches\) a list of batches; input 0")


def wrong_for(chosen):
    """Return readings whose gradient is doubled for some inputs."""
    return lambda m, x: torch.where(chosen(x)[:, None], doubled(m.inner(x)), m.inner(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("dense", [3000, 0])
@pytest.mark.parametrize("batches", [1, 4, 40])
@pytest.mark.parametrize("which", [slice(39, 40), slice(20, 40)], ids=["the last input", "the second half"])
def test_wrong_gradients_of_later_inputs_are_refused(monkeypatch, which, batches, dense, dtype):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    bank = inputs(40, 3, dtype=dtype)
    bank[:, 0] = bank[:, 0].abs()
    bank[which, 0] *= -1.0
    given = estim.Batches(lambda: bank.split(40 // batches)) if batches > 1 else bank
    refused(
        Reading(wrong_for(lambda x: x[:, 0] < 0.0)).to(dtype), given, ValueError,
        r"^the derivative that torch takes must be that of the model",
    )  # fmt: skip


@pytest.mark.parametrize("count", [41, 400])
def test_small_modules_are_held_against_differences_on_the_whole_bank(count):
    bank = inputs(count, 3)
    bank[:, 0] = bank[:, 0].abs()
    bank[17, 0] *= -1.0  # in the midst of others
    refused(
        Reading(wrong_for(lambda x: x[:, 0] < 0.0)), bank, ValueError,
        r"^the derivative that torch takes must be that of the model",
    )  # fmt: skip


@pytest.mark.parametrize("dense", [3000, 0])
def test_wrong_gradients_of_inputs_that_depend_on_each_other_are_refused(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    mixed = Reading(lambda m, x: wrong_for(lambda y: y[:, 0] < 0.0)(m, x) - m.inner(x).mean(0))
    bank = inputs(40, 3)
    bank[:, 0] = bank[:, 0].abs()
    bank[30:, 0] *= -1.0
    refused(
        mixed, estim.Batches(lambda: bank.split(10)), ValueError,
        r"^the derivative that torch takes must be that of the model",
    )  # fmt: skip


class _Fails(torch.autograd.Function):
    """Gives no gradient after so many."""

    left = 0

    @staticmethod
    def forward(ctx, x):
        return 2.0 * x

    @staticmethod
    def backward(ctx, gradient):
        _Fails.left -= 1
        if _Fails.left < 0:
            msg = "no memory is left"
            raise RuntimeError(msg)
        return 2.0 * gradient


@pytest.mark.parametrize("way", [{"DENSE": 0}, {"DENSE": 10**9}], ids=["large", "dense"])
def test_a_gradient_that_fails_midway_is_explained_wherever_it_fails(monkeypatch, way):
    for name, value in way.items():
        monkeypatch.setattr(module_sensitivity, name, value)
    module, bank = perceptron(), inputs(4, 3)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    _Fails.left = 10**9
    estim.sensitivity(module, bank, 0.1, readings=lambda m, x: _Fails.apply(m(x)))
    for count in range(10**9 - _Fails.left):
        _Fails.left = count
        with pytest.raises(ValueError, match="torch cannot differentiate the readings: no memory is left"):
            estim.sensitivity(module, bank, 0.1, readings=lambda m, x: _Fails.apply(m(x)))
        assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


class Branches(torch.nn.Module):
    """Two branches of filters, a part of the second of which gradients do not reach."""

    def __init__(self, detached):
        super().__init__()
        conv, relu = torch.nn.Conv2d, torch.nn.ReLU
        self.one = torch.nn.Sequential(conv(3, 16, 3), relu(), conv(16, 16, 3), relu())
        self.two, self.last, self.detached = (
            torch.nn.Sequential(conv(3, 16, 5), relu()),
            torch.nn.Linear(16, 4),
            detached,
        )

    def forward(self, x):
        two = self.two(x)
        two = (1.0 - self.detached) * two + self.detached * two.detach()
        return self.last(torch.relu(self.one(x) + two).mean((2, 3)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("detached", [0.0, 0.25, 1.0])
def test_what_kinks_hide_in_float32_a_copy_in_float64_shows(detached, seed):
    torch.manual_seed(seed)
    module, bank = Branches(detached), torch.randn(6, 3, 12, 12)
    if not detached:
        assert len(estim.sensitivity(module, bank, 0.01).singular_values) == 24
        return
    with pytest.raises(ValueError, match="the derivative that torch takes must be that of the model"):
        estim.sensitivity(module, bank, 0.01)
