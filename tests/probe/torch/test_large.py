import gc
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.matrix_free.record import ModelSensitivity  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from estim.probe.torch.asked import Asked, opened  # noqa: E402
from estim.probe.torch.gram import grams_of  # noqa: E402
from estim.probe.torch.layout import layout_of  # noqa: E402
from estim.probe.torch.survey import survey  # noqa: E402
from estim.probe.torch.untouched import Snapshot  # noqa: E402
from tests.probe.torch.networks import attention_stack, encoder, everything, inputs, perceptron, probe_module  # noqa: E402

DEFAULT = Asked(None, "layers", None, None, None, 0, "raise", False)


@pytest.fixture
def large(monkeypatch):
    """Take every module for a large one."""
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)


class Words(torch.nn.Module):
    """Tokens, positions, an encoder, a tied head, a scale, a convolution: every kind of use of a parameter."""

    def __init__(self, tied=False):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = torch.nn.Embedding(7, 4, padding_idx=0, dtype=torch.float64)
        self.positions = torch.nn.Parameter(torch.randn(1, 3, 4, dtype=torch.float64))
        self.encoder = encoder(width=4, heads=2, inner=6, depth=1)
        self.scale = torch.nn.Parameter(torch.rand(4, dtype=torch.float64))
        self.mixed = torch.nn.Conv1d(3, 2, 1, dtype=torch.float64)
        self.head = torch.nn.Linear(4, 7, bias=False, dtype=torch.float64)
        if tied:
            self.head.weight = self.tokens.weight
        self.unused = torch.nn.Linear(2, 2, dtype=torch.float64)

    def forward(self, words):
        hidden = self.encoder(self.tokens(words) + self.positions) * self.scale
        return self.head(torch.tanh(self.mixed(hidden)).mean(1))[:, :3]


def words(count=10):
    return torch.randint(0, 7, (count, 3), generator=torch.Generator().manual_seed(3))


def grams(module, bank, asked=DEFAULT, **sizes):
    with opened(module, bank, asked) as (subject, batches):
        layout = layout_of(subject, batches, survey(subject, batches, asked.nan_policy == "omit"), **sizes)
        return grams_of(subject, layout), layout


def assert_equal_to_dense(module, bank, asked=DEFAULT, **sizes):
    found, _ = grams(module, bank, asked, **sizes)
    probed = probe_module(module, bank, asked)
    for name, matrix in found.groups.items():
        part = probed.jacobian[:, [group == name for group in probed.groups]]
        truth = part @ part.T
        np.testing.assert_allclose(matrix, truth, rtol=1e-10, atol=1e-13 * np.abs(truth).max(initial=1e-300))
    return found


@pytest.mark.parametrize(
    ("module", "bank"),
    [
        (perceptron(), inputs(9, 3)),
        (attention_stack(), inputs(6, 4, 3)),
        (encoder(width=4, inner=5, depth=1), inputs(40, 3, 4)),
        (Words(), words()),
        (Words(tied=True), words()),
    ],
    ids=["perceptron", "attention", "encoder in two parts", "words", "tied words"],
)
def test_gram_matrices_are_those_of_the_whole_jacobian(module, bank):
    reading = None if not isinstance(module, torch.nn.TransformerEncoder) else lambda m, x: m(x).mean(1)[:, :2]
    found = assert_equal_to_dense(module, bank, replace(DEFAULT, readings=reading))
    assert not found.by_rows  # nothing falls back to a backward pass a reading


def test_blocks_and_segments_of_any_size_give_the_same():
    module, bank = Words(), words()
    whole, layout = grams(module, bank)
    assert len(layout.segments) == 1
    for sizes in ({"block": 2**9, "held": 2**9}, {"block": 2**12, "held": 2**12}, {"block": 1, "held": 1}):
        found, layout = grams(module, bank, **sizes)
        assert len(layout.segments) > 1
        for name, matrix in found.groups.items():
            np.testing.assert_allclose(matrix, whole.groups[name], rtol=1e-12, atol=1e-15)


def test_rows_of_all_tensors_without_factors_are_taken_in_one_pass_where_they_fit():
    module = torch.nn.Sequential(*(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3)) for _ in "ab"))
    bank, calls = inputs(9, 3), []
    module = module.double()
    module.register_forward_hook(lambda *_: calls.append(1))
    with opened(module, bank, DEFAULT) as (subject, batches):
        layout = layout_of(subject, batches, survey(subject, batches, False))
        calls.clear()
        whole = grams_of(subject, layout)
        assert len(whole.by_rows) == 4  # of each weight its directions and lengths
        assert len(calls) == 1 + len(bank)  # the graph of the whole bank, for the biases, then each input once
        calls.clear()
        found = grams_of(subject, replace(layout, rows=2 * 27 * 8))
        assert len(calls) == 1 + 14 * len(bank)  # two entries at a time, of 3, 9, 3 and 9
    for name, matrix in found.groups.items():
        np.testing.assert_allclose(matrix, whole.groups[name], rtol=1e-12, atol=1e-15)


def test_the_copy_in_float64_is_gone_before_gradients_are_held(large, monkeypatch):
    made, held = module_sensitivity.record_of, []

    def watched(*given, **options):
        held.append(sum(type(one) is Snapshot for one in gc.get_objects()))
        return made(*given, **options)

    monkeypatch.setattr(module_sensitivity, "record_of", watched)
    found = estim.sensitivity(perceptron(dtype=torch.float32), inputs(6, 3, dtype=torch.float32), 0.1)
    assert any("beside a copy in float64" in note for note in found.notes)
    assert held == [1]  # of the module itself


def test_a_batch_axis_that_is_not_the_first_inside_the_model_is_found():
    class Turned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            return self.inner(x.transpose(0, 1)).sum(0)

    assert not assert_equal_to_dense(Turned(), inputs(6, 4, 3)).by_rows


def test_a_weight_used_twice_and_ragged_uses_are_summed():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = torch.nn.Linear(3, 3, dtype=torch.float64), perceptron((3, 2))

        def forward(self, x):
            hidden = torch.tanh(self.inner(x))
            chosen = torch.tanh(self.inner(hidden[:, 0]))  # another number of rows for each input
            return self.last(hidden.mean(1) + chosen)

    assert not assert_equal_to_dense(Twice(), inputs(6, 4, 3)).by_rows


class Routed(torch.nn.Module):
    """Batches of positive inputs go by one layer, the others by another; all meet a scale, and some a bias of it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = (torch.nn.Linear(3, 4, dtype=torch.float64) for _ in range(2))
        self.table = torch.nn.Embedding(3, 4, dtype=torch.float64)
        self.scale = torch.nn.Parameter(torch.rand(4, dtype=torch.float64))
        self.both = torch.nn.Parameter(torch.rand(4, 4, dtype=torch.float64))

    def forward(self, x):
        if (x > 0.0).all():
            return torch.tanh(self.one(x) * self.scale) @ self.both
        places = torch.arange(len(x)) % 3
        return torch.tanh(self.other(x) + self.table(places)) * self.scale * self.both[0]


def test_what_only_some_batches_use_or_use_in_another_way_is_summed():
    def batches():
        yield inputs(4, 3).abs() + 0.1
        yield inputs(4, 3)

    assert_equal_to_dense(Routed(), estim.Batches(batches))
    assert_equal_to_dense(Routed(), estim.Batches(lambda: reversed(list(batches()))))


@pytest.mark.parametrize("count", [140, 601])
def test_many_readings_are_multiplied_in_strips(count):
    assert_equal_to_dense(perceptron(), inputs(count, 3))


def test_inputs_that_depend_on_each_other_are_found_and_taken_row_by_row():
    module = perceptron()
    centred = lambda model, x: model[2](torch.tanh(model[0](x - x.mean(0)))) - model(x).mean(0)  # noqa: E731
    found = assert_equal_to_dense(module, inputs(6, 3), replace(DEFAULT, readings=centred))
    assert set(found.by_rows) == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.parametrize("strongest", [False, True], ids=["Gram", "strongest"])
@pytest.mark.parametrize(
    "reading",
    [lambda m, x: m(x - x.mean(0)), lambda m, x: m(x).square().sum(), lambda m, x: m(x).mean(0)],
    ids=["centred", "one number", "mean"],
)
def test_readings_of_inputs_together_are_those_of_the_whole_jacobian(large, monkeypatch, reading, strongest):
    module, bank = perceptron((3, 8, 2)), inputs(40, 3)
    if strongest:
        monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)
    for given in (bank, estim.Batches(lambda: (bank[k : k + 10] for k in (0, 10, 20, 30)))):
        found = estim.sensitivity(module, given, 0.1, readings=reading)
        with monkeypatch.context() as dense:
            dense.setattr(module_sensitivity, "DENSE", 3000)
            truth = estim.sensitivity(module, given, 0.1, readings=reading)
        count = min(8, found.resolved)
        assert count == min(8, truth.resolved)
        np.testing.assert_allclose(found.singular_values[:count], truth.singular_values[:count], rtol=1e-7)


def test_spectrum_statuses_and_floors_are_those_of_the_whole_jacobian(large, monkeypatch):
    module, bank = perceptron((3, 16, 16, 3)), inputs(24, 3)
    found = estim.sensitivity(module, bank, 0.01, smallest_change=0.01)
    assert isinstance(found, ModelSensitivity)
    monkeypatch.setattr(module_sensitivity, "DENSE", 3000)
    twin = estim.sensitivity(module, bank, 0.01, smallest_change=0.01)
    assert found.resolved == twin.resolved == 72
    np.testing.assert_allclose(found.singular_values, twin.singular_values[:72], rtol=1e-9)
    assert (np.abs(found.singular_values - twin.singular_values[:72]) <= found.errors).all()
    assert found.status == twin.status[:72]
    assert found.counts == twin.counts
    np.testing.assert_allclose(found.by_group()["best_floor"], twin.by_group()["best_floor"], rtol=1e-9)
    np.testing.assert_allclose(found.by_group()["worst_floor"], twin.by_group()["worst_floor"], rtol=1e-9)
    assert found.by_group()["seen"].tolist() == twin.by_group()["seen"].tolist()
    assert found.by_group()["parameters"].tolist() == twin.by_group()["parameters"].tolist()
    np.testing.assert_allclose(found.by_input(), twin.by_input(), atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(found.readout * twin.readout, axis=0)), 1.0, rtol=1e-8)


@pytest.mark.parametrize("kind", ["scalar", "vector", "covariance"])
def test_noise_of_every_kind_whitens_as_for_the_whole_jacobian(large, monkeypatch, kind):
    module, bank = perceptron((3, 8, 2)), inputs(10, 3)
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 20))
    sigma = {"scalar": 0.1, "vector": rng.uniform(0.1, 1.0, 20), "covariance": root @ root.T + np.eye(20)}[kind]
    found = estim.sensitivity(module, bank, sigma, repeats=3, repeat_correlation=0.2)
    monkeypatch.setattr(module_sensitivity, "DENSE", 3000)
    twin = estim.sensitivity(module, bank, sigma, repeats=3, repeat_correlation=0.2)
    np.testing.assert_allclose(found.singular_values, twin.singular_values[:20], rtol=1e-9)
    np.testing.assert_allclose(found.by_input(), twin.by_input(), atol=1e-9)
    np.testing.assert_allclose(found.whitening, twin.whitening)
    delta = 1e-3 * rng.standard_normal(len(twin.names))
    moved = probe_module(module, bank, DEFAULT).jacobian @ delta
    np.testing.assert_allclose(found.shift(moved), twin.shift(delta), rtol=1e-8)
    np.testing.assert_allclose(found.power(moved), twin.power(delta), rtol=1e-8)
    np.testing.assert_allclose(found.minimum_detectable(moved), twin.minimum_detectable(delta), rtol=1e-8)


def graded(dtype):
    """Return a model of singular values over five decades, more than a Gram matrix in float32 can show."""
    torch.manual_seed(0)
    module = torch.nn.Linear(30, 1, bias=False, dtype=dtype)
    left = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(30, 12, dtype=torch.float64))[0]
    values = torch.logspace(0, -5, 12, dtype=torch.float64)
    return module, ((left * values) @ right.T).to(dtype), values.numpy()


@pytest.mark.parametrize(("dtype", "how"), [(torch.float32, "multiplied in float64"), (torch.float64, "one pass")])
def test_a_second_pass_shows_what_float32_hides(large, monkeypatch, dtype, how):
    module, bank, values = graded(dtype)
    monkeypatch.setattr("estim.probe.torch.layout._LEAST", 2**8)  # blocks as narrow as the model, so none is exempt
    found = estim.sensitivity(module, bank, 1.0)
    assert how in found.path
    assert found.resolved == 12
    assert (np.abs(found.singular_values - values) <= found.errors).all()


def test_shifted_cholesky_qr_shows_what_a_gram_matrix_in_float64_hides(large):
    module, bank, _ = graded(torch.float64)
    left, _, right = torch.linalg.svd(bank, full_matrices=False)
    values = torch.logspace(0, -12, 12, dtype=torch.float64)
    found = estim.sensitivity(module, (left * values) @ right, 1.0)
    assert "shifted Cholesky QR" in found.path
    assert found.resolved == 12
    assert (np.abs(found.singular_values - values.numpy()) <= found.errors).all()
    # Far below the square root of a rounding, and not by luck.
    assert found.errors.max() < 1e-13
    np.testing.assert_allclose(found.by_group()["best_floor"], 1.0, rtol=1e-12)


def test_the_error_of_float32_is_honest(large):
    module, bank = perceptron((3, 16, 16, 3), dtype=torch.float32), inputs(24, 3, dtype=torch.float32)
    found = estim.sensitivity(module, bank, 1.0)
    single = probe_module(module, bank, DEFAULT).jacobian
    double = probe_module(module, bank, replace(DEFAULT, dtype=torch.float64)).jacobian
    off = np.linalg.norm(single - double)
    assert off <= found.jacobian_error <= 30.0 * off
    exact = np.linalg.svd(double, compute_uv=False)
    assert (np.abs(found.singular_values - exact[:72]) <= found.errors).all()


def test_repeated_inputs_are_unresolved_not_seen(large):
    bank = inputs(6, 3)
    found = estim.sensitivity(perceptron((3, 8, 2)), torch.cat([bank, bank]), 0.1)
    assert found.resolved == 12
    assert found.counts[estim.Status.UNRESOLVED] == 50 - 12


def test_banks_in_batches_and_dicts_give_the_same(large):
    module, bank = Words(), words(12)
    truth = estim.sensitivity(module, bank, 0.1)
    loader = torch.utils.data.DataLoader(list(bank), batch_size=5)
    for given in (loader, {"words": bank}, estim.Batches(lambda: (bank[k : k + 5] for k in (0, 5, 10)))):
        found = estim.sensitivity(module, given, 0.1)
        np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-9)
        assert found.input_share.shape == truth.input_share.shape


def test_frozen_parameters_are_left_out_and_nan_inputs_too(large):
    module, bank = perceptron((3, 8, 2)), inputs(8, 3)
    module[0].requires_grad_(False)
    bank[2, 0] = torch.nan
    with pytest.raises(ValueError, match=r"^readings must be finite; reading 4 \(input 2\) is nan; nan_policy='omit'"):
        estim.sensitivity(module, bank, 0.1)
    found = estim.sensitivity(module, bank, 0.1, nan_policy="omit")
    assert found.names == ("2.weight", "2.bias")
    assert found.readings == 14
    assert found.input_share[2].max() == 0.0
    assert any("32 frozen parameters are left out" in note for note in found.notes)
    truth = estim.sensitivity(module, torch.cat([bank[:2], bank[3:]]), 0.1)
    np.testing.assert_allclose(found.singular_values, truth.singular_values, rtol=1e-10)


def test_a_large_module_is_left_bit_identical(large):
    module, bank = Words(tied=True).train(), words()
    before = everything(module)
    estim.sensitivity(module, bank, 0.1)
    assert everything(module) == before


def test_the_record_survives_json(large):
    found = estim.sensitivity(perceptron((3, 8, 2)), inputs(8, 3), 0.1, smallest_change=0.1)
    again = ModelSensitivity.from_json(found.to_json())
    assert again == found
    assert again.status == found.status
    assert again.by_group().equals(found.by_group())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"names": ["a"]}, r"^names must be left out: the model is too large for single parameters; got "),
        ({"symmetry": np.ones(50)}, r"^symmetry must be left out"),
        ({"smallest_change": [1.0, 2.0]}, r"^smallest_change must be one positive number for a model this large"),
        ({"sigma": np.r_[0.0, np.ones(15)]}, r"^sigma must be positive for every reading .*; got 0 for reading 0$"),
        ({"keep": -1}, r"^keep must be a whole number, at least 0; got -1$"),
    ],
)
def test_what_needs_single_parameters_is_refused(large, options, match):
    given = {"sigma": 0.1} | options
    with pytest.raises(ValueError, match=match):
        estim.sensitivity(perceptron((3, 8, 2)), inputs(8, 3), **given)


def test_summary_picture_and_page_say_what_is_seen(large, tmp_path):
    pytest.importorskip("matplotlib")
    found = estim.sensitivity(perceptron((3, 8, 2)), inputs(8, 3), 0.1, smallest_change=0.1)
    text = str(found.summary())
    assert "Dimension seen:" in text
    assert "16 of 50" in text
    assert "one pass" in text
    frame = found.to_frame()
    assert list(frame.index) == list(range(1, 17))
    np.testing.assert_allclose(frame["floor"], 1.0 / found.singular_values)
    np.testing.assert_allclose(found.group_share.sum(axis=0), 1.0)
    found.report(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_kept_directions_are_the_right_singular_vectors(large):
    module, bank = Words(), words()
    sigma = np.linspace(0.1, 0.4, 30)
    found = estim.sensitivity(module, bank, sigma, keep=3)
    assert found.kept.tolist() == [0, 1, 2, found.resolved - 3, found.resolved - 2, found.resolved - 1]
    jacobian = probe_module(module, bank, DEFAULT).jacobian / sigma[:, None]
    moved = jacobian @ found.directions.T
    np.testing.assert_allclose(np.linalg.norm(moved, axis=0), found.singular_values[found.kept], rtol=1e-6)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(6), atol=1e-6)
    # A Gram matrix knows its weakest vectors to a rounding times the square of its condition.
    rough = 2.0**-52 * (found.singular_values[0] / found.singular_values[found.resolved - 1]) ** 2
    assert rough < 1e-4
    np.testing.assert_allclose(moved / found.singular_values[found.kept], found.readout[:, found.kept], atol=rough)
    owner = np.repeat([found.group_names.index(group) for group in found.groups], found.sizes)
    share = np.bincount(owner, np.square(found.directions[0]), len(found.group_names))
    np.testing.assert_allclose(share, found.group_share[:, 0], atol=1e-10)
    assert ModelSensitivity.from_json(found.to_json()) == found
    assert estim.sensitivity(module, bank, sigma).directions is None
    assert len(estim.sensitivity(module, bank, sigma, keep=100).kept) == found.resolved


def test_the_cost_is_said_before_the_work_and_a_bar_shown(large, capsys):
    found = estim.sensitivity(perceptron((3, 8, 2)), inputs(8, 3), 0.1, progress=True)
    told = capsys.readouterr().err
    plan = next(
        note for note in found.notes if note.startswith("path: Gram matrix of 16 readings, 50 parameters; about")
    )
    assert told.startswith(plan)
    assert "where the whole Jacobian would take" in plan
    assert "100%" in told


def test_the_graph_of_a_part_is_counted_in_what_is_held():
    with opened(perceptron(), inputs(12, 3), DEFAULT) as (subject, batches):
        layout = layout_of(subject, batches, survey(subject, batches, False))
        # The inputs, (12, 3), and what comes out of the tanh, (12, 4), in float64; parameters are no part of it.
        assert layout.graph == 8.0 * 12 * (3 + 4)


def test_a_shift_is_judged_as_by_the_record_of_the_whole_jacobian(large, monkeypatch):
    module, bank = perceptron((3, 8, 2)), inputs(30, 3)
    found = estim.sensitivity(module, bank, 0.01)
    monkeypatch.setattr(module_sensitivity, "DENSE", 3000)
    twin = estim.sensitivity(module, bank, 0.01)
    rng = np.random.default_rng(0)
    jacobian = probe_module(module, bank, DEFAULT).jacobian
    delta = 0.02 * rng.standard_normal(50)
    for shift in (jacobian @ delta, np.zeros(60), 0.01 * rng.standard_normal(60)):
        one = found.judge(shift, smallest_shift=jacobian @ delta)
        two = twin.judge(shift, smallest_change=delta)
        assert one.outcome == two.outcome
        assert (one.degrees, one.residual_degrees) == (two.degrees, two.residual_degrees)
        np.testing.assert_allclose([one.statistic, one.power, one.p_value], [two.statistic, two.power, two.p_value])
    assert found.judge(np.zeros(60), smallest_shift=np.zeros(60)).outcome == "blind"


@pytest.mark.parametrize("dense", [0, 3000])
def test_readings_can_be_told_which_input_they_belong_to(monkeypatch, dense):
    monkeypatch.setattr(module_sensitivity, "DENSE", dense)
    module, bank = perceptron((3, 8, 2)), inputs(8, 3)
    found = estim.sensitivity(module, bank, 0.1, inputs=np.arange(16) % 2)
    assert found.by_input().shape[0] == 2
    with pytest.raises(ValueError, match=r"^inputs must be whole numbers, one for each of the 16 readings"):
        estim.sensitivity(module, bank, 0.1, inputs=[0, 1])


def test_inputs_are_called_what_the_bank_calls_them(large):
    numbers = torch.tensor([0.25, 1.5, 3.0], dtype=torch.float64)
    found = estim.sensitivity(perceptron((1, 4, 2)), numbers, 0.1, readings=lambda m, x: m(x[:, None]))
    assert isinstance(found, ModelSensitivity)
    assert found.by_input().index.tolist() == ["0.25", "1.5", "3"]
    assert ModelSensitivity.from_json(found.to_json()).input_names == ("0.25", "1.5", "3")
    assert estim.sensitivity(perceptron(), inputs(4, 3), 0.1).by_input().index.tolist() == [0, 1, 2, 3]


def doubled_each(grads, _):
    return tuple(None if grad is None else 2.0 * grad for grad in grads)


@pytest.mark.parametrize("changed", [0, 33, 99], ids=["in the first part", "in another", "in the last"])
def test_gradients_that_a_hook_changes_are_refused(large, monkeypatch, changed):
    monkeypatch.setattr(module_sensitivity, "require_derivative", lambda subject, part: ())
    bank = inputs(100, 3)

    class Changed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron((3, 8, 2))

        def forward(self, x):
            hidden = self.inner[0](x)
            if hidden.requires_grad and bool((x == bank[changed]).all(1).any()):  # torch's is then not the derivative
                hidden.grad_fn.register_hook(doubled_each)
            return self.inner[1:](hidden)

    with pytest.raises(
        ArithmeticError, match=r"^the gradients of inner.0 read off the graph contradict a plain backward"
    ):
        estim.sensitivity(Changed(), bank, 0.1)


def test_layers_of_nothing_but_rounding_contradict_nothing_and_leave_the_first_one_resolved(large):
    stack, bank = attention_stack(depth=4), inputs(12, 4, 3)
    groups = []
    for name, tensor in stack.named_parameters():
        value = name.endswith("value")
        tensor.data.mul_(1.0 if value else 1e-3)
        groups.append("values" if value else f"layer{name[0]}")
    found = estim.sensitivity(stack, bank, 1.0, groups=groups)
    k = found.group_names.index("layer0")
    assert found.group_resolution[k] < 1e-6 * found.group_singular_values[k, 0]
    k = found.group_names.index("layer3")
    assert found.group_resolution[k] >= found.group_singular_values[k, 0]
