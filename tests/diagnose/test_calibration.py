import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from shortlist.diagnose.calibration import calibration, fit_temperature, log_softmax, reliability
from shortlist.diagnose.sample import sample_users
from shortlist.diagnose.scorer_inputs import CandidateRows, ScorerInputs, scorer_inputs
from shortlist.errors import DataError


def inputs_of(scores, relevant, probabilities=False):
    """Scores and relevance [R, K] of the candidates of R requests, a user each."""
    count, width = scores.shape
    request = np.repeat(np.arange(count), width)
    values = scores.ravel().astype(np.float64)
    yes = relevant.ravel()
    sample = CandidateRows(
        np.arange(count * width), values, values, yes, request, int(yes.sum()), int(yes.sum())
    )
    return ScorerInputs("rank", sample, np.arange(count), np.flatnonzero(yes), probabilities)


def sampled(count=4000, width=6, sharper=1.0, seed=0):
    """One relevant candidate per request, sampled from the softmax; the scores are then multiplied by `sharper`."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(count, width)) * 1.5
    chance = softmax(scores, axis=1)
    chosen = (chance.cumsum(1) < rng.random((count, 1))).sum(1)
    return inputs_of(scores * sharper, np.arange(width) == chosen[:, None])


def test_perfectly_calibrated_scores_have_almost_no_error():
    errors = [calibration(sampled(count)).before.ece for count in (400, 40_000)]
    assert errors[1] < 0.015 < errors[0]
    found = calibration(sampled(40_000))
    assert found.before.ece <= 2 * found.before.noise
    assert found.temperature == pytest.approx(1.0, abs=0.05)


def test_temperature_corrects_an_overconfident_scorer():
    found = calibration(sampled(8000, sharper=3.0))
    assert found.temperature == pytest.approx(3.0, rel=0.1)
    assert found.before.ece > 0.1
    assert found.after.ece < 0.03
    assert found.after.nll < found.before.nll
    assert all(one.confidence >= one.accuracy - 0.05 for one in found.before.bins)


def test_temperature_never_changes_the_first_item():
    one = sampled(500, sharper=2.0).rows
    for temperature in (0.05, 1.0, 7.0):
        chances = log_softmax(one.scores, one.request, temperature).reshape(500, -1)
        assert np.array_equal(chances.argmax(1), one.scores.reshape(500, -1).argmax(1))
    found = calibration(sampled(500, sharper=2.0))
    for part in (found.before, found.after):
        assert sum(b.accuracy * b.count for b in part.bins) == pytest.approx(
            sum(b.accuracy * b.count for b in found.before.bins)
        )


def test_softmax_within_requests_equals_that_of_each_request_alone():
    rng = np.random.default_rng(1)
    request = np.repeat([0, 2, 5], [3, 1, 4])
    scores = rng.normal(size=8) * 300
    expected = np.concatenate([np.log(softmax(scores[request == r] / 20)) for r in (0, 2, 5)])
    assert log_softmax(scores, request, 20.0) == pytest.approx(expected)


def test_ece_is_the_mean_distance_of_confidence_and_accuracy_over_bins():
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


def test_temperature_is_fitted_on_users_that_are_not_measured():
    one = sampled(200, sharper=3.0)
    found = calibration(one, seed=3)
    assert (found.users, found.users_fitted) == (100, 100)
    assert sum(b.count for b in found.before.bins) == 100
    assert calibration(one, seed=3) == found != calibration(one, seed=4)


def test_probabilities_are_measured_per_candidate():
    rng = np.random.default_rng(0)
    chance = rng.beta(1, 4, size=(4000, 5))
    relevant = rng.random(chance.shape) < chance
    right = calibration(inputs_of(chance, relevant, probabilities=True))
    assert right.probabilities
    assert right.before.ece < 0.01
    assert sum(b.count for b in right.before.bins) == 2000 * 5
    sure = calibration(inputs_of(expit(2.5 * logit(chance)), relevant, probabilities=True))
    assert sure.before.ece > 0.04 > sure.after.ece
    assert sure.temperature == pytest.approx(2.5, rel=0.1)


def test_probabilities_outside_0_and_1_are_refused():
    with pytest.raises(DataError, match="scores from 0 to 1 were expected, got -1 to 2"):
        calibration(inputs_of(np.array([[-1.0, 2.0]]), np.array([[True, False]]), probabilities=True))


def test_no_temperature_without_relevant_items():
    one = inputs_of(np.random.default_rng(0).normal(size=(10, 3)), np.zeros((10, 3), bool))
    assert fit_temperature(one.rows, False) is None
    found = calibration(one)
    assert found.temperature is None is found.after
    assert found.before.nll is None
    assert all(b.accuracy == 0 for b in found.before.bins)


def test_one_user_is_measured_without_a_temperature():
    found = calibration(inputs_of(np.array([[2.0, 1.0]]), np.array([[True, False]])))
    assert (found.users, found.users_fitted, found.temperature) == (1, 0, None)
    assert found.before.bins[0].accuracy == 1.0


def test_no_candidates_is_an_error():
    empty = np.empty(0)
    sample = CandidateRows(empty.astype(int), empty, empty, empty.astype(bool), empty.astype(int), 0, 3)
    with pytest.raises(DataError, match="expected candidates for 'rank'"):
        calibration(ScorerInputs("rank", sample, np.arange(3), np.arange(3), False))


def test_calibration_of_a_trained_pipeline(world, recommender):
    sample = sample_users(world.split().test, len(world.items))
    found = calibration(scorer_inputs(recommender.pipeline, sample)["rank"])
    assert found.users + found.users_fitted == sample.n_users
    assert sum(part.count for part in found.before.bins) == found.users
    assert found.after.nll > 0
