"""What every page keeps to, whichever record writes it."""

import numpy as np
import pytest

import estim


@pytest.fixture(scope="module")
def records():
    found = estim.Sensitivity.from_jacobian(np.eye(2), 0.1)
    return {
        "sensitivity": found,
        "verdict": found.judge(np.zeros(2), smallest_change=1.0),
        "intervals": estim.confidence_interval(estim.MeanResponse(lambda t: t), 1.0, 1.0),
    }


@pytest.mark.parametrize("record", ["sensitivity", "verdict", "intervals"])
@pytest.mark.parametrize("name", ["x.pdf", "x", "x.html.zip", ".html"])
def test_a_page_under_another_ending_is_refused_before_it_is_made(records, record, name, tmp_path, monkeypatch):
    monkeypatch.setattr(type(records[record]), "plot", None)
    with pytest.raises(ValueError, match=r"^path must end in \.html or \.htm, as a page is HTML .*; got '.*'$"):
        records[record].report(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("record", ["sensitivity", "verdict", "intervals"])
@pytest.mark.parametrize("name", ["x.html", "X.HTM"])
def test_either_ending_is_written(records, record, name, tmp_path):
    records[record].report(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("<!doctype html>")
