import json

import pytest

from analysis import contact_orders as analysis
from sims import contact_orders as sims


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sims, "MATRIX_INPUTS", (12,))
        patch.setattr(sims, "CHAIN_INPUTS", (3,))
        patch.setattr(sims, "CHAINS", ((4, 4),))
        return json.loads(json.dumps(sims.run()))


def test_the_notes_slopes_stand_beside_ours(study):
    lines = analysis.table(study).splitlines()
    assert lines[5].split() == ["layer", "4", "53", "53.000562", "53.0002617237"]
    assert any(line.endswith("note below 0.0023, ours 0.002034") for line in lines)
    assert any("note 3.86e-92, ours 6.62649277988e-95" in line for line in lines)
    assert "   12  0 x16, 1 x12, 5 x12, 17 x4, 19 x4, 25 x4" in lines
    assert lines[-1] == study["why"]


def test_the_pictures_show_slopes_and_bank(study):
    left, right = analysis.draw(study).axes
    assert [t.get_text() for t in left.texts] == [f"order {k}" for k in (1, 5, 17, 53)]
    assert [t.get_text() for t in right.get_legend().get_texts()] == [f"order {k}" for k in (25, 19, 17, 5, 1, 0)]
    assert sum(bar.get_height() for bar in right.patches) == 52
