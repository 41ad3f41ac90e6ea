"""What is computed from several threads at once is what one thread computes: precisions are of the whole process."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import flint
import mpmath
import numpy as np
import pytest

import estim
from estim.attention import Layer, Network
from estim.precision import ball_bits

MATRIX = np.arange(12.0).reshape(4, 3) + np.eye(4, 3)
NETWORK = Network([Layer([["1/2"], ["1/3"]], [[1], ["-1/4"]], [[1, 0], ["1/5", 1]])] * 2)
FLOATS = Network([Layer([[0.5], [0.3]], [[1.0], [-0.25]], [[1.0, 0.0], [0.2, 1.0]])] * 2, "softplus")
BANK = [[["0", "1"], ["1/2", "-1"], ["2", "1/3"]]]
JOBS = {
    "40 digits": lambda: estim.spectrum(MATRIX, digits=40).to_json(),
    "80 digits": lambda: estim.spectrum(MATRIX, digits=80).to_json(),
    "network": lambda: estim.spectrum(NETWORK, BANK, digits=60).to_json(),
    "float64": lambda: estim.sensitivity(NETWORK, BANK, 0.1).to_json(),
    "certified": lambda: estim.Sensitivity.from_jacobian([["1/3", "2"], ["1", "5/7"]], 0.1, digits=50).to_json(),
    "orders": lambda: estim.contact_orders(NETWORK, BANK).to_json(),
    "slopes": lambda: estim.contact_slopes(NETWORK, BANK, ["1/20", "1/40"], digits=50).to_json(),
}


def test_a_precision_is_one_threads_alone():
    before = flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec
    alone = {name: job() for name, job in JOBS.items()}
    names = [*JOBS] * 8
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda name: JOBS[name](), names))
    differ = sorted({name for name, found in zip(names, together, strict=True) if found != alone[name]})
    assert not differ
    assert (flint.ctx.prec, flint.ctx.cap, mpmath.mp.prec) == before


@pytest.mark.parametrize("workers", [2, 3])
def test_draws_are_the_same_from_threads(workers):
    curve = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0)
    alone = estim.recover(curve, 1.0, [0.1, 0.2], rng=5, trials=200_000)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda k: estim.recover(curve, 1.0, [0.1, 0.2], rng=5, trials=200_000, workers=k), [workers] * 4
        )
        assert all(one == alone for one in found)


def test_a_precision_outside_changes_nothing():
    before = flint.ctx.prec, mpmath.mp.prec
    jobs = {**JOBS, "certified network": lambda: estim.sensitivity(FLOATS, BANK, 0.1, digits=40).to_json()}
    usual = {name: job() for name, job in jobs.items()}
    try:
        for flint.ctx.prec, mpmath.mp.prec in ((10, 12), (400, 400)):
            assert not [name for name, job in jobs.items() if job() != usual[name]]
    finally:
        flint.ctx.prec, mpmath.mp.prec = before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_process_forked_while_a_thread_computes_is_not_held_up():
    outside, inside, over = flint.ctx.prec, Event(), Event()

    def compute():
        with ball_bits(outside + 100):
            inside.set()
            over.wait()

    thread = Thread(target=compute)
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:  # ends here, whatever happens: the rest of the tests are the parent's
        signal.alarm(60)
        same = flint.ctx.prec == outside
        with ball_bits(70):
            same = same and flint.ctx.prec == 70
        os._exit(0 if same and flint.ctx.prec == outside else 1)
    over.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert flint.ctx.prec == outside
