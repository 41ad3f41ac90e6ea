import json

import numpy as np
import pytest

from analysis import growth as analysis
from analysis import growth_fits as fits
from sims import growth as sims


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sims, "MATRIX", (("1", (1e-9,)),))
        patch.setattr(sims, "MATRIX_TRIALS", 400)  # fewer: the standard error itself is too rough
        patch.setattr(sims, "DECAY_SIGMAS", np.array([1e-8, 1e-2]))
        patch.setattr(sims, "DECAY_TRIALS", 40)
        return json.loads(json.dumps(sims.run(trials=4000)))


def test_a_line_in_logs_is_fitted_exactly_with_its_known_error():
    sigma = np.geomspace(1e-3, 1.0, 5)
    rmse = 3.0 * sigma**0.4
    found = fits.fitted_exponent(sigma, rmse, 0.01 * rmse)
    logs = np.log(sigma) - np.log(sigma).mean()
    half = 1.959963985 * 0.01 / np.sqrt(np.sum(logs**2))
    assert found.value == pytest.approx(0.4, abs=1e-12)
    assert found.high - found.value == pytest.approx(half, rel=1e-8)
    assert found.holds(0.4)
    assert not found.holds(0.4 + 1.1 * half)
    # For 17 at once 1 - 0.95^(1/17) is left to each: 2.9664 standard errors instead of 1.9600.
    assert found.holds(0.4 + 1.51 * half, 17)
    assert not found.holds(0.4 + 1.52 * half, 17)


def test_intervals_cover_as_stated(study):
    found = fits.coverage(study)
    assert [row[0] for row in found] == ["linear", "theta^2", "theta^3", "clipped"]
    np.testing.assert_allclose([row[1] for row in found[:3]], [1.0, 1.0 / 2.0, 1.0 / 3.0], atol=1e-6)
    assert 0.2 < found[3][1] < 0.9  # between the linear regime and the plateau
    assert all(fits.coverage_as_stated(share, count) for *_, share, count in found)
    assert not fits.coverage_as_stated(0.85, 400)


def test_every_study_agrees_where_theory_says_linear(study):
    found = fits.linear_regimes(study)
    assert [one.study for one in found] == [
        "chain of depth 2", "chain of depth 3", "chain of depth 4", "three exponentials", "matrix fixture at scale 1",
    ]  # fmt: skip
    assert all(one.agrees for one in found)
    assert found[-1].compared == 52


def test_a_departure_is_seen(study):
    wrong = json.loads(json.dumps(study))
    level = wrong["matrices"][0]["levels"][0]
    level["rmse"][7] *= 2.0
    assert not fits.linear_regimes(wrong)[-1].agrees
    assert "DEPARTS" in analysis.table(wrong)


def test_exponents_hold_the_exact_ones(study):
    held, total = fits.exponents_held(study)
    assert total == 17
    assert held >= 13  # 17 intervals of 95 %: fewer than 13 has probability 2e-4
    assert fits.exponents_held(study, together=True)[0] >= 16  # two misses: about 1e-3


def test_table_and_one_page_of_pictures(study):
    text = analysis.table(study)
    assert "Depth turns into blindness" in text
    assert "NOT as stated" not in text
    assert "by chance with probability" in text
    figure = analysis.draw(study)
    assert [axes.get_title() for axes in figure.axes][:3] == [
        "1. Depth raises the contact order ...",
        "2. ... so the signal sinks, by that power of the scale, ...",
        "3. ... and ever less noise blinds",
    ]
    assert len(figure.axes) == 6
