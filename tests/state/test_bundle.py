"""Users and items of a bundle beside a log whose numbers are others."""

import numpy as np

from shortlist.data import Vocabulary
from shortlist.state.bundle import BundleUsers
from shortlist.state.events.log import EventLog
from tests.state.live_world import CATALOGUE, HISTORIES, USERS, histories


def make(log=None, items=CATALOGUE, since_ms=0):
    return BundleUsers(USERS, items, histories(), log or EventLog(), since_ms)


def test_rows_and_numbers_of_items():
    log = EventLog()
    one = make(log)
    numbers = one.item_numbers(np.array([7, 3, 7], np.int32))
    assert log.items == [103, 107]
    assert one.item_rows(numbers).tolist() == [7, 3, 7]
    other = make(log, Vocabulary.of([107, 500]))
    assert other.item_rows(numbers).tolist() == [0, -1, 0]
    assert other.item_numbers(np.array([1, 0], np.int32)).tolist() == [2, 1]
    assert one.item_numbers(np.array([3, 4], np.int32)).tolist() == [
        0,
        3,
    ]  # it has learned of the others' items
    assert log.items == [103, 107, 500, 104]


def test_users_have_rows_by_their_numbers():
    log = EventLog()
    one = make(log)
    numbers = log.user_numbers(["u3", "new", "u0"])
    assert one.user_rows(numbers).tolist() == [3, -1, 0]
    assert one.user_rows(log.user_numbers(["u5", "u3"])).tolist() == [5, 3]


def test_history_has_items_of_the_catalogue_only():
    one = BundleUsers(USERS, CATALOGUE, histories([[1, 99, 2], [-1]]), EventLog())
    assert one.history(0).tolist() == [1, 2]
    assert one.history(1).tolist() == []
    assert one.history(-1).tolist() == one.history(5).tolist() == []


def test_forgotten_user_is_no_user_of_the_bundle():
    one = make()
    assert one.row("u1") == 1
    one.forget("u1")
    one.forget("nobody")
    assert one.row("u1") == -1
    assert one.forgotten == ["u1"]
    assert one.history(one.row("u1")).tolist() == []
    assert len(HISTORIES[1])


def test_user_who_was_forgotten_in_another_process_is_known_by_the_hash():
    log = EventLog()
    log.forget("u1")
    assert make(log).row("u1") == -1
    assert make(log, since_ms=10).row("u1") == -1  # a later bundle may have been made from the same data
    assert make(log, since_ms=10).row("u2") == 2


def test_events_of_a_forgotten_user_count_whatever_the_end_of_the_bundle():
    log = EventLog()
    log.forget("u1")
    one = make(log, since_ms=10)
    again, other = log.user_numbers(["u1", "u2"]).tolist()
    assert one.floor_of(again) < (0, 0)
    assert one.floor_of(other) == one.floor
