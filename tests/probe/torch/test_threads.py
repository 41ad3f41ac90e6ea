"""Modules of torch read from several threads: they are moved where they are, so that one thread waits for the other."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

torch = pytest.importorskip("torch")

import estim  # noqa: E402
from tests.probe.torch.networks import everything, inputs, perceptron  # noqa: E402

BANK = inputs(4, 3, dtype=torch.float32)


def test_one_module_is_read_from_several_threads_as_from_one():
    module, other = perceptron(dtype=torch.float32), perceptron(dtype=torch.float32, seed=1)
    random = estim.AnyChange(0.1, case="typical")
    jobs = [
        lambda: estim.sensitivity(module, BANK, 0.1).to_json(),
        lambda: estim.sensitivity(module, BANK, 0.1, dtype=torch.float64).to_json(),
        lambda: estim.judge_models(other, module, BANK, 0.1, smallest_change=random, rng=0).predicted,
    ]
    before, alone = everything(module), [job() for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: jobs[k % 3](), range(24)))
    assert together == alone * 8
    assert everything(module) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_process_forked_while_a_thread_reads_has_the_module_as_it_was():
    module, inside, over = perceptron(), Event(), Event()
    held = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def readings(model, x):
        moved = any(not torch.equal(tensor, held[name]) for name, tensor in model.state_dict().items())
        if moved and not inside.is_set():
            inside.set()
            over.wait()
        return model(x)

    thread = Thread(target=lambda: estim.sensitivity(module, BANK.double(), 0.1, readings=readings))
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:  # ends here, whatever happens: the rest of the tests are the parent's
        signal.alarm(60)
        same = all(torch.equal(tensor, held[name]) for name, tensor in module.state_dict().items())
        try:
            estim.sensitivity(module, BANK, 0.1)  # in floats of another dtype: refused, once the thread may go on
        except ValueError:
            os._exit(0 if same and module.training else 1)
        os._exit(1)
    over.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
