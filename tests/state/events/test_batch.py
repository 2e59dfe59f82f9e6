"""The order of a batch, and which of its events are late."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.state.events.batch import Batch, late_events, sorted_events


def batch(events):
    kinds = (np.int32, np.int64, np.uint64)
    columns = [np.array([one[part] for one in events], kind) for part, kind in enumerate(kinds)]
    return Batch(columns[0], np.arange(len(events), dtype=np.int32), columns[1], columns[2])


def test_events_are_sorted_by_user_time_and_id():
    found = sorted_events(batch([(2, 5, 1), (0, 7, 1), (2, 5, 0), (2, 1, 9), (0, 2, 2)]))
    assert found.users.tolist() == [0, 2]
    assert found.starts.tolist() == [0, 2, 5]
    assert found.items.tolist() == [4, 1, 3, 2, 0]
    second = found.take(np.array([1]))
    assert second.items.tolist() == [3, 2, 0]
    assert second.starts.tolist() == [0, 3]
    assert found.take(np.zeros(0, int)).starts.tolist() == [0]


def test_late_events_of_more_than_a_million_users():
    count = (1 << 20) + 10
    times = np.full(2 * count, 2**42)
    times[1::2] -= 1000
    users = np.repeat(np.arange(count, dtype=np.int32), 2)
    many = Batch(users, users, times, np.zeros(2 * count, np.uint64))
    late = late_events(many, np.full(count, -1), 500)
    assert not late[::2].any()
    assert late[1::2].all()


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 5)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.lists(st.integers(-1, 40), min_size=4, max_size=4), st.integers(0, 20))
def test_late_events_are_those_of_a_loop_over_arrivals(events, last, window):
    newest, expected = list(last), []
    for user, time, _ in events:
        expected.append(time < newest[user] - window)
        newest[user] = max(newest[user], time)
    assert late_events(batch(events), np.array(last), window).tolist() == expected
