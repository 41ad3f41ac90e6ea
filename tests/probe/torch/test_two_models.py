import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.func import functional_call, jvp  # noqa: E402

import estim  # noqa: E402
from estim.probe.torch.line import Line  # noqa: E402
from estim.probe.torch.swapped import differentiable_attention  # noqa: E402
from tests.probe.torch.networks import (  # noqa: E402
    as_network,
    attention_stack,
    doubled,
    encoder,
    everything,
    inputs,
    perceptron,
)

SIGMA = 1e-3


def moved(module, size=1e-3, seed=2, only=""):
    """Return a state dict with the parameters whose names begin so moved at random."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor
        + (size * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)).to(tensor.dtype)
        * name.startswith(only)
        for name, tensor in module.state_dict().items()
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_shifts_are_those_of_torch(dtype):
    module, bank = encoder(dtype=dtype).eval(), inputs(5, 4, 8, dtype=dtype)
    after = moved(module)
    found = estim.judge_models(module, after, bank, SIGMA)
    start = {name: tensor.detach() for name, tensor in module.named_parameters()}
    delta = {name: after[name] - tensor for name, tensor in start.items()}
    with differentiable_attention():
        values, predicted = jvp(lambda given: functional_call(module, given, (bank,)), (start,), (delta,))
        actual = functional_call(module, after, (bank,)) - values
    assert abs(found.predicted - float(predicted.norm()) / SIGMA) <= found.error
    assert abs(found.actual - float(actual.norm()) / SIGMA) <= found.error
    assert found.error < (1e-6 if dtype == torch.float64 else 0.5)
    assert found.parameters == sum(tensor.numel() for tensor in start.values())


def test_torch_encoders_take_no_backward_pass(monkeypatch):
    monkeypatch.setattr(Line, "_backward", None)
    module = encoder()
    assert estim.judge_models(module, moved(module), inputs(5, 4, 8), SIGMA).predicted > 0.0
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_error_in_float32_holds_the_distance_to_double_precision():
    module, bank = encoder(dtype=torch.float32), inputs(5, 4, 8, dtype=torch.float32)
    after = moved(module, 1e-2)
    short, double = (estim.judge_models(module, after, bank, 1e-6, dtype=kind) for kind in (None, torch.float64))
    assert 0.0 < abs(short.actual - double.actual) <= short.error
    assert double.error < 1e-3 * short.error


def test_torch_attention_is_judged_as_the_network_of_the_family():
    stack, bank = attention_stack(), inputs(6, 4, 3)
    other = attention_stack()
    other.load_state_dict(moved(stack, 1e-3))
    found = estim.judge_models(stack, other, bank, SIGMA)
    twin = estim.judge_models(as_network(stack), as_network(other), bank.numpy(), SIGMA)
    for name in ("predicted", "actual", "difference", "cosine"):
        assert getattr(found, name) == pytest.approx(getattr(twin, name), rel=1e-8)
    assert found.linear_up_to == pytest.approx(twin.linear_up_to, rel=0.02)


class Stubborn(torch.autograd.Function):
    """Has no forward derivative."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(context, grad):
        (x,) = context.saved_tensors
        return 3.0 * x**2 * grad


def test_a_model_without_forward_derivatives_takes_backward_passes():
    module, bank = perceptron(), inputs(4, 3)
    after = moved(module)
    plain = estim.judge_models(module, after, bank, SIGMA, readings=lambda m, x: m(x) ** 3)
    stubborn = estim.judge_models(module, after, bank, SIGMA, readings=lambda m, x: Stubborn.apply(m(x)))
    assert stubborn.predicted == pytest.approx(plain.predicted, rel=1e-10)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3).double(), torch.nn.Linear(3, 3).double()
        self.second.weight = self.first.weight
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x - self.mean)))


def test_tied_weights_count_once_and_buffers_do_not():
    torch.manual_seed(3)
    module, bank = Tied(), inputs(4, 3)
    after = module.state_dict() | {"mean": torch.ones(3)}
    after |= {name: module.first.weight.detach() + 0.01 for name in ("first.weight", "second.weight")}
    found = estim.judge_models(module, after, bank, SIGMA)
    assert found.parameters == 9
    assert any("mean" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"^after must tie what before ties; first.weight and second.weight differ$"):
        estim.judge_models(module, after | {"second.weight": module.first.weight.detach()}, bank, SIGMA)


def test_quantised_weights_are_dequantised():
    module, bank = perceptron(dtype=torch.float32), inputs(4, 3, dtype=torch.float32)
    weight = module[0].weight.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of this interface
        quantised = torch.quantize_per_tensor(weight, float(weight.abs().max()) / 127.0, 0, torch.qint8)
    found = estim.judge_models(module, module.state_dict() | {"0.weight": quantised}, bank, SIGMA)
    plain = estim.judge_models(module, module.state_dict() | {"0.weight": quantised.dequantize()}, bank, SIGMA)
    assert found == plain


def test_a_dynamically_quantised_module_is_read_by_its_own_arithmetic():
    module, bank = perceptron(dtype=torch.float32).eval(), inputs(4, 3, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of this interface
        after = torch.ao.quantization.quantize_dynamic(copy.deepcopy(module), {torch.nn.Linear}, dtype=torch.qint8)
        found = estim.judge_models(module, after, bank, SIGMA)
        with torch.no_grad():
            actual = (after(bank) - module(bank)).double().norm() / SIGMA
    assert found.actual == pytest.approx(float(actual), rel=1e-6)
    assert found.difference > found.error  # activations were quantised, too, which no weight shows


def test_random_changes_of_a_group_have_the_size_that_is_asked_for():
    module, bank = perceptron((3, 40, 2)), inputs(4, 3)
    found = estim.judge_models(
        module, moved(module, 1e-6), bank, SIGMA, smallest_change=estim.AnyChange(0.1, group="0", case="typical"), rng=0
    )
    jacobian = estim.sensitivity(module, bank, SIGMA)
    members = np.array([group == "0" for group in jacobian.groups])
    norm = np.linalg.norm(jacobian.parameters[members])
    start = {name: tensor.detach() for name, tensor in module.named_parameters()}
    rows = torch.func.jacrev(lambda given: functional_call(module, given, (bank,)))(start)
    matrix = torch.cat([rows[name].reshape(8, -1) for name in ("0.weight", "0.bias")], dim=1)
    typical = 0.1 * norm * float(matrix.norm()) / SIGMA / np.sqrt(members.sum())
    # 16 squared shifts of 8 readings; the seed is set.
    assert np.sqrt(np.mean(found.verdict.shifts**2)) == pytest.approx(typical, rel=0.3)
    again = estim.judge_models(
        module, moved(module, 1e-6), bank, SIGMA, smallest_change=estim.AnyChange(0.1, group="0", case="typical"), rng=0
    )
    assert found == again


def test_the_worst_change_hides_where_parameters_outnumber_readings():
    module, bank = perceptron((3, 40, 2)), inputs(4, 3)
    found = estim.judge_models(module, moved(module), bank, SIGMA, smallest_change=estim.AnyChange(0.1))
    assert found.verdict.unseen == ("234 of the 242 directions of the parameters",)
    # Eight readings have no more digits to give: 234 directions are null, whatever the Jacobian is.
    blind = estim.judge_models(module, moved(module, 1e-6), bank, SIGMA, smallest_change=estim.AnyChange(0.1)).verdict
    assert "no effect on this bank (null)" in str(blind)
    assert "unresolved" not in str(blind)
    assert blind.needs_inputs
    with pytest.raises(ValueError, match="smallest_change must have case='typical' for a model this large"):
        estim.judge_models(module, moved(module), inputs(400, 3), SIGMA, smallest_change=estim.AnyChange(0.1))


def test_a_reading_that_is_not_finite_is_named_with_its_model():
    module, bank = perceptron(), inputs(4, 3)
    bank[2, 1] = float("nan")
    with pytest.raises(ValueError, match=r"^readings of before must be finite; reading 4 is not$"):
        estim.judge_models(module, moved(module), bank, SIGMA)


def test_a_third_model_says_what_matters():
    module, bank = perceptron(), inputs(20, 3)
    found = estim.judge_models(module, moved(module, 1e-9), bank, SIGMA, smallest_change=moved(module, 0.1))
    assert found.outcome is estim.Outcome.EQUIVALENT
    assert estim.judge_models(module, moved(module, 1e-9), bank, SIGMA).outcome is estim.Outcome.BLIND


def test_frozen_parameters_that_change_count():
    module, bank = perceptron(), inputs(4, 3)
    after = moved(module)
    found = estim.judge_models(module, after, bank, SIGMA)
    for tensor in module.parameters():
        tensor.requires_grad_(False)
    assert estim.judge_models(module, after, bank, SIGMA) == found


@pytest.mark.parametrize("fails", [False, True])
def test_both_modules_are_left_as_they_were(fails):
    module, other, bank = encoder(), encoder(seed=1), inputs(3, 4, 8)
    module.train()
    for part in (module, other):
        next(part.parameters()).requires_grad_(False)
        part(bank).sum().backward()

    def readings(model, x):
        if fails and model is other:
            raise OSError("no")
        return model(x)

    seen = everything(module), everything(other)
    if fails:
        with pytest.raises(ValueError, match="after: the model raised OSError"):
            estim.judge_models(module, other, bank, SIGMA, readings=readings)
    else:
        estim.judge_models(module, other, bank, SIGMA, smallest_change=estim.AnyChange(0.1, case="typical"), rng=0)
    assert (everything(module), everything(other)) == seen


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, lambda part: torch.compile(part, backend="eager")])
def test_names_of_wrappers_tell_no_models_apart(wrap):
    module, bank = perceptron(), inputs(4, 3)
    after = moved(module)
    other = perceptron()
    other.load_state_dict(after)
    plain = estim.judge_models(module, after, bank, SIGMA)
    state = wrap(other).state_dict()
    assert not set(state) & set(after)
    for before, second in [(module, state), (wrap(module), after), (wrap(module), wrap(other)), (module, wrap(other))]:
        assert estim.judge_models(before, second, bank, SIGMA).predicted == plain.predicted
    third = estim.judge_models(module, after, bank, SIGMA, smallest_change=state)
    assert third.outcome == estim.judge_models(module, after, bank, SIGMA, smallest_change=after).outcome
    arrays = {name: tensor.numpy() for name, tensor in after.items()}
    assert estim.judge_models(module, arrays, bank, SIGMA).predicted == plain.predicted
    assert estim.judge_models(module, dict(reversed(after.items())), bank, SIGMA).predicted == plain.predicted


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_module_in_shorter_floats_reads_the_bank_in_them(kind):
    module, bank = perceptron(dtype=torch.float32), inputs(4, 3, dtype=torch.float32)
    other = copy.deepcopy(module).to(kind)
    found = estim.judge_models(module, other, bank, SIGMA)
    with torch.no_grad():
        moved_by = other(bank.to(kind)).double() - module(bank).double()
    assert found.actual == pytest.approx(float(moved_by.norm()) / SIGMA, rel=1e-9)
    assert found.predicted > 0.0
    assert next(other.parameters()).dtype == kind


def without(name):
    return lambda state: {key: value for key, value in state.items() if key != name}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (without("0.bias"), ValueError, r"^after must have every parameter of before; 0.bias is missing$"),
        (
            lambda state: state | {"0.lora_A": state["0.bias"]}, ValueError,
            r"^after must have the names of before; 0.lora_A is not one of them: merge the adapters into the weights",
        ),
        (
            lambda state: state | {"0.bias": torch.zeros(5)}, ValueError,
            r"^after must have the shapes of before; 0.bias has \(5,\), not \(4,\)$",
        ),
        (
            lambda state: state | {"0.bias": torch.zeros(4, dtype=torch.int8)}, TypeError,
            r"^after must hold real floating-point numbers; 0.bias has torch.int8: dequantise it first$",
        ),
        (lambda state: state | {"0.bias": torch.full((4,), torch.nan)}, ValueError, r"^after must be finite; 0.bias"),
        (lambda state: state | {"0.bias": [0.0] * 4}, TypeError, r"^after must hold tensors; got list for 0.bias$"),
        (
            lambda state: {"model": state}, TypeError,
            r"^after must hold tensors; got OrderedDict for model: is after\['model'\] the state dict\?$",
        ),
        (
            lambda state: state | {"0.bias": state["0.bias"].to("meta")}, ValueError,
            r"^after must hold values; 0.bias is on the device meta$",
        ),
        (
            lambda state: torch.nn.LazyLinear(2), ValueError,
            r"^after must hold values; weight is not initialised yet: call the model once on a batch$",
        ),
        (lambda state: state, ValueError, r"^after must differ from before; all parameters are the same$"),
        (lambda state: 3, TypeError, r"^after must be a state dict or a torch.nn.Module; got int$"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(change, kind, message):
    module = perceptron()
    with pytest.raises(kind, match=message):
        estim.judge_models(module, change(module.state_dict()), inputs(4, 3), SIGMA)


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"readings": 3}, TypeError, r"^readings must be a callable readings\(module, inputs\) -> tensor; got 3$"),
        ({"groups": 3}, ValueError, r"^groups must have one entry for each of the 4 tensors of parameters; got 3$"),
    ],
)
def test_options_that_are_none_are_refused(options, kind, match):
    with pytest.raises(kind, match=match):
        estim.judge_models(perceptron(), perceptron(seed=1), inputs(4, 3), SIGMA, **options)


def test_a_callable_beside_a_module_is_refused():
    with pytest.raises(ValueError, match=r"^model must be left out: before is a torch.nn.Module"):
        estim.judge_models(perceptron(), perceptron(seed=1), inputs(4, 3), SIGMA, model=len)


class PassedThrough(torch.autograd.Function):
    """Rounds, and says that it does not."""

    @staticmethod
    def forward(context, x):
        return (32.0 * x).round() / 32.0

    @staticmethod
    def backward(context, grad):
        return grad

    @staticmethod
    def jvp(context, moved):
        return moved


class Done(torch.nn.Module):
    """A perceptron with something done to its hidden units."""

    def __init__(self, done):
        super().__init__()
        self.inner, self.done = perceptron(), done

    def forward(self, x):
        return self.inner[2](self.done(torch.tanh(self.inner[0](x))))


def rounded_weight(module, x):
    weight = module[0].weight
    return x @ (weight + ((8.0 * weight).round() / 8.0 - weight).detach()).T


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("module", "readings"),
    [
        (Done(torch.Tensor.detach), None),
        (Done(lambda h: 0.9 * h.detach() + 0.1 * h), None),
        (Done(doubled), None),
        (Done(PassedThrough.apply), None),
        (perceptron(), rounded_weight),
        (perceptron(), lambda m, x: m(x) + 0.05 * torch.sin(100.0 * m(x)).detach()),
    ],
    ids=["detached", "in part", "backward of its own", "rounded", "rounded weight", "wave"],
)
def test_a_derivative_that_is_not_that_of_the_readings_is_refused(module, readings, dtype):
    module = module.to(dtype)
    bank, before = inputs(6, 3, dtype=dtype), everything(module)
    with pytest.raises(ValueError, match=r"^the derivative that torch takes must be that of the model; .*\(a detach"):
        estim.judge_models(module, moved(module, 1e-2), bank, SIGMA, readings=readings)
    assert everything(module) == before


def test_a_detach_that_the_change_does_not_meet_is_none():
    module, bank = Done(torch.Tensor.detach), inputs(6, 3)
    after = moved(module, 1e-2, only="inner.2")
    found = estim.judge_models(module, after, bank, SIGMA)
    assert found.predicted == pytest.approx(found.actual, rel=1e-6)  # the readings are linear in what changes
    with pytest.raises(ValueError, match=r"^the derivative that torch takes must be that of the model"):
        estim.judge_models(
            module, after, bank, SIGMA, smallest_change=estim.AnyChange(0.1, group="inner.0", case="typical")
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1e-9, 1e-2, 10.0])
@pytest.mark.parametrize("kind", ["relu", "at a kink", "zero weights", "hook"])
def test_a_derivative_that_is_that_of_the_readings_is_not(kind, size, dtype):
    torch.manual_seed(4)
    module = torch.nn.Sequential(torch.nn.Linear(3, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8), torch.nn.ReLU())
    bank = inputs(12, 3)
    if kind == "at a kink":  # every unit stands at zero for one input
        module[0].bias.data.zero_()
        bank[0] = 0.0
    if kind == "zero weights":
        module[2].weight.data.zero_()
    if kind == "hook":  # of a backward pass, which is not taken
        module[0].register_full_backward_hook(lambda part, entering, leaving: (2.0 * entering[0],))
    module = module.to(dtype)
    with torch.no_grad():
        after = moved(module, size)
        actual = module(bank.to(dtype)).double()
        actual = float((torch.func.functional_call(module, after, (bank.to(dtype),)).double() - actual).norm()) / 0.1
    found = estim.judge_models(module, after, bank.to(dtype), 0.1)
    assert found.actual == pytest.approx(actual, rel=1e-6, abs=found.error)


def test_parameters_that_readings_take_from_elsewhere_are_no_silence():
    module, bank = perceptron(), inputs(6, 3)
    held = [module[0].weight]
    match = r"torch says 0 \(a detach, .* or parameters that readings take from elsewhere than the module\?\)$"
    with pytest.raises(ValueError, match=match):
        estim.judge_models(module, moved(module, only="0.weight"), bank, SIGMA, readings=lambda m, x: x @ held[0].T)
