import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from analysis import scorecard
from analysis.__main__ import main as analyse
from sims import contact_orders, growth, spectrum
from sims.__main__ import main as simulate

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectrum, "DIGITS", (None, 30))
        patch.setattr(spectrum, "SCALES", (spectrum.SCALE,))
        patch.setattr(contact_orders, "MATRIX_INPUTS", (12,))
        patch.setattr(contact_orders, "CHAIN_INPUTS", (3,))
        patch.setattr(contact_orders, "CHAINS", ((4, 4),))
        patch.setattr(growth, "MATRIX", (("1", (1e-9,)),))
        patch.setattr(growth, "MATRIX_TRIALS", 40)
        patch.setattr(growth, "DECAY_SIGMAS", np.array([1e-8]))
        patch.setattr(growth, "DECAY_TRIALS", 40)
        patch.setattr(growth, "REPLICATIONS", 40)
        for name in scorecard.STUDIES:
            options = ["--trials", "4000"] if name in ("recovery", "growth") else []
            assert simulate([name, "--out", str(folder), *options]) == 0
    return folder


@pytest.fixture(scope="module")
def page(results):
    assert analyse(["--results", str(results)]) == 0
    return results / "scorecard.html"


def test_every_figure_of_the_note_has_a_verdict_and_a_reason_where_it_differs(results):
    studies = {name: json.loads((results / f"{name}.json").read_text()) for name in scorecard.STUDIES}
    found = {row.what: row for row in scorecard.rows(studies)}
    assert len(found) == 14
    assert all(row.why for row in found.values() if not row.same)
    differs = [what for what, row in found.items() if not row.same]
    assert differs == [
        "slope of order 5, scales 0.04 and 0.02",
        "slope of order 17, scales 0.04 and 0.02",
        "slope of order 53, scales 0.04 and 0.02",
        "weakest singular value, scale 0.02",
        "relative RMSE at sigma 1.57e-07",
    ]
    assert found["slope of order 1, scales 0.04 and 0.02"].ours == "0.999994"
    assert found["relative RMSE at sigma 1.57e-10"].ours.startswith("0.0050 (0.005012 exact")
    text = scorecard.table(studies)
    assert "9 of 14 figures are the same" in text


def test_the_page_is_self_contained(page):
    text = page.read_text()
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert text.count("<svg") == 4


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_it_without_complaint_or_outside_request(page, tmp_path):
    picture = tmp_path / "page.png"
    run = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", page.as_uri()]
    found = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in found.stderr
    assert "Refused" not in found.stderr
    assert picture.stat().st_size > 10_000


def test_a_study_that_is_missing_is_named(tmp_path, capsys):
    assert analyse(["--results", str(tmp_path)]) == 1
    assert "run first: python -m sims recovery" in capsys.readouterr().err


def test_all_studies_keep_what_is_written(results, capsys):
    before = {path.name: path.stat().st_mtime_ns for path in results.glob("*.json")}
    assert simulate(["--out", str(results), "--trials", "4000"]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in results.glob("*.json")} == before
    assert capsys.readouterr().err.count("kept ") == 4


def test_studies_of_different_versions_are_not_put_together_without_a_word(results, tmp_path, capsys):
    for name in scorecard.STUDIES:
        shutil.copy(results / f"{name}.json", tmp_path)
    assert analyse(["recovery", "spectrum", "--results", str(tmp_path)]) == 0
    assert "other versions" not in capsys.readouterr().err
    study = json.loads((tmp_path / "spectrum.json").read_text())
    study["versions"]["numpy"] = "1.26.4"
    (tmp_path / "spectrum.json").write_text(json.dumps(study))
    assert analyse(["recovery", "spectrum", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "other versions wrote some of these studies than others" in said
    assert f"python -m sims --out {tmp_path} runs those again" in said
