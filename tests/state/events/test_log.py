"""The event log in memory: every event once, the events of a user in order, and users who are erased."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ArtifactError
from shortlist.state.events import log as log_module
from shortlist.state.events.event import user_digest
from shortlist.state.events.log import EventLog


def add(log, events):
    """Events (user, item number, time, id), those of a call sorted by user, time and id."""
    users = log.user_numbers([one[0] for one in events])
    kinds = {1: np.int32, 2: np.int64, 3: np.uint64}
    items, times, ids = (np.array([one[part] for one in events], kind) for part, kind in kinds.items())
    order = np.lexsort((ids, times, users))
    log.items += range(len(log.items), int(items.max()) + 1)
    return log.append(users[order], items[order], times[order], ids[order])


def keys(log, user, **limits):
    number = log.number(user)
    log.settle(number)
    rows = log.rows(number, **limits)
    return list(zip(log.time.values[rows].tolist(), log.id.values[rows].tolist(), strict=True))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", 3]), st.integers(0, 5), st.integers(0, 9), st.integers(0, 10**6)),
    max_size=30,
    unique_by=lambda one: (one[0], one[3]),
)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.integers(1, 7), st.integers(0, 3))
def test_events_of_a_user_are_in_order_however_they_arrive(events, size, settled):
    log = EventLog()
    for at in range(0, len(events), size):
        add(log, events[at : at + size])
        if settled and (at // size) % settled == 0:
            for number in list(log.disordered):
                log.settle(number)
    for user in {one[0] for one in events}:
        expected = sorted((one[2], one[3]) for one in events if one[0] == user)
        assert keys(log, user) == expected
        assert keys(log, user, most=2) == expected[-2:]
        assert keys(log, user, floor=expected[0]) == expected[1:]
    assert not log.disordered


def test_settle_says_from_where_the_order_changed():
    log = EventLog()
    assert add(log, [("a", 0, 5, 1), ("a", 0, 9, 2)]) == 0
    assert log.settle(0) is None
    assert add(log, [("a", 0, 7, 3)]) == 1
    assert add(log, [("a", 0, 11, 4), ("a", 0, 6, 5)]) == 1
    assert log.settle(0) == (6, 5)
    assert log.settle(0) is None


def test_event_is_new_once_per_user():
    log = EventLog()
    add(log, [("a", 0, 5, 1)])
    users = log.user_numbers(["a", "b", "b", "a"])
    assert log.is_new(users, np.array([1, 1, 1, 2], np.uint64)).tolist() == [False, True, False, True]


def test_rows_since_an_offset_are_sorted_and_without_erased_ones():
    log = EventLog()
    add(log, [("a", 0, 5, 1)])
    offset = log.size
    add(log, [("b", 0, 9, 2), ("a", 0, 2, 3)])
    add(log, [("b", 0, 1, 4), ("c", 0, 1, 5)])
    log.forget("c")
    rows = log.rows_since(offset)
    assert log.id.values[rows].tolist() == [3, 4, 2]


def test_erased_user_has_no_row_and_gets_a_new_number():
    """Spec test 39, for the log."""
    log = EventLog()
    add(log, [("a", 0, 5, 1), ("b", 1, 5, 1)])
    add(log, [("a", 0, 4, 2)])
    log.forget("a")
    assert log.users == [None, "b"]
    assert (log.owner.values == 0).sum() == 0
    assert log.time.values[log.owner.values < 0].sum() == log.id.values[log.owner.values < 0].sum() == 0
    assert log.with_events().tolist() == [1]
    assert set(log.forgotten) == {user_digest("a")}
    assert log.number("a") == -1
    add(log, [("a", 0, 5, 1)])
    assert keys(log, "a") == [(5, 1)]
    assert log.number("a") == 2


def test_unknown_user_can_be_forgotten():
    log = EventLog()
    log.forget("nobody")
    assert user_digest("nobody") in log.forgotten


def test_log_has_a_limit(monkeypatch):
    monkeypatch.setattr(log_module, "MOST_EVENTS", 2)
    log = EventLog()
    add(log, [("a", 0, 5, 1), ("a", 0, 6, 2)])
    with pytest.raises(ArtifactError, match="cannot hold more than 2"):
        add(log, [("a", 0, 7, 3)])
    assert log.size == 2


def test_bytes_grow_with_events_and_users():
    log = EventLog()
    add(log, [(user, 0, 1, 1) for user in range(5000)])
    few = log.column_bytes, log.index_bytes, log.user_bytes
    add(log, [(user, 0, 2, event) for user in range(5000, 20_000) for event in range(2)])
    assert log.column_bytes >= 28 * log.size
    assert all(
        one < other
        for one, other in zip(few, (log.column_bytes, log.index_bytes, log.user_bytes), strict=True)
    )
