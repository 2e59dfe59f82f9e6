"""Cases: what a held-out user had met, and what came next."""

import numpy as np
import pytest

from shortlist.data import HeldOut, Interactions


@pytest.fixture
def cases():
    """User 0 met 5 6 7 8 8 7, user 1 met 9 4; the cut lies after three events and after none."""
    events = Interactions.of([0] * 6 + [1] * 2, [5, 6, 7, 8, 8, 7, 9, 4], np.arange(8) * 10)
    return HeldOut(events, np.array([0, 6]), np.array([3, 6]), np.array([6, 8]))


def test_a_case_sees_what_came_before_the_cut_padded_on_the_left(cases):
    query = cases.query(width=4)
    assert query.history.tolist() == [[-1, 5, 6, 7], [-1, -1, -1, -1]]
    assert query.user.tolist() == query.seed.tolist() == [0, 1]
    assert query.time.tolist() == [30, 60], "it is asked when the first event to foretell happens"
    assert cases.query(width=2).history.tolist() == [[6, 7], [-1, -1]]
    assert cases.history_lengths().tolist() == [3, 0]


def test_the_truth_names_each_item_once_in_the_order_it_was_met(cases):
    assert cases.relevant().tolist() == [[8, 7], [9, 4]]


def test_the_truth_is_padded_to_the_longest():
    events = Interactions.of([0, 0, 1], [1, 2, 3])
    assert HeldOut(events, np.array([0, 2]), np.array([0, 2]), np.array([2, 3])).relevant().tolist() == [
        [1, 2],
        [3, -1],
    ]


def test_some_cases_are_the_same_cases(cases):
    assert len(cases) == 2
    assert cases.take(slice(1, 2)).users.tolist() == [1]
    assert cases.query(np.array([1, 0]), width=1).history.tolist() == [[-1], [7]]
    assert cases.relevant(slice(0, 1)).tolist() == [[8, 7]]
    assert cases.relevant(slice(0, 0)).shape == (0, 0)


def test_cases_are_positions_and_no_copies(cases):
    assert cases.take(slice(0, 1)).events is cases.events
