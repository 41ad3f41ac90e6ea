"""Gradients in float32 whose squares are no numbers of float32."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import estim  # noqa: E402
from tests.probe.torch.networks import inputs  # noqa: E402
from tests.probe.torch.test_capture import jacobian  # noqa: E402


@pytest.mark.parametrize("scale", [1e-30, 1e-24, 1e-19, 1.0, 1e18, 1e22])
def test_singular_values_of_groups_are_right_where_products_leave_the_range(scale):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    module[2].weight.data.mul_(scale)
    bank = inputs(12, 64, dtype=torch.float32)
    truth = jacobian(copy.deepcopy(module).double(), bank.double(), None)
    found = estim.sensitivity(module, bank, 0.01, groups="layers")
    first = truth[:, : 64 * 65] / 0.01
    expected = np.linalg.svd(first, compute_uv=False)
    np.testing.assert_allclose(found.group_singular_values[0][:48], expected, rtol=1e-5)
    assert 0.0 < found.group_resolution[0] < 1e-2 * expected[0]


def test_a_group_without_any_gradient_stays_one_beside_others_out_of_range():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    module[0].bias.data.fill_(-1e3)  # nothing of the first layer comes through
    module[2].bias.data.fill_(1.0)
    found = estim.sensitivity(module, inputs(12, 64, dtype=torch.float32), 0.01, groups="layers")
    assert not found.group_singular_values[0].any()
    np.testing.assert_allclose(found.group_singular_values[1][:4], 100.0 * 12**0.5, rtol=1e-6)
