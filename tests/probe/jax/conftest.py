import pytest

jax = pytest.importorskip("jax")


@pytest.fixture
def double():
    """Let JAX have float64 for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def untouched():
    """Nothing that the probe does may change JAX's switches."""
    before = dict(jax.config.values)
    yield
    assert dict(jax.config.values) == before
