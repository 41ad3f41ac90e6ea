import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sims.__main__
from sims.__main__ import main


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    assert main(["recovery", "--out", str(folder), "--trials", "20000", "--rng", "3"]) == 0
    assert [path.name for path in folder.iterdir()] == ["recovery.json"]
    return json.loads((folder / "recovery.json").read_text())


def test_seed_versions_and_fixture_are_in_the_file(study):
    assert study["rng"] == 3
    assert study["trials"] == 20000
    assert {"estim", "numpy", "python"} <= set(study["versions"])
    assert "softmax" in study["fixture"]["what"]
    assert study["fixture"]["excess_at_theta"] == pytest.approx(1.566380111027294755726041e-8, rel=1e-14)


def test_the_exact_curve_passes_through_the_thirteen_levels(study):
    curve, levels = study["exact_curve"], study["exact"]
    assert len(levels["sigma"]) == 13
    np.testing.assert_allclose(curve["rmse"][::10], levels["rmse"], rtol=1e-11)


def test_an_option_that_a_study_lacks_is_refused(tmp_path, capsys):
    assert main(["spectrum", "--out", str(tmp_path), "--trials", "10"]) == 2
    assert "the study spectrum has no --trials" in capsys.readouterr().err


def test_a_misspelt_study_is_told_the_right_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["recovry"])
    assert "there is no study 'recovry'; did you mean recovery?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["zzz"])
    assert "there is no study 'zzz'; the studies are recovery, spectrum" in capsys.readouterr().err


def test_what_does_not_fit_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for command in (
        ["--out", str(tmp_path / "file")],
        ["--out", str(tmp_path), "--trials", "1"],
        ["--out", str(tmp_path), "--rng", "-1"],
        ["--out", str(tmp_path), "--workers", "0"],
    ):
        assert main(["recovery", *command]) == 2
        said = capsys.readouterr().err
        assert said.startswith("sims: ")
        assert said.count("\n") == 1


def test_a_study_is_kept_only_when_it_is_what_is_asked_for(tmp_path, monkeypatch, capsys):
    def run(*, rng=0, trials=100, workers=1, progress=False):
        return {"rng": rng, "trials": trials, "fixture": {}}

    def said(*command):
        assert main([*command, "--out", str(tmp_path)]) == 0
        return capsys.readouterr().err.split()[0]

    monkeypatch.setattr(sims.__main__, "STUDIES", {"short": "short"})
    monkeypatch.setattr(sims.__main__, "import_module", lambda name: SimpleNamespace(run=run))
    assert said("short", "--trials", "5") == "wrote"
    assert said() == "wrote"  # five trials are not the study's own number
    assert said() == "kept"
    assert said("--rng", "3") == "wrote"
    assert said("--rng", "3", "--workers", "2") == "kept"  # an interrupted run with options goes on, too
    assert said("--again") == "wrote"
    assert said("short") == "wrote"
    fields = json.loads((tmp_path / "short.json").read_text())
    (tmp_path / "short.json").write_text(json.dumps({**fields, "study": "other"}))
    assert said() == "wrote"  # a file of another study under this name


def test_a_file_that_may_not_be_written_is_found_before_the_work(tmp_path, monkeypatch, capsys):
    def run(*, progress=False):
        pytest.fail("the study has begun")

    monkeypatch.setattr(sims.__main__, "import_module", lambda name: SimpleNamespace(run=run))
    (tmp_path / "recovery.json").mkdir()
    assert main(["recovery", "--out", str(tmp_path)]) == 2
    assert "must be a file; got the folder" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["spectrum", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("sims: the study's file must be a file that may be written; got ")


def test_a_full_disk_leaves_the_previous_result(tmp_path, monkeypatch, capsys):
    def write_text(draft, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        sims.__main__, "import_module", lambda name: SimpleNamespace(run=lambda progress: {"fixture": {}})
    )
    (tmp_path / "recovery.json").write_text("old")
    monkeypatch.setattr(Path, "write_text", write_text)
    assert main(["recovery", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "sims: [Errno 28] No space left on device\n"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("recovery.json", "old")]


def test_an_interrupt_is_no_traceback(tmp_path, monkeypatch, capsys):
    def run(*, progress=False):
        raise KeyboardInterrupt

    monkeypatch.setattr(sims.__main__, "import_module", lambda name: SimpleNamespace(run=run))
    assert main(["recovery", "--out", str(tmp_path)]) == 130
    assert "studies already written are kept" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
