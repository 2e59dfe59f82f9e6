"""Sums by user and curves of ranks."""

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.evaluate.online import TrainPopularity, ranks, summary
from shortlist.evaluate.online.segments import TRAIN_BINS
from shortlist.lab.experiments.two_time_scale.cells.measured import (
    COLUMNS,
    EVENTS,
    GAINS,
    PRIMARY,
    UserSums,
    activity,
    by_train_bins,
    curves,
    estimate,
    mean_of,
    new_user_gains,
    segment_means,
)


@pytest.fixture(scope="module")
def found(data):
    return ranks(TrainPopularity(data.train), data.test, n_neg=20, sampled_events=100)


@pytest.fixture(scope="module")
def sums(found, data):
    return UserSums.of(found, data.test)


@pytest.mark.parametrize("segment", ["all", "new", "inactive", "active"])
@pytest.mark.parametrize("column", COLUMNS)
def test_means_are_those_of_the_summary(sums, found, data, segment, column):
    """Sums by user keep the event-weighted means of every segment, drawn events among them."""
    metric, _, kind = column.rpartition(", ")
    expected = summary(found, data.test, data.threshold, samples=10).of(segment, kind, metric).by_event.mean
    own = estimate(sums, sums.segment(segment, data.threshold), column)
    assert own.mean == pytest.approx(expected)
    assert mean_of(sums, sums.segment(segment, data.threshold), column) == pytest.approx(expected)


def test_a_tensor_keeps_the_sums(sums):
    again = UserSums.read(sums.tensor())
    np.testing.assert_allclose(again.sums, sums.sums, rtol=1e-6)
    np.testing.assert_array_equal(again.train_counts, sums.train_counts)
    np.testing.assert_array_equal(again.drawn, sums.drawn)
    with pytest.raises(ArtifactError, match="expected a tensor of 11 columns, got"):
        UserSums.read(torch.zeros(3, 4))


def test_train_bins_hold_every_event_once(sums, data):
    bins = by_train_bins(sums)
    assert sum(one["events"] for one in bins) == len(data.test)
    assert {one["first"] for one in bins} <= set(TRAIN_BINS)
    total = sum(one["mean"] * one["events"] for one in bins)
    assert total / len(data.test) == pytest.approx(estimate(sums, sums.events > 0, PRIMARY).mean)


def test_curves_count_events_of_new_users_and_steps_of_others(found, data):
    test = data.test
    new = test.train_counts[test.users] == 0
    steps = np.where(new, -1, test.event_numbers)
    known = curves(found, test, steps)
    assert sum(one["events"] for one in known["new users, raw"]) == int(new.sum())
    assert sum(one["events"] for one in known["steps since base, excl"]) == int((~new).sum())
    first = known["new users, raw"][0]
    inside = new & (test.event_numbers == EVENTS[0])
    assert first["mean"] == pytest.approx((1 / found.raw[inside]).mean())
    assert "steps since base, raw" not in curves(found, test, None)


def test_gains_are_of_the_same_new_users(found, data):
    """Against a loop over new users who have the events 1, 2, 4 and 11."""
    test, values = data.test, []
    for user in np.flatnonzero(test.train_counts == 0):
        own = {int(test.event_numbers[at]): 1 / found.raw[at] for at in np.flatnonzero(test.users == user)}
        if all(number in own for number in GAINS):
            values.append([own[number] for number in GAINS])
    gains = new_user_gains(found, test)["raw"]
    assert [one["users"] for one in gains] == [len(values)] * len(GAINS)
    np.testing.assert_allclose([one["mean"] for one in gains], np.mean(values, axis=0))
    np.testing.assert_allclose(
        [one["gain"] for one in gains], np.mean(values, axis=0) - np.mean(values, axis=0)[0]
    )
    known = np.flatnonzero(test.train_counts[test.users] > 0)
    assert new_user_gains(found.at(known), test.at(known)) == {}


def test_activity_counts_users_with_training_events():
    counts = np.array([0, 1, 1, 2, 5, 60, 80])
    found = activity(counts)
    assert found["survival"][:3] == [[1, 1.0], [2, 4 / 6], [5, 3 / 6]]
    assert [(least, users) for least, _, users in found["exponents"]] == [(1, 6), (20, 2), (50, 2)]


def test_means_of_segments_are_those_of_the_sums(sums, data):
    found = segment_means(sums, data.threshold)
    assert set(found) == {"all", "new", "inactive", "active"}
    assert found["new"][0] == mean_of(sums, sums.segment("new", data.threshold), PRIMARY)
