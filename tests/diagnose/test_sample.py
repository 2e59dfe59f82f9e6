import numpy as np
import pytest

from shortlist.data import HeldOut, Interactions
from shortlist.diagnose.sample import panel, returned
from shortlist.errors import DataError
from shortlist.grammar import as_pipeline
from tests.diagnose.held_out_of import cases_of
from tests.worlds import listed


def test_a_panel_counts_what_its_cases_want_by_user():
    one = panel(cases_of([([0, 1], [2, 3]), ([1], [4])]), 10)
    assert one.wanted.tolist() == [2, 1]
    assert one.by_user(np.array([5, 7])).tolist() == [5, 7]
    assert one.n_users == 2


def test_users_are_drawn_by_lot_and_the_lot_is_the_seed():
    cases = cases_of([([0], [row % 9]) for row in range(50)])
    a, b, c = (panel(cases, 10, 12, seed) for seed in (0, 0, 1))
    assert len(a) == 12
    assert a.users.tolist() == b.users.tolist() != c.users.tolist()
    assert len(panel(cases, 10, 500)) == 50


def test_a_history_keeps_only_items_of_the_catalogue_and_its_order():
    one = panel(cases_of([([3, 9, 1], [2]), ([9, 9, 9], [9])]), 5)
    assert one.batches[0].query.history.tolist() == [[-1, 3, 1], [-1, -1, -1]]
    assert one.wanted.tolist() == [1, 1]


def test_what_is_returned_is_counted_per_case_across_batches():
    one = panel(cases_of([([0], [1, 2]), ([0], [2]), ([0], [7])]), 10, batch=2)
    assert returned(as_pipeline(listed("a", [1, 2, 3])), one).tolist() == [2, 1, 0]
    assert one.share(np.array([2, 1, 0])).mean == 0.75
    assert one.mean(np.array([1, 0, 0])).mean == pytest.approx(1 / 3)


def test_cases_of_one_user_are_added_up():
    events = Interactions.of(np.zeros(4, int), np.arange(4), np.arange(4))
    cases = HeldOut(events, np.array([0, 0]), np.array([1, 2]), np.array([2, 4]))
    one = panel(cases, 10)
    assert (len(one), one.n_users, one.by_user(np.array([1, 2])).tolist()) == (2, 1, [3])


def test_nobody_to_ask_is_an_error_that_says_what_to_do():
    with pytest.raises(DataError, match="choose another split"):
        panel(cases_of([([0], [1])]).take(slice(0, 0)), 10)
    with pytest.raises(DataError, match="1 user or more"):
        panel(cases_of([([0], [1])]), 10, 0)
