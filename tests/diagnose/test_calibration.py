import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from shortlist.diagnose.calibration import calibration, fitted, log_softmax, reliability
from shortlist.diagnose.sample import panel
from shortlist.diagnose.scorer_inputs import Sample, Served, served
from shortlist.errors import DataError


def made(scores, wanted, probabilities=False):
    """Requests [R, K] as a scorer was given them, a user each."""
    count, width = scores.shape
    request = np.repeat(np.arange(count), width)
    flat = scores.ravel().astype(np.float64)
    yes = wanted.ravel()
    sample = Sample(np.arange(count * width), flat, flat, yes, request, int(yes.sum()), int(yes.sum()))
    return Served("rank", sample, np.arange(count), np.flatnonzero(yes), probabilities)


def drawn(count=4000, width=6, sharper=1.0, seed=0):
    """One wanted candidate per request, drawn from the softmax; the scorer then says `sharper` times that."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(count, width)) * 1.5
    chance = softmax(scores, axis=1)
    chosen = (chance.cumsum(1) < rng.random((count, 1))).sum(1)
    return made(scores * sharper, np.arange(width) == chosen[:, None])


def test_perfectly_calibrated_scores_have_next_to_no_error():
    errors = [calibration(drawn(count)).before.ece for count in (400, 40_000)]
    assert errors[1] < 0.015 < errors[0]
    found = calibration(drawn(40_000))
    assert found.before.ece <= 2 * found.before.by_chance
    assert found.temperature == pytest.approx(1.0, abs=0.05)


def test_a_scorer_that_is_three_times_too_sure_is_found_out_and_mended():
    found = calibration(drawn(8000, sharper=3.0))
    assert found.temperature == pytest.approx(3.0, rel=0.1)
    assert found.before.ece > 0.1
    assert found.after.ece < 0.03
    assert found.after.nll < found.before.nll
    assert all(one.confidence >= one.accuracy - 0.05 for one in found.before.bins)


def test_a_temperature_never_changes_which_item_is_first():
    one = drawn(500, sharper=2.0).sample
    for temperature in (0.05, 1.0, 7.0):
        chances = log_softmax(one.scores, one.request, temperature).reshape(500, -1)
        assert np.array_equal(chances.argmax(1), one.scores.reshape(500, -1).argmax(1))
    found = calibration(drawn(500, sharper=2.0))
    for part in (found.before, found.after):
        assert sum(b.accuracy * b.count for b in part.bins) == pytest.approx(
            sum(b.accuracy * b.count for b in found.before.bins)
        )


def test_softmax_within_requests_is_that_of_each_request_alone():
    rng = np.random.default_rng(1)
    request = np.repeat([0, 2, 5], [3, 1, 4])
    scores = rng.normal(size=8) * 300
    expected = np.concatenate([np.log(softmax(scores[request == r] / 20)) for r in (0, 2, 5)])
    assert log_softmax(scores, request, 20.0) == pytest.approx(expected)


def test_the_error_is_the_mean_distance_of_confidence_and_truth_over_the_bins():
    confidence = np.repeat([0.2, 0.8], 50)
    correct = np.concatenate([np.arange(50) < 20, np.arange(50) < 40])
    found = reliability(confidence, correct)
    assert [(b.confidence, b.accuracy, b.count) for b in found.bins] == [
        (pytest.approx(0.2), 0.4, 50),
        (pytest.approx(0.8), 0.8, 50),
    ]
    assert found.ece == pytest.approx(0.5 * 0.2)


def test_bins_have_equal_mass_and_equal_values_share_one():
    confidence = np.linspace(0.01, 0.99, 200)
    assert [b.count for b in reliability(confidence, confidence > 0.5).bins] == [20] * 10
    assert len(reliability(np.full(60, 0.5), np.arange(60) % 2 == 0).bins) == 1


def test_temperature_is_fitted_on_users_that_are_not_judged():
    one = drawn(200, sharper=3.0)
    found = calibration(one, seed=3)
    assert (found.users, found.users_fitted) == (100, 100)
    assert sum(b.count for b in found.before.bins) == 100
    assert calibration(one, seed=3) == found != calibration(one, seed=4)


def test_chances_are_checked_candidate_by_candidate():
    rng = np.random.default_rng(0)
    chance = rng.beta(1, 4, size=(4000, 5))
    wanted = rng.random(chance.shape) < chance
    right = calibration(made(chance, wanted, probabilities=True))
    assert right.probabilities
    assert right.before.ece < 0.01
    assert sum(b.count for b in right.before.bins) == 2000 * 5
    sure = calibration(made(expit(2.5 * logit(chance)), wanted, probabilities=True))
    assert sure.before.ece > 0.04 > sure.after.ece
    assert sure.temperature == pytest.approx(2.5, rel=0.1)


def test_chances_outside_0_and_1_are_refused():
    with pytest.raises(DataError, match="scores from 0 to 1 were expected, got -1 to 2"):
        calibration(made(np.array([[-1.0, 2.0]]), np.array([[True, False]]), probabilities=True))


def test_without_anything_wanted_there_is_no_temperature():
    one = made(np.random.default_rng(0).normal(size=(10, 3)), np.zeros((10, 3), bool))
    assert fitted(one.sample, False) is None
    found = calibration(one)
    assert found.temperature is None is found.after
    assert found.before.nll is None
    assert all(b.accuracy == 0 for b in found.before.bins)


def test_one_user_is_judged_and_nothing_is_fitted():
    found = calibration(made(np.array([[2.0, 1.0]]), np.array([[True, False]])))
    assert (found.users, found.users_fitted, found.temperature) == (1, 0, None)
    assert found.before.bins[0].accuracy == 1.0


def test_no_candidates_at_all_is_an_error():
    empty = np.empty(0)
    sample = Sample(empty.astype(int), empty, empty, empty.astype(bool), empty.astype(int), 0, 3)
    with pytest.raises(DataError, match="expected candidates for 'rank'"):
        calibration(Served("rank", sample, np.arange(3), np.arange(3), False))


def test_a_trained_pipeline_can_be_checked_and_told_in_plain_values(world, recommender):
    told = calibration(
        served(recommender.pipeline, panel(world.split().test, len(world.items)))["rank"]
    ).as_dict()
    assert {"users", "ece", "nll", "temperature", "bins", "probabilities", "after"} <= set(told)
    assert {"confidence", "accuracy", "count"} == set(told["bins"][0])
    assert told["after"]["nll"] > 0
