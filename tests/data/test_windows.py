"""Windows: instances as positions, never across users."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions, sliding
from shortlist.data.windows import gather

from .logs import logs


def one_user(count):
    return Interactions.of(np.zeros(count, int), np.arange(count) % 50, n_items=50)


def slow(events, length, min_history):
    """Every instance as (inputs, target), by slicing lists."""
    instances = []
    for user in range(events.n_users):
        items = events.items[events.of_user(user)].tolist()
        for target in range(min_history, len(items)):
            inputs = items[max(target - (length - 1), 0) : target]
            instances.append(([-1] * (length - 1 - len(inputs)) + inputs, items[target], user))
    return instances


@settings(max_examples=60, deadline=None)
@given(logs(), st.integers(2, 9), st.integers(0, 6))
def test_windows_equal_slicing_every_users_list(events, length, min_history):
    windows = sliding(events, length, min_history)
    expected = slow(events, length, min_history)
    assert len(windows) == len(expected)
    rows = slice(None)
    assert windows.histories(rows).tolist() == [inputs for inputs, _, _ in expected]
    assert windows.targets.tolist() == [target for _, target, _ in expected]
    query, targets = windows.batch(rows)
    assert query.user.tolist() == [user for _, _, user in expected]
    assert query.history.tolist() == windows.histories(rows).tolist()
    assert targets.tolist() == windows.targets.tolist()
    assert query.time.tolist() == events.times[windows.ends].tolist()


@pytest.mark.parametrize(("count", "instances"), [(14, 0), (15, 1), (16, 2), (70, 56), (200, 186)])
def test_n_events_give_n_minus_14_instances_and_the_first_target_is_the_fifteenth_event(count, instances):
    windows = sliding(one_user(count))
    assert len(windows) == instances
    if instances:
        assert windows.targets[0] == 14
        assert windows.histories(slice(0, 1))[0].tolist() == [-1] * 55 + list(range(14))


def test_a_window_of_70_holds_at_most_69_inputs():
    windows = sliding(one_user(100))
    last = windows.histories(np.array([len(windows) - 1]))[0]
    assert last.tolist() == [row % 50 for row in range(30, 99)]


def test_a_window_never_crosses_into_another_user():
    events = Interactions.of([0] * 20 + [1] * 20, [1] * 20 + [2] * 20)
    windows = sliding(events, min_history=1)
    query, targets = windows.batch(slice(None))
    for user, history, target in zip(
        query.user.tolist(), query.history.tolist(), targets.tolist(), strict=True
    ):
        assert {target, *history} - {-1} == {user + 1}


def test_windows_hold_positions_not_copies():
    events = one_user(5000)
    windows = sliding(events)
    assert windows.events is events
    assert np.shares_memory(windows.events.items, events.items)
    assert windows.ends.nbytes == 4 * len(windows)


def test_a_log_without_events_has_no_windows():
    empty = Interactions.of([], [], n_users=3, n_items=3)
    windows = sliding(empty)
    assert len(windows) == 0
    assert windows.histories(slice(None)).shape == (0, 69)
    assert gather(empty, np.array([0]), np.array([0]), 4).tolist() == [[-1] * 4]
