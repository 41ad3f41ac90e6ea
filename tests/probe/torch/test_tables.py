"""Tables of words and places, beside a backward pass for each reading."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from estim import Batches  # noqa: E402
from estim.probe.torch.rows import rows_of  # noqa: E402
from tests.probe.torch.networks import perceptron  # noqa: E402
from tests.probe.torch.test_capture import assert_equal_to_backward_passes, hooked, jacobian  # noqa: E402

TOKENS, WIDTH = 5, 3


class Language(nn.Module):
    """A model of language of one layer: which word comes next, of `count` words."""

    def __init__(self, count, tied, transposed=False, padding=None):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(count, WIDTH, padding_idx=padding)
        self.layer, self.transposed = nn.Linear(WIDTH, WIDTH), transposed
        self.head = nn.Parameter(torch.randn((WIDTH, count) if transposed else (count, WIDTH)))
        if tied:
            self.head = self.words.weight
        self.double()

    def forward(self, ids):
        hidden = torch.tanh(self.layer(self.words(ids).cumsum(1)))
        return hidden @ self.head if self.transposed else nn.functional.linear(hidden, self.head)


class Placed(nn.Module):
    """Vectors of places and one of the whole, the same for every input, are added and put before."""

    def __init__(self, combine):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(11, WIDTH), nn.Embedding(9, WIDTH)
        self.whole = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.last, self.combine = perceptron((WIDTH, 4, 2)), combine
        self.double()

    def forward(self, ids):
        places = self.places(torch.arange(TOKENS) % 4)
        x = self.combine(self.words(ids), places)
        x = torch.cat([self.whole.expand(len(x), -1, -1), x], dim=1)
        return self.last(torch.tanh(x.cumsum(1))).mean(1)


class Scaled(nn.Module):
    """Sums of words and places have a smaller gradient than they should, and hooks of either mend that."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(11, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.double()

    def forward(self, ids):
        words, places = hooked(self.words(ids), 4.0), hooked(self.places(torch.arange(TOKENS)), 4.0)
        return hooked(torch.tanh((words + places).cumsum(1)), 0.25).sum(1)


def last_logits(module, ids):
    return module(ids)[:, -1, [3, 7, 4]]


def all_logits(module, ids):
    return module(ids)[:, -1]


def words(inputs=6, count=11, seed=1):
    return torch.randint(0, count, (inputs, TOKENS), generator=torch.Generator().manual_seed(seed))


def one_or_all_logits(module, ids):
    """Return a logit, or of longer inputs the mean of all of them."""
    logits = module(ids)[:, -1]
    return logits[:, 3] if ids.shape[1] == TOKENS else logits.square().mean(1)


MANY = 5000
KINDS = {
    "tied": (Language(11, True), words(), all_logits),
    "tied, few read out": (Language(11, True), words(), last_logits),
    "tied, one of them no word": (Language(11, True, padding=3), words(), last_logits),
    "tied, of many words": (Language(MANY, True), words(count=MANY), last_logits),
    "tied, of many words, few of them met": (Language(MANY, True), words(), last_logits),
    "not tied, of many words": (Language(MANY, False), words(), last_logits),
    "transposed, of many words": (Language(MANY, False, transposed=True), words(), last_logits),
    "one input": (Language(MANY, True), words(1), last_logits),
    "places added": (Placed(lambda x, places: x + places), words(), None),
    "places added before": (Placed(lambda x, places: places + x), words(), None),
    "places of one more axis": (Placed(lambda x, places: x + places[None]), words(), None),
    "places subtracted": (Placed(lambda x, places: x - places), words(), None),
    "places added twice": (Placed(lambda x, places: (x + places) * (x.tanh() + places)), words(), None),
    "places multiplied": (Placed(lambda x, places: x * places), words(), None),
    "places added and multiplied": (Placed(lambda x, places: (x + places) * places), words(), None),
}  # fmt: skip
#: What meets places before it is added for each input is not looked into.
BY_ROWS = {"places of one more axis", "places subtracted", "places multiplied", "places added and multiplied"}


@pytest.mark.parametrize("held", [1, 10**9], ids=["in segments", "at once"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_off_the_graph_are_those_of_backward_passes(kind, held):
    taken = assert_equal_to_backward_passes(*KINDS[kind], held=held)
    assert taken == ({"places.weight"} if kind in BY_ROWS else set())


def test_places_whose_gradients_a_hook_changes_take_backward_passes():
    assert assert_equal_to_backward_passes(Scaled(), words()) == {"words.weight", "places.weight"}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("tied", [True, False])
def test_batches_that_reach_a_few_words_and_all_of_them_are_read_together(tied, order):
    module, batches = Language(MANY, tied), [words(), torch.cat([words(2), words(2, seed=2)], dim=1)][::order]
    assert assert_equal_to_backward_passes(module, Batches(lambda: batches), one_or_all_logits) == set()


@pytest.mark.parametrize("held", [1, 10**9], ids=["in segments", "at once"])
def test_a_table_none_of_whose_words_has_a_gradient_is_zero(held):
    # All words of the bank are the one that is none.
    module, ids = Language(11, False, padding=3), torch.full((4, TOKENS), 3)
    assert assert_equal_to_backward_passes(module, ids, held=held) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_jacobian_that_is_held_has_the_same_rows(kind):
    module, ids, reading = KINDS[kind]
    readings = reading(module, ids) if reading else module(ids)
    found = rows_of(readings, tuple(module.parameters())).numpy()
    np.testing.assert_allclose(found, jacobian(module, ids, reading), rtol=0, atol=1e-12 * np.abs(found).max())
