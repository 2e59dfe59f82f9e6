from dataclasses import replace

import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.errors import DataError
from shortlist.train.rankers.out_of_fold import OutOfFoldConfig, folds_of, out_of_fold_data, request_batches

MOST = OutOfFoldConfig.requests
PROTOCOLS = [{"protocol": name} for name in ("half-history", "leave-last-out", "global-time")]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p["protocol"])
def test_nominators_see_no_target(world, protocol):
    data = out_of_fold_data(world.events, protocol, seed=0, most=MOST)
    events, requests = world.events, data.requests
    seen = dict.fromkeys(zip(data.past.users.tolist(), data.past.times.tolist(), strict=True), True)
    last = np.full(events.n_users, -1)
    np.maximum.at(last, data.past.users, data.past.times)
    for user, cut, stop in zip(requests.users, requests.cuts, requests.stops, strict=True):
        assert last[user] <= events.times[cut]
        later = events.times[cut:stop]
        assert all((user, t) not in seen or t == later[0] for t in later.tolist())
    counted = np.bincount(data.past.users, minlength=events.n_users)
    assert (counted[requests.users] == requests.cuts - events.starts[requests.users]).all()


def test_with_global_time_all_training_events_precede_all_targets(world):
    data = out_of_fold_data(world.events, {"protocol": "global-time"}, seed=0, most=MOST)
    first = world.events.times[data.requests.cuts].min()
    assert data.past.times.max() < first


def test_seed_samples_at_most_the_given_number_of_requests(world):
    one, two = (out_of_fold_data(world.events, {}, seed, most=10).requests.users.tolist() for seed in (0, 1))
    assert len(one) == 10
    assert one != two


def test_log_without_events_after_a_cut_is_refused():
    with pytest.raises(DataError, match="before and after a cut"):
        out_of_fold_data(Interactions.of(np.arange(3), np.zeros(3)), {}, 0, MOST)


def test_batches_hold_all_requests(world):
    requests = out_of_fold_data(world.events, {}, 0, MOST).requests
    for rankers in (1, 2, 500):
        batches = request_batches(requests, rankers)
        assert sum(len(one.query) for one in batches) == len(requests)
        assert len(batches) >= min(10 * rankers, len(requests))


def test_nominators_of_a_fold_are_trained_on_other_users(world):
    data = out_of_fold_data(world.events, {}, 0, MOST)
    users = []
    for events, requests in folds_of(data, 3, 0):
        assert not set(events.users) & set(requests.users)
        users += requests.users.tolist()
    assert sorted(users) == sorted(data.requests.users.tolist())


def test_with_global_time_other_users_contribute_no_later_events(world):
    data = out_of_fold_data(world.events, {"protocol": "global-time"}, 0, MOST)
    for events, requests in folds_of(data, 3, 0):
        assert events.times.max() < world.events.times[requests.cuts].min()
        assert not set(events.users) & set(requests.users)


def test_more_folds_than_users_are_refused(world):
    data = out_of_fold_data(world.events, {}, 0, most=2)
    with pytest.raises(DataError, match="use fewer folds"):
        list(folds_of(data, 50, 0))


def test_targets_have_the_largest_weight_of_their_events_after_the_cut():
    users, items = np.repeat([0, 1], 6), np.array([3, 1, 2, 3, 3, 0, 0, 1, 2, 0, 1, 2])
    weights = np.array([9, 1, 1, 2, 4, 1, 9, 9, 9, 3, 1, 5], np.float32)
    events = Interactions.of(users, items, weights=weights)
    requests = out_of_fold_data(events, {}, 0, MOST).requests
    (first, second), mean = request_batches(requests), weights[[3, 4, 5, 9, 10, 11]].mean()
    found = {}
    for one in (first, second):
        pairs = zip(one.targets[0].tolist(), (one.weights[0] * mean).tolist(), strict=True)
        found[int(one.query.user)] = {item: weight for item, weight in pairs if item >= 0}
    assert found[0] == pytest.approx({3: 4, 0: 1})
    assert found[1] == pytest.approx({0: 3, 1: 1, 2: 5})
    assert all(one.weights is None for one in request_batches(replace(requests, events=events.unweighted())))
