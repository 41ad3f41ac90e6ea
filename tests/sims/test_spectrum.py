import json

import pytest

import estim
from sims import spectrum
from sims.__main__ import main


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectrum, "DIGITS", (None, 30, 60))
        assert main(["spectrum", "--out", str(folder)]) == 0
    return json.loads((folder / "spectrum.json").read_text())


def test_fixture_seed_and_versions_are_in_the_file(study):
    assert study["fixture"]["scale"] == "3/50"
    assert study["fixture"]["native_parameters"] - study["fixture"]["gauge_dimension"] == 52
    assert "seeds" in study["fixture"]["rng"]
    assert {"estim", "python-flint"} <= set(study["versions"])


def test_the_spectra_read_back_and_prove_the_rank(study):
    floats, *balls = (estim.Spectrum.from_dict(fields) for fields in study["spectra"])
    assert [one.digits for one in balls] == [30, 60]
    assert [one.positive_rank for one in balls] == [52, 52]
    assert floats.rank() == balls[1].rank() == 40
    assert len(study["singular_values"]) == 96
    assert float(study["singular_values"][51]) == pytest.approx(float(balls[1].singular_values[51]), rel=1e-15)


def test_float64_sees_all_of_it_only_at_moderate_scale(study):
    ranks = dict(study["float64_rank_by_scale"])
    assert ranks["1"] == 52
    assert ranks["3/50"] == 40
