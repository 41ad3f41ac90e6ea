import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.matrix_free.record import ModelSensitivity  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from estim.probe.torch.asked import opened  # noqa: E402
from estim.probe.torch.operator import jacobian_operator  # noqa: E402
from estim.probe.torch.survey import parts_of, survey  # noqa: E402
from tests.probe.torch.networks import (  # noqa: E402
    attention_stack,
    encoder,
    everything,
    inputs,
    perceptron,
    probe_module,
    with_gradient,
)
from tests.probe.torch.test_large import DEFAULT, Words, words  # noqa: E402


@pytest.fixture
def huge(monkeypatch):
    """Take every module for one whose readings and parameters are both too many."""
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)


def dense(module, bank, sigma=1.0):
    return np.linalg.svd(probe_module(module, bank, DEFAULT).jacobian / np.reshape(sigma, (-1, 1)))


def linear(values, size=60):
    """Return a model and a bank whose whitened Jacobian has these singular values."""
    torch.manual_seed(0)
    module = torch.nn.Linear(size, 1, bias=False, dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(40, len(values), dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(size, len(values), dtype=torch.float64))[0]
    return module, (left * torch.as_tensor(values)) @ right.T


class Unforwarded(torch.autograd.Function):
    """A tanh without a forward-mode derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1.0 - torch.tanh(x) ** 2)


class Custom(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = perceptron((3, 8, 2))

    def forward(self, x):
        return Unforwarded.apply(self.inner(x))


@pytest.mark.parametrize(
    ("module", "bank"),
    [
        (perceptron((3, 8, 2)), inputs(40, 3)),
        (attention_stack(), inputs(6, 4, 3)),
        (encoder(width=4, inner=5, depth=1), inputs(3, 3, 4)),
        (Words(tied=True), words()),
        (Custom(), inputs(40, 3)),
    ],
    ids=["perceptron", "attention", "encoder", "tied words", "no forward mode"],
)
def test_products_are_those_of_the_whole_jacobian(module, bank):
    jacobian = probe_module(module, bank, DEFAULT).jacobian
    rng = np.random.default_rng(0)
    scale, left, right = (rng.uniform(0.5, 2.0, size) for size in (len(jacobian), *jacobian.shape))
    with opened(module, bank, DEFAULT) as (subject, batches):
        matrix = jacobian_operator(subject, parts_of(batches, survey(subject, batches, False)), scale)
        np.testing.assert_allclose(matrix.matvec(right), scale * (jacobian @ right), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(matrix.rmatvec(left), jacobian.T @ (scale * left), rtol=1e-10, atol=1e-12)


def test_products_that_contradict_each_other_are_refused(huge, monkeypatch):
    derivative_of_nothing = with_gradient(torch.abs)
    monkeypatch.setattr(module_sensitivity, "require_derivative", lambda subject, part: ())
    module = perceptron((3, 8, 2))
    with pytest.raises(ArithmeticError, match=r"^products with the Jacobian and with its transpose must agree; "):
        estim.sensitivity(module, inputs(30, 3), 0.1, readings=lambda model, x: derivative_of_nothing(model(x)))


@pytest.mark.parametrize(
    ("module", "bank"),
    [(perceptron((3, 16, 16, 3)), inputs(30, 3)), (perceptron((3, 8, 2)), inputs(60, 3)), (Words(), words(20))],
    ids=["more parameters", "more readings", "words"],
)
def test_the_strongest_directions_are_those_of_the_whole_jacobian(huge, module, bank):
    sigma = np.random.default_rng(0).uniform(0.1, 0.4, len(probe_module(module, bank, DEFAULT).jacobian))
    found = estim.sensitivity(module, bank, sigma, keep=3, smallest_change=0.1)
    left, values, right = dense(module, bank, sigma)
    left = left[:, : len(values)]
    count = found.resolved
    assert isinstance(found, ModelSensitivity)
    assert count == 16
    np.testing.assert_allclose(found.singular_values, values[:16], rtol=1e-8)
    assert (np.abs(found.singular_values - values[:16]) <= found.errors).all()
    assert found.rest.directions == len(values) - 16
    assert values[16] <= found.rest.bound
    missed = np.square(values[16:]).sum() - found.rest.information
    assert abs(missed) <= 5.0 * found.rest.information_se
    assert found.counts[estim.Status.UNRESOLVED] == found.parameters - 16
    np.testing.assert_allclose(np.abs(np.sum(found.readout * left[:, :16], axis=0)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.abs(np.sum(found.directions * right[:3], axis=1)), 1.0, rtol=1e-6)
    owner = np.repeat([found.group_names.index(group) for group in found.groups], found.sizes)
    share = np.bincount(owner, np.square(right[0]), len(found.group_names))
    np.testing.assert_allclose(found.group_share[:, 0], share, atol=1e-6)
    np.testing.assert_allclose(found.by_input().sum(), 1.0)
    for k, name in enumerate(found.group_names):
        alone = np.linalg.norm((left * values) @ right[: len(values), owner == k], 2)
        assert 1.0 / found.by_group().loc[name, "best_floor"] <= alone * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "values",
    [np.ones(40), np.linspace(1.0, 0.9, 40), 0.8 ** np.arange(40.0), 10.0 ** -np.arange(40.0), np.r_[5.0, np.ones(39)],
     np.r_[np.ones(3), np.zeros(37)]],
    ids=["flat", "nearly flat", "decaying", "steep", "one above", "three alone"],
)  # fmt: skip
def test_bounds_hold_on_flat_and_on_decaying_spectra(huge, values):
    found = estim.sensitivity(*linear(values), 1.0)
    count = len(found.singular_values)
    # As many of the true values, all different ones, lie within the errors: in order, where they are the largest.
    proven = found.rest.largest
    assert (np.abs(found.singular_values - values[:count])[:proven] <= found.errors[:proven]).all()
    for value, error in zip(found.singular_values, found.errors, strict=True):
        assert np.abs(values - value).min() <= error
    assert values[count:].max(initial=0.0) <= found.rest.bound
    missed = np.square(values).sum() - np.square(found.singular_values).sum()
    assert abs(missed - found.rest.information) <= 5.0 * found.rest.information_se + 1e-9
    assert found.resolved == np.count_nonzero(found.singular_values > found.resolution)
    least = 1.001 * max(found.rest.bound, found.resolution) / found.singular_values[0]
    if least < 1.0:
        assert found.rank(least) == np.count_nonzero(values > least * values[0])
    with pytest.raises(ValueError, match=r"^rtol must be at least .* where only the strongest directions were looked"):
        found.rank(0.0)
    assert (values[: found.resolved] > 0.0).all()


def test_a_bound_of_the_rest_holds_as_often_as_it_says(monkeypatch):
    from scipy.sparse.linalg import aslinearoperator

    from estim.probe.matrix_free import top

    rng, missed = np.random.default_rng(1), 0
    none = np.zeros((30, 0))
    for _ in range(400):  # a single direction left is the hardest to see
        bound = top._beside(aslinearoperator(np.outer(np.eye(30)[0], np.ones(50))), none, rng)[2]
        missed += bound < np.sqrt(50.0)
    assert 0 <= missed <= 12  # of 400 at 1 %: more than 12 has a probability below 1e-3


def test_an_iteration_that_ends_at_its_limit_is_said_not_to_have_converged(huge, monkeypatch):
    values = np.linspace(1.0, 0.99, 40)
    found = estim.sensitivity(*linear(values), 1.0)
    assert (found.rest.sought, found.rest.converged) == (16, 16)
    assert "not converged" not in str(found.summary())
    monkeypatch.setattr("estim.probe.matrix_free.top._RESTARTS", 1)
    monkeypatch.setattr("estim.probe.matrix_free.top._CLOSE", 1e-14)
    short = estim.sensitivity(*linear(values), 1.0)
    assert short.rest.converged < short.rest.sought == 16
    text = " ".join(str(short.summary()).split())
    assert "not converged: the iteration ended at its limit of passes over the bank, with " in text
    assert f"with {short.rest.converged} of 16 directions found to its tolerance" in text
    for value, error in zip(short.singular_values, short.errors, strict=True):
        assert np.abs(values - value).min() <= error


def test_readings_that_nothing_moves_have_no_strongest_direction():
    from scipy.sparse.linalg import aslinearoperator

    from estim.probe.matrix_free.top import largest

    found = largest(aslinearoperator(np.zeros((30, 50))), 16)
    assert not found.values.any()
    assert (found.rest.bound, found.rest.converged) == (0.0, 16)


def test_banks_in_batches_give_the_same(huge):
    module, bank = perceptron((3, 16, 16, 3)), inputs(30, 3)
    truth = estim.sensitivity(module, bank, 0.1)
    loader = torch.utils.data.DataLoader(list(bank), batch_size=11)
    for given in (loader, estim.Batches(lambda: (bank[k : k + 11] for k in (0, 11, 22)))):
        found = estim.sensitivity(module, given, 0.1)
        np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-9)
        np.testing.assert_allclose(found.by_input(), truth.by_input(), atol=1e-6)


def test_inputs_left_out_are_left_out_here_too(huge):
    module, bank = perceptron((3, 16, 16, 3)), inputs(30, 3)
    truth = estim.sensitivity(module, torch.cat([bank[:2], bank[3:]]), 0.1)
    bank[2] = torch.nan
    found = estim.sensitivity(module, bank, 0.1, nan_policy="omit")
    np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-9)
    assert found.left_out.tolist() == [6, 7, 8]


def test_float32_is_honest(huge):
    module, bank = perceptron((3, 16, 16, 3), dtype=torch.float32), inputs(30, 3, dtype=torch.float32)
    found = estim.sensitivity(module, bank, 1.0)
    assert found.derivative == "autograd in float32"
    double = perceptron((3, 16, 16, 3), dtype=torch.float32).double()
    values = dense(double, bank.double())[1]
    assert (np.abs(found.singular_values - values[:16]) <= found.errors).all()
    assert 1e-8 < found.jacobian_error / values[0] < 1e-4


def test_a_module_is_left_bit_identical_also_when_interrupted(huge, monkeypatch):
    module, bank = Words(tied=True).train(), words(20)
    before = everything(module)
    estim.sensitivity(module, bank, 0.1)
    assert everything(module) == before
    calls = []

    def reading(model, x):
        calls.append(0)
        if len(calls) > 60:
            raise KeyboardInterrupt
        return model(x)

    with pytest.raises(KeyboardInterrupt):
        estim.sensitivity(module, bank, 0.1, readings=reading)
    assert len(calls) == 61
    assert everything(module) == before


def test_the_path_is_chosen_by_the_memory_that_is_free(monkeypatch, capsys):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 1.5e5)
    monkeypatch.setattr("estim.probe.torch.layout._LEAST", 2**8)
    module = perceptron((3, 8, 2))
    whole = estim.sensitivity(module, inputs(8, 3), 0.1)
    assert whole.rest is None
    found = estim.sensitivity(module, inputs(30, 3), 0.1, progress=True)
    (note,) = [note for note in found.notes if note.startswith("path: ")]
    assert note.startswith(
        "path: products with the Jacobian for the 16 strongest directions of 60 readings, 50 parameters; "
        "138 to 512 passes over the bank and "
    )
    # Gram matrices of two groups and what goes with them: 16 times 60 squared in float64, 0.439 MiB, and a little more.
    assert "0.143 MiB are free, and the Gram matrices of 2 groups would take 0.45" in note
    shown = capsys.readouterr().err
    assert note in shown
    taken = int(re.findall(r"(\d+)pass \[", shown)[-1])
    assert 138 <= taken <= 512


def test_a_covariance_is_refused(huge):
    with pytest.raises(ValueError, match=r"^sigma must be a number or one for each reading where the Gram matrix is"):
        estim.sensitivity(perceptron((3, 8, 2)), inputs(20, 3), np.eye(40))


def test_json_summary_and_picture_say_what_is_not_known(huge, tmp_path):
    pytest.importorskip("matplotlib")
    found = estim.sensitivity(perceptron((3, 16, 16, 3)), inputs(50, 3), 0.1, smallest_change=0.1)
    again = ModelSensitivity.from_json(found.to_json())
    assert again == found
    assert again.rest.bound == found.rest.bound
    text = " ".join(str(found.summary()).split())
    assert "at least 16 of 387" in text
    assert "then not known" in text
    assert "not known: the other 134 singular values. Each is at most" in text
    assert "of the information (standard error" in text
    assert "may have been missed" in text
    assert np.isnan(found.by_group()["worst_floor"]).all()
    labels = [one.get_text() for one in found.plot().axes[0].get_legend().get_texts()]
    assert any(label.startswith("not known: 134 values at or below") for label in labels)
    assert "each group alone" not in labels
    found.report(tmp_path / "page.html")
    assert "not known: the other 134" in (tmp_path / "page.html").read_text()


def test_a_shift_is_judged_along_the_directions_found_alone(huge):
    found = estim.sensitivity(perceptron((3, 16, 16, 3)), inputs(50, 3), 0.01)
    along = 0.01 * found.readout[:, 0]
    beside = np.random.default_rng(0).standard_normal(150)
    beside -= found.readout @ (found.readout.T @ beside)
    same = found.judge(beside, smallest_shift=10.0 * along)
    assert same.outcome == "equivalent"
    assert same.residual_degrees == 0
    assert any("Only the shift along the 16 strongest directions was tested" in note for note in same.notes)
    assert found.judge(20.0 * along, smallest_shift=10.0 * along).outcome == "changed"
    assert found.judge(np.zeros(150), smallest_shift=beside).outcome == "blind"
