"""What a test along the directions resolved sees of sets of changes, by Jacobians that are given; what is refused."""

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from estim.probe.torch import sensitivity as module_sensitivity  # noqa: E402
from tests.probe.torch.networks import inputs, perceptron  # noqa: E402

SIZES = (3, 8, 2)


class Fixed(torch.nn.Module):
    """Readings that are sums of parameters, a group after the other, weighed by the bank: its rows are the Jacobian."""

    def __init__(self, *groups):
        super().__init__()
        self.sizes = [len(values) for values in groups]
        for k, values in enumerate(groups):
            part = torch.nn.Linear(1, 1, bias=False)
            part.weight = torch.nn.Parameter(torch.as_tensor(values, dtype=torch.float64)[None, :])
            self.add_module(f"part{k}", part)

    def forward(self, bank):
        return sum(part(x) for part, x in zip(self.children(), bank.split(self.sizes, dim=1), strict=True))


def of_jacobian(monkeypatch, *parts, sigma=1.0, **options):
    """Return the record of groups of parameters that are all 1, (readings, parameters) each."""
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    module = Fixed(*(np.ones(part.shape[1]) for part in parts))
    return estim.sensitivity(module, torch.as_tensor(np.concatenate(parts, axis=1)), sigma, **options)


def test_what_the_whole_does_not_resolve_is_no_power_against_a_weak_group(monkeypatch):
    """The change test is along what the whole resolves; a group with a smaller error of its own resolves more."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((100, 84)))[0]
    strong = left[:, :4] @ np.linalg.qr(rng.standard_normal((40, 4)))[0].T
    weak = 1.5e-6 * left[:, 4:] @ np.linalg.qr(rng.standard_normal((200, 80)))[0].T
    found = of_jacobian(monkeypatch, strong, weak, rtol=1e-6)
    assert found.resolved == 4
    assert found.by_group().loc["part1", "seen"] == 80
    assert np.isfinite(found.by_group()["detectable_change"]).tolist() == [True, False]
    change = estim.AnyChange(1e6, group="part1", case="typical", relative=False)
    verdict = found.judge(np.zeros(100), smallest_change=change, rng=0)
    assert verdict.outcome == "blind"
    assert verdict.power == pytest.approx(verdict.level)
    facts = " ".join(str(found.summary()).split())
    assert "farther from the model than its derivatives tell" in facts
    assert "% of part0 (first)" in facts
    assert "none of any size of 1 of the 2 groups" in facts


@pytest.mark.parametrize("seed", range(3))
def test_the_hardest_change_of_a_group_counts_along_what_is_tested_alone(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    mixed = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    strong = left[:, :6] * np.logspace(0, -3, 6) @ np.linalg.qr(rng.standard_normal((20, 6)))[0].T
    weak = left[:, :8] * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3e-4, 2e-4]) @ mixed
    found = of_jacobian(monkeypatch, strong, weak, sigma=1e-4, rtol=1e-4)
    change = estim.AnyChange(1.0, group="part1", relative=False)
    moved = np.linalg.svd(found.readout.T @ weak / 1e-4, compute_uv=False)
    verdict = found.judge(np.zeros(30), smallest_change=change)
    assert verdict.smallest_shift <= (moved[-1] if len(moved) == 8 else 0.0)


def test_where_only_the_strongest_are_known_the_detectable_change_is_at_most_that(monkeypatch):
    rng = np.random.default_rng(2)
    parts = [rng.standard_normal((40, 30)) * scale for scale in (1.0, 0.3)]
    monkeypatch.setattr("estim.probe.matrix_free.way.available", lambda: 0.0)
    found = of_jacobian(monkeypatch, *parts)
    for part, size in zip(parts, found.by_group()["detectable_change"], strict=True):
        drawn = rng.standard_normal((30, 20_000))
        drawn *= size * np.sqrt(30.0) / np.linalg.norm(drawn, axis=0)
        shifted = found.readout.T @ (part @ drawn)
        noisy = np.square(shifted + rng.standard_normal(shifted.shape)).sum(axis=0)
        assert (noisy > stats.chi2.isf(0.05, found.resolved)).mean() >= 0.8


@pytest.mark.parametrize("rule", [{}, {"statistic": np.ones(14), "threshold": 10.0}], ids=["tests", "rule"])
def test_shifts_are_read_in_the_shape_that_readings_have(monkeypatch, rule):
    jacobian = np.random.default_rng(0).standard_normal((16, 12))
    jacobian[3] = np.nan
    jacobian[9] = np.nan
    found = of_jacobian(monkeypatch, jacobian, nan_policy="omit")
    shift = np.random.default_rng(1).standard_normal(16)
    shift[[3, 9]] = np.nan
    left = np.delete(shift, [3, 9])
    one = found.judge(np.zeros(14), smallest_shift=left, **rule)
    two = found.judge(np.zeros((16, 1)), smallest_shift=shift[:, None], **rule)
    assert one == two
    assert found.shift(shift[:, None]) == found.shift(left)


def test_complex_shifts_are_read_as_the_readings_are(monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    found = estim.sensitivity(
        perceptron(SIZES), inputs(6, 3), 0.01, readings=lambda model, x: torch.complex(model(x), model(x).square())
    )
    shift = np.random.default_rng(0).standard_normal((6, 2, 2)) @ [1.0, 1j]
    both = np.concatenate([shift.real.ravel(), shift.imag.ravel()])
    assert found.shift(shift) == found.shift(both)
    with pytest.raises(ValueError, match=r"^smallest_shift must be finite, one entry for each of the 24 readings"):
        found.judge(np.zeros(24), smallest_shift=np.ones(24) * 1j)
    with pytest.raises(TypeError, match=r"^smallest_shift must be numbers; got dtype <U1$"):
        found.judge(np.zeros(24), smallest_shift="a")


class Empty(torch.nn.Module):
    """A layer without parameters of its own beside one with them."""

    def __init__(self):
        super().__init__()
        self.full = torch.nn.Linear(3, 1, dtype=torch.float64)
        self.none = torch.nn.ParameterList([torch.zeros(0, dtype=torch.float64)])

    def forward(self, x):
        return self.full(x) + self.none[0].sum()


def test_groups_without_parameters_have_no_changes(monkeypatch):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    found = estim.sensitivity(Empty(), inputs(9, 3), 0.1)
    assert np.isnan(found.by_group().loc["none", "detectable_change"])
    for options in ({}, {"relative": False}, {"case": "typical", "relative": False}):
        with pytest.raises(ValueError, match=r"^a change of 'none' means nothing: it has no parameters$"):
            found.judge(np.zeros(9), smallest_change=estim.AnyChange(0.1, group="none", **options))
    assert found.judge(np.zeros(9), smallest_change=estim.AnyChange(1e3)).outcome == "equivalent"


def test_names_of_groups_are_shown_as_they_are(monkeypatch, tmp_path):
    names = ["<script>", "$x_{$"]
    jacobian = np.random.default_rng(0).standard_normal((12, 6))
    found = of_jacobian(monkeypatch, jacobian[:, :3], jacobian[:, 3:], groups=names)
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "$x_{$" in page
    with pytest.raises(ValueError, match=r"^groups must have names; got an empty one$"):
        of_jacobian(monkeypatch, jacobian, groups=[""])


def test_a_page_of_nothing_seen_is_written_without_a_warning(monkeypatch, tmp_path):
    found = of_jacobian(monkeypatch, np.zeros((5, 3)))
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "none of any group alone" in page
    assert "at no size" in page


@pytest.mark.parametrize("size", [0.0, -1.0, np.inf])
def test_sizes_that_are_none_are_refused_by_the_name_of_their_argument(monkeypatch, size):
    jacobian = np.random.default_rng(0).standard_normal((5, 3))
    with pytest.raises(ValueError, match=rf"^smallest_change must be positive and finite; got {size}$"):
        of_jacobian(monkeypatch, jacobian).judge(np.zeros(5), smallest_change=size)
    with pytest.raises(ValueError, match=r"^smallest_change must be one positive number for a model this large; got"):
        of_jacobian(monkeypatch, jacobian, smallest_change=size)


@pytest.mark.parametrize("change", [estim.AnyChange(0.1), "a", True, 1j, {"part0": 0.1}])
def test_a_smallest_change_of_the_record_is_a_number(monkeypatch, change):
    with pytest.raises(TypeError, match=r"^smallest_change must be one positive number for a model this large; got"):
        of_jacobian(monkeypatch, np.random.default_rng(0).standard_normal((5, 3)), smallest_change=change)


@pytest.mark.parametrize("members", [5, [5], None])
def test_groups_of_what_are_no_names_are_refused(monkeypatch, members):
    with pytest.raises(TypeError, match=r"^groups must map each group to a name of tensors, or several; got .* for"):
        of_jacobian(monkeypatch, np.ones((5, 3)), groups={"one": members})


@pytest.mark.parametrize("scale", [1e-120, 1e153])
def test_relative_changes_are_counted_whatever_the_parameters_units(monkeypatch, scale):
    monkeypatch.setattr(module_sensitivity, "DENSE", 0)
    jacobian = np.random.default_rng(0).standard_normal((12, 6))
    bank = torch.as_tensor(jacobian / scale if scale < 1.0 else jacobian)
    found = estim.sensitivity(Fixed(np.full(3, scale), np.full(3, scale)), bank, 1.0)
    least = np.linalg.svd(jacobian, compute_uv=False)[-1] * np.sqrt(3.0) * max(scale, 1.0)
    verdict = found.judge(np.zeros(12), smallest_change=estim.AnyChange(0.1))
    assert verdict.smallest_shift == pytest.approx(0.1 * least, rel=1e-5)
