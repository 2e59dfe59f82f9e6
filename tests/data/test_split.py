"""Splits: their shares, and no leak of the future or of held-out users."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions, global_time, half_history, leave_last_out, split
from shortlist.errors import ConfigError, DataError

from .logs import event_tuples, logs


def busy_log(users=100, seed=0):
    """Users with 1 to 40 events at few different times."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 41, users)
    rows = np.repeat(np.arange(users), lengths)
    return Interactions.of(rows, rng.integers(0, 30, len(rows)), rng.integers(0, 20, len(rows)), n_items=30)


def relevant_events(cases):
    """The positions of the relevant events of some requests."""
    return {at for cut, stop in zip(cases.cuts, cases.stops, strict=True) for at in range(cut, stop)}


def history_events(cases):
    return {at for start, cut in zip(cases.starts, cases.cuts, strict=True) for at in range(start, cut)}


def events_at(events, positions):
    return sorted(event_tuples(events.where(np.array(sorted(positions), int))))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_half_history_trains_on_no_held_out_user_and_no_second_half(seed, first_halves):
    events = busy_log(seed=seed)
    assume((events.lengths >= 15).sum() >= 10)
    parts = half_history(events, seed=seed, first_halves=first_halves)
    test, valid, trained = (
        set(parts.test.users.tolist()),
        set(parts.valid.users.tolist()),
        set(parts.train.users.tolist()),
    )
    assert not test & valid
    if first_halves:
        known = events_at(events, history_events(parts.test) | history_events(parts.valid))
        held = [event for event in event_tuples(parts.train) if event[0] in test | valid]
        assert sorted(held) == known
    else:
        assert not trained & (test | valid)
    assert not {
        event
        for event in events_at(events, relevant_events(parts.test))
        if event[0] in trained and not first_halves
    }
    for cases in (parts.valid, parts.test):
        for start, at, stop in zip(cases.starts, cases.cuts, cases.stops, strict=True):
            user = events.users[at]
            assert (start, stop) == (events.starts[user], events.starts[user + 1])
            assert at - start == (stop - start) // 2 + 1
            assert events.times[start:at].max() <= events.times[at:stop].min()


def test_half_history_splits_users_with_15_events_or_more_80_10_10():
    lengths = [15] * 100 + [14] * 50
    events = Interactions.of(np.repeat(np.arange(150), lengths), np.zeros(sum(lengths), int))
    parts = half_history(events)
    assert (len(parts.test), len(parts.valid), len(set(parts.train.users.tolist()))) == (10, 10, 80)
    assert max(parts.train.users.max(), parts.test.users.max(), parts.valid.users.max()) < 100, (
        "users with fewer events are left out"
    )
    assert parts.test.history_lengths().tolist() == [8] * 10
    assert parts.train.n_users == 150


def test_half_history_is_reproduced_by_its_settings_and_changes_with_the_seed():
    events = busy_log()
    one = half_history(events, seed=3)
    again = split(events, **one.settings)
    assert again.test.users.tolist() == one.test.users.tolist()
    assert half_history(events, seed=4).test.users.tolist() != one.test.users.tolist()


def test_half_history_leaves_at_least_one_relevant_event():
    lengths = [2] * 10
    events = Interactions.of(np.repeat(np.arange(10), lengths), np.arange(20))
    parts = half_history(events, min_length=2)
    assert parts.test.history_lengths().tolist() == [1]
    assert parts.test.relevant().shape == (1, 1)


@settings(max_examples=60, deadline=None)
@given(logs(least=10, last_time=30))
def test_global_time_training_events_and_histories_are_older_than_relevant_events(events):
    try:
        parts = global_time(events)
    except DataError:
        assume(False)
    first = events.times[sorted(relevant_events(parts.valid))].min()
    second = events.times[sorted(relevant_events(parts.test))].min()
    assert (
        parts.train.times.max() < first <= events.times[sorted(relevant_events(parts.valid))].max() < second
    )
    for cases, border in ((parts.valid, first), (parts.test, second)):
        assert all(events.times[at] < border for at in history_events(cases))
    events_by_part = [
        event_tuples(parts.train),
        events_at(events, relevant_events(parts.valid)),
        events_at(events, relevant_events(parts.test)),
    ]
    assert sorted(event for part in events_by_part for event in part) == sorted(event_tuples(events)), (
        "every event is in exactly one part"
    )


@pytest.mark.parametrize("count", [10, 30, 90, 100, 110, 1000])
def test_global_time_splits_events_70_10_20_exactly_if_times_differ(count):
    rng = np.random.default_rng(0)
    events = Interactions.of(rng.integers(0, 8, count), rng.integers(0, 9, count), rng.permutation(count))
    parts = global_time(events)
    sizes = (len(parts.train), len(relevant_events(parts.valid)), len(relevant_events(parts.test)))
    assert sizes == (count * 7 // 10, count // 10, count * 2 // 10)


@settings(max_examples=60, deadline=None)
@given(logs(least=30))
def test_leave_last_out_holds_out_the_last_event_and_the_one_before_it(events):
    assume((events.lengths >= 3).any())
    parts = leave_last_out(events)
    for user in range(events.n_users):
        own = list(range(*events.of_user(user).indices(len(events))))
        learned = [event for event in event_tuples(parts.train) if event[0] == user]
        mine = parts.test.users == user
        if len(own) < 3:
            assert not mine.any()
            assert learned == event_tuples(events.where(np.array(own, int)))
            continue
        assert learned == event_tuples(events.where(np.array(own[:-2])))
        assert relevant_events(parts.valid.take(mine)) == {own[-2]}
        assert relevant_events(parts.test.take(mine)) == {own[-1]}
        assert history_events(parts.valid.take(mine)) == set(own[:-2])
        assert history_events(parts.test.take(mine)) == set(own[:-1])


@pytest.mark.parametrize(
    ("protocol", "settings_", "error", "message"),
    [
        (
            "by-moon",
            {},
            ConfigError,
            "expected one of half-history, global-time, leave-last-out, got 'by-moon'",
        ),
        (
            "half-history",
            {"moon": 1},
            ConfigError,
            "split half-history: .*unexpected keyword argument 'moon'",
        ),
        ("half-history", {"held_out": 0.5}, ConfigError, "held_out must lie between 0 and 0.5, got 0.5"),
        (
            "half-history",
            {"min_length": 99},
            DataError,
            "0 users have 99 events or more, too few to hold out 10%",
        ),
        ("global-time", {"train": 0.9, "valid": 0.1}, ConfigError, "expected shares with 0 < train"),
        ("global-time", {"train": 0.0}, ConfigError, "got 0.0 and 0.1"),
        ("leave-last-out", {"min_length": 99}, DataError, "expected users with 99 events or more, got none"),
    ],
)
def test_invalid_split_settings_raise_an_error_with_the_reason(protocol, settings_, error, message):
    with pytest.raises(error, match=message):
        split(busy_log(), protocol, **settings_)


@pytest.mark.parametrize("times", [[], [5] * 20, [5] * 18 + [6, 7], [5] * 10 + [6] * 10])
def test_global_time_refuses_a_log_with_too_few_distinct_times(times):
    events = Interactions.of(
        np.zeros(len(times), int), np.zeros(len(times), int), times, n_users=1, n_items=1
    )
    with pytest.raises(DataError, match="expected events at many different times"):
        global_time(events)


@pytest.mark.parametrize("protocol", ["half-history", "global-time", "leave-last-out"])
def test_a_sample_of_requests_keeps_the_training_events_and_is_part_of_a_larger_sample(protocol):
    events = busy_log(users=200)
    whole = split(events, protocol)
    small, large = (whole.sampled(count) for count in (5, 9))
    assert [len(small.valid), len(small.test), len(large.test)] == [5, 5, 9]
    assert set(small.test.cuts) < set(large.test.cuts) < set(whole.test.cuts)
    assert (small.in_train == whole.in_train).all()
    assert small.left_out == whole.left_out, "they are held out, not lost"
    again = split(events, **small.settings)
    assert again.test.cuts.tolist() == small.test.cuts.tolist()
    assert large.sampled(5).valid.cuts.tolist() == small.valid.cuts.tolist()


def test_a_sample_as_large_as_the_split_is_the_split():
    whole = split(busy_log(), "leave-last-out")
    assert whole.sampled(len(whole.test)) is whole
    assert whole.sampled(3).sampled(len(whole.test)) is whole
    with pytest.raises(ConfigError, match="requests must be 1 or more, got 0"):
        whole.sampled(0)
