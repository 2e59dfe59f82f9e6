import numpy as np
import pytest

from shortlist.evaluate.online.user_means import user_means
from shortlist.metrics.estimate import Estimate, resampled, shares


def events_of(users, seed=0):
    """Values of events whose users have different means and numbers of events."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 30, users)
    own = np.repeat(np.arange(users), counts)
    return own, rng.normal(size=(users, 1))[own] + rng.normal(size=(len(own), 1)) * 0.3


def by_estimate(one):
    return [one.mean, one.low, one.high]


def test_means_worked_out_by_hand():
    users = np.array([2, 2, 2, 5])
    found = user_means(users, {"a": np.array([[1.0], [2], [3], [8]])})["a"][0]
    assert found.by_event == Estimate(3.5)
    assert found.by_user == Estimate(5.0)
    assert (found.events, found.users, found.few) == (4, 2, True)


def test_intervals_are_those_of_sums_over_users():
    users, values = events_of(200)
    found = user_means(users, {"a": values}, seed=3, samples=400)["a"][0]
    counts = np.bincount(users).astype(float)
    sums = np.bincount(users, values[:, 0])[:, None]
    for one, top, bottom in (
        (found.by_event, sums, counts),
        (found.by_user, sums / counts[:, None], np.ones(200)),
    ):
        assert by_estimate(one) == pytest.approx(by_estimate(shares(top, bottom, 3, 400)[0]))
    assert not found.few


def test_intervals_are_those_of_drawing_users_with_all_their_events():
    users, values = events_of(60)
    found = user_means(users, {"a": values}, seed=1, samples=200)["a"][0]
    weights = resampled(np.eye(60), 1, 200)  # how often each user is in each sample
    means = []
    for own in weights.astype(int):
        drawn = np.concatenate([np.tile(values[users == user, 0], count) for user, count in enumerate(own)])
        means.append(drawn.mean())
    assert by_estimate(found.by_event)[1:] == pytest.approx(np.quantile(means, [0.025, 0.975]))


def test_intervals_hold_the_truth_as_often_as_they_say():
    inside = 0
    for seed in range(200):
        users, values = events_of(100, seed)
        one = user_means(users, {"a": values}, seed, 200)["a"][0].by_user
        inside += one.low <= 0 <= one.high
    assert 180 <= inside <= 199  # 95 % of 200 is 190, with a standard deviation of 3.1


def test_values_with_other_events_left_out_have_their_own_users():
    users, values = events_of(50)
    part = values.copy()
    part[users >= 40] = np.nan
    found = user_means(users, {"a": values, "b": part, "c": 2 * values})
    assert list(found) == ["a", "b", "c"]
    assert (found["a"][0].users, found["b"][0].users) == (50, 40)
    assert found["b"] == user_means(users[users < 40], {"b": values[users < 40]})["b"]
    assert by_estimate(found["c"][0].by_event) == pytest.approx(
        np.multiply(2, by_estimate(found["a"][0].by_event))
    )


def test_no_events_have_no_means():
    found = user_means(np.array([1]), {"a": np.array([[np.nan, np.nan]])})["a"]
    assert [one.by_event for one in found] == [Estimate(None)] * 2
    assert found[0].users == 0
