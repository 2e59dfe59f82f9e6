"""Held-out requests: histories before the cut, relevant items after it."""

import numpy as np
import pytest

from shortlist.data import HeldOut, Interactions


@pytest.fixture
def cases():
    """User 0 has items 5 6 7 8 8 7, user 1 has 9 4; the cut lies after three events and after none."""
    events = Interactions.of([0] * 6 + [1] * 2, [5, 6, 7, 8, 8, 7, 9, 4], np.arange(8) * 10)
    return HeldOut(events, np.array([0, 6]), np.array([3, 6]), np.array([6, 8]))


def test_a_request_has_the_history_before_the_cut_padded_on_the_left(cases):
    query = cases.query(width=4)
    assert query.history.tolist() == [[-1, 5, 6, 7], [-1, -1, -1, -1]]
    assert query.user.tolist() == query.seed.tolist() == [0, 1]
    assert query.time.tolist() == [30, 60], "the time of a request is that of its first relevant event"
    assert cases.query(width=2).history.tolist() == [[6, 7], [-1, -1]]
    assert cases.history_lengths().tolist() == [3, 0]


def test_relevant_items_are_distinct_and_in_order_of_time(cases):
    assert cases.relevant().tolist() == [[8, 7], [9, 4]]


def test_relevant_items_are_padded_to_the_longest_row():
    events = Interactions.of([0, 0, 1], [1, 2, 3])
    assert HeldOut(events, np.array([0, 2]), np.array([0, 2]), np.array([2, 3])).relevant().tolist() == [
        [1, 2],
        [3, -1],
    ]


def test_a_subset_of_requests_keeps_its_histories_and_relevant_items(cases):
    assert len(cases) == 2
    assert cases.take(slice(1, 2)).users.tolist() == [1]
    assert cases.query(np.array([1, 0]), width=1).history.tolist() == [[-1], [7]]
    assert cases.relevant(slice(0, 1)).tolist() == [[8, 7]]
    assert cases.relevant(slice(0, 0)).shape == (0, 0)


def test_held_out_requests_hold_positions_not_copies(cases):
    assert cases.take(slice(0, 1)).events is cases.events


@pytest.mark.parametrize("protocol", ["half-history", "global-time", "leave-last-out"])
def test_relevant_items_are_those_of_a_loop_over_requests(world, protocol):
    held_out = world.split(protocol=protocol).test
    spans = zip(held_out.cuts, held_out.stops, strict=True)
    slow = [list(dict.fromkeys(world.events.items[cut:stop].tolist())) for cut, stop in spans]
    found = held_out.relevant()
    assert [[item for item in row if item >= 0] for row in found.tolist()] == slow
    assert found.shape[1] == max(map(len, slow))
    assert held_out.relevant(slice(0, 0)).shape == (0, 0)
