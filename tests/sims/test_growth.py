import json

import numpy as np
import pytest

import estim
import tests.tolerances as tol
from sims import growth


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "MATRIX", (("1", (1e-9,)),))
        patch.setattr(growth, "MATRIX_TRIALS", 40)
        patch.setattr(growth, "DECAY_SIGMAS", np.array([1e-8, 1e-2]))
        patch.setattr(growth, "DECAY_TRIALS", 40)
        patch.setattr(growth, "REPLICATIONS", 40)
        return json.loads(json.dumps(growth.run(trials=4000), allow_nan=False))


def test_contact_order_is_the_slope_of_the_singular_value(study):
    for row, order in zip(study["chains"], (5, 17, 53), strict=True):
        assert row["order"] == order
        assert abs(np.log2(row["singular_value"] / row["singular_value_at_half_scale"]) - order) < 0.01


def test_the_declared_fixture_is_the_chain_of_depth_two(study):
    exact = estim.Recovery.from_dict(study["chains"][0]["exact_at_levels"])
    simulated = [estim.Recovery.from_dict(level) for level in study["chains"][0]["monte_carlo"]]
    assert exact.theta == 0.05
    for k, one in enumerate(simulated):
        assert abs(one.rmse[0] - exact.rmse[k]) < tol.Z_LIMIT * one.rmse_se[0]


def test_c10_constants_at_every_level(study):
    for row, constant in zip(study["powers"], (0.631619, 0.633396), strict=True):
        exact = estim.Recovery.from_dict(row["exact_at_levels"])
        np.testing.assert_allclose(exact.rmse / exact.sigma ** (1.0 / row["power"]), constant, rtol=1e-6)


def test_a_study_of_many_unknowns_counts_its_failures(study):
    near, far = study["exponentials"]
    assert near["failures"] == 0
    assert len(near["singular_values"]) == 6
    assert min(near["breakdown"]) > 10.0
    assert max(far["breakdown"]) < 1.0
    assert far["clipped"] > 0.0
    (level,) = study["matrices"][0]["levels"]
    assert len(level["rmse"]) == 52


def test_the_derivatives_of_the_exponentials_are_right():
    x = np.concatenate([growth.DECAYS["amplitude"], growth.DECAYS["rate"]])

    def at(vector):
        return growth.decays({"amplitude": vector[:3], "rate": vector[3:]}, growth.TIMES)

    steps = [(at(x + 1e-6 * e) - at(x - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
    np.testing.assert_allclose(
        growth.decays_jacobian(growth.DECAYS, growth.TIMES), np.transpose(steps), rtol=0, atol=1e-9
    )
