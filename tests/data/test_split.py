"""Splits: the shares they promise, and no way to see the future or a held-out user."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions, global_time, half_history, leave_last_out, split
from shortlist.errors import ConfigError, DataError

from .logs import logs, told


def busy_log(users=100, seed=0):
    """Users with 1 to 40 events at few different times."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 41, users)
    rows = np.repeat(np.arange(users), lengths)
    return Interactions.of(rows, rng.integers(0, 30, len(rows)), rng.integers(0, 20, len(rows)), n_items=30)


def foretold(cases):
    """The positions of the events a set of cases asks for."""
    return {at for cut, stop in zip(cases.cuts, cases.stops, strict=True) for at in range(cut, stop)}


def shown(cases):
    return {at for start, cut in zip(cases.starts, cases.cuts, strict=True) for at in range(start, cut)}


def events_at(events, positions):
    return sorted(told(events.where(np.array(sorted(positions), int))))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_half_history_never_lets_a_held_out_user_or_second_half_into_learning(seed, first_halves):
    events = busy_log(seed=seed)
    assume((events.lengths >= 15).sum() >= 10)
    cut = half_history(events, seed=seed, first_halves=first_halves)
    test, valid, learn = (
        set(cut.test.users.tolist()),
        set(cut.valid.users.tolist()),
        set(cut.train.users.tolist()),
    )
    assert not test & valid
    if first_halves:
        known = events_at(events, shown(cut.test) | shown(cut.valid))
        held = [event for event in told(cut.train) if event[0] in test | valid]
        assert sorted(held) == known
    else:
        assert not learn & (test | valid)
    assert not {
        event for event in events_at(events, foretold(cut.test)) if event[0] in learn and not first_halves
    }
    for cases in (cut.valid, cut.test):
        for start, at, stop in zip(cases.starts, cases.cuts, cases.stops, strict=True):
            user = events.users[at]
            assert (start, stop) == (events.starts[user], events.starts[user + 1])
            assert at - start == (stop - start) // 2 + 1
            assert events.times[start:at].max() <= events.times[at:stop].min()


def test_half_history_keeps_80_10_10_of_the_users_with_15_events_or_more():
    lengths = [15] * 100 + [14] * 50
    events = Interactions.of(np.repeat(np.arange(150), lengths), np.zeros(sum(lengths), int))
    cut = half_history(events)
    assert (len(cut.test), len(cut.valid), len(set(cut.train.users.tolist()))) == (10, 10, 80)
    assert max(cut.train.users.max(), cut.test.users.max(), cut.valid.users.max()) < 100, (
        "the short are left out"
    )
    assert cut.test.history_lengths().tolist() == [8] * 10
    assert cut.train.n_users == 150


def test_half_history_is_made_again_by_its_settings_and_changes_with_the_seed():
    events = busy_log()
    one = half_history(events, seed=3)
    again = split(events, **one.settings)
    assert again.test.users.tolist() == one.test.users.tolist()
    assert half_history(events, seed=4).test.users.tolist() != one.test.users.tolist()


def test_a_half_leaves_at_least_one_event_to_foretell():
    lengths = [2] * 10
    events = Interactions.of(np.repeat(np.arange(10), lengths), np.arange(20))
    cut = half_history(events, min_length=2)
    assert cut.test.history_lengths().tolist() == [1]
    assert cut.test.relevant().shape == (1, 1)


@settings(max_examples=60, deadline=None)
@given(logs(least=10, last_time=30))
def test_global_time_never_shows_an_event_that_is_not_older_than_what_must_be_foretold(events):
    try:
        cut = global_time(events)
    except DataError:
        assume(False)
    first = events.times[sorted(foretold(cut.valid))].min()
    second = events.times[sorted(foretold(cut.test))].min()
    assert cut.train.times.max() < first <= events.times[sorted(foretold(cut.valid))].max() < second
    for cases, border in ((cut.valid, first), (cut.test, second)):
        assert all(events.times[at] < border for at in shown(cases))
    parts = [told(cut.train), events_at(events, foretold(cut.valid)), events_at(events, foretold(cut.test))]
    assert sorted(event for part in parts for event in part) == sorted(told(events)), (
        "every event is in one part"
    )


@pytest.mark.parametrize("count", [10, 30, 90, 100, 110, 1000])
def test_global_time_keeps_70_10_20_of_the_events_exactly_where_times_differ(count):
    rng = np.random.default_rng(0)
    events = Interactions.of(rng.integers(0, 8, count), rng.integers(0, 9, count), rng.permutation(count))
    cut = global_time(events)
    sizes = (len(cut.train), len(foretold(cut.valid)), len(foretold(cut.test)))
    assert sizes == (count * 7 // 10, count // 10, count * 2 // 10)


@settings(max_examples=60, deadline=None)
@given(logs(least=30))
def test_leave_last_out_holds_out_the_last_event_and_the_one_before_it(events):
    assume((events.lengths >= 3).any())
    cut = leave_last_out(events)
    for user in range(events.n_users):
        own = list(range(*events.of_user(user).indices(len(events))))
        learned = [event for event in told(cut.train) if event[0] == user]
        mine = cut.test.users == user
        if len(own) < 3:
            assert not mine.any()
            assert learned == told(events.where(np.array(own, int)))
            continue
        assert learned == told(events.where(np.array(own[:-2])))
        assert foretold(cut.valid.take(mine)) == {own[-2]}
        assert foretold(cut.test.take(mine)) == {own[-1]}
        assert shown(cut.valid.take(mine)) == set(own[:-2])
        assert shown(cut.test.take(mine)) == set(own[:-1])


@pytest.mark.parametrize(
    ("protocol", "settings_", "error", "message"),
    [
        (
            "by-moon",
            {},
            ConfigError,
            "expected a protocol of half-history, global-time, leave-last-out, got 'by-moon'",
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
def test_settings_that_make_no_split_are_refused_with_the_reason(protocol, settings_, error, message):
    with pytest.raises(error, match=message):
        split(busy_log(), protocol, **settings_)


@pytest.mark.parametrize("times", [[], [5] * 20, [5] * 18 + [6, 7], [5] * 10 + [6] * 10])
def test_global_time_refuses_a_log_whose_times_do_not_fall_into_three_parts(times):
    events = Interactions.of(
        np.zeros(len(times), int), np.zeros(len(times), int), times, n_users=1, n_items=1
    )
    with pytest.raises(DataError, match="expected events at many different times"):
        global_time(events)
