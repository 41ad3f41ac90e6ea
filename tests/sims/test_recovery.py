import json

import numpy as np
import pytest

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
