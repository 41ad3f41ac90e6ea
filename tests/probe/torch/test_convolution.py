"""Convolutions and what normalizes their channels, beside a backward pass for each reading."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.probe.torch.networks import inputs  # noqa: E402
from tests.probe.torch.test_capture import assert_equal_to_backward_passes  # noqa: E402

SIZE = (3, 8, 6)


class Pyramid(nn.Module):
    """One head for images of two sizes: its filters are few patches of one, and of the other many."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        smaller = nn.functional.avg_pool2d(x, 2)
        return self.head(x).mean((2, 3)) + self.head(smaller).square().mean((2, 3))


class Tiled(nn.Module):
    """Every image is cut in tiles, which go through the filters beside those of other inputs."""

    def __init__(self):
        super().__init__()
        self.filters, self.last = nn.Conv2d(3, 5, 3), nn.Linear(5, 2)

    def forward(self, x):
        tiles = x.unfold(2, 4, 4).unfold(3, 3, 3).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, 4, 3)
        return self.last(torch.tanh(self.filters(tiles)).mean((2, 3)).view(len(x), -1, 5).mean(1))


class Beside(nn.Module):
    """Images of all inputs in one, side by side: what a filter meets is of several of them."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, x):
        wide = self.filters(torch.cat(list(x), dim=2)[None])
        return torch.stack([part.square().mean((1, 2)) for part in wide[0].split(x.shape[3], dim=2)])


class Scaled(nn.Module):
    """A gain and an offset for each channel, and a gain for each row of pixels."""

    def __init__(self):
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.rand(3, 1, 1)), nn.Parameter(torch.rand(1, 3, 1, 1))
        self.of_rows, self.last = nn.Parameter(torch.rand(8, 1)), nn.Conv2d(3, 2, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.gain * x + self.offset) * self.of_rows).square().mean((2, 3))


def net(*parts, size=SIZE, seed=0):
    """Return parts with a readout of two numbers, statistics of batches drawn as if it had been trained."""
    torch.manual_seed(seed)
    module = nn.Sequential(*parts, nn.Tanh(), nn.Flatten(), nn.LazyLinear(2))
    module(torch.zeros(2, *size))
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2.0)
    return module.double().eval()


KINDS = {
    "few places": (net(nn.Conv2d(3, 4, 3, stride=2), nn.Tanh(), nn.Conv2d(4, 5, 2, bias=False)), SIZE),
    "many places": (net(nn.Conv2d(3, 4, 2, padding=1)), SIZE),
    "stride, padding and dilation": (
        net(nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(3, 1), dilation=(2, 3))), SIZE
    ),
    "one place": (net(nn.Conv2d(3, 4, (8, 6))), SIZE),
    "pixels": (net(nn.Conv2d(3, 4, 1)), SIZE),
    "padding of the same size": (net(nn.Conv2d(3, 4, (4, 3), padding="same", padding_mode="circular")), SIZE),
    "groups": (net(nn.Conv2d(3, 6, 3, groups=3, padding=1)), SIZE),
    "transposed": (net(nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1)), SIZE),
    "one axis": (net(nn.Conv1d(3, 7, 5, dilation=2), nn.Tanh(), nn.Conv1d(7, 4, 2), size=(3, 12)), (3, 12)),
    "three axes": (net(nn.Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1)), size=(2, 4, 5, 3)), (2, 4, 5, 3)),
    "batch norm": (net(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), SIZE),
    "batch norm of vectors": (net(nn.Flatten(), nn.Linear(144, 5), nn.BatchNorm1d(5)), SIZE),
    "group norm": (net(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.GroupNorm(1, 4)), SIZE),
    "batch norm without gains": (net(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False)), SIZE),
    "broadcast over pixels": (Scaled().double(), SIZE),
    "two sizes": (Pyramid().double(), SIZE),
    "tiles": (Tiled().double(), SIZE),
    "side by side": (Beside().double(), SIZE),
    "channels last": (net(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last), SIZE),
    "statistics of the batch": (net(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True)), SIZE),
}  # fmt: skip
BY_ROWS = {
    "side by side": {"filters.weight", "filters.bias"},
    "statistics of the batch": {"1.weight", "1.bias"},
}


@pytest.mark.parametrize("held", [1, 10**9], ids=["in segments", "at once"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_off_the_graph_are_those_of_backward_passes(kind, held):
    module, size = KINDS[kind]
    assert assert_equal_to_backward_passes(module, inputs(7, *size), held=held) == BY_ROWS.get(kind, set())
