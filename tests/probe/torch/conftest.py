import pytest

torch = pytest.importorskip("torch")
# Small models gain nothing from threads, and lose much where several processes share the cores.
torch.set_num_threads(1)
