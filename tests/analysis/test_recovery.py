import json
import sys

import pytest

from analysis.__main__ import main as analyse
from sims.__main__ import main as simulate


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    simulate(["recovery", "--out", str(folder), "--trials", "20000"])
    return folder


def test_ours_stands_next_to_the_notes_two_figures(results, capsys):
    assert analyse(["recovery", "--results", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first, last = (next(line for line in lines if line.startswith(f"  {sigma}")) for sigma in ("1.57e-10", "1.57e-07"))
    assert first.split()[1] == "0.005"
    assert first.split()[-1] == "0.005012"
    assert last.split()[1] == "1.31"
    assert last.split()[-1] == "1.328033"
    assert (results / "recovery.png").stat().st_size > 10_000


def test_a_missing_study_says_how_to_make_it(tmp_path, capsys):
    assert analyse(["recovery", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.endswith(f"run first: python -m sims recovery --out {tmp_path}\n")


@pytest.mark.parametrize("content", ["{", "[]", '{"study": "recovery"}', '{"study": "growth", "fixture": {}}'])
def test_a_file_that_is_no_whole_study_says_how_to_make_it(content, tmp_path, capsys):
    (tmp_path / "recovery.json").write_text(content)
    assert analyse(["recovery", "--results", str(tmp_path)]) == 1
    assert f"no study in {tmp_path / 'recovery.json'}; run first" in capsys.readouterr().err


@pytest.mark.parametrize("gone", [("monte_carlo", "numerical_error"), ("exact_curve",)])
def test_a_study_of_another_version_says_how_to_make_it_anew(results, gone, tmp_path, capsys):
    study = json.loads((results / "recovery.json").read_text())
    *path, last = gone
    part = study
    for name in path:
        part = part[name]
    del part[last]
    (tmp_path / "recovery.json").write_text(json.dumps(study))
    assert analyse(["recovery", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"analysis: a study in {tmp_path} cannot be read, as if another version had written it (")
    assert last in said
    assert said.endswith(f"run again: python -m sims recovery --out {tmp_path}\n")


def test_all_that_is_missing_is_said_at_once(results, capsys):
    assert analyse(["--results", str(results)]) == 1
    assert "python -m sims spectrum contact-orders growth --out" in capsys.readouterr().err


def test_a_misspelt_study_is_told_the_right_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        analyse(["recovry"])
    assert "there is no study 'recovry'; did you mean recovery?" in capsys.readouterr().err


def test_what_cannot_be_written_is_one_sentence(results, tmp_path, monkeypatch, capsys):
    (tmp_path / "recovery.json").write_text((results / "recovery.json").read_text())
    (tmp_path / "recovery.png").mkdir()
    assert analyse(["recovery", "--results", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert "Relative RMSE beside the note's" in shown.out
    assert shown.err.startswith("analysis: ")
    assert shown.err.count("\n") == 1
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert analyse(["recovery", "--results", str(tmp_path)]) == 2
    assert "pictures need matplotlib: pip install 'estim[plot]'" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(results, monkeypatch, capsys):
    def draw(study):
        raise KeyboardInterrupt

    monkeypatch.setattr("analysis.recovery.draw", draw)
    assert analyse(["recovery", "--results", str(results)]) == 130
    assert capsys.readouterr().err == "analysis: interrupted\n"


def test_lists_that_were_emptied_are_no_study(results, tmp_path, capsys):
    study = json.loads((results / "recovery.json").read_text())
    study["exact"]["relative_rmse"] = []
    (tmp_path / "recovery.json").write_text(json.dumps(study))
    assert analyse(["recovery", "--results", str(tmp_path)]) == 1
    assert "cannot be read, as if another version had written it" in capsys.readouterr().err
