"""Records of one problem put together are the record of all their trials."""

from dataclasses import replace

import numpy as np
import pytest

import estim
from estim.recovery.monte_carlo import BLOCK

SEEDS = np.random.SeedSequence(7).spawn(3)
SQUARE = estim.MeanResponse(lambda t: t * t)
SIGMA = [0.01, 0.5, 3.0]


def decay(params, times):
    return params["a"] * np.exp(-params["rate"] * times)


def one(seed, trials=1000, theta=0.5, response=SQUARE, sigma=SIGMA):
    return estim.recover(response, theta, sigma, trials=trials, rng=seed)


def many(seed, trials=40, sigma=0.05):
    truth = {"a": 1.0, "rate": 0.7}
    return estim.recover_parameters(decay, np.linspace(0, 3, 6), sigma, params=truth, trials=trials, rng=seed)


def test_moments_are_those_of_all_draws():
    # The second block of a larger job is the second Generator that its seed spawns: its draws are known apart.
    whole = estim.recover(SQUARE, 0.5, SIGMA, trials=2 * BLOCK, rng=np.random.default_rng(3))
    spawning = np.random.default_rng(3)
    parts = []
    for _ in range(2):
        z = spawning.spawn(1)[0].standard_normal(BLOCK)
        error = np.sqrt(np.maximum(0.25 + np.multiply.outer(SIGMA, z), 0.0)) - 0.5
        square = np.square(error).mean(axis=1)
        spread = np.sqrt((np.square(error) ** 2).mean(axis=1) - square**2) / np.sqrt(BLOCK - 1)
        parts.append(
            replace(
                whole, bias=error.mean(axis=1), relative_bias=2 * error.mean(axis=1), rmse=np.sqrt(square),
                relative_rmse=2 * np.sqrt(square), rmse_se=0.5 * spread / np.sqrt(square), trials=BLOCK,
                clipped_low=(error == -0.5).mean(axis=1),
            )
        )  # fmt: skip
    found = estim.pool(parts)
    for name in ("bias", "relative_bias", "rmse", "relative_rmse", "rmse_se", "clipped_low", "clipped_high"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9, atol=1e-15, err_msg=name)
    assert found.trials == whole.trials


@pytest.mark.parametrize("made", [one, many])
def test_jobs_of_unequal_size_weigh_by_their_trials(made):
    jobs = [made(seed, trials) for seed, trials in zip(SEEDS, (40, 300, 20), strict=True)]
    found, again = estim.pool(jobs), estim.pool([estim.pool(jobs[:2]), jobs[2]])
    assert found.trials == 360
    mean = sum(job.trials * job.bias for job in jobs) / 360
    square = sum(job.trials * job.rmse**2 for job in jobs) / 360
    np.testing.assert_allclose(found.bias, mean, rtol=1e-12)
    np.testing.assert_allclose(found.rmse, np.sqrt(square), rtol=1e-12)
    # In whatever order they are put together.
    np.testing.assert_allclose(again.rmse_se, found.rmse_se, rtol=1e-3)
    np.testing.assert_allclose(again.rmse, found.rmse, rtol=1e-12)
    assert set(found.notes) == {note for job in jobs for note in job.notes}
    assert type(found).from_json(found.to_json()) == found
    str(found.summary())


def test_one_record_stays_what_it_is():
    for made in (one, many):
        job = made(SEEDS[0])
        found = estim.pool([job])
        np.testing.assert_allclose(found.rmse_se, job.rmse_se, rtol=1e-12)
        np.testing.assert_allclose(found.rmse, job.rmse, rtol=1e-12)
        assert found.trials == job.trials


def test_errors_of_any_size_are_held():
    for scale in (1e-200, 1e150):
        jobs = [one(seed, theta=0.0, response=estim.MeanResponse(lambda t: t), sigma=[scale]) for seed in SEEDS]
        found = estim.pool(jobs)
        assert found.rmse[0] == pytest.approx(scale / np.sqrt(2), rel=0.1)
        assert 0.0 < found.rmse_se[0] < jobs[0].rmse_se[0]
        assert np.isnan(found.relative_rmse).all()


def test_only_what_belongs_together_is_put_together():
    job = one(SEEDS[0])
    with pytest.raises(ValueError, match=r"^records must hold at least one recovery; got none$"):
        estim.pool([])
    with pytest.raises(TypeError, match=r"all ParameterRecovery; got ParameterRecovery at entry 1$"):
        estim.pool([job, many(SEEDS[1])])
    with pytest.raises(TypeError, match=r"got str at entry 0$"):
        estim.pool("jobs")
    with pytest.raises(TypeError, match=r"^records must be several recoveries, such as a list of them; got Recovery$"):
        estim.pool(job)
    with pytest.raises(ValueError, match=r"^records must be by Monte Carlo: .* got entry 1 without$"):
        estim.pool([job, estim.recover(SQUARE, 0.5, SIGMA, method="exact")])
    with pytest.raises(
        ValueError, match=r"^records must be of one problem; theta of entry 1 is 0\.6, of entry 0 0\.5$"
    ):
        estim.pool([job, one(SEEDS[1], theta=0.6)])
    with pytest.raises(ValueError, match=r"^records must be of one problem; sigma of entry 1 is "):
        estim.pool([job, one(SEEDS[1], sigma=SIGMA[:2])])
    with pytest.raises(ValueError, match=r"^records must be of one problem; sigma of entry 1 is "):
        estim.pool([job, one(SEEDS[1], sigma=[0.0100000001, *SIGMA[1:]])])
    with pytest.raises(ValueError, match=r"^records must be of one problem; linear_rmse of entry 1 is "):
        estim.pool([job, one(SEEDS[1], response=estim.MeanResponse(lambda t: 1.1 * t * t, name=job.response))])
    with pytest.raises(ValueError, match=r"with different seeds; entries 0 and 2 hold the same draws$"):
        estim.pool([one(5), one(6), one(5)])


def test_notes_on_the_trials_are_on_all_of_them():
    def brittle(params, x):
        return params[0] * x if abs(params[0] - 1.0) < 0.02 else np.full(3, np.nan)

    jobs = [
        estim.recover_parameters(brittle, np.array([1.0, 2.0, 3.0]), 0.05, params=[1.0], trials=trials, rng=seed)
        for seed, trials in zip(SEEDS, (50, 50, 90), strict=True)
    ]
    assert all(0 < job.failures < job.trials for job in jobs)
    found = estim.pool(jobs)
    said = [note for note in found.notes if "did not settle" in note]
    assert len(said) == 1
    assert said[0].startswith(f"{sum(job.failures for job in jobs)} of 190 fits did not settle;")
    assert estim.pool([estim.pool(jobs[:2]), jobs[2]]).notes == found.notes


def test_different_seeds_whose_estimates_all_lie_at_bounds_are_no_same_draws():
    between = estim.MeanResponse(lambda t: t, upper=2.0)
    jobs = [estim.recover(between, 1.0, 1e9, trials=100, rng=seed) for seed in range(40)]
    assert len({float(job.clipped_low[0]) for job in jobs}) < 40
    found = estim.pool(jobs)
    assert found.clipped_low[0] == pytest.approx(np.mean([job.clipped_low[0] for job in jobs]))


@pytest.mark.parametrize("made", [one, many])
def test_the_same_draws_on_another_machine_are_seen(made):
    job, other = made(SEEDS[0]), made(SEEDS[1])
    again = replace(job, rmse=job.rmse * (1.0 + 1e-15), bias=job.bias + 1e-15 * job.rmse)
    with pytest.raises(ValueError, match=r"entries 0 and 2 hold the same draws$"):
        estim.pool([job, other, again])


def test_noise_of_one_reading_among_units_decades_apart_makes_another_problem():
    def made(sigma, seed):
        units = np.array([1e9, 1.0, 1e-9])
        return estim.recover_parameters(lambda p, x: x * p, units, sigma, params=[1.0] * 3, trials=40, rng=seed)

    with pytest.raises(ValueError, match=r"^records must be of one problem; singular_values of entry 1 is "):
        estim.pool([made([1.0, 1.0, 1.0], SEEDS[0]), made([1.0, 2.0, 1.0], SEEDS[1])])


def test_an_infinite_error_stays_infinite():
    jobs = [one(seed) for seed in SEEDS[:2]]
    jobs[1] = replace(jobs[1], rmse=np.array([np.inf, *jobs[1].rmse[1:]]))
    found = estim.pool(jobs)
    assert found.rmse[0] == np.inf
    assert np.isfinite(found.rmse[1:]).all()
