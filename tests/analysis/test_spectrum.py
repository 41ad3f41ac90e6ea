import json

import pytest

from analysis import spectrum as analysis
from sims import spectrum as sims


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sims, "DIGITS", (None, 30))
        patch.setattr(sims, "SCALES", (sims.SCALE,))
        return json.loads(json.dumps(sims.run()))


def test_the_notes_figures_stand_beside_ours(study):
    lines = analysis.table(study).splitlines()
    pairs = {line[:50].strip(): line[50:].split() for line in lines if line[50:].strip()}
    assert pairs["positive rank, exact in the note, proven in ours"] == ["52", "52"]
    assert pairs["rank at 1e-10 in float64"] == ["40", "40"]
    assert pairs["rank at 1e-10 in 30 digits"] == ["40", "40"]
    assert pairs["weak values resolved"] == ["12", "12"]
    assert "does not disclose" in lines[-1]


def test_the_picture_names_precisions_floor_and_threshold(study):
    (axes,) = analysis.draw(study).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["float64", "30 digits", "below float64's noise floor"]
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["1e-10 of the largest"]
    assert "52 positive, proven" in axes.get_title()
