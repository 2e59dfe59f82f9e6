"""Which events are valid, and what is said of the others."""

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.state.events.event import (
    CLOCK_MS,
    EXPECTED,
    LATEST_MS,
    MOST_TEXT,
    UserEvent,
    checked,
    checked_columns,
    event_key,
    user_digest,
    user_key,
)
from tests.state.live_world import CATALOGUE, NOW

GOOD = UserEvent("u", 100, 5, "e")


def code(since_ms=0, **values):
    """The reason why an event is rejected, empty for a valid one."""
    one = UserEvent(**{name: values.get(name, getattr(GOOD, name)) for name in UserEvent.__slots__})
    found = checked([GOOD, one], CATALOGUE, NOW, since_ms)
    assert len(found) + len(found.rejected) == 2
    for rejected in found.rejected:
        assert rejected.index == 1
        assert rejected.detail == EXPECTED[rejected.code]
    return found.rejected[0].code if found.rejected else ""


@pytest.mark.parametrize(
    "user", ["", None, 1.5, True, b"u", ["u"], "x" * (MOST_TEXT + 1), float("nan"), "a\ud800"]
)
def test_bad_user_is_rejected(user):
    assert code(user_id=user) == "bad_ids"


@pytest.mark.parametrize("event_id", ["", None, 1.5, True, -1, 2**64, "x" * (MOST_TEXT + 1)])
def test_bad_event_id_is_rejected(event_id):
    assert code(event_id=event_id) == "bad_ids"


def test_ids_at_the_limits_are_valid():
    assert (
        code(event_id=2**64 - 1)
        == code(event_id=0)
        == code(user_id=-5)
        == code(user_id="x" * MOST_TEXT)
        == ""
    )
    assert code(user_id=np.int64(4)) == code(item_id="101") == ""


@pytest.mark.parametrize(
    ("item", "reason"), [(99, "unknown_items"), ("x", "unknown_items"), (None, "bad_ids")]
)
def test_unknown_item_is_rejected(item, reason):
    assert code(item_id=item) == reason


@pytest.mark.parametrize("time", [-1, LATEST_MS + 1, 10**30, 1.5, None, "5", True])
def test_bad_time_is_rejected(time):
    assert code(time_ms=time) == "bad_times"


def test_clock_of_a_client_may_be_a_little_ahead():
    assert code(time_ms=NOW + CLOCK_MS) == ""
    assert code(time_ms=NOW + CLOCK_MS + 1) == "from_the_future"


def test_event_of_the_time_of_the_bundle_is_rejected():
    assert code(since_ms=5, time_ms=4) == "before_the_bundle"


def test_columns_give_the_same_events_and_reasons():
    users = ["a", 7, "", "b", "c", "d", "5", "e"]
    items = [100, 101, 100, 99, 100, 100, 100, 102]
    times = [5, 6, 7, 8, -1, NOW + CLOCK_MS + 1, 11, 1]
    ids = [1, 2, 3, 4, 5, 6, 7, 8]
    events = [UserEvent(*one) for one in zip(users, items, times, ids, strict=True)]
    expected = checked(events, CATALOGUE, NOW, 2)
    rows = CATALOGUE.rows(items)
    found = checked_columns(users, rows, np.array(times), np.array(ids), len(CATALOGUE), NOW, 2)
    assert found.rejected == expected.rejected
    assert found.users == expected.users == ["a", 7, 5]
    for name in ("items", "times", "ids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def test_negative_event_ids_of_columns_are_rejected():
    found = checked_columns(["a"], np.zeros(1, int), np.zeros(1, int), np.array([-1]), 5, NOW)
    assert [one.code for one in found.rejected] == ["bad_ids"]


@pytest.mark.parametrize("times", [np.zeros(2, int), np.zeros(1), np.zeros((1, 1), int)])
def test_columns_of_another_length_or_type_are_refused(times):
    with pytest.raises(DataError, match="columns of whole numbers for 1 events"):
        checked_columns(["a"], np.zeros(1, int), times, np.zeros(1, int), 5, NOW)


def test_number_and_its_text_are_one_user():
    assert user_key("5") == user_key(5) == user_key(np.int32(5)) == 5
    assert user_key("05") == "05"
    assert user_key("-0") == "-0"
    assert user_digest("5") == user_digest(5) != user_digest("05")
    with pytest.raises(DataError, match="user_id"):
        user_key(None)


def test_text_of_an_event_id_is_hashed():
    assert event_key("a") == event_key("a") != event_key("b")
    assert 0 <= event_key("\ud800") < 2**64


def test_number_and_its_text_are_one_event_id():
    for number in (0, 7, 2**64 - 1):
        assert event_key(str(number)) == event_key(number) == number
    for text in ("07", "-7", "7.0", " 7", "٧", str(2**64)):
        assert event_key(text) not in (7, 2**64)
    found = checked([GOOD, UserEvent("u", 100, 5, 7), UserEvent("u", 100, 5, "7")], CATALOGUE, NOW)
    assert found.ids[1:].tolist() == [7, 7]
