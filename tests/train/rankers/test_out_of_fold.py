from dataclasses import replace

import numpy as np
import pytest

from shortlist.data import Interactions
from shortlist.errors import DataError
from shortlist.train.rankers.training_data.out_of_fold import (
    OutOfFoldConfig,
    by_user,
    folds_of,
    out_of_fold_data,
    request_batches,
)

MOST = OutOfFoldConfig.requests
PROTOCOLS = [{"protocol": name} for name in ("half-history", "leave-last-out", "global-time")]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p["protocol"])
def test_nominators_see_no_target(world, protocol):
    data = out_of_fold_data(world.events, protocol, seed=0, most=MOST)
    requests = data.requests.held_out
    left = np.bincount(data.past.users, minlength=world.events.n_users)
    ends = world.events.starts[:-1] + left  # each user's first events are the past
    assert (requests.cuts >= ends[requests.users]).all()
    assert (requests.stops > requests.cuts).all()
    assert data.past.items.tolist() == [
        item
        for user in range(world.events.n_users)
        for item in world.events.items[world.events.starts[user] : ends[user]].tolist()
    ]


def test_with_leave_last_out_long_histories_have_several_requests_with_one_target_each(world):
    protocol = {"protocol": "leave-last-out"}
    requests = out_of_fold_data(world.events, protocol, seed=0, most=MOST).requests
    held_out = requests.held_out
    assert (held_out.stops - held_out.cuts == 1).all()
    counts = np.bincount(held_out.users, minlength=world.events.n_users)
    assert (counts <= np.maximum(world.events.lengths // 4, 1)).all()
    assert counts.max() == 5
    one = out_of_fold_data(world.events, protocol, seed=0, most=world.events.n_users).requests
    assert np.bincount(one.held_out.users).max() == 1


def test_items_after_the_targets_are_no_negatives(world):
    requests = out_of_fold_data(world.events, {"protocol": "leave-last-out"}, seed=0, most=MOST).requests
    some = by_user(requests.take(slice(0, 8)))
    at = 0
    for batch in request_batches(some):
        for row in range(len(batch.targets)):
            stop, end = some.held_out.stops[at], some.ends[at]
            later = {item for item in batch.later[row].tolist() if item >= 0}
            assert later == set(world.events.items[stop:end].tolist())
            assert later <= set(batch.no_negative[row].tolist())
            at += 1
    assert at == 8


def test_with_global_time_users_without_earlier_events_ask_too(world):
    events = world.events.where(np.arange(len(world.events)) >= world.events.starts[3])
    late = np.where(events.users == 3, events.times.max() - 1, events.times)
    late = Interactions.of(events.users, events.items, late, n_users=events.n_users, n_items=events.n_items)
    requests = out_of_fold_data(late, {"protocol": "global-time"}, seed=0, most=MOST).requests.held_out
    assert requests.history_lengths()[requests.users == 3].tolist() == [0]


def test_auto_takes_other_users_where_whole_users_are_held_out():
    chosen = {one["protocol"]: OutOfFoldConfig().from_others(one) for one in PROTOCOLS}
    assert chosen == {"half-history": True, "leave-last-out": False, "global-time": False}


def test_with_global_time_all_training_events_precede_all_targets(world):
    data = out_of_fold_data(world.events, {"protocol": "global-time"}, seed=0, most=MOST)
    first = world.events.times[data.requests.held_out.cuts].min()
    assert data.past.times.max() < first


def test_with_global_time_users_ask_again_after_new_events(world):
    requests = out_of_fold_data(
        world.events, {"protocol": "global-time"}, seed=0, most=MOST
    ).requests.held_out
    pairs = list(zip(requests.users.tolist(), requests.cuts.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) > len(set(requests.users.tolist()))
    late = np.sort(world.events.times)[int(0.95 * len(world.events))]
    users = {user for user, cut in pairs if world.events.times[cut] >= late}
    after = np.bincount(world.events.users[world.events.times >= late], minlength=world.events.n_users)
    assert users <= set(np.flatnonzero(after).tolist())


def test_seed_samples_at_most_the_given_number_of_requests(world):
    one, two = (
        out_of_fold_data(world.events, {}, seed, most=10).requests.held_out.users.tolist() for seed in (0, 1)
    )
    assert len(one) == 10
    assert one != two


def test_log_without_events_after_a_cut_is_refused():
    with pytest.raises(DataError, match="before and after a cut"):
        out_of_fold_data(Interactions.of(np.arange(3), np.zeros(3)), {}, 0, MOST)


def test_batches_hold_all_requests(world):
    requests = out_of_fold_data(world.events, {}, 0, MOST).requests
    for some in (requests, requests.take(slice(0, 30)), requests.take(slice(0, 3))):
        batches = request_batches(some)
        assert sum(len(one.query) for one in batches) == len(some)
        assert len(batches) >= min(20, len(some))


def test_nominators_of_a_fold_are_trained_on_other_users(world):
    data = out_of_fold_data(world.events, {}, 0, MOST)
    users = []
    for events, requests in folds_of(data, 3, 0):
        assert not set(events.users) & set(requests.held_out.users)
        users += requests.held_out.users.tolist()
    assert sorted(users) == sorted(data.requests.held_out.users.tolist())


def test_other_users_are_asked_at_quarters_of_their_histories_too(world):
    events = world.events
    one, three = (out_of_fold_data(events, {}, 0, MOST, several=several) for several in (False, True))
    held_out = three.every.held_out
    shares = held_out.history_lengths() / events.lengths[held_out.users]
    middle = len(one.every)
    assert (held_out.cuts[:middle] == one.every.held_out.cuts).all()  # those at half come first
    assert (np.minimum(abs(shares[middle:] - 0.25), abs(shares[middle:] - 0.75)) < 0.1).all()
    assert held_out.history_lengths()[middle:].min() >= 2
    assert (held_out.stops > held_out.cuts).all()
    assert len(set(zip(held_out.users.tolist(), held_out.cuts.tolist(), strict=True))) == len(held_out)
    assert len(three.past) < len(one.past)


def test_short_histories_are_not_asked_at_quarters():
    events = Interactions.of(np.repeat([0, 1, 2], [2, 3, 8]), np.arange(13))
    held_out = out_of_fold_data(events, {}, 0, MOST, several=True).every.held_out
    found = sorted(zip(held_out.users.tolist(), held_out.history_lengths().tolist(), strict=True))
    assert found == [(0, 1), (1, 1), (1, 2), (2, 2), (2, 4), (2, 6)]


def test_folds_end_when_there_are_enough_requests(world):
    data = out_of_fold_data(world.events, {}, 0, MOST, several=True)
    every = list(folds_of(data, 4, 0))
    for most, count in ((len(every[0][1]), 1), (len(every[0][1]) + 40, 2), (MOST, 4)):
        parts = list(folds_of(replace(data, most=most), 4, 0))
        assert len(parts) == count
        assert sum(len(own) for _, own in parts) == min(most, len(data.every))
        assert (parts[0][0].users == every[0][0].users).all()


def test_counts_of_rankers_contain_all_events_of_users_without_requests(world):
    data = out_of_fold_data(world.events, {}, 0, 10, several=True)
    parts = list(folds_of(data, 4, 0))
    asked = set(parts[0][1].held_out.users.tolist())
    expected = [
        at
        for at, user in enumerate(world.events.users.tolist())
        if user not in asked or at < data.first[user]
    ]
    assert data.before(parts).items.tolist() == world.events.items[expected].tolist()


def test_with_global_time_other_users_contribute_no_later_events(world):
    data = out_of_fold_data(world.events, {"protocol": "global-time"}, 0, MOST)
    for events, requests in folds_of(data, 3, 0):
        assert events.times.max() < world.events.times[requests.held_out.cuts].min()
        assert not set(events.users) & set(requests.held_out.users)


def test_more_folds_than_users_are_refused(world):
    few = world.events.where(world.events.users < 3)
    data = out_of_fold_data(few, {}, 0, MOST)
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
    held_out = replace(requests.held_out, events=events.unweighted())
    assert all(one.weights is None for one in request_batches(replace(requests, held_out=held_out)))


def test_all_requests_of_a_user_are_in_one_batch(world):
    requests = out_of_fold_data(world.events, {"protocol": "half-history"}, 0, MOST, several=True).requests
    batches = request_batches(requests)
    users = [set(one.query.user.tolist()) for one in batches]
    assert sum(map(len, users)) == len(set.union(*users)) == len(set(requests.held_out.users.tolist()))
    assert sum(len(one.query) for one in batches) == len(requests)
    assert len(batches) >= 10


def test_no_fold_is_fitted_for_a_few_requests(world):
    data = out_of_fold_data(world.events, {"protocol": "half-history"}, 0, MOST)
    first = next(folds_of(data, 4, 0))[1]
    almost = replace(data, most=len(first) + 2)
    assert len(list(folds_of(almost, 4, 0))) == 1
