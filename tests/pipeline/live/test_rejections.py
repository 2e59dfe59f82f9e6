"""Events that are left out: what was expected, and what came."""

from dataclasses import replace

import pytest

from shortlist.pipeline import About
from shortlist.pipeline.live.rejections import bundle_warnings, moment, reason
from shortlist.state import RejectedEvent, UserEvent

from .live_users import NOW, recommender

ENDS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (UserEvent("a", "none", NOW, "e"), "expected an item of the catalogue, got 'none'"),
        (UserEvent("a", "x" * 600, NOW, "e"), "got user 'a' and item 'xxxx"),
        (UserEvent("", "i1", NOW, "e"), "got user '' and item 'i1'"),
        (UserEvent("a", "i1", int(1e300), "e"), "expected a time from 1970 to 2109, got 1e+300 of item 'i1'"),
        (UserEvent("a", "i1", -5, "e"), "expected a time from 1970 to 2109, got -5 of item 'i1'"),
        (
            UserEvent("a", "i1", 5_000_000_000_000, "e"),
            "from 1970 to 2109, got 2128-06-11T08:53:20.000Z of item",
        ),
        (
            UserEvent("a", "i1", NOW + 3_600_000, "e"),
            "expected a time that is not after now, 2033-05-18T03:33:20.000Z, got 2033-05-18T04:33:20.000Z",
        ),
        (
            UserEvent("a", "i1", ENDS, "e"),
            "expected a time after the end of the bundle's log, 2023-11-14T22:13:20.000Z, got 2023-11-14T22:13:20.000Z",
        ),
    ],
)
def test_reason_says_what_came(event, message):
    one = replace(recommender(), about=About(ends=ENDS)).live()
    (rejected,) = one.apply([event], NOW).rejected
    assert message in reason(rejected, event, one, NOW)


def test_reason_of_another_store_stays():
    other = RejectedEvent(0, "banned", "expected a user who is not banned")
    assert reason(other, UserEvent("a", "i1", NOW, "e"), recommender(), NOW) == other.detail


@pytest.mark.parametrize(
    ("about", "warned"),
    [
        (About(ends=NOW + 1), True),
        (About(ends=NOW), False),
        (About(ends=-5), False),
        (About(ends=NOW + 1, clock="order"), False),
    ],
)
def test_bundle_that_ends_after_now_is_warned_of(about, warned):
    found = bundle_warnings(replace(recommender(), about=about), NOW)
    assert [("ends at 2033-05-18T03:33:20.001Z, which is after now" in text) for text in found] == [
        True
    ] * warned


def test_number_that_is_no_date_is_shown_as_it_is():
    shown = [moment(time) for time in (0, 253_402_300_799_999, 253_402_300_800_000, -1)]
    assert shown == ["1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "253402300800000", "-1"]
